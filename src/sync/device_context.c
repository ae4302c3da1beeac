/* Makes the memory's device current around a call into its library.
 *
 * Called by acquire/ around __dlpack__, and by producer_stream around the question for
 * a library's current stream.  Touches the driver's table only. Tests:
 * tests/device/test_matrix.py, tests/device/test_rocm.py.
 */
#include "sync/device_context.h"

#include "gpu/driver_of.h"
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
