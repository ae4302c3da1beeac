/* The public functions of the module: upgrade, from_dlpack, to_capsule.  Their
 * contracts are the docstrings in the source. */
#pragma once

#include "export/export.h"

/* upgrade(obj) without options: a new Producer.  NULL with an exception. */
PyObject *dls_upgrade(dls_state *state, PyObject *obj);

DLS_EXTERN PyMethodDef dls_public_methods[]; /* ends with {NULL} */

/* The exchange of such a function, also for module/c_api: obj may be a Producer or a
 * raw capsule.  outcome: what the fast path got of obj, or NULL.  Steals options and
 * what the outcome holds, on failure too.  NULL with an exception. */
void *dls_function_run(dls_state *state, PyObject *obj, dls_options *options,
                       dls_request *request, dls_outcome *outcome,
                       dls_export_kind kind);
