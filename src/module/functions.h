/* The public functions of the module: upgrade, from_dlpack, to_capsule.  Their
 * contracts are the docstrings in the source. */
#ifndef DLS_MODULE_FUNCTIONS_H
#define DLS_MODULE_FUNCTIONS_H

#include "python/py.h"

extern PyMethodDef dls_public_methods[]; /* ends with {NULL} */

#endif
