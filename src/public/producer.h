/* The type Producer: the lazy wrapper that upgrade() makes.  The members of its objects
 * are in exchange/objects.h.  Called by authors/, ctable/
 * and module/.  The GIL is held. */
#pragma once

#include "exchange/objects.h"
#include "python/errors.h"

DLS_EXTERN PyType_Spec dls_producer_spec;
/* The class of the Producers of one home, a subclass (ctable/homes). */
DLS_EXTERN PyType_Spec dls_producer_spec_of_home;

/* Is it this type or the class of a home, whichever import made it?  Any type may be
 * asked about. */
bool dls_producer_is_type(PyTypeObject *type);

/* The methods of a Producer, which are __dlpack__, __dlpack_device__ and __array__ in
 * Python.  Where they take the data, they need no object around it:
 * authors/producer_class has none. */
PyObject *dls_producer_dlpack(dls_producer *data, PyObject *const *args, Py_ssize_t n,
                              PyObject *kwnames);
PyObject *dls_producer_device(dls_producer *data);
PyObject *dls_producer_dlpack_device(PyObject *self, PyObject *ignored);
PyObject *dls_producer_array(PyObject *self, PyObject *const *args, Py_ssize_t n,
                             PyObject *kwnames);

/* A new Producer over `source` (borrowed), of the plan's home, which is known.  Steals
 * the plan's count and the options, on failure too.  NULL with MemoryError. */
PyObject *dls_producer_new(dls_state *state, PyObject *source, dls_plan *plan,
                           dls_options *options);
/* As dls_producer_new, of this class: Producer, or that of any home of this state. */
PyObject *dls_producer_new_of(dls_state *state, PyTypeObject *type, PyObject *source,
                              dls_plan *plan, dls_options *options);

/* --- methods -------------------------------------------------------------- */
/* The methods that Producer and Tensor have both, for public/producer and
 * public/tensor_type. */

/* The rows of a PyMethodDef table: the functions that export and answer the device
 * question, and NumPy's way in, each with its flags; with their docstrings. */
#define DLS_DLPACK_METHODS(dlpack, flags, device, device_flags, array, array_flags)  \
    {"__dlpack__", DLS_FASTCALL(dlpack), flags,                                      \
     "__dlpack__($self, stream=None, *, max_version=None, dl_device=None, "          \
     "copy=None)\n--\n\n"                                                            \
     "Export a fresh capsule (array API, __dlpack__).\n\n"                           \
     "max_version with major >= 1 gives a 'dltensor_versioned' capsule, None or\n"   \
     "major 0 a legacy 'dltensor'.  BufferError when the data cannot be given so,\n" \
     "CopyRequiredError when copy=False and a copy is needed."},                     \
        {"__dlpack_device__", DLS_FASTCALL(device), device_flags,                    \
         "__dlpack_device__($self, /)\n--\n\n"                                       \
         "(device_type, device_id) that an export will say, plain ints."},           \
        {"__array__", DLS_FASTCALL(array), array_flags,                              \
         "__array__($self, dtype=None, copy=None)\n--\n\n"                           \
         "The memory as a NumPy array, for numpy.asarray(); host memory only."}
