/* CUDA or ROCm memory to host memory (reference streams.md 7.2).  Never on the legacy
 * stream: a private non-blocking one that serves no other purpose. */
#ifndef DLS_DEVICE_DEVICE_COPY_H
#define DLS_DEVICE_DEVICE_COPY_H

#include "abi/dlpack_abi.h"
#include "core/error.h"

/* The stream on which copies from this device are made: what pends in the memory has to
 * be ordered before it first.  address: of the memory, NULL when not yet known. DLS_OK,
 * or a code with *err; *lost: no context was found.  Without the GIL. */
int dls_copy_stream(dl_device device, const void *address, uint64_t *stream, bool *lost,
                    dls_error *err);

/* Copy a tensor that has elements to dst, row-major; it is complete on return.  Shape,
 * strides (elements, NULL = row-major) and itemsize were accepted by dls_layout_span.
 * One copy for what is dense, one pitched copy for each plane, else slabs of the span
 * are fetched and gathered here.  Without the GIL; needs room for one slab.  DLS_OK, or
 * a code with *err. */
int dls_copy_to_host(int32_t device_type, void *dst, const void *src, int32_t ndim,
                     const int64_t *shape, const int64_t *strides, int64_t itemsize,
                     uint64_t stream, dls_error *err);

#endif
