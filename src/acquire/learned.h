/* What cannot be delivered: by what a library should refuse itself but does not on
 * every road (T12), or because dlshim moves no memory there. */
#ifndef DLS_SOURCE_REFUSAL_H
#define DLS_SOURCE_REFUSAL_H

#include "abi/dlpack_abi.h"
#include "exchange/plan.h"
#include "python/py.h"
#include "python/state.h"
#include "sync/transfer.h"

/* A tensor that requires grad: 0 = it does not, -1 = BufferError that names the cure,
 * or what the object raised. */
int dls_refuse_autograd(dls_state *state, const dls_plan *plan, PyObject *obj);

/* The conjugate or the negative bit is set: the memory holds other values than the
 * tensor shows.  dtype is what was exported: only complex numbers have the one bit, and
 * integers and bools neither.  Results as above. */
int dls_refuse_lazy_bits(dls_state *state, const dls_plan *plan, PyObject *obj,
                         dl_dtype dtype);

/* Memory on `have` that is wanted elsewhere, and dlshim cannot bring it there, or not
 * without a copy: BufferError, which for copy=False is CopyRequiredError.  kept: its
 * cause (stolen), or NULL.  Always -1. */
int dls_raise_move(dls_state *state, PyObject *obj, const dls_want *want,
                   dl_device have, PyObject *kept);

/* The same before anything is ordered or called.  0: it is there, or may be brought. */
int dls_refuse_move(dls_state *state, PyObject *obj, const dls_want *want,
                    dl_device have);

#endif
