/* The three array interfaces that a Tensor offers as properties: __array_interface__,
 * __cuda_array_interface__ and __sycl_usm_array_interface__.  They are in the table of
 * module/tensor_attributes.
 *
 * Each gives a new dict.  AttributeError for memory of other devices and for dtypes
 * without a typestr, so that hasattr() says what can be used.  BufferError if the data
 * cannot be synchronised, RuntimeError if a driver reports another program's error.
 * The GIL is held. */
#pragma once

#include "python/py.h"

/* Version 3, for memory that the CPU can read. */
PyObject *dls_array_interface(PyObject *self);

/* Version 3, for memory that CUDA can address: device, pinned and managed.  `stream`
 * names the stream of the data.  If that is not known, all work of the device is first
 * synchronised with the legacy default stream, which is named then. */
PyObject *dls_cuda_interface(PyObject *self);

/* Version 1, for oneAPI memory.  The host has then waited for the queue of the data,
 * as consumers expect of arrays (S6).  `syclobj` is what the source named, else that
 * queue, else a filter string. */
PyObject *dls_sycl_interface(PyObject *self);
