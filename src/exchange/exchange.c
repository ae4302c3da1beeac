/* Makes and gives back a dls_acquired; and checks the rules of the record, for asserts.
 * Called by all that fill or read it; the rules at the entrances of acquire, resolve
 * and export.  Tests: tests/core/test_negotiation.py, in a build with DLSHIM_ASSERT=1,
 * tests/core/test_capsule_life.py. */
#include "exchange/exchange.h"

#include <assert.h>

#include "core/alloc.h"
#include "python/capsule.h"
#include "python/errors.h"

/* --- what was acquired ---------------------------------------------------- */

void
dls_acquired_init(dls_acquired *acquired)
{
    *acquired = (dls_acquired){.generation = DLS_DESCRIBED, .copy.kind = DLS_COPY_NONE};
}

void
dls_acquired_drop(dls_acquired *acquired)
{
    PyObject *capsule = acquired->capsule;
    dls_hold hold = acquired->hold;
    const bool shared = acquired->shared;
    const bool versioned = acquired->generation == DLS_VERSIONED;
    if (acquired->dims != NULL && acquired->dims != acquired->few_dims) {
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

/* The struct was not checked yet: its offset may be a lie, and beside a handle it is no
 * part of an address, so no pointer is computed. */
dls_memory *
dls_acquired_memory(dls_acquired *acquired)
{
    const dl_tensor *tensor = &acquired->tensor;
    const void *address = (const void *)((uintptr_t)tensor->data
                                         + (uintptr_t)tensor->byte_offset);
    if (acquired->memory.address != address) {
        acquired->memory = (dls_memory){.address = address};
    }
    return &acquired->memory;
}

void
dls_acquired_move(dls_acquired *from, dls_acquired *to)
{
    *to = *from;
    if (from->dims == from->few_dims) {
        to->dims = to->few_dims;
        to->tensor.shape = to->dims;
        to->tensor.strides = from->tensor.strides != NULL ? to->dims + to->tensor.ndim
                                                          : NULL;
    }
    dls_acquired_init(from);
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

/* A dls_acquired is exactly one of these:
 * 1. nothing;
 * 2. a capsule that was looked into, and is not taken yet; if others hold it too, its
 *    dimensions are a copy;
 * 3. a struct that belongs to the hold;
 * 4. memory that an older protocol describes, which the hold keeps alive;
 * 5. a share of a Tensor's memory. */
static bool
acquired_check(const dls_acquired *acquired)
{
    const dls_hold *hold = &acquired->hold;
    bool older = acquired->generation == DLS_DESCRIBED;
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

/* --- the record ----------------------------------------------------------- */

/* The fast path left nothing, or one answer, or an error. */
static bool
outcome_check(const dls_outcome *outcome)
{
    bool raised = outcome->kind == DLS_RAISED;
    bool column = outcome->column != NULL && !raised;
    int answers = (outcome->capsule != NULL) + (outcome->managed != NULL) + column;
    return answers == (raised || outcome->kind == DLS_NOT_LEARNED ? 0 : 1)
           && (raised || outcome->error == NULL);
}

/* 1. State, source and plan are there, and the plan is good.
 * 2. No exception is pending: foreign code may run.
 * 3. The request remembers its stream in itself; copy is one of three words.
 * 4. An error of a form that was tried is there only if a form was tried.
 * 5. x->acquired is one of the five cases of acquired_check. */
bool
dls_exchange_check(const dls_exchange *x)
{
    const dls_request *request = &x->request;
    return x->state != NULL && x->source != NULL && x->plan != NULL
           && dls_plan_check(x->plan) && PyErr_Occurred() == NULL
           && request->streams.seen == &x->request.streams.read
           && request->want.copy >= -1 && request->want.copy <= 1
           && outcome_check(&x->outcome)
           && ((x->tried & DLS_FORM_KNOWN) || x->tried_error == NULL)
           && acquired_check(&x->acquired);
}

#endif
