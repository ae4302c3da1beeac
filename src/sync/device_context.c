/* Makes the memory's device current around a call into its library.
 *
 * Called by acquire/ around __dlpack__, and by producer_stream around the question for
 * a library's current stream.  Touches the driver's table only. Tests:
 * tests/device/test_matrix.py.
 */
#include "sync/device_context.h"

#include "gpu/pointer.h"
#include "gpu/sync_rules.h"
#include "python/errors.h"

bool
dls_device_context_enter(dl_device device, dls_saved_device *saved)
{
    dls_family family = dls_family_of(device.device_type);
    const dls_driver *driver = dls_driver_of(device.device_type);
    bool entered;
    if (family != DLS_FAMILY_CUDA && family != DLS_FAMILY_CUDA_MANAGED
        && family != DLS_FAMILY_ROCM) {
        return false;
    }
    Py_BEGIN_ALLOW_THREADS
    entered = driver->enter_device(device.device_id, saved);
    Py_END_ALLOW_THREADS
    return entered;
}

void
dls_device_context_leave(dl_device device, const dls_saved_device *saved)
{
    PyObject *error = dls_error_take();
    Py_BEGIN_ALLOW_THREADS
    dls_driver_of(device.device_type)->leave(saved);
    Py_END_ALLOW_THREADS
    if (error != NULL) {
        dls_error_restore(error);
    }
}

int
dls_producer_context_enter(const dls_sync_source *from, dls_producer_context *context)
{
    dl_device device = from->device;
    *context = (dls_producer_context){.guard = NULL};
    if (dls_family_of_streams(device.device_type) != DLS_FAMILY_CUDA
        && device.device_type != dl_kDLROCM) {
        return 0;
    }
    context->driver = dls_device_context_enter(device, &context->saved);
    if (from->request->has_assumed) {
        return context->driver; /* the library goes by the label that is wrong */
    }
    int got = dls_library_enter_device(from->state, from->plan->library, from->source,
                                       device.device_id, &context->guard);
    if (got < 0 && dls_error_forget() < 0) {
        return -1;
    }
    return context->driver || got > 0;
}

/* The library's device last: it may set the driver's, which must then be the one that
 * was current before. */
void
dls_producer_context_leave(const dls_sync_source *from, dls_producer_context *context)
{
    if (context->driver) {
        dls_device_context_leave(from->device, &context->saved);
    }
    if (context->guard != NULL) {
        dls_library_leave(from->state, context->guard);
        context->guard = NULL;
    }
}
