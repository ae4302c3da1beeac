/* The public functions: upgrade, from_dlpack and to_capsule.  The docstrings in the
 * sources are the contracts of the functions that Python calls.  The GIL is held. */
#pragma once

#include "export/export.h"
#include "request/wanted.h"

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
/* As dls_tensor_with, of memory that is accepted. */
PyObject *dls_tensor_accepted(dls_state *state, PyObject *obj, dls_options *options,
                              dlshim_request *wanted);
/* from_dlpack(obj) and to_capsule(obj) without options.  They steal the count of obj's
 * plan. */
PyObject *dls_tensor_plainly(dls_state *state, dls_plan *plan, PyObject *obj);
PyObject *dls_capsule_plainly(dls_state *state, dls_plan *plan, PyObject *obj,
                              bool versioned);
/* from_dlpack(obj) with idle options, which are borrowed. */
PyObject *dls_tensor_idly(dls_state *state, dls_plan *plan, PyObject *obj,
                          const dls_options *options);

/* The class of upgrade(obj), a new reference; NULL with an exception. */
PyObject *dls_home_of_object(dls_state *state, PyObject *obj);

DLS_EXTERN PyMethodDef dls_public_methods[]; /* ends with {NULL} */

/* The exchange of such a function, also for authors/c_api: obj may be a Producer or a
 * raw capsule.  outcome: the fast path's for obj, or NULL.  Steals options and all that
 * the outcome holds, on failure too.  NULL with an exception. */
void *dls_function_run(dls_state *state, PyObject *obj, dls_options *options,
                       dls_request *request, dls_outcome *outcome,
                       dls_export_kind kind);
