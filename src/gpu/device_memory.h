/* Memory of a device that dlshim allocates for a copy (S19), and its end.
 *
 * Where the driver has pools, and an event can stand for all work of a context, the
 * memory is freed in the turn of a stream of dlshim's own, after all that the context
 * has been given until then: the host does not wait, and the consumer's stream need not
 * exist any more.  Elsewhere the driver's plain free waits by itself.  All functions
 * may block and are called without the GIL, on any thread.
 */
#pragma once

#include "core/hold.h"
#include "gpu/driver.h"

/* DLS_OK with *memory (owned: for a hold of kind DEVICE, or its `end`) and its
 * *address, a multiple of `align`: a power of two.  It may be used after what `stream`,
 * a stream of the place, has been given so far.  Or a code with *err: DLS_EBUFFER with
 * the number of bytes where there is no memory.  Keeps what is current. */
int dls_device_memory_new(const dls_place *place, uint64_t stream, int64_t bytes,
                          int64_t align, dls_device_memory **memory, void **address,
                          dls_error *err);

/* Give back what had to wait for the end of a graph capture, where that is over. */
void dls_device_memory_flush(void);
