/* The type of the callables that dlshim.kernel makes.  The GIL is held. */
#pragma once

#include "python/state.h"

DLS_EXTERN PyType_Spec dls_kernel_spec;
/* For shim/kernels.py: _kernel, which makes one. */
DLS_EXTERN PyMethodDef dls_kernel_functions[];
