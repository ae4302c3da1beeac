/* __cuda_array_interface__ of a Tensor: version 3, with the stream of its data. */
#ifndef DLS_MODULE_TENSOR_CUDA_H
#define DLS_MODULE_TENSOR_CUDA_H

#include "python/py.h"

/* The dict, a new reference, for memory that CUDA addresses: device, pinned, managed.
 * What is pending on an unknown stream is first ordered into the legacy default stream,
 * which the dict then names.  AttributeError for other memory and for dtypes without a
 * typestr; BufferError (RuntimeError for the program's own errors) if the ordering
 * fails. */
PyObject *dls_tensor_cuda_interface(PyObject *self);

#endif
