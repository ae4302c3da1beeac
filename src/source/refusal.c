#include "source/refusal.h"

#include "python/raise.h"

/* Truth of an attribute, called first when it is a method.  1, 0 (also: no such
 * attribute), or -1 with an exception. */
static int
truth_of(PyObject *obj, PyObject *name, bool call)
{
    PyObject *value = NULL;
    int got = dls_get_optional(obj, name, &value);
    if (got <= 0) {
        return got;
    }
    if (call) {
        PyObject *method = value;
        value = PyObject_CallFunctionObjArgs(method, NULL);
        Py_DECREF(method);
        if (value == NULL) {
            return -1;
        }
    }
    int truth = PyObject_IsTrue(value);
    Py_DECREF(value);
    return truth;
}

int
dls_refuse_autograd(dls_state *state, PyObject *obj)
{
    int truth = truth_of(obj, state->names.requires_grad, false);
    if (truth > 0) {
        dls_raise(state, DLS_EBUFFER, obj,
                  "it requires grad, and consumers would bypass autograd: call .detach() "
                  "first, or pass detach=True");
    }
    return truth == 0 ? 0 : -1;
}

int
dls_refuse_lazy_bits(dls_state *state, PyObject *obj, dl_dtype dtype)
{
    bool complex = dtype.code == dl_kDLComplex;
    bool exact = dtype.code == dl_kDLInt || dtype.code == dl_kDLUInt || dtype.code == dl_kDLBool;
    int truth = complex ? truth_of(obj, state->names.is_conj, true) : 0;
    if (truth > 0) {
        dls_raise(state, DLS_EBUFFER, obj,
                  "its conjugate bit is set, the memory holds other values: call "
                  ".resolve_conj() first");
    }
    if (truth == 0 && !exact) {
        truth = truth_of(obj, state->names.is_neg, true);
        if (truth > 0) {
            dls_raise(state, DLS_EBUFFER, obj,
                      "its negative bit is set, the memory holds other values: call "
                      ".resolve_neg() first");
        }
    }
    return truth == 0 ? 0 : -1;
}
