/* upgrade, from_dlpack, to_capsule: the module's public functions. */
#ifndef DLS_MODULE_FUNCTIONS_H
#define DLS_MODULE_FUNCTIONS_H

#include "python/py.h"

/* {NULL} terminated. */
extern PyMethodDef dls_public_methods[];

#endif
