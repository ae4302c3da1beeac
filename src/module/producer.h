/* The type Producer: the lazy wrapper that upgrade() makes.  The members of its objects
 * are in exchange/producer_object.h.  Called by module/.  The GIL is held. */
#pragma once

#include "exchange/producer_object.h"

DLS_EXTERN PyType_Spec dls_producer_spec;

/* Is it this type, whichever import made it?  Any type may be asked about. */
bool dls_producer_is_type(PyTypeObject *type);

/* Its methods, which are __dlpack__, __dlpack_device__ and __array__ in Python.  The
 * first needs no object around the data: module/producer_class has none. */
PyObject *dls_producer_dlpack(dls_producer *data, PyObject *const *args, Py_ssize_t n,
                              PyObject *kwnames);
PyObject *dls_producer_dlpack_device(PyObject *self, PyObject *ignored);
PyObject *dls_producer_array(PyObject *self, PyObject *const *args, Py_ssize_t n,
                             PyObject *kwnames);

/* A new Producer over `source` (borrowed).  Steals the plan's count and the options, on
 * failure too.  NULL with MemoryError. */
PyObject *dls_producer_new(dls_state *state, PyObject *source, dls_plan *plan,
                           dls_options *options);
