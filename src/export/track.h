/* dlshim.track(): what is made is told to shim/tracking.py.  While it is on, the fast
 * path is closed and nothing is handed on, so all exports are structs of ours and are
 * made in one place; off, it costs that place one branch.  Each import of the module is
 * switched by itself and told of its own exports alone.  Called by export.c,
 * by_value.c, module.c and test_hooks.c.  The GIL is held but in the deleters. */
#pragma once

#include <stdatomic.h>

#include "exchange/exchange.h"

/* How many modules it is on for. */
DLS_EXTERN atomic_int dls_track_modules;

/* May it be on for the module that has made this (NULL: nothing was made)? */
static inline bool
dls_track_wants(const void *made)
{
    return atomic_load_explicit(&dls_track_modules, memory_order_relaxed) != 0
           && made != NULL;
}

void dls_track_switch(dls_state *state, bool on);

/* A Tensor was made.  0, or -1 with an exception, for which the caller drops what was
 * made; 0 where it is off for this module.  So does the next. */
int dls_track_tensor(dls_state *state, PyObject *tensor);
/* A struct of ours was made.  Its deleter is replaced by one that notes its end. */
int dls_track_struct(dls_state *state, void *managed, bool versioned);

/* The numbers of this module's structs that have ended since the last call: a list, or
 * NULL with an exception. */
PyObject *dls_track_ended(const dls_state *state);
