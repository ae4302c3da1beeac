/* Looks at members of classes, in the dicts of the classes.  Called by types/offers and
 * types/authored; foreign code runs.  Tests: tests/core/test_authors.py,
 * tests/core/test_ways_in.py. */
#include "types/class_member.h"

PyObject *
dls_class_dicts(const dls_state *state, PyObject *mro)
{
    if (!PyTuple_Check(mro)) {
        return PyErr_Format(PyExc_TypeError, "type.__mro__ is not a tuple");
    }
    Py_ssize_t n = PyTuple_Size(mro);
    PyObject *dicts = PyTuple_New(n);
    for (Py_ssize_t i = 0; dicts != NULL && i < n; i++) {
        PyObject *dict = PyObject_GetAttr(PyTuple_GetItem(mro, i), state->names.dict);
        if (dict == NULL) {
            Py_CLEAR(dicts);
            break;
        }
        PyTuple_SetItem(dicts, i, dict);
    }
    return dicts;
}

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

/* Is its type called by one of these names, which NULL ends? */
static bool
is_of_any(PyObject *value, const char *const *names)
{
    PyObject *kind = PyObject_GetAttrString((PyObject *)Py_TYPE(value), "__name__");
    bool found = false;
    for (; kind != NULL && PyUnicode_Check(kind) && !found && *names != NULL; names++) {
        found = PyUnicode_CompareWithASCIIString(kind, *names) == 0;
    }
    Py_XDECREF(kind);
    PyErr_Clear();
    return found;
}

bool
dls_is_of(PyObject *value, const char *name)
{
    return is_of_any(value, (const char *const[]){name, NULL});
}

bool
dls_is_plain_method(PyObject *value)
{
    return is_of_any(value, (const char *const[]){"function", "method_descriptor",
                                                  "cython_function_or_method", NULL});
}
