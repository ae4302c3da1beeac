/* The underscore functions of the module, which are not public.  Their contracts are
 * the docstrings in the source. */
#pragma once

#include "python/py.h"

DLS_EXTERN PyMethodDef dls_hook_methods[]; /* ends with {NULL} */
