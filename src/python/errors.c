/* Makes, keeps and reports exceptions.  Called by everything that uses Python; the GIL
 * is held.  Tests: tests/core/test_bad_input.py, tests/core/test_negotiation.py. */
#include "python/errors.h"

#include <assert.h>
#include <stdarg.h>

static PyObject *
class_of(dls_state *state, int code)
{
    PyObject *const classes[] = {[-DLS_EBUFFER] = PyExc_BufferError,
                                 [-DLS_EVALUE] = PyExc_ValueError,
                                 [-DLS_ETYPE] = PyExc_TypeError,
                                 [-DLS_ENOMEM] = PyExc_MemoryError,
                                 [-DLS_ECOPY] = state->copy_required_error,
                                 [-DLS_ERUNTIME] = PyExc_RuntimeError,
                                 [-DLS_EOPTION] = PyExc_BufferError,
                                 [-DLS_EREADY] = PyExc_BufferError};
    assert(code <= DLS_EBUFFER && code >= DLS_EREADY);
    return classes[code < DLS_OK ? -code : -DLS_EBUFFER]; /* 0: no code was set */
}

PyObject *
dls_type_name(PyObject *obj)
{
    PyObject *type = (PyObject *)Py_TYPE(obj);
    PyObject *module = PyObject_GetAttrString(type, "__module__");
    PyErr_Clear(); /* a metaclass may answer the next question (T9) */
    PyObject *name = PyObject_GetAttrString(type, "__qualname__");
    PyObject *result;
    if (name == NULL || !PyUnicode_Check(name)) {
        PyErr_Clear();
        result = PyUnicode_FromString("?");
    }
    else if (module == NULL || !PyUnicode_Check(module)
             || PyUnicode_CompareWithASCIIString(module, "builtins") == 0) {
        result = Py_NewRef(name);
    }
    else {
        result = PyUnicode_FromFormat("%U.%U", module, name);
    }
    Py_XDECREF(module);
    Py_XDECREF(name);
    return result;
}

/* "'pkg.Type' object: <text>", the text alone for obj NULL; NULL with MemoryError.
 * *name: a new reference to the type's name, or NULL. */
static PyObject *
message_of(PyObject *obj, PyObject **name, const char *format, va_list args)
{
    PyObject *text = PyUnicode_FromFormatV(format, args);
    *name = NULL;
    if (text == NULL || obj == NULL) {
        return text;
    }
    *name = dls_type_name(obj);
    PyObject *message = *name != NULL
                            ? PyUnicode_FromFormat("'%U' object: %U", *name, text)
                            : NULL;
    Py_DECREF(text);
    return message;
}

/* Give the pending exception an attribute, if it is a BufferError.  Without memory for
 * that it stays as it is. */
static void
set_attribute(const char *name, PyObject *value)
{
    PyObject *error = dls_error_take();
    if (PyErr_GivenExceptionMatches(error, PyExc_BufferError)
        && PyObject_SetAttrString(error, name, value) < 0) {
        PyErr_Clear();
    }
    dls_error_restore(error);
}

int
dls_refuse(dls_state *state, int code, PyObject *obj, const char *format, ...)
{
    PyObject *name;
    va_list args;
    va_start(args, format);
    PyObject *message = message_of(obj, &name, format, args);
    va_end(args);
    if (message != NULL) {
        PyErr_Format(class_of(state, code), "%U", message);
        Py_DECREF(message);
        if (name != NULL) {
            set_attribute("_about", name);
        }
        if (code == DLS_EOPTION || code == DLS_EREADY) {
            set_attribute("_option_helps", Py_True);
        }
    }
    Py_XDECREF(name);
    return -1;
}

int
dls_refuse_copy(dls_state *state, PyObject *obj, const char *reason, const char *rest,
                const char *format, ...)
{
    va_list args;
    va_start(args, format);
    PyObject *why = PyUnicode_FromFormatV(format, args);
    va_end(args);
    PyObject *word = why != NULL ? PyUnicode_FromString(reason) : NULL;
    if (word != NULL) {
        dls_refuse(state, DLS_ECOPY, obj, "%U%s", why, rest);
        set_attribute("reason", word);
        set_attribute("_why", why);
    }
    Py_XDECREF(why);
    Py_XDECREF(word);
    return -1;
}

int
dls_warn(PyObject *category, PyObject *obj, const char *format, ...)
{
    PyObject *name;
    va_list args;
    va_start(args, format);
    PyObject *message = message_of(obj, &name, format, args);
    va_end(args);
    int code = message != NULL ? PyErr_WarnFormat(category, 2, "%U", message) : -1;
    Py_XDECREF(name);
    Py_XDECREF(message);
    return code;
}

int
dls_refuse_error(dls_state *state, PyObject *obj, const dls_error *err)
{
    if (err->code == DLS_ENOMEM) {
        PyErr_NoMemory();
        return -1;
    }
    return dls_refuse(state, err->code, obj, "%s%s", err->text,
                      err->code == DLS_EREADY
                          ? "; if the data are on the device, and ready, pass "
                            "stream=-1, and for a copy unknown_stream=\"same\" too"
                          : "");
}

void
dls_drop_foreign(PyObject *obj)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    Py_DECREF(obj);
    dls_error_report();
    PyErr_Restore(type, value, trace);
}

void
dls_error_report_pending(void)
{
    PyObject *exception = dls_error_take();
    /* Without it the report is a bare traceback, which looks like an error that ended
     * the program. */
    PyObject *where = PyUnicode_FromString("code that dlshim called");
    if (where == NULL) {
        PyErr_Clear();
    }
    dls_error_restore(exception);
    PyErr_WriteUnraisable(where);
    Py_XDECREF(where);
}

PyObject *
dls_error_take(void)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (type == NULL) {
        return NULL;
    }
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace != NULL && value != NULL) {
        PyException_SetTraceback(value, trace);
    }
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return value;
}

void
dls_error_restore(PyObject *exception)
{
    if (exception == NULL) {
        PyErr_NoMemory();
        return;
    }
    PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(exception)), exception,
                  PyException_GetTraceback(exception));
}

bool
dls_error_is_fatal(void)
{
    return PyErr_Occurred() != NULL
           && (!PyErr_ExceptionMatches(PyExc_Exception)
               || PyErr_ExceptionMatches(PyExc_MemoryError)
               || PyErr_ExceptionMatches(PyExc_RecursionError));
}

int
dls_error_forget(void)
{
    if (dls_error_is_fatal()) {
        return -1;
    }
    PyErr_Clear();
    return 0;
}

int
dls_refuse_with_cause(PyObject *cause)
{
    PyObject *error = dls_error_take();
    if (error == NULL) {
        dls_error_restore(cause);
        return -1;
    }
    if (error == cause) {
        Py_DECREF(cause); /* a producer that raises the same object twice */
    }
    else {
        PyException_SetCause(error, cause); /* steals cause */
    }
    dls_error_restore(error);
    return -1;
}

/* Is this a BufferError of ours, whose message names an object of the same type? */
static bool
names_object(PyObject *error, PyObject *obj)
{
    if (!PyErr_GivenExceptionMatches(error, PyExc_BufferError)) {
        return false;
    }
    PyObject *about = PyObject_GetAttrString(error, "_about");
    PyErr_Clear();
    PyObject *name = about != NULL ? dls_type_name(obj) : NULL;
    bool same = name != NULL && PyUnicode_Check(about)
                && PyUnicode_Compare(about, name) == 0;
    Py_XDECREF(about);
    Py_XDECREF(name);
    PyErr_Clear();
    return same;
}

int
dls_refuse_from_pending(dls_state *state, PyObject *obj, const char *format, ...)
{
    PyObject *cause = dls_error_is_fatal() ? NULL : dls_error_take();
    if (cause == NULL) {
        return -1;
    }
    PyObject *message = PyUnicode_FromFormat("%S", cause);
    if (message != NULL && names_object(cause, obj)) {
        Py_DECREF(message);
        dls_error_restore(cause);
        return -1;
    }
    if (message == NULL) {
        PyErr_Clear();
        message = PyUnicode_FromString("(no message)");
    }
    va_list args;
    va_start(args, format);
    PyObject *text = message != NULL ? PyUnicode_FromFormatV(format, args) : NULL;
    va_end(args);
    PyObject *kind = text != NULL ? dls_type_name(cause) : NULL;
    if (kind != NULL) {
        dls_refuse(state, DLS_EBUFFER, obj, "%U: %U: %U", text, kind, message);
        Py_DECREF(kind);
    }
    Py_XDECREF(text);
    Py_XDECREF(message);
    return dls_refuse_with_cause(cause);
}

PyObject *
dls_refuse_pickle(PyObject *self, PyObject *DLS_UNUSED(ignored))
{
    PyObject *name = dls_type_name(self);
    if (name != NULL) {
        PyErr_Format(
            PyExc_TypeError,
            "cannot pickle '%U' object: it asks its source whenever it is exported; "
            "pickle dlshim.from_dlpack(x)",
            name);
        Py_DECREF(name);
    }
    return NULL;
}
