/* The type of Tensor.dtype: a tuple (code, bits, lanes) whose str() is a name.
 * Called by module/.  The GIL is held. */
#ifndef DLS_MODULE_DTYPE_TYPE_H
#define DLS_MODULE_DTYPE_TYPE_H

#include "abi/dlpack_abi.h"
#include "python/state.h"

/* Make the type, and add it to the module.  0, or -1 with an exception. */
int dls_dtype_type_init(dls_state *state, PyObject *module);

/* A new dtype; NULL with an exception. */
PyObject *dls_dtype_new(dls_state *state, dl_dtype dtype);

#endif
