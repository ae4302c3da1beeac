/* The methods that dlshim.producer puts on a decorated class.
 *
 * Each works as a Producer does around the object or around its inner array, for the
 * length of one call.  The object is then asked as its author wrote it: by the author's
 * own __dlpack__, or by an older protocol, and never by the methods that were put on
 * its class.  Called by Python and by ctable/ctable_out, in an attached thread (with a
 * GIL it holds that); foreign code runs. */
#pragma once

#include "python/state.h"

typedef struct {
    PyObject *producer; /* a Producer, to be asked; strong */
    PyObject *type;     /* Tensor: keeps the state while foreign code runs */
} dls_class_call;

/* Begin a call with this object of any class, by the __dlpack__ that it shows.  0, or
 * -1 with an exception.  dls_class_leave ends it in both cases. */
int dls_class_enter(dls_class_call *call, PyObject *self);
void dls_class_leave(dls_class_call *call);

/* For shim/decorator.py: _class_method(cls, name, own, inner). */
DLS_EXTERN PyMethodDef dls_class_functions[]; /* ends with {NULL} */
