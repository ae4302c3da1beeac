/* Carries a sync out by the driver of the memory's device: edges, waits, and the guard
 * at release (S12 to S16, S22).
 *
 * All functions keep the thread's context, or current device, as it was.  They make no
 * Python call.  Where a driver is needed they may block, so the GIL must not be held.
 */
#pragma once

#include "core/base.h"
#include "core/sync_words.h"

/* Does this task need a driver?  If not, dls_sync_run makes no driver call, and may be
 * called with the GIL held. */
bool dls_sync_run_needs_driver(const dls_sync_job *job);

/* Do what the task asks for.  DLS_OK, or a code with *err: DLS_EBUFFER for what cannot
 * be synced, DLS_ERUNTIME for errors of the program that the driver reports (S24). */
int dls_sync_run(const dls_sync_job *job, dls_error *err);

/* Does a graph capture run, as far as L of the device and P (if known) tell?  false
 * where the driver is not in use.  The question does not end a capture (S14). */
bool dls_sync_run_sees_capture(dl_device device, dls_producer_stream p);

/* on_release="guard" (S22): can the device wait, at release, for what a consumer still
 * runs there?  Fills in the place_* fields of *job, whose device and address are set.
 * DLS_OK, or DLS_EBUFFER with *err. */
int dls_sync_run_can_guard(dls_sync_job *job, dls_error *err);

/* Make all that is given to the place later wait for all that it has been given so far;
 * the host does not wait.  *job was filled by dls_sync_run_can_guard.  false: not now,
 * because a graph capture runs.  true also where the driver or the context is gone, for
 * then no work is left. */
DLS_EXTERN bool dls_sync_run_guard(const dls_sync_job *job);
