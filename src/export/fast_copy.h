/* The fast path of copy=True: host memory that leaves nothing to decide is copied in
 * one body.  Everything else leaves it with the outcome in the full record, as from
 * export/fast_path.  Both give the same.  GIL held; other threads run during a large
 * copy. */
#pragma once

#include "exchange/producer_object.h"

/* from_dlpack(source, copy=True).  A count of the plan is stolen. */
DLS_EXTERN PyObject *dls_fast_tensor_copy(dls_state *state, dls_plan *plan,
                                          PyObject *source, unsigned form);

/* __dlpack__ of a Producer without options, asked as dls_request_read_usual_copy says.
 */
PyObject *dls_fast_capsule_copy(dls_producer *self, PyObject *const *args,
                                PyObject *kwnames, unsigned form);
