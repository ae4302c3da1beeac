/* Functions for shim/arrays.py and shim/dtypes.py: facts of a dtype, and Tensors of the
 * same memory under another description.  Called by module/module and
 * module/tensor_type.  The GIL is held. */
#pragma once

#include "python/py.h"

/* _dtype and _view. */
DLS_EXTERN PyMethodDef dls_by_value_methods[];
