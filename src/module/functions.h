/* The public functions of the module: upgrade, from_dlpack, to_capsule.  Their
 * contracts are the docstrings in the source. */
#pragma once

#include "python/py.h"

extern PyMethodDef dls_public_methods[]; /* ends with {NULL} */
