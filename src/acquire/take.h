/* Taking: the one place where dlshim becomes the owner of a producer's tensor (T9,
 * T10). */
#pragma once

#include "core/alloc.h"
#include "exchange/exchange.h"
#include "python/capsule.h"
#include "python/errors.h"

/* Rename the capsule (the last step that can fail), fill the hold, drop the capsule,
 * and report what its destructor leaves behind.  The hold gets the foreign struct and,
 * unless the library is known to do it right, a reference to the source.  Steals
 * hot.capsule on success.  versioned: generation of hot.managed.  0, or -1 with an
 * exception and nothing changed. */
static inline int
dls_take(dls_hot hot, bool versioned, dls_hold *hold)
{
    if (hot.capsule != NULL && dls_capsule_take(hot.capsule, versioned) < 0) {
        return -1;
    }
    hold->base = hot.managed;
    hold->kind = versioned ? DLS_HOLD_VERSIONED : DLS_HOLD_LEGACY;
    hold->flags = versioned ? hot.state->home : hot.state->legacy_flags;
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
