#include "acquire/ctable.h"

#include "core/counters.h"
#include "core/device.h"
#include "core/tensor.h"
#include "python/errors.h"

const dl_exchange_api *
dls_table_from_attribute(PyObject *value)
{
    void *pointer = NULL;
    if (Py_IS_TYPE(value, &PyCapsule_Type)) {
        if (PyCapsule_IsValid(value, DL_NAME_EXCHANGE_API)) {
            pointer = PyCapsule_GetPointer(value, DL_NAME_EXCHANGE_API);
        }
    }
    else if (PyLong_Check(value) && !PyBool_Check(value)) {
        pointer = PyLong_AsVoidPtr(value);
        if (pointer == NULL) {
            PyErr_Clear();
        }
        /* A number that cannot be the address of a struct of pointers. */
        if ((uintptr_t)pointer < 4096
            || (uintptr_t)pointer % _Alignof(dl_exchange_api)) {
            pointer = NULL;
        }
    }
    const dl_exchange_header *header = pointer;
    for (int i = 0; header != NULL && header->version.major != DL_MAJOR; i++) {
        header = i < 64 ? header->prev_api : NULL; /* a longer chain is a loop */
    }
    const dl_exchange_api *table = (const dl_exchange_api *)header;
    if (table == NULL || table->managed_tensor_from_py_object_no_sync == NULL) {
        return NULL;
    }
    return table;
}

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

/* NULL data is right for an empty tensor only, and only there order never matters. */
static bool
serves(const dl_tensor *tensor, bool ordering_owed)
{
    bool here = !ordering_owed || dls_device_is_host(tensor->device.device_type);
    return (here && tensor->data != NULL) || is_empty(tensor);
}

DLS_COLD dl_managed_tensor_versioned *
dls_table_failed(int code)
{
    if (code == 0) {
        (void)dls_error_forget();
    }
    else if (PyErr_Occurred() == NULL) {
        PyErr_SetString(PyExc_BufferError,
                        "the exchange table failed without saying why");
    }
    return NULL;
}

int
dls_table_read(dl_managed_tensor_versioned *managed, bool ordering_owed, dls_loan *loan)
{
    if (managed == NULL) {
        return PyErr_Occurred() != NULL ? -1 : 0;
    }
    const dl_tensor *tensor = &managed->dl_tensor;
    if (managed->version.major != DL_MAJOR || !serves(tensor, ordering_owed)) {
        dls_managed_delete(managed, true);
        dls_error_report();
        return 0;
    }
    loan->tensor = *tensor;
    loan->flags = managed->flags;
    loan->version = managed->version;
    loan->flavour = DLS_VERSIONED;
    loan->readonly_stated = true;
    loan->managed = managed;
    loan->hold = (dls_hold){.base = managed, .kind = DLS_HOLD_VERSIONED};
    return 1;
}

int
dls_table_device(const dl_exchange_api *table, PyObject *obj, dl_device *device)
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
