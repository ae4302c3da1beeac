/* Copies CUDA and ROCm memory to host memory (S18), on a non-blocking stream of
 * dlshim's own and never on L.  All functions may block and are called without the GIL.
 */
#pragma once

#include "abi/dlpack_abi.h"
#include "core/base.h"
#include "core/copy.h"
#include "gpu/driver.h"

/* The stream on which copies from this device are made.  The caller makes it wait for
 * the producer's unfinished work on the memory before it copies.  address: of the
 * memory, or NULL while only the export will tell it. DLS_OK with *stream, which stays
 * dlshim's; or a code with *err.  *lost says whether the reason is that the memory's
 * context was not found. */
int dls_copy_stream(dl_device device, const void *address, uint64_t *stream, bool *lost,
                    dls_error *err);

/* Copy a tensor that has elements, and that dls_tensor_scan has accepted, to dst,
 * row-major.  dst has room for all elements and stays the caller's.  Dense data are one
 * copy, rows at equal distances one pitched copy for each plane; of other data slabs
 * are fetched, gaps included, and gathered on the host, which takes memory for one
 * slab.  DLS_OK, and the copy is complete; or a code with *err, and dst is undefined.
 * Nothing is still written to dst after the return. */
int dls_copy_to_host(void *dst, const dl_tensor *tensor, int64_t itemsize,
                     uint64_t stream, dls_error *err);

/* Can a few pitched copies of the driver bring it together?  walk->count > 0. */
bool dls_copy_is_pitched(const dls_traversal *walk);

/* Start them: rows at equal distances to a dense block, one pitched copy for each
 * plane.  The place is current.  DLS_OK, or a code with *err. */
int dls_copy_planes(const dls_place *place, void *dst, const void *src,
                    dls_traversal walk, dls_copy_way way, uint64_t stream,
                    dls_error *err);
