/* Carries a sync out by the driver of the memory's device: edges, waits, and the guard
 * at release (S12 to S16, S22).
 *
 * All functions keep the thread's context, or current device, as it was.  They make no
 * Python call.  Where a driver is needed they may block, so the GIL must not be held.
 */
#pragma once

#include "core/base.h"
#include "core/sync_words.h"
#include "gpu/driver.h"

/* --- events and streams that are kept ------------------------------------- */
/* Keeps events and two streams for each place (a context or a device), S16.
 *
 * A pool is found by the place and, where the driver tells one, by its id, because the
 * addresses of contexts are used again.  Pools are never freed: there are as many as
 * places.  All functions are called without the GIL, on any thread, with the place
 * current. */

/* DLS_OK with an event of the place, a kept one or else a new one: the caller gives it
 * back by dls_pool_put_event.  Or a code with *err, and no event. */
int dls_pool_get_event(const dls_place *place, void **event, dls_error *err);

/* Give an event back, as soon as the wait for it was issued (a wait stands for the
 * event as it was at the call).  is_sound: all its calls succeeded; other events, and
 * events beyond the room of the pool, are destroyed. */
void dls_pool_put_event(const dls_place *place, void *event, bool is_sound);

/* The use of a place's own stream.  Memory is freed in the turn of a stream for that
 * alone: it waits for all work of the place, and no copy shall. */
typedef enum { DLS_POOL_COPIES, DLS_POOL_FREES, DLS_POOL_STREAMS } dls_pool_use;

/* DLS_OK with the place's stream for this use, which stays the pool's and is used for
 * nothing else; or a code with *err. */
int dls_pool_stream(const dls_place *place, dls_pool_use use, uint64_t *stream,
                    dls_error *err);

/* For tests: how many events a place may keep, 64 at most. */
void dls_pool_cap(int cap);

/* Does this task need a driver?  If not, dls_sync_run makes no driver call, and may be
 * called with the GIL held. */
bool dls_sync_run_needs_driver(const dls_sync_job *job);

/* Carry out the task.  DLS_OK, or a code with *err: DLS_EBUFFER for memory that cannot
 * be synced, DLS_ERUNTIME for errors of the program that the driver reports (S24). */
int dls_sync_run(const dls_sync_job *job, dls_error *err);

/* Does a graph capture run, as far as L of the device and P (if known) tell?  false
 * where the driver is not in use.  The question does not end a capture (S14). */
bool dls_sync_run_sees_capture(dl_device device, dls_producer_stream p);

/* on_release="guard" (S22): can the device wait, at release, for the work that a
 * consumer still runs there?  Fills in the place_* fields of *job, whose device and
 * memory are set.  DLS_OK, or DLS_EBUFFER with *err. */
int dls_sync_run_can_guard(dls_sync_job *job, dls_error *err);

/* Make all that is given to the place later wait for all that it has been given so far;
 * the host does not wait.  *job was filled by dls_sync_run_can_guard.  false: not now,
 * because a graph capture runs.  true also where the driver or the context is gone, for
 * then no work is left. */
DLS_EXTERN bool dls_sync_run_guard(const dls_sync_job *job);
