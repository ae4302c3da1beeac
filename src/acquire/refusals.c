/* Asks a tensor for properties that its library does not check, and refuses it.  Called
 * by attempts, by the fast path and by the view of our C table.
 * Tests: tests/core/test_ctable.py, tests/core/test_options.py. */
#include "acquire/attempt.h"

#include "core/dtype.h"
#include "python/errors.h"
#include "types/library.h"

/* The truth of a value, which is stolen: 1, 0, or -1. */
static int
truth_of(PyObject *value)
{
    int truth = value == Py_False ? 0 : PyObject_IsTrue(value);
    Py_DECREF(value);
    return truth;
}

/* Is an exception pending because there is no such attribute?  Then it is cleared. */
static bool
is_absent(PyObject *obj, PyObject *name)
{
    PyObject *method = NULL;
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) {
        return false;
    }
    PyObject *error = dls_error_take();
    bool absent = dls_get_optional(obj, name, &method) == 0;
    Py_XDECREF(method);
    PyErr_Clear();
    if (absent) {
        Py_XDECREF(error);
    }
    else {
        dls_error_restore(error);
    }
    return absent;
}

/* The truth of a method's result, 0 if there is no such method.  method: found already,
 * or NULL. */
static int
truth_of_method(PyObject *obj, PyObject *name, PyObject *method)
{
    PyObject *args[2] = {NULL, obj};
    const size_t one = 1 | DLS_VECTORCALL_OFFSET;
    PyObject *value = method != NULL
                          ? dls_compat.PyObject_Vectorcall(method, &args[1], one, NULL)
                          : dls_compat.PyObject_VectorcallMethod(name, &args[1], one,
                                                                 NULL);
    if (value != NULL) {
        return truth_of(value);
    }
    return is_absent(obj, name) ? 0 : -1;
}

/* Does it require grad?  1, 0, or -1. */
static int
requires_grad(dls_state *state, const dls_plan *plan, PyObject *obj)
{
    bool stops = dls_plan_has(plan, DLS_LIB_STOP_GRADIENT);
    PyObject *value = NULL;
    if (plan->requires_grad.get != NULL) {
        value = dls_getter_read(&plan->requires_grad, obj);
        if (value == NULL && !PyErr_ExceptionMatches(PyExc_AttributeError)) {
            return -1;
        }
        PyErr_Clear();
    }
    PyObject *name = stops ? state->names.stop_gradient : state->names.requires_grad;
    int got = value != NULL ? 1 : dls_get_optional(obj, name, &value);
    int truth = got > 0 ? truth_of(value) : got;
    return truth >= 0 && got > 0 && stops ? !truth : truth;
}

/* truth: of requires_grad. */
static int
refuse_grad(dls_state *state, const dls_plan *plan, PyObject *obj, int truth)
{
    if (truth > 0) {
        dls_refuse(state, DLS_EOPTION, obj,
                   dls_plan_has(plan, DLS_LIB_WRAPS_READ_ONLY)
                       ? "it requires grad, and consumers would bypass autograd\n"
                         "  wrap tensor.detach() instead"
                       : "it requires grad, and consumers would bypass autograd\n"
                         "  call x.detach() first, or pass detach=True");
    }
    return truth == 0 ? 0 : -1;
}

/* Of a subclass past its library's hook, which costs microseconds. */
int
dls_requires_grad(dls_state *state, const dls_plan *plan, PyObject *obj)
{
    if (plan->plain_calls == NULL) {
        return requires_grad(state, plan, obj);
    }
    PyObject *guard = dls_library_enter(state, plan->plain_calls);
    if (guard == NULL) {
        return -1;
    }
    int truth = requires_grad(state, plan, obj);
    dls_library_leave(state, guard);
    return truth;
}

int
dls_refuse_autograd(dls_state *state, const dls_plan *plan, PyObject *obj)
{
    return refuse_grad(state, plan, obj, dls_requires_grad(state, plan, obj));
}

/* A lazy bit is set.  wrapped: the text for a library that wraps read-only memory.
 * Always -1. */
static int
refuse_bit(dls_state *state, const dls_plan *plan, PyObject *obj, const char *text,
           const char *wrapped)
{
    bool wraps = dls_plan_has(plan, DLS_LIB_WRAPS_READ_ONLY);
    return dls_refuse(state, DLS_EOPTION, obj, "%s", wraps ? wrapped : text);
}

static int
refuse_bits(dls_state *state, const dls_plan *plan, PyObject *obj, dl_dtype dtype)
{
    bool complex = dtype.code == dl_kDLComplex;
    bool exact = dtype.code == dl_kDLInt || dtype.code == dl_kDLUInt
                 || dtype.code == dl_kDLBool;
    int truth = complex ? truth_of_method(obj, state->names.is_conj, NULL) : 0;
    if (truth > 0) {
        return refuse_bit(state, plan, obj,
                          "its conjugate bit is set, the memory holds other values\n"
                          "  call x.resolve_conj() first, or pass copy=True",
                          "its conjugate bit is set, the memory holds other values\n"
                          "  wrap tensor.resolve_conj() instead");
    }
    if (truth == 0 && !exact) {
        truth = truth_of_method(obj, state->names.is_neg, plan->is_neg);
        if (truth > 0) {
            return refuse_bit(state, plan, obj,
                              "its negative bit is set, the memory holds other values\n"
                              "  call x.resolve_neg() first, or pass copy=True",
                              "its negative bit is set, the memory holds other values\n"
                              "  wrap tensor.resolve_neg() instead");
        }
    }
    return truth;
}

int
dls_refuse_past_hook(dls_state *state, const dls_plan *plan, PyObject *obj,
                     bool autograd, dl_dtype dtype)
{
    PyObject *guard = dls_library_enter(state, plan->plain_calls);
    if (guard == NULL) {
        return -1;
    }
    int truth = autograd ? requires_grad(state, plan, obj) : 0;
    int code = refuse_grad(state, plan, obj, truth);
    code = code == 0 ? refuse_bits(state, plan, obj, dtype) : code;
    dls_library_leave(state, guard);
    return code;
}

/* --- lazy bits that a copy resolves ---------------------------------------- */

/* Is a lazy bit of the object set?  1, 0, or -1. */
static int
has_lazy_bits(dls_state *state, const dls_plan *plan, PyObject *obj)
{
    int truth = truth_of_method(obj, state->names.is_conj, NULL);
    return truth == 0 ? truth_of_method(obj, state->names.is_neg, plan->is_neg) : truth;
}

/* obj.resolve_conj().resolve_neg(), a new reference; NULL with its exception. */
static PyObject *
resolve_bits(const dls_state *state, PyObject *obj)
{
    PyObject *once = PyObject_CallMethodObjArgs(obj, state->names.resolve_conj, NULL);
    PyObject *twice = once != NULL ? PyObject_CallMethodObjArgs(
                                         once, state->names.resolve_neg, NULL)
                                   : NULL;
    Py_XDECREF(once);
    return twice;
}

int
dls_resolve_lazy_bits(dls_state *state, const dls_plan *plan, PyObject *obj,
                      PyObject **resolved)
{
    PyObject *guard = NULL;
    *resolved = NULL;
    if (plan->plain_calls != NULL) {
        guard = dls_library_enter(state, plan->plain_calls);
        if (guard == NULL) {
            return -1;
        }
    }
    int truth = has_lazy_bits(state, plan, obj);
    if (truth > 0) {
        *resolved = resolve_bits(state, obj);
        truth = *resolved != NULL ? 1 : -1;
    }
    if (guard != NULL) {
        dls_library_leave(state, guard);
    }
    return truth;
}

int
dls_refuse_lazy_bits(dls_state *state, const dls_plan *plan, PyObject *obj,
                     dl_dtype dtype)
{
    return plan->plain_calls != NULL
               ? dls_refuse_past_hook(state, plan, obj, false, dtype)
               : refuse_bits(state, plan, obj, dtype);
}

/* --- elements that are no numbers ----------------------------------------- */

/* Is it the name of such a dtype, as its library spells it? */
static bool
names_no_numbers(PyObject *name)
{
    return PyUnicode_Check(name)
           && (PyUnicode_CompareWithASCIIString(name, "string") == 0
               || PyUnicode_CompareWithASCIIString(name, "resource") == 0
               || PyUnicode_CompareWithASCIIString(name, "variant") == 0);
}

static int
refuse_no_numbers(dls_state *state, PyObject *obj)
{
    PyObject *dtype = NULL, *name = NULL;
    int got = dls_get_optional(obj, state->names.dtype, &dtype);
    if (got > 0) {
        got = dls_get_optional(dtype, state->names.name, &name);
        Py_DECREF(dtype);
    }
    if (got <= 0) {
        return got < 0 ? dls_error_forget() : 0;
    }
    bool refused = names_no_numbers(name);
    if (refused) {
        dls_refuse(state, DLS_EBUFFER, obj,
                   "its dtype is '%U': its elements are no numbers, and its library "
                   "ends the process when it is asked for them\n"
                   "  convert text with x.numpy(), and pass what a resource or variant "
                   "holds (variable.value(), the dataset's elements)",
                   name);
    }
    Py_DECREF(name);
    return refused ? -1 : 0;
}

/* --- masks ------------------------------------------------------------------ */

/* Does a mask hide anything?  It is an array, or one bool for all elements. */
static int
hides(dls_state *state, PyObject *mask)
{
    return PySequence_Check(mask) ? truth_of_method(mask, state->names.any, NULL)
                                  : PyObject_IsTrue(mask);
}

/* The memory holds the elements that the mask hides, and DLPack has no masks.  A mask
 * that cannot be asked is taken to hide nothing. */
static int
refuse_masked(dls_state *state, PyObject *obj)
{
    PyObject *mask = NULL, *unmasked = NULL;
    int got = dls_get_optional(obj, state->names.mask, &mask);
    got = got > 0 ? hides(state, mask) : got;
    Py_XDECREF(mask);
    if (got <= 0) {
        return got < 0 ? dls_error_forget() : 0;
    }
    got = dls_get_optional(obj, state->names.unmasked, &unmasked);
    Py_XDECREF(unmasked);
    if (got < 0 && dls_error_forget() < 0) {
        return -1;
    }
    return dls_refuse(state, DLS_EBUFFER, obj,
                      "its mask hides elements, and DLPack has no masks\n"
                      "  pass x.filled(value) to put a value in their place, or %s to "
                      "pass what is under the mask",
                      got > 0 ? "x.unmasked" : "numpy.ma.getdata(x)");
}

int
dls_refuse_object(dls_state *state, const dls_plan *plan, PyObject *obj)
{
    return dls_plan_has(plan, DLS_LIB_ABORTS) ? refuse_no_numbers(state, obj)
                                              : refuse_masked(state, obj);
}

/* --- columns ---------------------------------------------------------------- */

int
dls_refuse_values(dls_state *state, PyObject *obj)
{
    PyObject *error = PyErr_Occurred() != NULL ? dls_error_take() : NULL;
    PyObject *cure = dls_cure_find(state, obj);
    dls_refuse(state, DLS_EBUFFER, obj, "it has no dtype of DLPack%V", cure,
               "\n  convert it to numbers first");
    Py_XDECREF(cure);
    return error != NULL ? dls_refuse_with_cause(error) : -1;
}
