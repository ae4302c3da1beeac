/* What a library should refuse itself but does not on every road (T12). */
#ifndef DLS_SOURCE_REFUSAL_H
#define DLS_SOURCE_REFUSAL_H

#include "python/py.h"
#include "python/state.h"

/* A tensor that requires grad, or whose conjugate or negative bit is set (its memory
 * holds other values than it shows): 0 = none of these, -1 = BufferError that names
 * the cure, or what the object raised. */
int dls_refuse_lazy_bits(dls_state *state, PyObject *obj);

#endif
