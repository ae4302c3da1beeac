/* dlshim.track(): what is made is told to shim/known.py.  While it is on, the fast
 * path is closed and nothing is handed on, so all exports are structs of ours and are
 * made in one place; off, it costs that place one branch.  Called by export.c and by
 * module/test_hooks.  The GIL is held but in the deleters. */
#pragma once

#include <stdatomic.h>

#include "exchange/exchange.h"

DLS_EXTERN atomic_bool dls_track_is_on;

static inline bool
dls_track_wants(const void *made)
{
    return atomic_load_explicit(&dls_track_is_on, memory_order_relaxed) && made != NULL;
}

/* A Tensor was made. */
void dls_track_tensor(dls_state *state, PyObject *tensor);
/* A struct of ours was made.  Its deleter is replaced by one that notes its end. */
void dls_track_struct(dls_state *state, void *managed, bool versioned);

/* The numbers of the structs that have ended since the last call: a list, or NULL with
 * an exception. */
PyObject *dls_track_ended(void);
