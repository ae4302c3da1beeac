/* Keeps events and two streams for each place (a context or a device), S16.
 *
 * A pool is found by the place and, where the driver tells one, by its id, because the
 * addresses of contexts are used again.  Pools are never freed: there are as many as
 * places.  All functions are called without the GIL, on any thread, with the place
 * current.
 */
#pragma once

#include "gpu/driver.h"

/* DLS_OK with an event of the place, a kept one or else a new one: the caller gives it
 * back by dls_pool_put_event.  Or a code with *err, and no event. */
int dls_pool_get_event(const dls_place *place, void **event, dls_error *err);

/* Give an event back, as soon as the wait for it was issued (a wait keeps what it saw
 * at the call).  is_sound: all its calls succeeded; others, and those that are too
 * many, are destroyed. */
void dls_pool_put_event(const dls_place *place, void *event, bool is_sound);

/* What a place's own streams are for.  Memory is freed in the turn of a stream of its
 * own: that stream waits for all that the place does, and no copy shall. */
typedef enum { DLS_POOL_COPIES, DLS_POOL_FREES, DLS_POOL_STREAMS } dls_pool_use;

/* DLS_OK with the place's stream for this use, which stays the pool's and is used for
 * nothing else; or a code with *err. */
int dls_pool_stream(const dls_place *place, dls_pool_use use, uint64_t *stream,
                    dls_error *err);

/* For tests: how many events a place may keep, 64 at most. */
void dls_pool_cap(int cap);
