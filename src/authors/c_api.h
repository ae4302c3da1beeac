/* The functions of dlshim.h, which is their manual, as a table in a capsule.  Called by
 * module/module.  The GIL is held. */
#pragma once

#include "python/state.h"

/* Add the table of functions to the module, in a capsule.  0, or -1 with an exception.
 */
int dls_c_api_add(PyObject *module);
/* Before a state goes whose module has gone. */
void dls_c_api_forget(const dls_state *state);
