/* Checks that a library should make itself, but does not make in each of its ways out:
 * autograd, conjugate and negative bits, elements that are no numbers, masks (T12).
 * GIL held; foreign code runs. */
#pragma once

#include "abi/dlpack_abi.h"
#include "exchange/plan.h"
#include "python/py.h"
#include "python/state.h"

/* A tensor that requires grad: 0 = it does not, -1 = BufferError that names the cure,
 * or what the object raised. */
int dls_refuse_autograd(dls_state *state, const dls_plan *plan, PyObject *obj);

/* A tensor whose conjugate or negative bit is set: its memory holds other values than
 * the tensor shows.  dtype is what was exported.  Only complex numbers have the
 * conjugate bit; integers and bools have neither.  Results as above. */
int dls_refuse_lazy_bits(dls_state *state, const dls_plan *plan, PyObject *obj,
                         dl_dtype dtype);

/* What the object itself tells before its producer is asked (DLS_LIB_ASKED_FIRST):
 * elements that are no numbers, of a library that ends the process when it is asked for
 * them (ABORTS); elements that are hidden by a mask (MASKED).  Results as above. */
int dls_refuse_object(dls_state *state, const dls_plan *plan, PyObject *obj);
