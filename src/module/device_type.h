/* The type of Tensor.device: a tuple (device_type, device_id) whose str() is a name.
 * Called by module/.  The GIL is held. */
#pragma once

#include "abi/dlpack_abi.h"
#include "python/state.h"

/* The base is tuple. */
DLS_EXTERN PyType_Spec dls_device_spec;

/* A new device; NULL with an exception. */
PyObject *dls_device_new(dls_state *state, dl_device device);
