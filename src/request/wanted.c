/* Compares memory with what the one who takes it accepts, refuses it, and reads what is
 * accepted from keywords.  Called by public/ for from_dlpack and kernel, by authors/
 * for the callers of dlshim.h. Tests: tests/core/test_wanted.py,
 * tests/core/test_c_interface.py. */
#include "request/wanted.h"

#include <string.h>

#include "core/alloc.h"
#include "exchange/objects.h"
#include "python/errors.h"
#include "request/options.h"

bool
dls_wanted_has_dtype(const dlshim_request *wanted, dl_dtype dtype)
{
    size_t i = 0;
    while (i < wanted->dtype_count
           && memcmp(&wanted->dtypes[i], &dtype, sizeof dtype) != 0) {
        i++;
    }
    return i < wanted->dtype_count;
}

int
dls_wanted_refuse(dls_state *state, PyObject *obj, const dlshim_request *wanted,
                  const dl_tensor *tensor)
{
    const dl_tensor none = {.ndim = 0};
    PyObject *error = tensor == NULL ? dls_error_take() : Py_NewRef(Py_None);
    tensor = tensor != NULL ? tensor : &none;
    const dls_member record[] = {
        {"x", Py_NewRef(obj)},
        {"name", Py_BuildValue("y", wanted->name)}, /* NULL: None */
        {"error", error != NULL ? error : PyErr_NoMemory()},
        {"shape", dls_dims_tuple(tensor->shape, tensor->ndim, 1)},
        {"device", Py_BuildValue("(ii)", (int)tensor->device.device_type,
                                 (int)tensor->device.device_id)},
        {"given", Py_BuildValue("(iii)", tensor->dtype.code, tensor->dtype.bits,
                                tensor->dtype.lanes)},
        {"dtypes", PyBytes_FromStringAndSize(
                       (const char *)wanted->dtypes,
                       (Py_ssize_t)(wanted->dtype_count * sizeof *wanted->dtypes))},
        {"ranks", PyLong_FromUnsignedLongLong(wanted->ranks)},
        {"place",
         Py_BuildValue("(ii)", (int)wanted->device_type, (int)wanted->device_id)},
        {"align", PyLong_FromLong((long)wanted->alignment)},
        {"writes", PyBool_FromLong(wanted->writable != 0)}};
    PyObject *told = dls_in_python_record(state, DLS_IN_CURES, "refusal", record,
                                          sizeof record / sizeof *record);
    if (told != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(told), told);
        Py_DECREF(told);
    }
    else if (PyErr_Occurred() == NULL) {
        PyErr_NoMemory(); /* without memory CPython may lose the exception */
    }
    return -1;
}

/* Is it a Producer with copy=True? */
static bool
gives_a_copy(dls_state *state, PyObject *obj)
{
    if (!PyObject_TypeCheck(obj, state->producer_type)) {
        return false;
    }
    const dls_options *options = dls_producer_data(obj)->options;
    return dls_option_given(options, DLS_OPTION_copy) && options->copy;
}

int
dls_wanted_check_writes(dls_state *state, PyObject *obj, const dlshim_request *wanted)
{
    if (wanted->writable == 0 || wanted->copy == DLSHIM_COPY_ALWAYS
        || !gives_a_copy(state, obj)) {
        return 0;
    }
    return dls_refuse(state, DLS_EBUFFER, obj,
                      "it gives a copy, and what is written there would be lost\n"
                      "  pass dlshim.from_dlpack(x), and keep that");
}

int
dls_wanted_check_copy(dls_state *state, PyObject *obj, const dlshim_request *wanted)
{
    if (dls_wanted_check_writes(state, obj, wanted) < 0) {
        return -1;
    }
    return wanted->copy == DLSHIM_COPY_NEVER && gives_a_copy(state, obj)
               ? dls_refuse_copy(state, obj, "copy", "\n  drop one",
                                 "a copy is needed (it was told copy=True)")
               : 0;
}

/* --- read from keywords ----------------------------------------------------- */

/* The values of a keyword, a new list: one that stands alone, or those of a list or a
 * tuple.  A tuple that begins with a number is one dtype.  NULL with an exception. */
static PyObject *
values_of(PyObject *value, bool are_dtypes)
{
    bool several = PyList_Check(value) || PyTuple_Check(value)
                   || (PyRange_Check(value) && !are_dtypes);
    bool begun = PyTuple_Check(value) && PyTuple_Size(value) > 0;
    if (several && !(are_dtypes && begun && PyLong_Check(PyTuple_GetItem(value, 0)))) {
        return PySequence_List(value);
    }
    PyObject *list = PyList_New(1);
    if (list != NULL) {
        PyList_SetItem(list, 0, Py_NewRef(value));
    }
    return list;
}

/* 0, or -1 with an exception. */
static int
refuse_none(dls_state *state, const char *what, Py_ssize_t n)
{
    return n > 0 ? 0
                 : dls_refuse(state, DLS_EVALUE, NULL,
                              "%s= is empty, and would take no array\n"
                              "  pass None to take any",
                              what);
}

static int
read_dtypes(dls_state *state, PyObject *list, dls_wanted *wanted)
{
    Py_ssize_t n = PyList_Size(list);
    int code = refuse_none(state, "dtypes", n);
    wanted->dtypes = code == 0 ? dls_alloc((size_t)n * sizeof *wanted->dtypes) : NULL;
    if (wanted->dtypes == NULL) {
        if (code == 0) {
            PyErr_NoMemory();
        }
        return -1;
    }
    for (Py_ssize_t i = 0; i < n && code == 0; i++) {
        dl_dtype dtype;
        code = dls_parse_dtype(state, "dtypes", PyList_GetItem(list, i), &dtype);
        memcpy(&wanted->dtypes[i], &dtype, sizeof dtype);
    }
    wanted->request.dtypes = wanted->dtypes;
    wanted->request.dtype_count = (size_t)n;
    return code;
}

/* Numbers of dimensions as bits. */
static int
read_ndims(dls_state *state, PyObject *list, dls_wanted *wanted)
{
    Py_ssize_t n = PyList_Size(list);
    int code = refuse_none(state, "ndims", n);
    for (Py_ssize_t i = 0; i < n && code == 0; i++) {
        PyObject *value = PyList_GetItem(list, i);
        bool is_number = PyIndex_Check(value) && !PyBool_Check(value);
        PyObject *number = is_number ? PyNumber_Index(value) : NULL;
        int overflow = 0;
        long rank = number != NULL ? PyLong_AsLongAndOverflow(number, &overflow) : -1;
        Py_XDECREF(number);
        if (is_number && number == NULL) {
            return -1;
        }
        if (!is_number || overflow != 0 || rank < 0 || rank > 63) {
            code = dls_refuse(state, is_number ? DLS_EVALUE : DLS_ETYPE, NULL,
                              "ndims=%R is no number of dimensions\n"
                              "  pass one from 0 to 63, or several in a tuple",
                              value);
        }
        else {
            wanted->request.ranks |= UINT64_C(1) << rank;
        }
    }
    return code;
}

int
dls_wanted_read(dls_state *state, PyObject *dtypes, PyObject *ndims, dls_wanted *wanted)
{
    static const dlshim_request any = DLSHIM_REQUEST_INIT;
    PyObject *const values[] = {dtypes, ndims};
    int code = 0;
    *wanted = (dls_wanted){.request = any};
    wanted->request.device_type = DLSHIM_ANY_DEVICE;
    for (int i = 0; i < 2 && code == 0; i++) {
        bool given = values[i] != NULL && values[i] != Py_None;
        PyObject *list = given ? values_of(values[i], i == 0) : NULL;
        if (list != NULL) {
            code = (i == 0 ? read_dtypes : read_ndims)(state, list, wanted);
            Py_DECREF(list);
        }
        else if (given) {
            code = -1;
        }
    }
    if (code < 0) {
        dls_wanted_clear(wanted);
    }
    return code;
}

void
dls_wanted_clear(dls_wanted *wanted)
{
    dls_free(wanted->dtypes);
    wanted->dtypes = NULL;
}
