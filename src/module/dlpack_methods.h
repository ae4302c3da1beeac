/* The methods that Producer and Tensor have both, for module/producer and
 * module/tensor_type. */
#pragma once

#include "python/errors.h"

/* The rows of a PyMethodDef table: the functions that export and answer the device
 * question, and NumPy's way in, with their docstrings. */
#define DLS_DLPACK_METHODS(dlpack, device, array)                                    \
    {"__dlpack__", DLS_FASTCALL(dlpack), METH_FASTCALL | METH_KEYWORDS,              \
     "__dlpack__($self, stream=None, *, max_version=None, dl_device=None, "          \
     "copy=None)\n--\n\n"                                                            \
     "Export a fresh capsule (array API, __dlpack__).\n\n"                           \
     "max_version with major >= 1 gives a 'dltensor_versioned' capsule, None or\n"   \
     "major 0 a legacy 'dltensor'.  BufferError when the data cannot be given so,\n" \
     "CopyRequiredError when copy=False and a copy is needed."},                     \
        {"__dlpack_device__", device, METH_NOARGS,                                   \
         "__dlpack_device__($self, /)\n--\n\n"                                       \
         "(device_type, device_id) that an export will say, plain ints."},           \
        {"__array__", DLS_FASTCALL(array), METH_FASTCALL | METH_KEYWORDS,            \
         "__array__($self, dtype=None, copy=None)\n--\n\n"                           \
         "The memory as a NumPy array, for numpy.asarray(); host memory only."}
