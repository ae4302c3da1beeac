/* Strided host memory to a C-contiguous block. */
#ifndef DLS_CORE_HOST_COPY_H
#define DLS_CORE_HOST_COPY_H

#include <stdint.h>

#include "core/traversal.h"

/* Copy all elements of a strided tensor to dst in row-major order.
 * src points at element zero; strides count elements (NULL = row-major), may be
 * negative or 0; itemsize is any whole number of bytes > 0.  dst has room for
 * count * itemsize bytes and does not overlap.  The shape was accepted by
 * dls_layout_span.  Needs no GIL, allocates nothing, any ndim up to
 * DLS_NDIM_ABSURD.  Must be quick: contiguous runs go by memcpy, item sizes 1, 2,
 * 4, 8, 16 have their own inner loops, dimensions that can be merged are merged. */
void dls_host_copy(void *dst, const void *src, int32_t ndim, const int64_t *shape,
                   const int64_t *strides, int64_t itemsize);

/* The same for a tensor with elements that was planned already. */
void dls_host_copy_walk(void *dst, const void *src, const dls_traversal *walk);

#endif
