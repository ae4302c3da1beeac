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

/* Does the function take the keyword, by name or by `**kwargs`?  Functions of Python
 * and of Cython have a code object.  False where nothing tells. */
static bool
names_keyword(PyObject *function, PyObject *keyword)
{
    PyObject *code = PyObject_GetAttrString(function, "__code__");
    if (code == NULL) {
        return false;
    }
    Py_ssize_t count = (Py_ssize_t)number_in(code, "co_argcount")
                       + (Py_ssize_t)number_in(code, "co_kwonlyargcount");
    bool found = (number_in(code, "co_flags") & VARKEYWORDS)
                 || is_parameter(code, count, keyword);
    Py_DECREF(code);
    return found;
}

/* Has another object of the type taken max_version?  What is on an instance says
 * nothing of the next one (N1). */
static bool
took_version(const dls_plan *plan)
{
    const dls_learned learned = dls_plan_learned(plan);
    bool taken = learned.taken & DLS_ASK_VERSION;
    for (int i = 0; i < 2; i++) {
        taken |= learned.forms[i].known && (learned.forms[i].mask & DLS_ASK_VERSION);
    }
    return taken && !plan->on_instance;
}

bool
dls_refused_by_object(const dls_exchange *x)
{
    const dls_plan *plan = x->plan;
    if (!PyErr_ExceptionMatches(PyExc_TypeError) || took_version(plan)) {
        return PyErr_ExceptionMatches(PyExc_TypeError);
    }
    PyObject *refusal = dls_error_take();
    PyObject *method = plan->name != NULL ? PyObject_GetAttr(x->source, plan->name)
                                          : Py_NewRef(plan->method);
    bool takes = method != NULL && names_keyword(method, x->state->names.max_version);
    Py_XDECREF(method);
    if (dls_error_forget() < 0) {
        Py_XDECREF(refusal);
        return false;
    }
    dls_error_restore(refusal);
    return takes;
}

bool
dls_error_is_of_data(bool by_object)
{
    return by_object && PyErr_Occurred() != PyExc_TypeError;
}
