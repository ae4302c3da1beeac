/* Orderings carried out: edges, waits, contexts (reference streams.md 1.4 and 6.6). */
#ifndef DLS_DEVICE_HANDOFF_H
#define DLS_DEVICE_HANDOFF_H

#include "core/error.h"
#include "core/sync_words.h"

/* Does this ordering need a driver at all?  If not, *action is final (NOTHING or a
 * refusal) and dls_handoff does no more than say so. */
bool dls_handoff_needs_driver(const dls_ordering *ordering);

/* Settle and do it.  Without the GIL: it may wait for the device.  The context stack of
 * the thread is as before on every exit.  DLS_OK, or a code with *err: DLS_EBUFFER for
 * what cannot be ordered, DLS_ERUNTIME for errors of the program that the driver
 * reports. */
int dls_handoff(const dls_ordering *ordering, dls_error *err);

/* Is a graph capture running, as far as can be seen from L of the device and from P?
 * false where the driver is not in use.  Does no harm to a capture.  Without the GIL.
 */
bool dls_handoff_captures(dl_device device, dls_pending p);

/* Can what a consumer still runs on the memory's device be ordered at release, without
 * its stream?  Fills in the place.  (CUDA 12.5: events of a whole context.)  DLS_OK, or
 * DLS_EBUFFER. */
int dls_handoff_can_guard(dls_ordering *what, dls_error *err);

/* Order all work of the context that owns the memory before all that comes later there;
 * the host does not wait.  false: not now, a graph capture is running.  true also where
 * no driver or context is left, for then nothing is pending.  Without the GIL. */
bool dls_handoff_guard(const dls_ordering *what);

#endif
