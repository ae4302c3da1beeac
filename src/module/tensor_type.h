/* The type Tensor: memory that was taken.  How its objects are made, and what is in
 * them, is in exchange/tensor_object.h.  Called by module/.  The GIL is held. */
#ifndef DLS_MODULE_TENSOR_TYPE_H
#define DLS_MODULE_TENSOR_TYPE_H

#include "python/state.h"

/* Make the type, and add it to the module.  0, or -1 with an exception. */
int dls_tensor_type_init(dls_state *state, PyObject *module);

/* Is it this type, whichever import made it?  Any type may be asked about. */
bool dls_tensor_is_type(PyTypeObject *type);

#endif
