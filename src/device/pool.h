/* What dlshim keeps for each CUDA context: events for edges, a stream for copies.
 *
 * A pool is found by the context's address and, where the driver tells it, its id, for
 * addresses are used again.  Pools are never freed: there are as many as contexts.
 * Without the GIL; any thread.
 */
#ifndef DLS_DEVICE_POOL_H
#define DLS_DEVICE_POOL_H

#include "device/cuda.h"

/* An event of `context`, which is current: one that lies there, else a new one. */
int dls_pool_get_event(const dls_cuda_api *api, CUcontext context, CUevent *event,
                       dls_error *err);

/* Give it back as soon as the wait was issued (a wait keeps what it saw at the call).
 * sound: its calls succeeded; else, and beyond the cap, it is destroyed. */
void dls_pool_put_event(const dls_cuda_api *api, CUcontext context, CUevent event,
                        bool sound);

/* The context's private non-blocking stream for copies; the context is current. */
int dls_pool_copy_stream(const dls_cuda_api *api, CUcontext context, uint64_t *stream,
                         dls_error *err);

/* Test switch: how many events a context may keep (64). */
void dls_pool_cap(int cap);

#endif
