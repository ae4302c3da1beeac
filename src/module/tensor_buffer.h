/* The buffer protocol of a Tensor in host memory: two slots of module/tensor_type.
 * The GIL is held. */
#pragma once

#include "python/py.h"

/* Gives a buffer to requests for shape and format.  Other requests would lose the dtype
 * (torch.asarray takes the bytes of uint8 too for float32): the BufferError names
 * memoryview(t).cast("B").  READ_ONLY is kept.  0, or -1 with BufferError or
 * MemoryError. */
int dls_tensor_getbuffer(PyObject *self, dls_buffer *view, int flags);
void dls_tensor_releasebuffer(PyObject *self, dls_buffer *view);
