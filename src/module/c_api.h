/* The functions of dlshim.h: arrays for callers in C, and Tensors of their memory.  The
 * header is their manual.  Called by module/module, in an attached thread (with a GIL
 * it holds that). */
#pragma once

#include "python/state.h"

/* Add the table of functions to the module, in a capsule.  0, or -1 with an exception.
 */
int dls_c_api_add(PyObject *module);
/* Before a state goes whose module has gone. */
void dls_c_api_forget(const dls_state *state);
