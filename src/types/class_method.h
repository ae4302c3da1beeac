/* A method that dlshim.producer puts on one class.
 *
 * It is a descriptor as CPython's own methods are, but a call passes the class on which
 * the method was found to the C function: super() leads from there to the next class.
 * CPython's descriptors do so too (METH_METHOD), but their __get__(x), seen on 3.10 to
 * 3.13, ends the process.  Called by module/producer_class.  The GIL is held. */
#pragma once

#include "python/state.h"

DLS_EXTERN PyType_Spec dls_class_method_spec;

/* Make the method for objects of this class and its subclasses.  `method` lasts for
 * ever, and is METH_METHOD | METH_FASTCALL | METH_KEYWORDS.  NULL with an exception. */
PyObject *dls_class_method_new(dls_state *state, PyTypeObject *owner,
                               PyMethodDef *method);

/* The __get__ of these methods, by which they are known: state->our_get. */
DLS_EXTERN PyObject *dls_class_method_get(PyObject *self, PyObject *obj,
                                          PyObject *type);
