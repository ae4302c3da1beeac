/* The plans of the types that were met, in two caches an interpreter (state->plans),
 * and in one for each method of a decorated class (types/class_method).  GIL held
 * throughout.
 *
 * Without the GIL, DLS_LOCK_STATE guards all writing.  Looking a plan up takes no lock,
 * and tables that were replaced by larger ones are freed with the cache.  A thread that
 * looks while another moves entries may not find a plan that is there, and then makes
 * one of its own; it never gets a plan of another type.  A plan that was found is
 * counted in one step (types/plan.c). */
#pragma once

#include "core/base.h"
#include "types/plan.h"

typedef struct {
    /* NULL: free.  Never a tombstone: removal closes the gap */
    DLS_ATOMIC(PyTypeObject *) type;
    DLS_ATOMIC(dls_plan *) plan;
    PyObject *reference; /* weak, its callback empties this entry */
} dls_plan_entry;

/* Open addressing by the type's address. */
typedef struct {
    DLS_ATOMIC(dls_plan_entry *) entries;
    DLS_ATOMIC(size_t) size; /* a power of two */
    size_t used;
} dls_plan_cache;

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

/* One cache: make it, with room for `size` entries (a power of two); free it, also one
 * of zeros; show its weak references to the collector.  0, or -1 with MemoryError. */
int dls_plan_cache_init(dls_plan_cache *cache, size_t size);
void dls_plan_cache_free(dls_plan_cache *cache);
int dls_plan_cache_visit(dls_plan_cache *cache, visitproc visit, void *arg);
/* Keep a plan, whose type the caller owns; it takes a count of its own.  `forget` is
 * the function of the weak reference, which gets the pair (keeper, address of the type)
 * and that reference, for dls_plan_cache_forget.  1: it is kept; 0: there is another of
 * the type; -1: an exception. */
int dls_plan_cache_keep(dls_plan_cache *cache, dls_plan *plan, PyObject *keeper,
                        PyMethodDef *forget);
/* The type of this address has ended, as its weak reference says: take its plan out. */
void dls_plan_cache_forget(dls_plan_cache *cache, const PyTypeObject *type,
                           PyObject *reference);
/* Take the plan out of the cache, if it is there.  It fits no type any more. */
void dls_plan_cache_retire(dls_plan_cache *cache, dls_plan *plan);
/* The callback that empties an entry can fail (at the recursion limit, up to 3.11):
 * then the reference is dead, and the address may be another type's by now.  Always
 * NULL. */
dls_plan *dls_plan_cache_forget_dead(dls_plan_cache *cache, dls_plan_entry *slot);

static inline size_t
dls_plan_first_slot(size_t size, const PyTypeObject *type)
{
    uintptr_t address = (uintptr_t)type >> 4;
    return (size_t)(address ^ address >> 7) & (size - 1);
}

/* The slot of the type's plan, or the slot where it would be. */
static inline dls_plan_entry *
dls_plan_slot(const dls_plan_cache *cache, const PyTypeObject *type)
{
    size_t i = dls_plan_first_slot(cache->size, type);
    while (cache->entries[i].type != type && cache->entries[i].type != NULL) {
        i = (i + 1) & (cache->size - 1);
    }
    return &cache->entries[i];
}

/* The plan of an object's type if it has been met before, with a new count; else NULL,
 * nothing set.  Types of ours and capsules are never met. */
#ifdef DLS_FREE_THREADED
dls_plan *dls_plan_known_in(dls_plan_cache *cache, PyObject *obj);
#else
static inline dls_plan *
dls_plan_known_in(dls_plan_cache *cache, PyObject *obj)
{
    dls_plan_entry *slot = dls_plan_slot(cache, Py_TYPE(obj));
    if (slot->type == NULL) {
        return NULL;
    }
    bool alive = dls_compat.PyWeakref_GetObject(slot->reference)
                 == (PyObject *)slot->type;
    return !alive ? dls_plan_cache_forget_dead(cache, slot)
                  : dls_plan_share(slot->plan);
}
#endif

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
