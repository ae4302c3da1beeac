/* The type of Tensor.dtype: a tuple (code, bits, lanes) whose str() is a name.
 * Called by module/.  The GIL is held. */
#pragma once

#include "abi/dlpack_abi.h"
#include "python/state.h"

/* The base is tuple. */
extern PyType_Spec dls_dtype_spec;

/* A new dtype; NULL with an exception. */
PyObject *dls_dtype_new(dls_state *state, dl_dtype dtype);
