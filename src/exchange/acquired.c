/* Makes, checks and gives back what was acquired.  Called by acquire/, export/ and
 * older_protocols/.  Tests: tests/core/test_capsule_life.py, test_ways_in.py. */
#include "exchange/acquired.h"

#include <assert.h>

#include "core/alloc.h"
#include "python/capsule.h"
#include "python/errors.h"

void
dls_acquired_init(dls_acquired *acquired)
{
    *acquired = (dls_acquired){.generation = DLS_OLDER, .copy.kind = DLS_COPY_NONE};
}

void
dls_acquired_drop(dls_acquired *acquired)
{
    PyObject *capsule = acquired->capsule;
    dls_hold hold = acquired->hold;
    const bool shared = acquired->shared;
    const bool versioned = acquired->generation == DLS_VERSIONED;
    if (acquired->dims != acquired->few_dims) {
        dls_free(acquired->dims);
    }
    dls_acquired_init(acquired);
    if (capsule != NULL) {
        if (shared) {
            dls_capsule_unclaim(capsule, versioned);
        }
        dls_drop_foreign(capsule);
    }
    if (!dls_hold_is_empty(&hold)) {
        dls_hold_drop(&hold, DLS_ATTACHED);
    }
}

int
dls_acquired_make_dims(dls_acquired *acquired, int32_t ndim)
{
    assert(acquired->dims == NULL && ndim >= 0);
    acquired->dims = ndim <= DLS_FEW_DIMS
                         ? acquired->few_dims
                         : dls_alloc(2 * (size_t)ndim * sizeof *acquired->dims);
    if (acquired->dims == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

#ifndef NDEBUG

bool
dls_acquired_is_empty(const dls_acquired *acquired)
{
    return acquired->managed == NULL && acquired->capsule == NULL
           && acquired->dims == NULL && dls_hold_is_empty(&acquired->hold);
}

/* It is exactly one of these:
 * 1. nothing;
 * 2. a capsule that was looked into, and is not taken yet; of one that others hold too,
 *    the dimensions are a copy;
 * 3. a struct that belongs to the hold;
 * 4. memory that an older protocol describes, which the hold keeps alive;
 * 5. a share of a Tensor's memory. */
bool
dls_acquired_check(const dls_acquired *acquired)
{
    const dls_hold *hold = &acquired->hold;
    bool older = acquired->generation == DLS_OLDER;
    if (dls_acquired_is_empty(acquired)) {
        return true;
    }
    if (acquired->managed != NULL) {
        bool owned = acquired->capsule == NULL && hold->base == acquired->managed;
        bool untaken = acquired->capsule != NULL && dls_hold_is_empty(hold);
        bool copied = acquired->shared && acquired->tensor.shape == acquired->dims;
        return !older && (acquired->dims == NULL || copied) && (owned || untaken);
    }
    bool described = older && acquired->tensor.shape == acquired->dims;
    return acquired->capsule == NULL
           && (acquired->dims != NULL ? described && !dls_hold_is_empty(hold)
                                      : hold->kind == DLS_HOLD_SHARED);
}

#endif
