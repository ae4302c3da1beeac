/* Finds the cure for an object that cannot be exported, by shim/cures.py.  Called by
 * plan.c, acquire/ and older_protocols/ when they refuse.  Tests:
 * tests/core/test_cures.py. */
#include "exchange/cures.h"

#include <stdio.h>

#include "python/errors.h"
#include "python/state.h"

/* The refusal has its own error.  An interrupt that came meanwhile is raised after it.
 */
static void
forget_error(void)
{
    if (PyErr_Occurred() != NULL && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
        PyErr_SetInterrupt();
    }
    PyErr_Clear();
}

/* The texts are constants of the module, which the state keeps. */
static const char *
find_cure(dls_state *state, PyObject *obj, bool wrapper)
{
    PyObject *text = dls_in_python_with(state, DLS_IN_CURES, "cure", "(ONi)", obj,
                                        dls_type_name(obj), wrapper);
    const char *cure = text != NULL && text != Py_None
                           ? PyUnicode_AsUTF8AndSize(text, NULL)
                           : NULL;
    Py_XDECREF(text);
    forget_error();
    return cure;
}

const char *
dls_cure_find(dls_state *state, PyObject *obj)
{
    return find_cure(state, obj, false);
}

const char *
dls_cure_find_wrapped(dls_state *state, PyObject *obj)
{
    return find_cure(state, obj, true);
}

const char *
dls_cure_array(PyObject *obj)
{
    return PyObject_HasAttrString((PyObject *)Py_TYPE(obj), "astype")
               ? "x"
               : "numpy.asarray(x)";
}

/* Has the object's own __dlpack__ asked for this exchange? */
static bool
exports_itself(dls_state *state, PyObject *obj)
{
    PyObject *answer = dls_in_python_with(state, DLS_IN_CURES, "exports_itself", "(O)",
                                          obj);
    Py_XDECREF(answer);
    forget_error();
    return answer == Py_True;
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
    if (recursion && exports_itself(state, obj)) {
        dls_refuse(
            state, DLS_EBUFFER, obj,
            "its __dlpack__ asks dlshim to export the object itself, which asks "
            "__dlpack__ again, without end; give dlshim the array that the object "
            "holds");
        return dls_refuse_with_cause(error);
    }
    const char *cure = on_host ? dls_cure_find(state, obj) : NULL;
    if (cure != NULL) {
        snprintf(text, sizeof text, "it cannot be exported, pass %s instead", cure);
    }
    dls_error_restore(error);
    return dls_refuse_from_pending(state, obj, "%s", text);
}
