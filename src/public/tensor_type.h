/* The type Tensor: memory that was taken.  exchange/objects.h makes its objects, and
 * has their members.  The GIL is held. */
#pragma once

#include "python/py.h"

DLS_EXTERN PyType_Spec dls_tensor_spec;

/* Is it this type, whichever import made it?  Any type may be asked about. */
bool dls_tensor_is_type(PyTypeObject *type);

/* The type of Tensor.device: a tuple (device_type, device_id) whose str() is a name.
 * Its base is tuple. */
DLS_EXTERN PyType_Spec dls_device_spec;

/* _dtype and _view, for shim/arrays.py and shim/dtypes.py: facts of a dtype, and
 * Tensors of the same memory under another description. */
DLS_EXTERN PyMethodDef dls_by_value_methods[]; /* ends with {NULL} */

/* --- tensor_buffer.c: the buffer protocol, for host memory ---------------- */

/* Gives a buffer to requests for shape and format.  Other requests would lose the dtype
 * (torch.asarray takes the bytes of uint8 too for float32): the BufferError names
 * memoryview(x).  READ_ONLY is kept.  0, or -1 with BufferError or
 * MemoryError. */
int dls_tensor_getbuffer(PyObject *self, dls_buffer *view, int flags);
void dls_tensor_releasebuffer(PyObject *self, dls_buffer *view);

/* --- arrow_out.c: a column of Arrow, for host memory ---------------------- */

/* The method __arrow_c_array__: a schema and an array, each in a capsule.  The array
 * owns a share of the Tensor's memory, which is released on any thread (T10).
 * BufferError for memory that is no column: off the host, of a dtype that Arrow lays
 * out otherwise, without axes or not C-contiguous.  A requested schema is never
 * followed; ValueError where it is of other lists or fields. */
PyObject *dls_tensor_arrow(PyObject *self, PyObject *args, PyObject *kwargs);

/* --- interfaces_out.c: the three array interfaces ------------------------- */

/* Properties of a Tensor, each with a new dict.  AttributeError for memory of other
 * devices and for dtypes without a typestr, so that hasattr() says which of them can be
 * used.  BufferError if the data cannot be synchronised, RuntimeError if a driver
 * reports another program's error. */

/* Version 3, for memory that the CPU can read. */
PyObject *dls_array_interface(PyObject *self);

/* Version 3, for memory that CUDA can address: device, pinned and managed.  `stream`
 * names the stream of the data.  If that is not known, all work of the device is first
 * synchronised with the legacy default stream, which is named then. */
PyObject *dls_cuda_interface(PyObject *self);

/* Version 1, for oneAPI memory.  The host has then waited for the queue of the data, as
 * consumers expect of arrays (S6).  `syclobj` is the object that the source named, else
 * that queue, else a filter string. */
PyObject *dls_sycl_interface(PyObject *self);
