/* Asks __dlpack_device__ and reads the answer.  Called by acquire/ and by
 * export/device_answer; foreign code runs.  Tests: tests/core/test_devices.py,
 * tests/core/test_fast_path.py. */
#include "exchange/device_question.h"

#include "core/base.h"
#include "python/errors.h"

/* Convert by __index__.  The answer of a producer is then tried by .value and by int()
 * too. */
static PyObject *
number_of(dls_state *state, PyObject *item, bool strict)
{
    PyObject *number = PyNumber_Index(item);
    if (number != NULL || strict || dls_error_is_fatal()) {
        return number;
    }
    PyErr_Clear();
    PyObject *value = PyObject_GetAttr(item, state->names.value);
    number = value != NULL ? PyNumber_Index(value) : NULL;
    Py_XDECREF(value);
    if (number == NULL && !dls_error_is_fatal()) {
        PyErr_Clear();
        number = PyNumber_Long(item);
    }
    return number;
}

/* 1 = *out, 0 = no such int, nothing set, -1 = an exception that is not ours to hide.
 */
static int
int_of(dls_state *state, PyObject *item, bool never_none, bool strict, int32_t *out)
{
    if (item == Py_None) {
        *out = 0;
        return !never_none;
    }
    /* PyNumber_Index would make a new int of an enum that is one. */
    PyObject *number = PyLong_Check(item) ? Py_NewRef(item)
                                          : number_of(state, item, strict);
    long value = number != NULL ? PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    if (value == -1 && PyErr_Occurred() != NULL) {
        return dls_error_forget();
    }
    if (value < INT32_MIN || value > INT32_MAX) {
        return 0;
    }
    *out = (int32_t)value;
    return 1;
}

int
dls_device_from_pair(dls_state *state, PyObject *pair, bool strict, dl_device *device)
{
    if (PyUnicode_Check(pair) || PyBytes_Check(pair)) {
        return 0;
    }
    PyObject *type = NULL, *id = NULL;
    int got = 0;
    if (PySequence_Size(pair) == 2) {
        type = PySequence_GetItem(pair, 0);
        id = type != NULL ? PySequence_GetItem(pair, 1) : NULL;
    }
    if (id != NULL) {
        got = int_of(state, type, true, strict, &device->device_type);
        if (got > 0) {
            got = int_of(state, id, strict, strict, &device->device_id);
        }
    }
    Py_XDECREF(type);
    Py_XDECREF(id);
    if (got < 0 || (PyErr_Occurred() != NULL && dls_error_forget() < 0)) {
        return -1;
    }
    return got > 0 && device->device_type > 0;
}

/* Is it the 1 of a host's device: an int, or an enum of ints as JAX's? */
static bool
is_host_type(const dls_state *state, PyObject *type)
{
    int overflow;
    return type == state->one
           || (PyLong_Check(type)
               && PyLong_AsLongAndOverflow(type, &overflow) == (long)dl_kDLCPU);
}

/* Is it a tuple (1, 0)?  Nearly all producers answer so.  One that others hold too is a
 * constant, so it is remembered, if it is made of the ints of which CPython has one
 * object each. */
static bool
is_new_host_pair(dls_state *state, PyObject *pair)
{
    if (!Py_IS_TYPE(pair, &PyTuple_Type) || PyTuple_Size(pair) != 2
        || PyTuple_GetItem(pair, 1) != state->zero
        || !is_host_type(state, PyTuple_GetItem(pair, 0))) {
        return false;
    }
    if (PyTuple_GetItem(pair, 0) == state->one && !dls_is_unshared(pair)) {
        dls_memo_set_host(&state->memo, pair);
    }
    return true;
}

int
dls_device_read(dls_state *state, PyObject *pair, dl_device *device)
{
    if (is_new_host_pair(state, pair)) {
        *device = (dl_device){dl_kDLCPU, 0};
        return 1;
    }
    return dls_device_from_pair(state, pair, false, device);
}
