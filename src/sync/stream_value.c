/* Checks and reads values of `stream`, which may be ints or objects of any GPU library.
 *
 * Called by request/ for the consumer's and the user's values, and by the other files
 * of sync/.  Looks up and calls attributes of stream objects; touches no driver. Tests:
 * tests/core/test_stream_table.py, tests/device/test_matrix.py.
 */
#include "sync/stream_value.h"

#include <assert.h>

#include "gpu/sync_rules.h"
#include "python/errors.h"

/* --- the check ------------------------------------------------------------ */

/* A plain torch.Stream, which torch.accelerator.current_stream() gives, names its
 * handle so in newer releases; of torch's XPU streams that is a sycl::queue of C++, and
 * none of these.  1 = *value, 0, or -1. */
static int
find_native_handle(dls_state *state, PyObject *stream, PyObject **value)
{
    PyObject *queue = NULL;
    int got = dls_get_optional(stream, state->names.native_handle, value);
    int other = got > 0 ? dls_get_optional(stream, state->names.sycl_queue, &queue) : 0;
    Py_XDECREF(queue);
    if (other != 0) {
        Py_CLEAR(*value);
        return other < 0 ? -1 : 0;
    }
    return got;
}

/* Look up the attribute that marks an object as a stream.  Five attributes name a
 * handle; another, looked up only if `queues`, marks a queue.  1 = *value is a new
 * reference to the first that is there, 0 = none is, -1 = exception.  *is_protocol: it
 * is __cuda_stream__. */
static int
find_attribute(dls_state *state, PyObject *stream, bool queues, PyObject **value,
               bool *is_protocol)
{
    PyObject *names[] = {state->names.cuda_stream, state->names.torch_cuda_stream,
                         state->names.ptr, state->names.handle,
                         state->names.get_capsule};
    int got = 0;
    for (size_t i = 0; got == 0 && i < (queues ? 5 : 4); i++) {
        got = dls_get_optional(stream, names[i], value);
        *is_protocol = i == 0;
    }
    return got == 0 ? find_native_handle(state, stream, value) : got;
}

/* Values that are no stream and no handle, whatever int() makes of them. */
static bool
is_no_handle(PyObject *value)
{
    return PyBool_Check(value) || PyFloat_Check(value) || PyUnicode_Check(value)
           || PyBytes_Check(value);
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
        return dls_refuse(state, DLS_EVALUE, NULL,
                          "stream=%R is out of range\n"
                          "  pass None, -1 (no synchronisation) or a stream handle",
                          number);
    }
    return 0;
}

int
dls_stream_check(dls_state *state, PyObject *stream)
{
    if (stream == Py_None) {
        return 0;
    }
    bool never = is_no_handle(stream);
    if (!never && PyLong_Check(stream)) {
        return check_int(state, stream);
    }
    bool is_protocol; /* not asked here */
    PyObject *value = NULL;
    int got = never ? 0 : find_attribute(state, stream, true, &value, &is_protocol);
    Py_XDECREF(value);
    if (got == 0 && !never && PyIndex_Check(stream)) {
        PyObject *number = PyNumber_Index(stream);
        got = number == NULL || check_int(state, number) < 0 ? -1 : 1;
        Py_XDECREF(number);
    }
    if (got == 0) {
        dls_refuse(state, DLS_ETYPE, NULL,
                   "stream must be None, an int or a stream object, not %R\n"
                   "  pass the handle of the stream as an int",
                   (PyObject *)Py_TYPE(stream));
    }
    return got > 0 ? 0 : -1;
}

static bool
is_word(PyObject *stream, const char *word)
{
    return stream != NULL && PyUnicode_Check(stream)
           && PyUnicode_CompareWithASCIIString(stream, word) == 0;
}

bool
dls_stream_is_auto(PyObject *stream)
{
    return is_word(stream, "auto");
}

bool
dls_stream_is_wait(PyObject *stream)
{
    return is_word(stream, "wait");
}

bool
dls_stream_is_minus_one(PyObject *stream)
{
    int overflow = 0;
    if (stream == NULL || !PyIndex_Check(stream)) {
        return false;
    }
    PyObject *number = PyNumber_Index(stream);
    bool is = number != NULL && PyLong_AsLongLongAndOverflow(number, &overflow) == -1
              && overflow == 0 && PyErr_Occurred() == NULL;
    Py_XDECREF(number);
    PyErr_Clear();
    return is;
}

/* --- handles -------------------------------------------------------------- */

static int
raise_object(dls_state *state, PyObject *stream, const char *what)
{
    return dls_refuse(state, DLS_ETYPE, NULL,
                      "the stream object %R %s\n"
                      "  pass the handle as an int",
                      stream, what);
}

/* Take the handle out of (0, handle), which __cuda_stream__ is: a method, in old
 * releases an attribute.  The reference to `pair` is taken.  A new reference, or NULL.
 */
static PyObject *
handle_of_pair(dls_state *state, PyObject *stream, PyObject *pair)
{
    if (PyCallable_Check(pair)) {
        PyObject *method = pair;
        pair = PyObject_CallFunctionObjArgs(method, NULL);
        Py_DECREF(method);
    }
    if (pair == NULL) {
        return NULL;
    }
    PyObject *handle = NULL, *tuple = NULL;
    if (PyTuple_Check(pair) || PyList_Check(pair)) {
        tuple = PySequence_Tuple(pair);
    }
    Py_DECREF(pair);
    if (tuple != NULL && PyTuple_Size(tuple) == 2
        && PyLong_AsLong(PyTuple_GetItem(tuple, 0)) == 0) {
        handle = PyTuple_GetItem(tuple, 1);
        Py_INCREF(handle);
    }
    Py_XDECREF(tuple);
    if (handle == NULL) {
        PyErr_Clear();
        raise_object(state, stream, "does not answer __cuda_stream__ with (0, handle)");
    }
    return handle;
}

/* Find the value that holds the object's handle.  1 with a new reference in *number,
 * which need not be an int; 0: the object names no handle (a SyclQueue); -1. */
static int
find_number(dls_state *state, PyObject *stream, PyObject **number)
{
    bool is_protocol;
    int got = find_attribute(state, stream, false, number, &is_protocol);
    if (got > 0 && is_protocol) {
        *number = handle_of_pair(state, stream, *number);
        got = *number != NULL ? 1 : -1;
    }
    return got;
}

/* Read the handle from an int, None (Warp's null stream), a ctypes pointer (numba) or
 * whatever int() takes.  0, or -1. */
static int
read_number(dls_state *state, PyObject *stream, PyObject *number, uint64_t *handle)
{
    PyObject *value = NULL;
    *handle = 0;
    if (number == Py_None) {
        return 0;
    }
    if (is_no_handle(number)) {
        return raise_object(state, stream, "has no handle that is an address");
    }
    bool is_int = PyIndex_Check(number);
    if (!is_int && dls_get_optional(number, state->names.value, &value) < 0) {
        return -1;
    }
    if (value == Py_None) {
        Py_DECREF(value);
        return 0;
    }
    PyObject *integer = is_int ? PyNumber_Index(number)
                               : PyNumber_Long(value != NULL ? value : number);
    Py_XDECREF(value);
    if (integer != NULL) {
        *handle = PyLong_AsUnsignedLongLong(integer);
        Py_DECREF(integer);
    }
    if (PyErr_Occurred() == NULL) {
        return 0;
    }
    return dls_error_forget() < 0
               ? -1
               : raise_object(state, stream, "has no handle that is an address");
}

static dls_value
value_of(uint64_t handle)
{
    return handle == 0   ? DLS_VALUE_ZERO
           : handle == 1 ? DLS_VALUE_ONE
           : handle == 2 ? DLS_VALUE_TWO
                         : DLS_VALUE_HANDLE;
}

int
dls_stream_read(dls_state *state, PyObject *stream, dls_stream *out)
{
    *out = (dls_stream){.value = DLS_VALUE_NONE};
    if (stream == NULL || stream == Py_None) {
        return 0;
    }
    if (dls_stream_is_minus_one(stream) || dls_stream_is_wait(stream)) {
        out->value = PyUnicode_Check(stream) ? DLS_VALUE_WAIT : DLS_VALUE_MINUS_ONE;
        return 0;
    }
    if (PyLong_Check(stream)) {
        out->handle = PyLong_AsUnsignedLongLong(stream);
        out->value = value_of(out->handle);
        return PyErr_Occurred() != NULL ? -1 : 0;
    }
    PyObject *number = NULL;
    out->from_object = true;
    int got = find_number(state, stream, &number);
    if (got == 0 && PyIndex_Check(stream)) { /* such as numpy.int64 */
        number = PyNumber_Index(stream);
        got = number != NULL ? dls_stream_read(state, number, out) : -1;
        Py_XDECREF(number);
        return got;
    }
    if (got == 0) {
        out->value = DLS_VALUE_OBJECT;
    }
    if (got > 0) {
        got = read_number(state, stream, number, &out->handle);
        Py_DECREF(number);
        out->value = value_of(out->handle);
    }
    return got;
}

int
dls_stream_read_opaque(dls_state *state, PyObject *stream, dls_stream *out)
{
    if (stream == NULL || stream == Py_None || PyIndex_Check(stream)
        || dls_stream_is_wait(stream)) {
        return dls_stream_read(state, stream, out);
    }
    *out = (dls_stream){.value = DLS_VALUE_OBJECT,
                        .handle = (uint64_t)(uintptr_t)stream,
                        .from_object = true};
    return 0;
}

/* --- the refusal ---------------------------------------------------------- */

int
dls_stream_raise_wrong(dls_state *state, dls_family family, dls_task task,
                       PyObject *stream)
{
    static const char *const cures[DLS_FAMILIES] = {
        [DLS_FAMILY_CUDA] =
            "pass 1 for the legacy default stream or 2 for the per-thread one",
        [DLS_FAMILY_CUDA_MANAGED] = "pass 1 for the legacy default stream or 2 for the "
                                    "per-thread one",
        [DLS_FAMILY_ROCM] = "pass 0 for the default stream",
        [DLS_FAMILY_ONEAPI] = "pass None, -1, a SyclQueue or a queue's address",
    };
    const char *cure = cures[family] != NULL ? cures[family] : "pass None";
    assert(task == DLS_TASK_VALUE_ERROR || task == DLS_TASK_TYPE_ERROR);
    return dls_refuse(state, task == DLS_TASK_VALUE_ERROR ? DLS_EVALUE : DLS_ETYPE,
                      NULL, "stream=%R is not a stream of %s\n  %s", stream,
                      dls_family_names[family], cure);
}
