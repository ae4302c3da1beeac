/* The rules of the record, for asserts.  Called at the entrances of acquire, resolve
 * and export.  Tests: tests/core/test_negotiation.py, in a build with
 * DLSHIM_ASSERT=1. */
#include "exchange/exchange.h"

#ifndef NDEBUG

/* What the fast path left is nothing, or one answer, or an error. */
static bool
outcome_check(const dls_outcome *outcome)
{
    bool raised = outcome->kind == DLS_RAISED;
    int answers = (outcome->capsule != NULL) + (outcome->managed != NULL);
    return answers == (raised || outcome->kind == DLS_NOT_LEARNED ? 0 : 1)
           && (raised || outcome->error == NULL);
}

/* 1. State, source and plan are there, and the plan is good.
 * 2. No exception is pending: foreign code may run.
 * 3. The request remembers its stream in itself; copy is one of three words.
 * 4. An error of a form that was tried is there only if a form was tried.
 * 5. What came is one of the five cases of dls_acquired_check. */
bool
dls_exchange_check(const dls_exchange *x)
{
    const dls_request *request = &x->request;
    return x->state != NULL && x->source != NULL && x->plan != NULL
           && dls_plan_check(x->plan) && PyErr_Occurred() == NULL
           && request->seen == &x->request.stream_read && request->copy >= -1
           && request->copy <= 1 && outcome_check(&x->outcome)
           && (x->tried.known || x->tried_error == NULL)
           && dls_acquired_check(&x->acquired);
}

#endif
