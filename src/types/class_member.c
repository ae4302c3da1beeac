/* Looks at members of classes, in the dicts of the classes.  Called by types/offers and
 * types/authored; foreign code runs.  Tests: tests/core/test_authors.py,
 * tests/core/test_ways_in.py. */
#include "types/class_member.h"

int
dls_class_member(dls_state *state, PyObject *cls, PyObject *name, PyObject **value)
{
    PyObject *dict = PyObject_GetAttr(cls, state->names.dict);
    /* Asking first is cheaper than a KeyError. */
    int has = dict != NULL ? PySequence_Contains(dict, name) : -1;
    if (has > 0) {
        *value = PyObject_GetItem(dict, name);
        has = *value != NULL ? 1 : -1;
    }
    Py_XDECREF(dict);
    return has;
}

bool
dls_is_of(PyObject *value, const char *name)
{
    PyObject *kind = PyObject_GetAttrString((PyObject *)Py_TYPE(value), "__name__");
    bool found = kind != NULL && PyUnicode_Check(kind)
                 && PyUnicode_CompareWithASCIIString(kind, name) == 0;
    Py_XDECREF(kind);
    PyErr_Clear();
    return found;
}

bool
dls_is_plain_method(PyObject *value)
{
    return dls_is_of(value, "function") || dls_is_of(value, "cython_function_or_method")
           || dls_is_of(value, "method_descriptor");
}
