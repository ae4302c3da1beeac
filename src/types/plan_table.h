/* One cache of plans: a hash table by type.  A plan in it has a weak reference to its
 * type, whose end takes the plan out.  Used by types/plan_cache, and for each method of
 * a decorated class by types/class_method.  GIL held throughout.
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

/* Make it, with room for `size` entries (a power of two); free it, also one
 * of zeros; take all out; show its weak references to the collector.  0, or -1 with
 * MemoryError. */
int dls_plan_cache_init(dls_plan_cache *cache, size_t size);
void dls_plan_cache_free(dls_plan_cache *cache);
void dls_plan_cache_clear(dls_plan_cache *cache);
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
