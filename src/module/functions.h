/* The functions that module.c puts into the module.  The docstrings in the sources are
 * the contracts of the functions that Python calls.  The GIL is held. */
#pragma once

#include "export/export.h"

/* --- functions.c: upgrade, from_dlpack, to_capsule ------------------------ */

/* A Producer of the home whose class this is (NULL: upgrade(obj)'s own), around any
 * object.  Steals the options, on failure too.  NULL with an exception.
 */
PyObject *dls_upgrade_into(dls_state *state, PyTypeObject *home, PyObject *obj,
                           dls_options *options);
/* from_dlpack(obj) and to_capsule(obj), with options, which are stolen, on failure too;
 * the version is in the request of a capsule.  NULL with an exception. */
PyObject *dls_tensor_with(dls_state *state, PyObject *obj, dls_options *options);
PyObject *dls_capsule_with(dls_state *state, PyObject *obj, dls_options *options,
                           dls_request *request);
/* from_dlpack(obj) without options.  Steals the count of obj's plan. */
PyObject *dls_tensor_plainly(dls_state *state, dls_plan *plan, PyObject *obj);

/* The class of upgrade(obj), a new reference; NULL with an exception. */
PyObject *dls_home_of_object(dls_state *state, PyObject *obj);

DLS_EXTERN PyMethodDef dls_public_methods[]; /* ends with {NULL} */

/* The exchange of such a function, also for module/c_api: obj may be a Producer or a
 * raw capsule.  outcome: the fast path's for obj, or NULL.  Steals options and all that
 * the outcome holds, on failure too.  NULL with an exception. */
void *dls_function_run(dls_state *state, PyObject *obj, dls_options *options,
                       dls_request *request, dls_outcome *outcome,
                       dls_export_kind kind);

/* --- c_api.c: the functions of dlshim.h, which is their manual ------------ */

/* Add the table of functions to the module, in a capsule.  0, or -1 with an exception.
 */
int dls_c_api_add(PyObject *module);
/* Before a state goes whose module has gone. */
void dls_c_api_forget(const dls_state *state);

/* --- records.c, test_hooks.c: functions that are not public ---------------- */

DLS_EXTERN PyMethodDef dls_record_methods[]; /* ends with {NULL} */
DLS_EXTERN PyMethodDef dls_hook_methods[];   /* ends with {NULL} */
