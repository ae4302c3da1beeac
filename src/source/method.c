#include "source/method.h"

bool
dls_is_method(PyObject *value)
{
    static const char *const kinds[] = {"function", "cython_function_or_method",
                                        "method_descriptor"};
    bool found = false;
    PyObject *kind = PyObject_GetAttrString((PyObject *)Py_TYPE(value), "__name__");
    for (size_t i = 0; kind != NULL && !found && i < sizeof kinds / sizeof *kinds; i++) {
        found = PyUnicode_Check(kind) && PyUnicode_CompareWithASCIIString(kind, kinds[i]) == 0;
    }
    Py_XDECREF(kind);
    PyErr_Clear();
    return found;
}

PyObject *
dls_lasting_method(PyTypeObject *type, PyObject *value)
{
    bool lasts = dls_python_version() >= 0x030b
                 && !(PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE) && dls_is_method(value);
    if (!lasts) {
        return NULL;
    }
    Py_INCREF(value);
    return value;
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
