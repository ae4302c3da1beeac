/* Is the refusal of a call about its keywords, or about the one object?  The signature
 * of the object's __dlpack__ tells.  Called by negotiate.c and attempt_device.c where a
 * call was refused.  The GIL is held; foreign code runs.
 * Tests: tests/core/test_negotiation.py,
 * tests/core/test_warnings_as_errors.py, tests/device/test_forwarding.py. */
#include "acquire/attempt.h"

#include "python/errors.h"
#include "python/state.h"

/* CO_VARKEYWORDS of CPython: the function has `**kwargs`.  It is documented (module
 * inspect), but no part of the limited API. */
#define VARKEYWORDS 0x08

/* An attribute of a code object that is an int; 0 where there is none. */
static long
number_in(PyObject *code, const char *name)
{
    PyObject *value = PyObject_GetAttrString(code, name);
    long number = value != NULL && PyLong_Check(value) ? PyLong_AsLong(value) : 0;
    Py_XDECREF(value);
    return number;
}

/* Is the keyword among the first `count` names of a code object, its parameters? */
static bool
is_parameter(PyObject *code, Py_ssize_t count, PyObject *keyword)
{
    PyObject *names = PyObject_GetAttrString(code, "co_varnames");
    Py_ssize_t have = names != NULL && PyTuple_Check(names) ? PyTuple_Size(names) : 0;
    bool found = false;
    for (Py_ssize_t i = 0; !found && i < count && i < have; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        found = PyUnicode_Check(name) && PyUnicode_Compare(name, keyword) == 0;
    }
    Py_XDECREF(names);
    return found;
}

/* How a function takes a keyword. */
typedef enum {
    TAKES_NOT,  /* the signature does not take it */
    TAKES_NAME, /* a parameter has its name */
    TAKES_ANY,  /* `**kwargs` takes it, and may pass it on */
    NOT_TOLD    /* the function has no code object, as most in C */
} how_taken;

/* Functions of Python and of Cython have a code object. */
static how_taken
how_it_takes(PyObject *function, PyObject *keyword)
{
    PyObject *code = PyObject_GetAttrString(function, "__code__");
    if (code == NULL) {
        return NOT_TOLD;
    }
    Py_ssize_t count = (Py_ssize_t)number_in(code, "co_argcount")
                       + (Py_ssize_t)number_in(code, "co_kwonlyargcount");
    how_taken how = is_parameter(code, count, keyword)          ? TAKES_NAME
                    : number_in(code, "co_flags") & VARKEYWORDS ? TAKES_ANY
                                                                : TAKES_NOT;
    Py_DECREF(code);
    return how;
}

/* Has another object of the type taken max_version?  What is on an instance says
 * nothing of the next one (N1). */
static bool
took_version(const dls_plan *plan)
{
    const dls_learned learned = dls_plan_learned(plan);
    bool taken = learned.taken & DLS_ASK_VERSION;
    for (int i = 0; i < 2; i++) {
        taken |= (learned.forms[i] & DLS_FORM_KNOWN)
                 && (learned.forms[i] & DLS_ASK_VERSION);
    }
    return taken && !plan->on_instance;
}

/* How the object's own __dlpack__ takes max_version.  No exception is left but a fatal
 * one. */
static how_taken
how_version_is_taken(const dls_exchange *x)
{
    const dls_plan *plan = x->plan;
    PyObject *method = plan->name != NULL ? PyObject_GetAttr(x->source, plan->name)
                                          : Py_NewRef(plan->method);
    how_taken how = method != NULL ? how_it_takes(method, x->state->names.max_version)
                                   : NOT_TOLD;
    Py_XDECREF(method);
    (void)dls_error_forget();
    return how;
}

dls_refusal
dls_refusal_of(const dls_exchange *x)
{
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) {
        return DLS_REFUSED_KEYWORDS;
    }
    bool is_own = PyErr_Occurred() != PyExc_TypeError;
    bool took = took_version(x->plan);
    PyObject *error = dls_error_take();
    how_taken how = how_version_is_taken(x);
    if (PyErr_Occurred() != NULL) {
        Py_XDECREF(error);
        return DLS_REFUSED_KEYWORDS;
    }
    dls_error_restore(error);
    if (is_own && (how == TAKES_NAME || (how == NOT_TOLD && took))) {
        return DLS_REFUSED_DATA;
    }
    return took || how == TAKES_NAME || how == TAKES_ANY ? DLS_REFUSED_OBJECT
                                                         : DLS_REFUSED_KEYWORDS;
}
