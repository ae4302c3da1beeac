/* From a producer's struct to the acquired, and from there to ownership (T1, T9, T10).
 * GIL held. */
#pragma once

#include "core/alloc.h"
#include "exchange/exchange.h"
#include "python/capsule.h"
#include "python/errors.h"

/* Look into `capsule` (a new reference, stolen always) and describe it in x->acquired,
 * not yet taken.  likely: the generation that it probably has, which is looked for
 * first; DLS_DESCRIBED: not known.  0, or -1 with BufferError and x->acquired as it
 * was: no capsule, a used one, a foreign name, or another major (that one is taken and
 * its deleter called, nothing else is read: T1). */
int dls_acquired_read_capsule(dls_exchange *x, PyObject *capsule,
                              dls_generation likely);

/* Describe a versioned struct of major 1; its owner stays the same. */
void dls_acquired_describe(dls_acquired *acquired,
                           dl_managed_tensor_versioned *managed);

/* Is a capsule that others hold too still unconsumed?  Foreign code may have consumed
 * it: after foreign code ran, nothing behind the capsule may be read before this was
 * called.  0, or -1 with BufferError. */
int dls_acquired_recheck(const dls_exchange *x);

/* Become the owner of the acquired memory, if dlshim is not yet: x->acquired.hold then
 * has all that must be given back.  0, or -1 with an exception and x->acquired as it
 * was. */
int dls_acquired_take(dls_exchange *x);

/* May the producer's own capsule (or struct) go to the consumer, as far as its origin
 * is concerned (T3)? */
bool dls_acquired_may_hand_on(const dls_exchange *x);

/* --- taking --------------------------------------------------------------- */
/* The one place where dlshim becomes the owner of a producer's tensor (T9, T10). */

/* Rename the capsule (the last step that can fail), fill the hold, drop the capsule,
 * and report the exception that its destructor leaves.  The hold gets the foreign
 * struct and, unless the library is known to keep its memory alive, a reference to the
 * source.  Steals hot.capsule on success.  versioned: generation of hot.managed.  0, or
 * -1 with an exception and nothing changed. */
static inline int
dls_take(dls_hot hot, bool versioned, dls_hold *hold)
{
    if (hot.capsule != NULL && dls_capsule_take(hot.capsule, versioned) < 0) {
        return -1;
    }
    hold->base = hot.managed;
    hold->kind = versioned ? DLS_HOLD_VERSIONED : DLS_HOLD_LEGACY;
    hold->flags = versioned ? hot.state->import_number : hot.state->legacy_flags;
    hold->py = NULL;
    if (!dls_plan_has(hot.plan, DLS_LIB_OWNS)) {
        Py_INCREF(hot.source);
        hold->py = hot.source;
    }
    if (hot.capsule != NULL) {
        Py_DECREF(hot.capsule);
        dls_error_report();
        DLS_COUNT(taken);
    }
    return 0;
}
