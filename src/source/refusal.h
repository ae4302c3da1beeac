/* What a library should refuse itself but does not on every road (T12). */
#ifndef DLS_SOURCE_REFUSAL_H
#define DLS_SOURCE_REFUSAL_H

#include "abi/dlpack_abi.h"
#include "python/py.h"
#include "python/state.h"

/* A tensor that requires grad: 0 = it does not, -1 = BufferError that names the cure, or
 * what the object raised. */
int dls_refuse_autograd(dls_state *state, PyObject *obj);

/* The conjugate or the negative bit is set: the memory holds other values than the tensor
 * shows.  dtype is what was exported: only complex numbers have the one bit, and integers
 * and bools neither.  Results as above. */
int dls_refuse_lazy_bits(dls_state *state, PyObject *obj, dl_dtype dtype);

#endif
