/* A method that dlshim.producer puts on one class.
 *
 * It is a descriptor as functions are, and knows what its author wrote: a call passes
 * the method itself to the C function, and super() finds that of a base by Python's own
 * rules.  It keeps a plan for each type of the objects that it is called with
 * (exchange/decorated_class).  Called by authors/producer_class.  The GIL is held. */
#pragma once

#include "python/state.h"
#include "types/plan_table.h"

DLS_EXTERN PyType_Spec dls_class_method_spec;

/* The data of a method.  Never changed but for `plans`. */
typedef struct {
    DLS_HEAD
    /* What CPython calls in the place of tp_call. */
    PyObject *(*call)(PyObject *, PyObject *const *, size_t, PyObject *);
    PyMethodDef *method;
    PyTypeObject *owner; /* strong: its class */
    PyObject *own;       /* strong: what the author wrote there; NULL: nothing */
    PyObject *inner;     /* strong: the name of the attribute or method with the inner
                          * array, which goes before `own`; NULL: there is none */
    dls_plan_cache plans;
} dls_method;

static inline dls_method *
dls_method_data(PyObject *self)
{
    return DLS_DATA(dls_method, self);
}

/* Make the method for objects of this class and its subclasses.  `method` lasts for
 * ever; its function gets the object, the method, and the arguments as METH_FASTCALL |
 * METH_KEYWORDS has them.  own, inner: None or as above.  NULL with an exception. */
PyObject *dls_method_new(dls_state *state, PyTypeObject *owner, PyMethodDef *method,
                         PyObject *own, PyObject *inner);

/* Is the class attribute such a method, whichever import made it? */
bool dls_is_method_of_any(PyObject *value);
static inline bool
dls_is_method(const dls_state *state, PyObject *value)
{
    return Py_IS_TYPE(value, state->method_type) || dls_is_method_of_any(value);
}

/* As dls_is_method, and does it take objects of this type? */
static inline bool
dls_method_fits(const dls_state *state, PyObject *value, PyTypeObject *type)
{
    return dls_is_method(state, value)
           && PyType_IsSubtype(type, dls_method_data(value)->owner);
}

/* The method of ours that is found when an object is asked for __dlpack__: a new
 * reference.  NULL, nothing set: it is another one, of a subclass or of its own.  A
 * pending exception stays. */
PyObject *dls_method_of(const dls_state *state, PyObject *obj);

/* Keep a plan for objects of its type, which the caller owns.  0, or -1 with an
 * exception. */
int dls_method_keep(PyObject *self, dls_plan *plan);
