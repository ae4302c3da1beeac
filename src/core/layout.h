/* Shapes and strides.  Strides count elements.  Pure functions; all products
 * are checked (T11).  `strides` may be NULL = row-major (DLPack < 1.2). */
#ifndef DLS_CORE_LAYOUT_H
#define DLS_CORE_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

/* Number of elements of a shape.  DLS_EBUFFER for negative extents and for
 * products that overflow; a product that overflows beside a zero extent is 0
 * (T4).  ndim >= 0, shape non-NULL when ndim > 0. */
int dls_layout_count(int32_t ndim, const int64_t *shape, int64_t *count,
                     dls_error *err);

/* Exact row-major strides, also across extents 0 and 1: (3,0,4) -> (0,4,1).
 * A product that overflows beside a zero extent is 0 (T4).  Call only after
 * dls_layout_count accepted the shape. */
void dls_layout_row_major(int32_t ndim, const int64_t *shape, int64_t *strides);

/* Row-major contiguous in the loose sense: strides of extents below 2 do not
 * count, empty tensors always are. */
bool dls_layout_is_contiguous(int32_t ndim, const int64_t *shape,
                              const int64_t *strides);

/* Contiguous AND the strides are to the letter what dls_layout_row_major gives
 * (false for NULL with ndim > 0). */
bool dls_layout_is_canonical(int32_t ndim, const int64_t *shape,
                             const int64_t *strides);

/* A negative stride that means something: on an extent >= 2 of a tensor with
 * elements. */
bool dls_layout_has_negative(int32_t ndim, const int64_t *shape,
                             const int64_t *strides);

/* Lowest and highest byte touched relative to element zero: *low <= 0, *high is
 * one past the end.  Empty: both 0.  DLS_EBUFFER on overflow. */
int dls_layout_span(int32_t ndim, const int64_t *shape, const int64_t *strides,
                    int64_t itemsize, int64_t *low, int64_t *high, dls_error *err);

#endif
