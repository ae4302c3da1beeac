/* Strided memory as nested loops over dense runs, and the copy of strided host memory
 * to a row-major block.  Called by export/resolve (on the host), gpu/device_copy
 * (which uses the traversal for its own transfers) and the C table.  Needs no GIL. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "abi/dlpack_abi.h"
#include "core/base.h"

/* From so many bytes on, a copy on the host lets other threads run. */
#define DLS_COPY_WITHOUT_GIL 65536

typedef struct {
    int64_t extent;
    int64_t step;  /* bytes in the source */
    int64_t index; /* of a walk, 0 before and after */
    int64_t pitch; /* bytes in the destination: of the copy only */
} dls_axis;

/* How to walk over a tensor: axes merged where possible, units in bytes.  A copy of it
 * with fewer axes is a walk over a part. */
typedef struct {
    int count;
    /* Bytes of one item.  They lie together in the source: a dense innermost axis is
     * part of the item. */
    int64_t itemsize;
    dls_axis *axes; /* outermost first */
} dls_traversal;

/* Find the axes of a tensor that has elements, and whose span dls_layout_span
 * accepted.  DLS_OK: the caller frees walk->axes (dls_free).  DLS_ENOMEM: there is
 * nothing to free. */
int dls_traversal_plan(dls_traversal *walk, const dl_tensor *tensor, int64_t itemsize);

/* Step to the next index of the axes, and move the address there.  False at the end;
 * address and index are then at the start again. */
bool dls_traversal_next(const dls_traversal *walk, const char **src);

/* Copy all elements of a strided tensor to dst in row-major order.  There is at least
 * one element; itemsize is any whole number of bytes > 0; dst has room for count *
 * itemsize bytes and does not overlap; dls_tensor_scan has accepted the tensor.
 * DLS_OK, or DLS_ENOMEM and nothing was copied. */
int dls_host_copy(void *dst, const dl_tensor *tensor, int64_t itemsize);

/* As dls_host_copy, for a tensor whose traversal was planned already. */
void dls_host_copy_walk(void *dst, const void *src, const dls_traversal *walk);

/* Reverse the bytes of each number of `width` bytes, in place. */
void dls_swap_bytes(char *bytes, int64_t length, int64_t width);

/* The first byte above 1 of a tensor in host memory, with elements of so many bytes;
 * *found is 0 where there is none.  dls_tensor_scan has accepted it, and it has an
 * element.  DLS_OK, or DLS_ENOMEM. */
int dls_host_find_above_one(const dl_tensor *tensor, int64_t itemsize, uint8_t *found);
