/* __sycl_usm_array_interface__ of a Tensor: version 1. */
#ifndef DLS_MODULE_TENSOR_SYCL_H
#define DLS_MODULE_TENSOR_SYCL_H

#include "python/py.h"

/* The dict, a new reference, for oneAPI memory.  The host has then waited for the queue
 * of its data, as consumers expect of arrays (reference streams.md 4.2); syclobj is
 * what the source named, else that queue, else a filter string.  AttributeError for
 * other memory and for dtypes without a typestr; BufferError if what is pending cannot
 * be waited for. */
PyObject *dls_tensor_sycl_interface(PyObject *self);

#endif
