/* What a hold keeps alive, as the garbage collector sees it.  Called by the traverse
 * functions of Producer and Tensor, by exchange/borrowed_list, and by
 * module/interfaces_out.  The GIL is held.  Tests: tests/core/test_lifetime.py. */
#pragma once

#include <stdatomic.h>

#include "core/hold.h"
#include "python/py.h"

/* Show the Python objects behind a hold to the collector.  Those behind a share are
 * shown only if nobody else has a share: else the reference is not ours alone. */
static inline int
dls_hold_visit(const dls_hold *hold, visitproc visit, void *arg)
{
    for (;;) {
        if (hold->kind == DLS_HOLD_GUARDED) {
            hold = &((dls_guarded *)hold->base)->hold;
        }
        bool is_buffer = hold->kind == DLS_HOLD_BUFFER;
        PyObject *of = is_buffer ? ((dls_buffer *)hold->base)->obj : NULL;
        if (of != NULL && PyMemoryView_Check(of)) {
            return 0; /* cleared while it is exported, it crashes CPython: not shown */
        }
        Py_VISIT((PyObject *)hold->py);
        Py_VISIT(of);
        dls_shared *shared = hold->kind == DLS_HOLD_SHARED ? hold->base : NULL;
        if (shared == NULL
            || atomic_load_explicit(&shared->shares, memory_order_relaxed) != 1) {
            return 0;
        }
        hold = &shared->hold;
    }
}

/* dls_hold_visit for one share; NULL is allowed. */
static inline int
dls_shared_visit(dls_shared *shared, visitproc visit, void *arg)
{
    const dls_hold hold = {.base = shared, .kind = DLS_HOLD_SHARED};
    return dls_hold_visit(&hold, visit, arg);
}

/* The first hold that is not a share. */
static inline const dls_hold *
dls_hold_behind(const dls_hold *hold)
{
    while (hold->kind == DLS_HOLD_SHARED) {
        hold = &((dls_shared *)hold->base)->hold;
    }
    return hold;
}
