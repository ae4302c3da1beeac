/* The plans of the types that were met, in two caches an interpreter (state->plans).
 * GIL held throughout. */
#pragma once

#include "types/plan_table.h"

/* Two caches, so that dls_plan_known, which is hot, finds no plan that is not meant. */
typedef struct dls_plan_caches {
    dls_plan_cache of_types;
    dls_plan_cache of_instances; /* of types whose instances have a __dlpack__ of their
                                  * own, and of those that offer nothing */
} dls_plan_caches;

/* NULL with MemoryError. */
dls_plan_caches *dls_plan_caches_new(void);
void dls_plan_caches_free(dls_plan_caches *plans); /* NULL allowed */
void dls_plan_caches_clear(dls_plan_caches *plans);
int dls_plan_caches_visit(dls_plan_caches *plans, visitproc visit, void *arg);

/* dls_plan_known_in, of the plans of types. */
static inline dls_plan *
dls_plan_known(dls_state *state, PyObject *obj)
{
    return dls_plan_known_in(&state->plans->of_types, obj);
}

/* The plan of an object's type, with a new count: the known one, or a new one.  NULL
 * with an exception of dls_plan_new, which is raised again where the type has been met
 * and offered nothing. */
dls_plan *dls_plan_find(dls_state *state, PyObject *obj);

/* An AttributeError or a BufferError is pending: is the __dlpack__ that the plan calls
 * gone since the type was met, or None now?  If so the plan is taken out
 * of the cache and fits no type any more, the exception is cleared and true is
 * returned. */
bool dls_plan_retire(dls_state *state, dls_plan *plan, PyObject *obj);

/* Take the plan of a type out of the cache, if it is there.  It fits no type any more.
 */
void dls_plan_forget(dls_state *state, dls_plan *plan);
