/* Asks a GPU array for its device by the attributes that libraries have for it.
 * Called by cuda_interface.c where the driver cannot tell, with the GIL.
 * Tests: tests/core/test_cuda_interface.py. */
#include "older_protocols/device_attribute.h"

#include "python/errors.h"

/* obj.name, a new reference; NULL where it is missing or asking for it raised.  0, or
 * -1 with an exception that no probe may hide. */
static int
probe(PyObject *obj, PyObject *name, PyObject **value)
{
    *value = NULL;
    return dls_get_optional(obj, name, value) < 0 ? dls_error_forget() : 0;
}

/* A device number; -1: the value is none. */
static int
number_of(PyObject *value)
{
    if (!PyLong_Check(value) || PyBool_Check(value)) {
        return -1;
    }
    long number = PyLong_AsLong(value);
    PyErr_Clear(); /* too large for a device */
    return number >= 0 && number <= INT32_MAX ? (int)number : -1;
}

/* The number in obj.name, if there is one.  0, or -1 with an exception. */
static int
probe_number(PyObject *obj, PyObject *name, int *number)
{
    PyObject *value;
    if (probe(obj, name, &value) < 0) {
        return -1;
    }
    if (value != NULL) {
        *number = number_of(value);
        Py_DECREF(value);
    }
    return 0;
}

int
dls_device_attribute_read(dls_state *state, PyObject *obj, int *ordinal)
{
    PyObject *device;
    *ordinal = -1;
    int result = probe(obj, state->names.device, &device);
    if (result == 0 && device != NULL) {
        result = probe_number(device, state->names.id, ordinal);
    }
    if (result == 0 && *ordinal < 0) {
        result = probe_number(obj, state->names.device_id, ordinal);
    }
    if (result == 0 && *ordinal < 0 && device != NULL) {
        *ordinal = number_of(device);
    }
    Py_XDECREF(device);
    return result;
}
