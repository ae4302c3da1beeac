#include "acquire/call.h"

/* Is it of the type of that name?  For types that have no name in C. */
static bool
is_a(PyObject *value, const char *name)
{
    PyObject *kind = PyObject_GetAttrString((PyObject *)Py_TYPE(value), "__name__");
    bool found = kind != NULL && PyUnicode_Check(kind)
                 && PyUnicode_CompareWithASCIIString(kind, name) == 0;
    Py_XDECREF(kind);
    PyErr_Clear();
    return found;
}

bool
dls_is_method(PyObject *value)
{
    return is_a(value, "function") || is_a(value, "cython_function_or_method")
           || is_a(value, "method_descriptor");
}

static bool
is_static(PyTypeObject *type)
{
    return !(PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE);
}

PyObject *
dls_lasting_method(PyTypeObject *type, PyObject *value)
{
    if (dls_python_version() < 0x030b || !is_static(type) || !dls_is_method(value)) {
        return NULL;
    }
    Py_INCREF(value);
    return value;
}

void
dls_lasting_getter(PyTypeObject *type, PyObject *value, dls_getter *getter)
{
    if (!is_static(type) || !is_a(value, "getset_descriptor")) {
        return;
    }
    void *slot = PyType_GetSlot(Py_TYPE(value), Py_tp_descr_get);
    if (slot == NULL) {
        PyErr_Clear();
        return;
    }
    Py_INCREF(value);
    *getter = (dls_getter){value, (descrgetfunc)(uintptr_t)slot};
}

bool
dls_has_instance_dict(PyTypeObject *type)
{
    PyObject *offset = PyObject_GetAttrString((PyObject *)type, "__dictoffset__");
    bool has = offset == NULL || PyObject_IsTrue(offset) != 0;
    Py_XDECREF(offset);
    PyErr_Clear();
    return has;
}
