/* What dlshim keeps for each place (context or device): events for edges, a stream for
 * copies.
 *
 * A pool is found by the place and, where the driver tells it, its id, for addresses of
 * contexts are used again.  Pools are never freed: there are as many as contexts.
 * Without the GIL; any thread.
 */
#ifndef DLS_DEVICE_POOL_H
#define DLS_DEVICE_POOL_H

#include "gpu/driver.h"

/* An event of the place, which is current: one that lies there, else a new one. */
int dls_pool_get_event(const dls_driver *driver, const dls_place *place, void **event,
                       dls_error *err);

/* Give it back as soon as the wait was issued (a wait keeps what it saw at the call).
 * sound: its calls succeeded; else, and beyond the cap, it is destroyed. */
void dls_pool_put_event(const dls_driver *driver, const dls_place *place, void *event,
                        bool sound);

/* The place's private non-blocking stream for copies; the place is current. */
int dls_pool_copy_stream(const dls_driver *driver, const dls_place *place,
                         uint64_t *stream, dls_error *err);

/* Test switch: how many events a context may keep (64). */
void dls_pool_cap(int cap);

#endif
