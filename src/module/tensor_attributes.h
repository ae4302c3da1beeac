/* What a Tensor says of itself: its properties and its repr, for module/tensor_type. */
#pragma once

#include "python/py.h"

DLS_EXTERN PyGetSetDef dls_tensor_getters[]; /* ends with {NULL} */
PyObject *dls_tensor_repr(PyObject *self);
/* The method data_ptr(). */
PyObject *dls_tensor_data_ptr(PyObject *self, PyObject *ignored);
