/* Finds the cure for an object that cannot be exported.  Called by plan.c, acquire/ and
 * older_protocols/ when they refuse.  Tests: tests/core/test_cures.py. */
#include "exchange/cures.h"

#include <stdio.h>
#include <string.h>

#include "python/errors.h"

typedef enum { CURE_FLAG, CURE_VIEW, CURE_METHOD, CURE_TYPE, CURE_WRAPPER } cure_kind;

static const struct {
    cure_kind kind;
    const char *what;
    const char *text;
} cures[] = {
#define CURE(kind, what, text) {CURE_##kind, what, text},
#include "exchange/libraries.def"
#undef CURE
};

/* An attribute of the object, called if it can be: paddle's is_sparse is a method.  A
 * new reference, or NULL and nothing set. */
static PyObject *
read_attribute(PyObject *obj, const char *name, bool call)
{
    PyObject *value = PyObject_GetAttrString(obj, name);
    if (value != NULL && call && PyCallable_Check(value)) {
        PyObject *result = PyObject_CallFunctionObjArgs(value, NULL);
        Py_DECREF(value);
        value = result;
    }
    PyErr_Clear();
    return value;
}

static bool
is_true(PyObject *obj, const char *name)
{
    PyObject *value = read_attribute(obj, name, true);
    bool truth = value != NULL && PyObject_IsTrue(value) > 0;
    Py_XDECREF(value);
    PyErr_Clear();
    return truth;
}

/* Can the attribute itself be exported? */
static bool
is_view(PyObject *obj, const char *name)
{
    PyObject *value = read_attribute(obj, name, false);
    bool can = value != NULL
               && (dls_compat.PyObject_CheckBuffer(value)
                   || PyObject_HasAttrString((PyObject *)Py_TYPE(value), "__dlpack__"));
    Py_XDECREF(value);
    return can;
}

/* "list" is the whole name, "faiss." a beginning. */
static bool
is_named(PyObject *obj, const char *text)
{
    PyObject *name = dls_type_name(obj);
    const char *have = name != NULL ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    size_t length = strlen(text);
    bool begins = text[length - 1] == '.';
    bool found = have != NULL
                 && (begins ? strncmp(have, text, length) == 0
                            : strcmp(have, text) == 0);
    Py_XDECREF(name);
    PyErr_Clear();
    return found;
}

static bool
has(PyObject *obj, cure_kind kind, const char *what)
{
    if (kind == CURE_TYPE) {
        return is_named(obj, what);
    }
    return PyObject_HasAttrString((PyObject *)Py_TYPE(obj), what)
           && (kind == CURE_METHOD || kind == CURE_WRAPPER
               || (kind == CURE_FLAG ? is_true(obj, what) : is_view(obj, what)));
}

/* The first row that fits.  A class has the methods of its objects, and is none. */
static const char *
find_cure(PyObject *obj, bool wrapper)
{
    for (size_t i = 0; i < sizeof cures / sizeof *cures && !PyType_Check(obj); i++) {
        if ((cures[i].kind == CURE_WRAPPER) == wrapper
            && has(obj, cures[i].kind, cures[i].what)) {
            return cures[i].text;
        }
    }
    return NULL;
}

const char *
dls_cure_find(PyObject *obj)
{
    return find_cure(obj, false);
}

const char *
dls_cure_find_wrapped(PyObject *obj)
{
    return find_cure(obj, true);
}

const char *
dls_cure_array(PyObject *obj)
{
    return PyObject_HasAttrString((PyObject *)Py_TYPE(obj), "astype")
               ? "x"
               : "numpy.asarray(x)";
}

/* --- a __dlpack__ that exports its own object ----------------------------------- */

/* Is this frame a __dlpack__ that has the object among its variables? */
static bool
frame_exports(PyObject *frame, PyObject *obj)
{
    PyObject *code = read_attribute(frame, "f_code", false);
    PyObject *name = code != NULL ? read_attribute(code, "co_name", false) : NULL;
    PyObject *locals = read_attribute(frame, "f_locals", false);
    PyObject *values = locals != NULL ? PyMapping_Values(locals) : NULL;
    bool found = false;
    for (Py_ssize_t i = 0; values != NULL && i < PyList_Size(values); i++) {
        found |= PyList_GetItem(values, i) == obj;
    }
    found = found && name != NULL && PyUnicode_Check(name)
            && PyUnicode_CompareWithASCIIString(name, "__dlpack__") == 0;
    Py_XDECREF(values);
    Py_XDECREF(locals);
    Py_XDECREF(name);
    Py_XDECREF(code);
    PyErr_Clear();
    return found;
}

/* Has the object's own __dlpack__ asked for this exchange?  The frames repeat, so a few
 * of them tell.  One frame is not enough: the __dlpack__ of a wrapper has what it wraps
 * among its variables. */
static bool
exports_itself(PyObject *obj)
{
    enum { FRAMES = 16 };
    PyObject *frame = Py_XNewRef((PyObject *)PyEval_GetFrame());
    int found = 0;
    for (int i = 0; frame != NULL && i < FRAMES && found < 2; i++) {
        found += frame_exports(frame, obj);
        PyObject *back = read_attribute(frame, "f_back", false);
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    return found == 2;
}

int
dls_refuse_export(dls_state *state, PyObject *obj, bool on_host)
{
    char text[128] = "it cannot be exported";
    bool recursion = PyErr_ExceptionMatches(PyExc_RecursionError);
    if (dls_error_is_fatal() && !recursion) {
        return -1;
    }
    PyObject *error = dls_error_take();
    if (recursion && exports_itself(obj)) {
        dls_refuse(
            state, DLS_EBUFFER, obj,
            "its __dlpack__ asks dlshim to export the object itself, which asks "
            "__dlpack__ again, without end; give dlshim the array that the object "
            "holds");
        return dls_refuse_with_cause(error);
    }
    const char *cure = on_host ? dls_cure_find(obj) : NULL;
    if (cure != NULL) {
        snprintf(text, sizeof text, "it cannot be exported, pass %s instead", cure);
    }
    dls_error_restore(error);
    return dls_refuse_from_pending(state, obj, text);
}
