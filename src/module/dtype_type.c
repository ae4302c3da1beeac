/* A dtype is a subclass of tuple without members of its own: what it shows is read from
 * its items each time.  Tests: tests/core/test_properties.py. */
#include "module/dtype_type.h"

#include "core/dtype.h"

/* The items as a dtype.  False if they are none: the tuple was built by hand. */
static bool
read_parts(PyObject *self, dl_dtype *dtype)
{
    long parts[3];
    for (int i = 0; i < 3; i++) {
        PyObject *item = PyTuple_GetItem(self, i);
        parts[i] = item != NULL ? PyLong_AsLong(item) : -1;
    }
    PyErr_Clear();
    *dtype = (dl_dtype){(uint8_t)parts[0], (uint8_t)parts[1], (uint16_t)parts[2]};
    return parts[0] == dtype->code && parts[1] == dtype->bits
           && parts[2] == dtype->lanes;
}

static PyObject *
dtype_str(PyObject *self)
{
    char text[48];
    dl_dtype dtype;
    bool whole = read_parts(self, &dtype);
    return PyUnicode_FromString(whole ? dls_dtype_name(dtype, text, sizeof text) : "?");
}

static PyObject *
dtype_repr(PyObject *self)
{
    return PyUnicode_FromFormat("dlshim.dtype('%S')", self);
}

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "DLPack dtype: a tuple (code, bits, lanes) that shows its name.\n\n"
     "str() gives the name (\"float32\"); compares equal to the plain tuple."},
    {Py_tp_repr, dtype_repr},
    {Py_tp_str, dtype_str},
    {0, NULL},
};

PyType_Spec dls_dtype_spec = {
    .name = "dlshim._core.dtype",
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

PyObject *
dls_dtype_new(dls_state *state, dl_dtype dtype)
{
    return PyObject_CallFunction((PyObject *)state->dtype_type, "((iii))",
                                 (int)dtype.code, (int)dtype.bits, (int)dtype.lanes);
}
