/* Calls a producer's C table and reads what it gave.  Called by attempts, by the fast
 * path and by the device question.
 * Tests: tests/core/test_ctable.py. */
#include "acquire/ctable.h"

#include "acquire/from_capsule.h"
#include "core/alloc.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "python/errors.h"

static bool
is_empty(const dl_tensor *tensor)
{
    bool absurd = tensor->shape == NULL || tensor->ndim > DLS_NDIM_ABSURD;
    for (int32_t i = 0; !absurd && i < tensor->ndim; i++) {
        if (tensor->shape[i] == 0) {
            return true;
        }
    }
    return false;
}

/* NULL data is right for an empty tensor only, and only there nothing is pending. */
static bool
serves(const dl_tensor *tensor, bool needs_sync)
{
    bool here = !needs_sync || dls_device_is_host(tensor->device.device_type);
    return (here && tensor->data != NULL) || is_empty(tensor);
}

dl_managed_tensor_versioned *
dls_ctable_failed(int code)
{
    if (code == 0) {
        (void)dls_error_forget();
    }
    else if (PyErr_Occurred() == NULL) {
        PyErr_Format(PyExc_BufferError, "the C table failed without saying why");
    }
    return NULL;
}

int
dls_ctable_read(dl_managed_tensor_versioned *managed, bool needs_sync,
                dls_acquired *acquired)
{
    if (managed == NULL) {
        return PyErr_Occurred() != NULL ? -1 : 0;
    }
    if (managed->version.major != DL_MAJOR
        || !serves(&managed->dl_tensor, needs_sync)) {
        dls_managed_delete(managed, true);
        dls_error_report();
        return 0;
    }
    dls_acquired_describe(acquired, managed);
    acquired->hold = (dls_hold){.base = managed, .kind = DLS_HOLD_VERSIONED};
    return 1;
}

int
dls_ctable_device(const dl_exchange_api *table, PyObject *obj, dl_device *device)
{
    dl_tensor borrowed;
    if (table->dltensor_from_py_object_no_sync == NULL) {
        return 0;
    }
    if (table->dltensor_from_py_object_no_sync(obj, &borrowed) != 0) {
        return dls_error_forget();
    }
    *device = borrowed.device;
    return 1;
}
