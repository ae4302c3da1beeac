/* upgrade, from_dlpack, to_capsule: the module's public functions. */
#ifndef DLS_MODULE_FUNCTIONS_H
#define DLS_MODULE_FUNCTIONS_H

#include "python/state.h"

/* A raw capsule, taken at once (borrowed): a Tensor that owns its memory.  NULL with
 * BufferError, and the capsule as it was (but T1). */
PyObject *dls_tensor_from_capsule(dls_state *state, PyObject *capsule);

/* {NULL} terminated. */
extern PyMethodDef dls_public_methods[];

#endif
