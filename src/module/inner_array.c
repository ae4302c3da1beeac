/* Says whether an object goes by its inner array, and why that failed.  Called by
 * module/functions and module/producer_class.  Tests: tests/core/test_authors.py. */
#include "module/inner_array.h"

#include "python/errors.h"

bool
dls_object_has_our_method(const dls_state *state, PyObject *obj)
{
    PyObject *error = dls_error_take();
    PyObject *method = PyObject_GetAttr(obj, state->names.dlpack);
    PyErr_Clear();
    bool ours = method != NULL && PyCFunction_Check(method)
                && PyCFunction_GetFunction(method) == state->our_method;
    Py_XDECREF(method);
    if (error != NULL) {
        dls_error_restore(error);
    }
    return ours;
}

void
dls_inner_refuse(dls_state *state, PyObject *obj, const dls_plan *plan, PyObject *inner)
{
    if (inner == Py_None) {
        PyErr_Clear();
        dls_refuse(state, DLS_EBUFFER, obj,
                   "its inner array '%U' is None; set it before the export",
                   plan->inner);
    }
    else if (inner == NULL || !Py_IS_TYPE(inner, state->producer_type)) {
        dls_refuse_from_pending(state, obj, "its inner array '%U' cannot be exported",
                                plan->inner);
    }
}
