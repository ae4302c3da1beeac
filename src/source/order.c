#include "source/order.h"

#include "python/raise.h"

static int
is_stream_object(dls_state *state, PyObject *stream)
{
    PyObject *names[] = {state->names.cuda_stream, state->names.torch_cuda_stream,
                         state->names.ptr, state->names.handle, state->names.get_capsule};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        PyObject *value = NULL;
        int got = dls_get_optional(stream, names[i], &value);
        Py_XDECREF(value);
        if (got != 0) {
            return got;
        }
    }
    return 0;
}

static int
check_int(dls_state *state, PyObject *number)
{
    int overflow = 0;
    long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (value == -1 && overflow == 0 && PyErr_Occurred()) {
        return -1;
    }
    if (overflow > 0) {
        /* Handles are addresses: up to 2**64 - 1. */
        PyLong_AsUnsignedLongLong(number);
        overflow = PyErr_Occurred() != NULL;
        PyErr_Clear();
    }
    if (overflow != 0 || value < -1) {
        dls_raise(state, DLS_EVALUE, NULL,
                  "stream=%R is out of range: None, -1 (no ordering), or a stream handle "
                  "is expected",
                  number);
        return -1;
    }
    return 0;
}

DLS_APART int
dls_stream_check(dls_state *state, PyObject *stream)
{
    if (stream == Py_None) {
        return 0;
    }
    bool never = PyBool_Check(stream) || PyFloat_Check(stream) || PyUnicode_Check(stream)
                 || PyBytes_Check(stream);
    if (!never && PyLong_Check(stream)) {
        return check_int(state, stream);
    }
    int got = never ? 0 : is_stream_object(state, stream);
    if (got == 0 && !never && PyIndex_Check(stream)) {
        PyObject *number = PyNumber_Index(stream);
        got = number == NULL || check_int(state, number) < 0 ? -1 : 1;
        Py_XDECREF(number);
    }
    if (got == 0) {
        dls_raise(state, DLS_ETYPE, NULL,
                  "stream must be None, an int or a stream object, not %R; pass the "
                  "handle of the stream as an int",
                  (PyObject *)Py_TYPE(stream));
    }
    return got > 0 ? 0 : -1;
}

bool
dls_stream_is_minus_one(PyObject *stream)
{
    if (stream == NULL || !PyLong_Check(stream)) {
        return false;
    }
    int overflow = 0;
    return PyLong_AsLongLongAndOverflow(stream, &overflow) == -1 && overflow == 0;
}

static PyObject *
raise_value(dls_state *state, const char *device, PyObject *stream, const char *cure)
{
    return dls_raise(state, DLS_EVALUE, NULL, "stream=%R is not a stream of %s: %s", stream,
                     device, cure);
}

PyObject *
dls_stream_for_producer(dls_state *state, dl_device device, PyObject *stream,
                        bool no_minus_one)
{
    bool none = stream == NULL || stream == Py_None;
    bool cuda = device.device_type == dl_kDLCUDA || device.device_type == dl_kDLCUDAManaged;
    bool rocm = device.device_type == dl_kDLROCM;
    if (none) {
        /* 1, not None: every torch, CuPy and Warp then does the same (N6). */
        if (cuda || rocm) {
            return PyLong_FromLong(cuda ? 1 : 0);
        }
        Py_RETURN_NONE;
    }
    if (dls_stream_is_minus_one(stream)
        && (no_minus_one || device.device_type == dl_kDLOneAPI)) {
        Py_RETURN_NONE;
    }
    if (PyLong_Check(stream)) {
        int overflow = 0;
        long long value = PyLong_AsLongLongAndOverflow(stream, &overflow);
        if (cuda && overflow == 0 && value == 0) {
            return raise_value(state, "CUDA", stream,
                               "pass 1 for the legacy default stream or 2 for the "
                               "per-thread one");
        }
        if (rocm && overflow == 0 && (value == 1 || value == 2)) {
            return raise_value(state, "ROCm", stream, "pass 0 for the default stream");
        }
        if (device.device_type == dl_kDLOneAPI) {
            return dls_raise(state, DLS_ETYPE, NULL,
                             "stream=%R: oneAPI takes None, -1 or a SyclQueue", stream);
        }
    }
    Py_INCREF(stream);
    return stream;
}
