/* What the Tensor's rooms share. */
#ifndef DLS_MODULE_TENSOR_TYPE_H
#define DLS_MODULE_TENSOR_TYPE_H

#include "exchange/producer_object.h"

int64_t dls_tensor_count(const dls_tensor *self);
/* Bytes from element to element, 0 for packed sub-byte elements. */
int64_t dls_tensor_itemsize(const dls_tensor *self);
bool dls_tensor_on_host(const dls_tensor *self);
void *dls_tensor_address(const dls_tensor *self);

/* What a Tensor says of itself (module/tensor_attributes). */
PyObject *dls_tensor_device_pair(const dls_tensor *self);
PyObject *dls_tensor_repr(PyObject *self);
extern PyGetSetDef dls_tensor_getters[];

#endif
