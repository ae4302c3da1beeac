#include "acquire/learned.h"

#include "core/device.h"
#include "python/errors.h"

/* Truth of a value (stolen; NULL: -1). */
static int
truth_of(PyObject *value)
{
    if (value == NULL) {
        return -1;
    }
    int truth = value == Py_False ? 0 : PyObject_IsTrue(value);
    Py_DECREF(value);
    return truth;
}

/* Of an attribute; 0 also where there is none. */
static int
truth_of_attribute(PyObject *obj, PyObject *name)
{
    PyObject *value = NULL;
    int got = dls_get_optional(obj, name, &value);
    return got > 0 ? truth_of(value) : got;
}

/* An exception is pending: because there is no such attribute?  Then it is cleared. */
DLS_COLD static bool
is_absent(PyObject *obj, PyObject *name)
{
    PyObject *method = NULL;
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) {
        return false;
    }
    PyObject *error = dls_error_take();
    bool absent = dls_get_optional(obj, name, &method) == 0;
    Py_XDECREF(method);
    if (absent) {
        Py_XDECREF(error);
        return true;
    }
    PyErr_Clear();
    dls_error_restore(error);
    return false;
}

/* Of what a method returns; the same.  method: found already, or NULL. */
static int
truth_of_method(PyObject *obj, PyObject *name, PyObject *method)
{
    PyObject *args[2] = {NULL, obj};
    const size_t one = 1 | DLS_VECTORCALL_OFFSET;
    PyObject *value = method != NULL
                          ? dls_late.PyObject_Vectorcall(method, &args[1], one, NULL)
                          : dls_late.PyObject_VectorcallMethod(name, &args[1], one,
                                                               NULL);
    return value != NULL ? truth_of(value) : is_absent(obj, name) ? 0 : -1;
}

DLS_APART int
dls_refuse_autograd(dls_state *state, const dls_plan *plan, PyObject *obj)
{
    PyObject *value = NULL;
    if (plan->requires_grad.get != NULL) {
        value = dls_getter_read(&plan->requires_grad, obj);
        if (value == NULL && !PyErr_ExceptionMatches(PyExc_AttributeError)) {
            return -1;
        }
        PyErr_Clear();
    }
    int truth = value != NULL ? truth_of(value)
                              : truth_of_attribute(obj, state->names.requires_grad);
    if (truth > 0) {
        dls_raise(
            state, DLS_EBUFFER, obj,
            "it requires grad, and consumers would bypass autograd: call .detach() "
            "first, or pass detach=True");
    }
    return truth == 0 ? 0 : -1;
}

DLS_APART int
dls_refuse_lazy_bits(dls_state *state, const dls_plan *plan, PyObject *obj,
                     dl_dtype dtype)
{
    bool complex = dtype.code == dl_kDLComplex;
    bool exact = dtype.code == dl_kDLInt || dtype.code == dl_kDLUInt
                 || dtype.code == dl_kDLBool;
    int truth = complex ? truth_of_method(obj, state->names.is_conj, NULL) : 0;
    if (truth > 0) {
        dls_raise(state, DLS_EBUFFER, obj,
                  "its conjugate bit is set, the memory holds other values: call "
                  ".resolve_conj() first");
    }
    if (truth == 0 && !exact) {
        truth = truth_of_method(obj, state->names.is_neg, plan->is_neg);
        if (truth > 0) {
            dls_raise(state, DLS_EBUFFER, obj,
                      "its negative bit is set, the memory holds other values: call "
                      ".resolve_neg() first");
        }
    }
    return truth == 0 ? 0 : -1;
}

/* --- memory that would have to be moved
 * --------------------------------------------------- */

static void
raise_not_moved(dls_state *state, PyObject *obj, dl_device have, dl_device want)
{
    if (dls_device_is_host(have.device_type)) {
        dls_raise(
            state, DLS_EBUFFER, obj,
            "it lies in host memory and device (%d, %d) is wanted; dlshim allocates no "
            "device memory: move it with the consumer's own function first (torch's "
            ".to(), cupy.asarray(), jax.device_put())",
            (int)want.device_type, (int)want.device_id);
        return;
    }
    dls_raise(
        state, DLS_EBUFFER, obj,
        "it lies on device (%d, %d) and (%d, %d) is wanted, and its library did not "
        "move it; move it there first (.cpu(), .to())",
        (int)have.device_type, (int)have.device_id, (int)want.device_type,
        (int)want.device_id);
}

DLS_COLD int
dls_raise_move(dls_state *state, PyObject *obj, const dls_want *want, dl_device have,
               PyObject *kept)
{
    if (want->copy == 0) {
        dls_raise(state, DLS_ECOPY, obj,
                  "it lies on device (%d, %d) and (%d, %d) is wanted, which needs a "
                  "copy, but "
                  "copy=False was asked for; allow it with copy=None",
                  (int)have.device_type, (int)have.device_id,
                  (int)want->device.device_type, (int)want->device.device_id);
    }
    else {
        raise_not_moved(state, obj, have, want->device);
    }
    if (kept != NULL) {
        dls_raise_with_cause(kept);
    }
    return -1;
}

DLS_COLD int
dls_refuse_move(dls_state *state, PyObject *obj, const dls_want *want, dl_device have)
{
    dls_route route = dls_route_of(want, have);
    bool far = route == DLS_ROUTE_MOVE
               || (route == DLS_ROUTE_TO_HOST && want->copy == 0);
    return far ? dls_raise_move(state, obj, want, have, NULL) : 0;
}
