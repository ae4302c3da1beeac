/* The two functions that shim/arrays.py and shim/dtypes.py build on: copies, pickles
 * and arrays of a Tensor are made in Python.  Tests: tests/core/test_by_value.py,
 * tests/core/test_numpy_habits.py. */
#include "module/by_value.h"

#include "core/dtype.h"
#include "exchange/tensor_object.h"
#include "export/export.h"
#include "python/state.h"
#include "request/options.h"

/* dtype(value): an int is (lanes << 16 | bits << 8 | code), the key of dtypes. */
static PyObject *
dtype_facts(PyObject *module, PyObject *value)
{
    char name[48], typestr[16];
    dl_dtype dtype;
    if (PyLong_Check(value)) {
        unsigned long long key = PyLong_AsUnsignedLongLong(value);
        dtype = (dl_dtype){(uint8_t)key, (uint8_t)(key >> 8), (uint16_t)(key >> 16)};
    }
    else if (dls_parse_dtype(dls_state_of(module), "dtype", value, &dtype) < 0) {
        return NULL;
    }
    bool has = dls_dtype_typestr(dtype, typestr);
    return PyErr_Occurred() == NULL
               ? Py_BuildValue(
                     "(iiiss)", (int)dtype.code, (int)dtype.bits, (int)dtype.lanes,
                     dls_dtype_name(dtype, name, sizeof name), has ? typestr : "|V1")
               : NULL;
}

/* Fill n dims from a tuple.  0, or -1 with an exception. */
static int
read_dims(PyObject *tuple, Py_ssize_t n, int64_t *dims)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PyTuple_GetItem(tuple, i);
        dims[i] = item != NULL ? PyLong_AsLongLong(item) : -1;
    }
    return PyErr_Occurred() == NULL ? 0 : -1;
}

/* A new Tensor that shares the memory of another one, and says of it what the caller
 * says: Python has checked that it is large enough. */
static PyObject *
view(PyObject *module, PyObject *args)
{
    dls_state *state = dls_state_of(module);
    PyObject *tensor, *shape, *strides;
    dl_dtype dtype;
    unsigned flags;
    if (!PyArg_ParseTuple(args, "O!(bbH)O!O!I:_view", state->tensor_type, &tensor,
                          &dtype.code, &dtype.bits, &dtype.lanes, &PyTuple_Type, &shape,
                          &PyTuple_Type, &strides, &flags)) {
        return NULL;
    }
    dls_tensor *old = dls_tensor_data(tensor);
    Py_ssize_t n = PyTuple_Size(shape);
    dl_tensor as = old->tensor;
    as.dtype = dtype;
    as.ndim = (int32_t)n;
    dls_tensor *made = dls_tensor_new_plain(state, &as);
    if (made == NULL) {
        return NULL;
    }
    made->major = old->major;
    made->minor = old->minor;
    made->generation = old->generation;
    made->flags = flags;
    made->readonly_stated = true;
    dls_shared *shared = NULL;
    if (read_dims(shape, n, made->dims) == 0
        && read_dims(strides, n, made->dims + n) == 0) {
        shared = dls_tensor_share(old);
    }
    if (shared == NULL) {
        Py_DECREF(DLS_OBJECT(made));
        return NULL;
    }
    dls_hold hold = {.base = shared, .kind = DLS_HOLD_SHARED};
    dls_tensor_set_hold(DLS_OBJECT(made), &hold);
    PyObject_GC_Track(DLS_OBJECT(made));
    if (dls_track_wants(made) && dls_track_tensor(state, DLS_OBJECT(made)) < 0) {
        Py_DECREF(DLS_OBJECT(made));
        return NULL;
    }
    return DLS_OBJECT(made);
}

PyMethodDef dls_by_value_methods[] = {
    {"_dtype", dtype_facts, METH_O, NULL},
    {"_view", view, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
