/* Copies to CUDA and ROCm memory (S19): from the host, within a device, and from one
 * device to another, on non-blocking streams of dlshim's own.  The host waits for the
 * copy.  All functions may block and are called without the GIL; they keep what is
 * current.
 */
#pragma once

#include "abi/dlpack_abi.h"
#include "core/base.h"
#include "core/hold.h"
#include "gpu/driver.h"

/* --- memory --------------------------------------------------------------- */
/* Memory of a device that dlshim allocates for a copy (S19), and its end.
 *
 * Where the driver has pools, and an event can stand for all work of a context, the
 * memory is freed in the turn of a stream of dlshim's own, after all that the context
 * has been given until then: the host does not wait, and the consumer's stream need
 * not exist any more.  Elsewhere the driver's plain free waits by itself.  All
 * functions may block and are called without the GIL, on any thread. */

/* DLS_OK with *memory (owned: for a hold of kind DEVICE, or its `end`) and its
 * *address, a multiple of `align`: a power of two.  It may be used after what `stream`,
 * a stream of the place, has been given so far.  Or a code with *err: DLS_EBUFFER with
 * the number of bytes where there is no memory.  Keeps what is current. */
int dls_device_memory_new(const dls_place *place, uint64_t stream, int64_t bytes,
                          int64_t align, dls_device_memory **memory, void **address,
                          dls_error *err);

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
