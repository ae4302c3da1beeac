/* What a Tensor says of itself: its properties and its repr, for module/tensor_type. */
#ifndef DLS_MODULE_TENSOR_ATTRIBUTES_H
#define DLS_MODULE_TENSOR_ATTRIBUTES_H

#include "python/py.h"

extern PyGetSetDef dls_tensor_getters[]; /* ends with {NULL} */
PyObject *dls_tensor_repr(PyObject *self);

#endif
