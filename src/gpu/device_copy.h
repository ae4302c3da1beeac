/* Copies CUDA and ROCm memory to host memory (S18), and to such memory from the host,
 * within a device, and from one device to another (S19), on non-blocking streams of
 * dlshim's own and never on L.  The host waits for the copy.  All functions may block
 * and are called without the GIL; they leave the current context and device as they
 * are. */
#pragma once

#include "abi/dlpack_abi.h"
#include "core/base.h"
#include "core/copy.h"
#include "core/hold.h"
#include "gpu/driver.h"

/* The stream on which copies from this device are made.  The caller makes it wait for
 * the producer's unfinished work on the memory before it copies.  Its address is NULL
 * while only the export will tell it.  DLS_OK with *stream, which stays
 * dlshim's; or a code with *err.  *lost says whether the reason is that the memory's
 * context was not found. */
int dls_copy_stream(dl_device device, dls_memory *memory, uint64_t *stream, bool *lost,
                    dls_error *err);

/* Copy a tensor that has elements, and that dls_tensor_scan has accepted, to dst,
 * row-major.  dst has room for all elements and stays the caller's.  Dense data are one
 * copy, rows at equal distances one pitched copy for each plane; of other data slabs
 * are fetched, gaps included, and gathered on the host, which takes memory for one
 * slab.  known: what the driver has told of the memory, if it was asked.  DLS_OK, and
 * the copy is complete; or a code with *err, and dst is undefined. Nothing is still
 * written to dst after the return. */
int dls_copy_to_host(void *dst, const dl_tensor *tensor, int64_t itemsize,
                     const dls_memory *known, uint64_t stream, dls_error *err);

/* --- memory of a device ---------------------------------------------------- */
/* Memory that dlshim allocates for a copy (S19), and its end.
 *
 * Where the driver has pools, and an event can stand for all work of a context, the
 * memory is freed in the turn of a stream of dlshim's own, after all that the context
 * has been given until then: the host does not wait, and the consumer's stream need
 * not exist any more.  Elsewhere the driver's plain free waits by itself.  Where the
 * context is not the device's own (primary) one, the work of that one is waited for as
 * well: a consumer that named no stream may work there.  All functions may block and
 * are called without the GIL, on any thread. */

/* DLS_OK with *memory (owned: for a hold of kind DEVICE, or its `end`) and its
 * *address, a multiple of `align`: a power of two.  It may be used after the work that
 * `stream`, a stream of the place, has been given so far.  Or a code with *err:
 * DLS_EBUFFER with the number of bytes where there is no memory.  Leaves the current
 * context and device as they are. */
int dls_device_memory_new(const dls_place *place, uint64_t stream, int64_t bytes,
                          int64_t align, dls_device_memory **memory, void **address,
                          dls_error *err);

/* --- to a device ---------------------------------------------------------- */

/* The place for a copy.  A plain value. */
typedef struct {
    dls_place place;
    uint64_t stream; /* for copies there; it stays dlshim's */
} dls_copy_target;

/* Find the place of new memory on `to`, for the consumer's stream `s`.  source: the
 * device memory that will be copied there; NULL: the host's.  DLS_OK; or a code with
 * *err: no driver, no such device, or a graph capture that is seen on `s` or on a
 * stream that waits for L (S14). */
int dls_copy_target_find(dl_device to, uint64_t s, const void *source,
                         dls_copy_target *target, dls_error *err);

/* The host waits for the target's stream.  DLS_OK, or a code with *err. */
int dls_copy_target_wait(const dls_copy_target *target, dls_error *err);

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
