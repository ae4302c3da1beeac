/* The type Tensor: memory that was taken.  How its objects are made, and what is in
 * them, is in exchange/tensor_object.h.  Called by module/.  The GIL is held. */
#pragma once

#include "python/state.h"

DLS_EXTERN PyType_Spec dls_tensor_spec;

/* Is it this type, whichever import made it?  Any type may be asked about. */
bool dls_tensor_is_type(PyTypeObject *type);
