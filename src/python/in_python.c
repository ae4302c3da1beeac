/* Finds and calls the functions of shim/.  dls_dtype_object is the only one that users
 * call often.  Tests: tests/core/test_numpy_habits.py,
 * tests/core/test_by_value.py. */
#include "python/in_python.h"

#include <stdarg.h>

#include "python/compat.h"

/* More than any of the functions takes. */
#define ARGUMENTS 8

static const char *const modules[] = {
#define NAME(_, name) "dlshim." name,
    DLS_FOR_EACH_PYTHON_MODULE(NAME)
#undef NAME
};

/* As dls_state_borrow; NULL with an exception. */
static PyObject *
borrow_module(dls_state *state, dls_python_module module)
{
    PyObject *object = dls_state_borrow(&state->in_python[module]);
    if (object == NULL) {
        PyObject *made = PyImport_ImportModule(modules[module]);
        object = dls_state_keep(&state->in_python[module], made);
    }
    return object;
}

void
dls_in_python_give(dls_state *state, dls_python_module module, PyObject *object)
{
    PyObject *kept = dls_state_borrow(&state->in_python[module]);
    if (kept == NULL) {
        kept = dls_state_keep(&state->in_python[module], Py_NewRef(object));
    }
    dls_let_go(kept);
}

/* A new reference to what the module has under that name. */
static PyObject *
find(dls_state *state, dls_python_module module, const char *name)
{
    PyObject *object = borrow_module(state, module);
    PyObject *found = object != NULL ? PyObject_GetAttrString(object, name) : NULL;
    dls_let_go(object);
    return found;
}

PyObject *
dls_in_python(dls_state *state, dls_python_module module, const char *name,
              PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *all[ARGUMENTS] = {self};
    Py_ssize_t count = n + (kwnames != NULL ? PyTuple_Size(kwnames) : 0);
    if (count >= ARGUMENTS) {
        return PyErr_Format(PyExc_TypeError, "%s() got too many arguments", name);
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        all[1 + i] = args[i];
    }
    PyObject *function = find(state, module, name);
    PyObject *result = NULL;
    if (function != NULL) {
        result = dls_compat.PyObject_Vectorcall(function, all, (size_t)n + 1, kwnames);
        Py_DECREF(function);
    }
    return result;
}

PyObject *
dls_in_python_with(dls_state *state, dls_python_module module, const char *name,
                   const char *format, ...)
{
    va_list values;
    va_start(values, format);
    PyObject *args = Py_VaBuildValue(format, values);
    va_end(values);
    PyObject *function = args != NULL ? find(state, module, name) : NULL;
    PyObject *result = function != NULL ? PyObject_Call(function, args, NULL) : NULL;
    Py_XDECREF(function);
    Py_XDECREF(args);
    return result;
}

PyObject *
dls_dtype_object(dls_state *state, dl_dtype dtype)
{
    long long number = dtype.code | (long long)dtype.bits << 8
                       | (long long)dtype.lanes << 16;
    PyObject *dtypes = dls_state_borrow(&state->dtypes);
    if (dtypes == NULL) {
        dtypes = dls_state_keep(&state->dtypes, find(state, DLS_IN_DTYPES, "dtypes"));
    }
    PyObject *key = dtypes != NULL ? PyLong_FromLongLong(number) : NULL;
    PyObject *found = key != NULL ? PyObject_GetItem(dtypes, key) : NULL;
    Py_XDECREF(key);
    dls_let_go(dtypes);
    return found;
}
