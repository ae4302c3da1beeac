/* Carries the fast path's answer on, or drops it, when the exchange leaves the fast
 * path.
 * Tests: tests/core/test_fast_path.py. */
#include "acquire/learned.h"

void *
dls_drop_refused(dl_managed_tensor_versioned *managed)
{
    return dls_hot_drop((dls_hot){.managed = managed});
}

dls_outcome
dls_outcome_of(dls_hot hot)
{
    dls_outcome outcome = {.kind = DLS_GOT,
                           .form = hot.form,
                           .capsule = hot.capsule,
                           .managed = hot.capsule == NULL ? hot.managed : NULL};
    if (outcome.capsule == NULL && outcome.managed == NULL) {
        outcome.kind = DLS_RAISED;
        outcome.error = dls_error_take();
    }
    return outcome;
}

void
dls_outcome_drop(dls_outcome *outcome)
{
    if (outcome->capsule != NULL) {
        dls_drop_foreign(outcome->capsule);
    }
    if (outcome->managed != NULL) {
        dls_hold hold = {.base = outcome->managed, .kind = DLS_HOLD_VERSIONED};
        dls_hold_drop(&hold, DLS_ATTACHED);
    }
    if (outcome->error != NULL) {
        dls_drop_foreign(outcome->error);
    }
    if (outcome->column != NULL) {
        dls_acquired_drop(&outcome->column->acquired);
    }
    *outcome = (dls_outcome){.kind = DLS_NOT_LEARNED};
}

void *
dls_hot_drop(dls_hot hot)
{
    dls_outcome outcome = {.capsule = hot.capsule,
                           .managed = hot.capsule == NULL ? hot.managed : NULL};
    dls_outcome_drop(&outcome);
    return NULL;
}
