/* The buffer protocol of a Tensor (host memory). */
#ifndef DLS_MODULE_TENSOR_BUFFER_H
#define DLS_MODULE_TENSOR_BUFFER_H

#include "python/py.h"

/* Answers requests that ask for shape and format, and tensors of bytes; refuses others
 * with a BufferError that names memoryview(t).cast("B"): torch.asarray would take raw
 * bytes for float32.  Read-only is respected. */
int dls_tensor_getbuffer(PyObject *self, dls_buffer *view, int flags);
void dls_tensor_releasebuffer(PyObject *self, dls_buffer *view);

#endif
