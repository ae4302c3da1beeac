/* Makes the memory's device current around a call into its library (S15).
 *
 * A producer syncs in the context of its memory's device: torch refuses arrays of
 * another device, CuPy would use the other device's stream.  GIL held; it is released
 * around the driver calls.
 */
#pragma once

#include "gpu/driver.h"

/* Make `device` current.  true: it was not, and dls_device_context_leave must follow on
 * the same thread with the same *saved.  false: nothing was changed, because the device
 * is current already, its kind has no contexts, or no driver is mapped. */
bool dls_device_context_enter(dl_device device, dls_saved_device *saved);

/* Keeps a pending exception. */
void dls_device_context_leave(dl_device device, const dls_saved_device *saved);
