/* Makes the memory's device current around a call into its library (S15).
 *
 * A producer syncs in the context of its memory's device: torch refuses arrays of
 * another device, CuPy would use the other device's stream.  GIL held; it is released
 * around the driver calls.
 */
#pragma once

#include "gpu/driver.h"
#include "sync/producer_stream.h"

/* Make `device` current.  true: it was not, and dls_device_context_leave must follow on
 * the same thread with the same *saved.  false: nothing was changed, because the device
 * is current already, its kind has no contexts, or no driver is mapped. */
bool dls_device_context_enter(dl_device device, dls_saved_device *saved);

/* Keeps a pending exception. */
void dls_device_context_leave(dl_device device, const dls_saved_device *saved);

/* What was made current for a producer.  All zero: nothing was. */
typedef struct {
    dls_saved_device saved;
    bool driver;     /* the driver's current device was changed */
    PyObject *guard; /* strong, or NULL: that of the producer's library was */
} dls_producer_context;

/* Make the memory's device current for the driver and, where its library goes by a
 * number of its own, for the library.  1: something was changed; 0: nothing; -1:
 * exception.  In all cases dls_producer_context_leave may follow, on the same thread.
 */
int dls_producer_context_enter(const dls_sync_source *from,
                               dls_producer_context *context);

/* Keeps a pending exception. */
void dls_producer_context_leave(const dls_sync_source *from,
                                dls_producer_context *context);
