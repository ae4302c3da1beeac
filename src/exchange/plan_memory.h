/* The memory of plans.  With the GIL it is a block of dls_alloc.  Without it, a thread
 * may find a plan in the cache while another takes the plan out and drops it.  The
 * memory of a plan is therefore never given back to the system, only used for the next
 * plan: whoever comes late finds a count of 0, or a plan of another type, and no plan.
 * Called by exchange/plan and exchange/plan_cache.  Any thread. */
#pragma once

#include "core/alloc.h"
#include "exchange/plan.h"

#ifdef DLS_FREE_THREADED
/* A plan of `type` that says nothing yet, with a count of 1; NULL when out of memory.
 */
dls_plan *dls_plan_memory_take(PyTypeObject *type);
/* The memory of a plan whose count is 0 and which holds nothing any more. */
void dls_plan_memory_give(dls_plan *plan);
/* A plan that was found without a lock (NULL allowed): with a count more if it still is
 * the plan of this living type, else NULL. */
dls_plan *dls_plan_share_found(dls_plan *plan, const PyTypeObject *type);

#else
static inline dls_plan *
dls_plan_memory_take(PyTypeObject *type)
{
    dls_plan *plan = dls_alloc(sizeof *plan);
    if (plan != NULL) {
        *plan = (dls_plan){.refs = 1, .type = type};
    }
    return plan;
}
#define dls_plan_memory_give dls_free
#endif
