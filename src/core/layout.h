/* Shapes and strides.  Pure functions, called by core/tensor and by the readers of
 * older protocols.  Strides count elements, and may be NULL = row-major (DLPack
 * before 1.2). All products are checked (T11). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base.h"
#include "core/error.h"

/* Number of elements of a shape.  DLS_EBUFFER for negative extents and for
 * products that overflow; a product that overflows beside a zero extent is 0
 * (T4).  ndim >= 0, shape non-NULL when ndim > 0. */
int dls_layout_count(int32_t ndim, const int64_t *shape, int64_t *count,
                     dls_error *err);

/* The next row-major stride outwards.  In a shape that dls_layout_count accepted it
 * overflows only beside a zero extent; from there on, all strides are 0 (T4). */
static inline int64_t
dls_layout_next_stride(int64_t stride, int64_t extent)
{
    int64_t next;
    return dls_mul(stride, extent, &next) ? next : 0;
}

/* Exact row-major strides, also across extents 0 and 1: (3,0,4) -> (0,4,1).
 * A product that overflows beside a zero extent is 0 (T4).  Call only after
 * dls_layout_count accepted the shape. */
void dls_layout_row_major(int32_t ndim, const int64_t *shape, int64_t *strides);

/* True if the tensor is row-major contiguous: strides of extents below 2 are ignored,
 * and empty tensors always are. */
bool dls_layout_is_contiguous(int32_t ndim, const int64_t *shape,
                              const int64_t *strides);

/* The bytes that a tensor touches, relative to element zero: *low <= 0 is the lowest,
 * *high is one past the highest.  Both are 0 for empty tensors.  DLS_EBUFFER on
 * overflow. */
int dls_layout_span(int32_t ndim, const int64_t *shape, const int64_t *strides,
                    int64_t itemsize, int64_t *low, int64_t *high, dls_error *err);
