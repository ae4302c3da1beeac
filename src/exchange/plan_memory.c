/* The memory of plans where there is no GIL, and the one step between finding a plan
 * and owning a count of it.  Empty in a build with the GIL.  Called by exchange/plan
 * and exchange/plan_cache.  Tests: tests/core/test_stress.py. */
#include "exchange/plan_memory.h"

#ifdef DLS_FREE_THREADED
#include <stddef.h>
#include <string.h>

#include "core/lock.h"

static dls_plan *without_owner; /* read and written under DLS_LOCK_PLANS */

dls_plan *
dls_plan_memory_take(PyTypeObject *type)
{
    /* Late readers may look at the count, and at nothing else while it is 0. */
    const size_t rest = offsetof(dls_plan, learned);
    dls_lock_take(DLS_LOCK_PLANS);
    dls_plan *plan = without_owner;
    if (plan != NULL) {
        without_owner = plan->next;
    }
    dls_lock_give(DLS_LOCK_PLANS);
    if (plan == NULL) {
        plan = dls_alloc(sizeof *plan);
        if (plan == NULL) {
            return NULL;
        }
        atomic_init(&plan->refs, 0);
    }
    memset((char *)plan + rest, 0, sizeof *plan - rest);
    plan->type = type;
    atomic_store_explicit(&plan->refs, 1, memory_order_release);
    return plan;
}

void
dls_plan_memory_give(dls_plan *plan)
{
    assert(plan->refs == 0);
    dls_lock_take(DLS_LOCK_PLANS);
    plan->next = without_owner;
    without_owner = plan;
    dls_lock_give(DLS_LOCK_PLANS);
}

dls_plan *
dls_plan_share_found(dls_plan *plan, const PyTypeObject *type)
{
    if (plan == NULL) {
        return NULL;
    }
    intptr_t refs = atomic_load_explicit(&plan->refs, memory_order_relaxed);
    do {
        if (refs == 0) {
            return NULL;
        }
    } while (!atomic_compare_exchange_weak(&plan->refs, &refs, refs + 1));
    if (plan->type == type) {
        return plan;
    }
    dls_plan_drop(plan);
    return NULL;
}
#endif
