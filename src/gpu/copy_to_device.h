/* Copies to CUDA and ROCm memory (S19): from the host, within a device, and from one
 * device to another, on non-blocking streams of dlshim's own.  The host waits for the
 * copy.  All functions may block and are called without the GIL; they keep what is
 * current.
 */
#pragma once

#include "abi/dlpack_abi.h"
#include "core/base.h"
#include "gpu/driver.h"

/* Where a copy shall lie.  A plain value. */
typedef struct {
    dls_place place;
    uint64_t stream; /* for copies there; it stays dlshim's */
} dls_copy_target;

/* Find the place of new memory on `to`: beside the memory at `address`; or, where that
 * is NULL, in the context of the consumer's stream `s`.  DLS_OK; or a code with *err:
 * no driver, no such device, or a graph capture that is seen on `s` or on a stream that
 * waits for L (S14). */
int dls_copy_target_find(dl_device to, uint64_t s, const void *address,
                         dls_copy_target *target, dls_error *err);

/* Copy a dense block of host memory to dst, which was allocated at the target.  DLS_OK,
 * and the copy is complete; or a code with *err.  Nothing is still read or written
 * after the return. */
int dls_copy_from_host(const dls_copy_target *target, void *dst, const void *src,
                       int64_t bytes, dls_error *err);

/* Can the driver's copies bring the elements of this tensor, which was scanned, into
 * row-major order?  1, 0, or a code with *err. */
int dls_copy_is_possible(const dl_tensor *tensor, int64_t itemsize, dls_error *err);

/* Copy a tensor of device memory, for which dls_copy_is_possible, to dst, row-major.
 * stream: a copy stream of the tensor's place (dls_copy_stream), which waits already
 * for the unfinished work on the tensor.  As dls_copy_from_host. */
int dls_copy_from_device(const dls_copy_target *target, void *dst,
                         const dl_tensor *tensor, int64_t itemsize, uint64_t stream,
                         dls_error *err);
