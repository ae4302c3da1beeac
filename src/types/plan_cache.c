/* Finds the plan of a type in a hash table with open addressing; makes, fills, grows
 * and empties that table.  Called by public/ (upgrade, from_dlpack) and module/ (its
 * life) and export/.  Foreign code runs where a new plan is made.  Tests:
 * tests/core/test_lifetime.py, tests/core/test_leaks.py. */
#include "types/plan_cache.h"

#include <string.h>

#include "core/alloc.h"
#include "python/errors.h"
#include "types/offers.h"

/* Without the GIL one extra slot links to the previous, smaller table (in its
 * reference): a reader without a lock may still be in it. */
#ifdef DLS_FREE_THREADED
#define MORE 1
#else
#define MORE 0
#endif

enum { FIRST_SIZE = 32 };

static dls_plan_entry *
entries_new(size_t size)
{
    dls_plan_entry *entries = dls_alloc((size + MORE) * sizeof *entries);
    if (entries == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    memset((void *)entries, 0, (size + MORE) * sizeof *entries);
    return entries;
}

/* Write an entry.  Without the GIL readers may look at it meanwhile: they check that
 * the plan is of the type that they look for. */
static inline void
entry_write(dls_plan_entry *slot, const dls_plan_entry *entry)
{
#ifdef DLS_FREE_THREADED
    slot->plan = entry->plan;
    slot->reference = entry->reference;
    slot->type = entry->type;
#else
    *slot = *entry;
#endif
}

static inline void
entry_clear(dls_plan_entry *slot)
{
    const dls_plan_entry none = {NULL, NULL, NULL};
    entry_write(slot, &none);
}

/* Free a table, and the smaller tables that it has replaced. */
static void
entries_free(dls_plan_entry *entries, size_t size)
{
#ifdef DLS_FREE_THREADED
    for (void *before = entries[size].reference; before != NULL; size /= 2) {
        dls_free(entries);
        entries = before;
        before = entries[size / 2].reference;
    }
#else
    (void)size;
#endif
    dls_free(entries);
}

int
dls_plan_cache_init(dls_plan_cache *cache, size_t size)
{
    *cache = (dls_plan_cache){.entries = entries_new(size), .size = size};
    return cache->entries != NULL ? 0 : -1;
}

/* Move the entry at `hole` to *taken, and close the gap.  Producers may still own the
 * plan: from here on it fits no type, because nothing tells it when its type ends.  The
 * caller holds the lock. */
static void
entry_take(dls_plan_cache *cache, size_t hole, dls_plan_entry *taken)
{
    dls_plan_entry *entries = cache->entries;
    size_t mask = cache->size - 1;
    *taken = entries[hole];
    taken->plan->type = NULL;
    entry_clear(&entries[hole]);
    cache->used--;
    for (size_t i = (hole + 1) & mask; entries[i].type != NULL; i = (i + 1) & mask) {
        size_t first = dls_plan_first_slot(cache->size, entries[i].type);
        if (((i - first) & mask) >= ((i - hole) & mask)) {
            entry_write(&entries[hole], &entries[i]);
            entry_clear(&entries[i]);
            hole = i;
        }
    }
}

/* Drop an entry that was taken out.  Code may run that looks plans up. */
static void
entry_drop(const dls_plan_entry *taken)
{
    dls_plan_close(taken->plan);
    Py_XDECREF(taken->reference);
}

static void
cache_clear(dls_plan_cache *cache)
{
    for (size_t i = 0; i < cache->size; i++) {
        dls_plan_entry taken = {NULL, NULL, NULL};
        DLS_LOCK_STATE();
        if (cache->entries[i].type != NULL) {
            entry_take(cache, i--, &taken); /* a later entry may have filled the gap */
        }
        DLS_UNLOCK();
        entry_drop(&taken);
    }
}

void
dls_plan_cache_free(dls_plan_cache *cache)
{
    if (cache->entries != NULL) {
        cache_clear(cache);
        entries_free(cache->entries, cache->size);
    }
}

int
dls_plan_cache_visit(dls_plan_cache *cache, visitproc visit, void *arg)
{
    for (size_t i = 0; i < cache->size; i++) {
        Py_VISIT(cache->entries[i].reference);
    }
    return 0;
}

void
dls_plan_cache_forget(dls_plan_cache *cache, const PyTypeObject *type,
                      PyObject *reference)
{
    dls_plan_entry taken = {NULL, NULL, NULL};
    DLS_LOCK_STATE();
    dls_plan_entry *slot = dls_plan_slot(cache, type);
    if (slot->reference == reference) {
        entry_take(cache, (size_t)(slot - cache->entries), &taken);
    }
    DLS_UNLOCK();
    entry_drop(&taken);
}

/* Callback of the weak reference to a type whose plan is cached: the type has gone.
 * about: the module, and the type's address, by which the entries are found. */
static PyObject *
forget_type(PyObject *about, PyObject *reference)
{
    dls_plan_caches *plans = dls_state_of(PyTuple_GetItem(about, 0))->plans;
    const PyTypeObject *type = PyLong_AsVoidPtr(PyTuple_GetItem(about, 1));
    dls_plan_cache_forget(&plans->of_types, type, reference);
    dls_plan_cache_forget(&plans->of_instances, type, reference);
    Py_RETURN_NONE;
}

static PyMethodDef forget_method = {"_forget", forget_type, METH_O, NULL};

/* A weak reference to the type, whose end empties its entry; NULL with an exception. */
static PyObject *
reference_new(PyObject *keeper, PyTypeObject *type, PyMethodDef *function)
{
    PyObject *about = Py_BuildValue("(ON)", keeper, PyLong_FromVoidPtr(type));
    PyObject *callback = about != NULL ? PyCFunction_New(function, about) : NULL;
    PyObject *reference = callback != NULL
                              ? PyWeakref_NewRef((PyObject *)type, callback)
                              : NULL;
    Py_XDECREF(about);
    Py_XDECREF(callback);
    return reference;
}

/* --- the two ------------------------------------------------------------------- */

dls_plan_caches *
dls_plan_caches_new(void)
{
    dls_plan_caches *plans = dls_alloc(sizeof *plans);
    if (plans == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    *plans = (dls_plan_caches){.of_types = {.entries = NULL}};
    if (dls_plan_cache_init(&plans->of_types, FIRST_SIZE) < 0
        || dls_plan_cache_init(&plans->of_instances, FIRST_SIZE) < 0) {
        dls_plan_caches_free(plans);
        return NULL;
    }
    return plans;
}

void
dls_plan_caches_clear(dls_plan_caches *plans)
{
    cache_clear(&plans->of_types);
    cache_clear(&plans->of_instances);
}

void
dls_plan_caches_free(dls_plan_caches *plans)
{
    if (plans != NULL) {
        dls_plan_cache_free(&plans->of_types);
        dls_plan_cache_free(&plans->of_instances);
        dls_free(plans);
    }
}

int
dls_plan_caches_visit(dls_plan_caches *plans, visitproc visit, void *arg)
{
    int stop = dls_plan_cache_visit(&plans->of_types, visit, arg);
    return stop != 0 ? stop : dls_plan_cache_visit(&plans->of_instances, visit, arg);
}

/* --- adding
 * --------------------------------------------------------------------------- */

/* Give it these entries, twice as many.  Readers without the lock read the size first:
 * the one that they see fits the entries that they see, or more of them. */
static void
move_entries(dls_plan_cache *cache, dls_plan_entry *entries)
{
    const dls_plan_cache grown = {.entries = entries, .size = cache->size * 2};
    for (size_t i = 0; i < cache->size; i++) {
        if (cache->entries[i].type != NULL) {
            *dls_plan_slot(&grown, cache->entries[i].type) = cache->entries[i];
        }
    }
#ifdef DLS_FREE_THREADED
    entries[grown.size].reference = (PyObject *)cache->entries;
#else
    dls_free(cache->entries);
#endif
    cache->entries = entries;
    cache->size = grown.size;
}

/* The entries are made before the lock is taken.  0, or -1 with MemoryError. */
static int
cache_grow(dls_plan_cache *cache)
{
    size_t size = cache->size;
    dls_plan_entry *entries = entries_new(size * 2);
    if (entries == NULL) {
        return -1;
    }
    DLS_LOCK_STATE();
    bool outgrown = cache->size == size; /* else another thread was quicker */
    if (outgrown) {
        move_entries(cache, entries);
    }
    DLS_UNLOCK();
    if (!outgrown) {
        dls_free(entries);
    }
    return 0;
}

/* Put an entry where there is room for it, and no other of its type.  True: it was put.
 */
static bool
entry_put(dls_plan_cache *cache, const dls_plan_entry *entry)
{
    dls_plan_entry *slot = dls_plan_slot(cache, entry->type);
    if (slot->type != NULL) {
        return false;
    }
    entry_write(slot, entry);
    cache->used++;
    return true;
}

int
dls_plan_cache_keep(dls_plan_cache *cache, dls_plan *plan, PyObject *keeper,
                    PyMethodDef *function)
{
    PyObject *reference = reference_new(keeper, plan->type, function);
    if (reference == NULL) {
        return -1;
    }
    /* Making a weak reference may run the collector, and that our callback: look for
     * the slot only now. */
    const dls_plan_entry entry = {plan->type, dls_plan_share(plan), reference};
    dls_plan_open(plan);
    bool room, put, grown;
    do {
        DLS_LOCK_STATE();
        room = cache->used * 3 < cache->size * 2;
        put = room && entry_put(cache, &entry);
        DLS_UNLOCK();
        grown = !room && cache_grow(cache) == 0;
    } while (grown);
    if (!put) {
        entry_drop(&entry);
    }
    return room ? put : -1;
}

/* The same for a cache of the state.  0: also because the module was emptied (state.h):
 * the plan would never be taken out. */
static int
cache_add(dls_state *state, dls_plan_cache *cache, dls_plan *plan)
{
    PyObject *module = dls_state_borrow(&state->module);
    int kept = module != NULL ? dls_plan_cache_keep(cache, plan, module, &forget_method)
                              : 0;
    dls_let_go(module);
    return kept;
}

void
dls_plan_cache_retire(dls_plan_cache *cache, dls_plan *plan)
{
    DLS_LOCK_STATE();
    dls_plan_entry taken = {NULL, NULL, NULL}, *slot = dls_plan_slot(cache, plan->type);
    plan->type = NULL;
    if (slot->plan == plan) {
        entry_take(cache, (size_t)(slot - cache->entries), &taken);
    }
    DLS_UNLOCK();
    entry_drop(&taken);
}

#ifdef DLS_FREE_THREADED
dls_plan *
dls_plan_known_in(dls_plan_cache *cache, PyObject *obj)
{
    PyTypeObject *type = Py_TYPE(obj), *there;
    size_t size = cache->size; /* before the entries: see cache_grow */
    dls_plan_entry *entries = cache->entries;
    size_t i = dls_plan_first_slot(size, type);
    for (size_t n = 0; n < size; n++, i = (i + 1) & (size - 1)) {
        there = entries[i].type;
        if (there == type || there == NULL) {
            return there != NULL ? dls_plan_share_found(entries[i].plan, type) : NULL;
        }
    }
    return NULL;
}
#else
/* Apart: it passes the address of a local on, and the stack protector would guard every
 * function that looks a plan up. */
dls_plan *
dls_plan_cache_forget_dead(dls_plan_cache *cache, dls_plan_entry *slot)
{
    dls_plan_entry taken;
    entry_take(cache, (size_t)(slot - cache->entries), &taken);
    entry_drop(&taken);
    return NULL;
}
#endif

/* A plan that offers nothing (a count, stolen), if that still is so; else it is taken
 * out, and NULL. */
static dls_plan *
nothing_still(dls_state *state, dls_plan *plan, PyObject *obj)
{
    if (dls_offers_nothing_still(state, plan, obj)) {
        return plan;
    }
    dls_plan_cache_retire(&state->plans->of_instances, plan);
    dls_plan_drop(plan);
    return NULL;
}

/* The plan of a type whose instances may have a __dlpack__ of their own, if this one
 * has it.  A proxy (a type with __getattr__) is not asked: looking can cost it a
 * millisecond, and its export tells the same.  Of a class that dlshim.producer changed,
 * the caller asks dls_object_has_our_method. */
static dls_plan *
known_of_instance(dls_state *state, PyObject *obj)
{
    PyObject *method = NULL;
    dls_plan *plan = dls_plan_known_in(&state->plans->of_instances, obj);
    if (plan == NULL || plan->is_proxy || plan->is_decorated) {
        return plan;
    }
    if (plan->offers == 0) {
        return nothing_still(state, plan, obj);
    }
    int got = dls_get_optional(obj, state->names.dlpack, &method);
    bool has = got > 0 && method != Py_None;
    Py_XDECREF(method);
    if (!has) {
        PyErr_Clear(); /* looking at everything raises it again */
        dls_plan_drop(plan);
    }
    return has ? plan : NULL;
}

/* The cache of a plan that is not an author's. */
static dls_plan_cache *
cache_of(dls_state *state, const dls_plan *plan)
{
    return plan->on_instance || plan->offers == 0 ? &state->plans->of_instances
                                                  : &state->plans->of_types;
}

/* Put a new plan (stolen) into the cache.  The plan that the cache has of the type
 * afterwards, which may be another thread's, or the plan itself where no cache takes
 * it; NULL with an exception. */
static dls_plan *
keep_plan(dls_state *state, PyObject *obj, dls_plan *plan)
{
    if (plan->on_instance && !dls_plan_offers(plan, DLS_PROTOCOL_DLPACK)) {
        return plan; /* it tells of this one object, and has nothing of the type */
    }
    if (plan->offers == 0 && !plan->keeps_refusal) {
        return plan;
    }
    dls_plan_cache *cache = cache_of(state, plan);
    int kept = cache_add(state, cache, plan);
    if (kept > 0 || (kept == 0 && plan->offers == 0)) {
        return plan; /* another plan of instances may be there, which is not obj's */
    }
    dls_plan *there = kept == 0 ? dls_plan_known_in(cache, obj) : NULL;
    if (kept == 0 && there == NULL) {
        plan->type = NULL; /* nothing would tell it when the type ends */
        return plan;
    }
    dls_plan_drop(plan);
    return there;
}

dls_plan *
dls_plan_find(dls_state *state, PyObject *obj)
{
    dls_plan *plan = dls_plan_known(state, obj);
    plan = plan != NULL ? plan : known_of_instance(state, obj);
    if (plan == NULL) {
        PyObject *type = PyObject_Type(obj);
        plan = dls_plan_look(state, obj, (PyTypeObject *)type);
        if (plan != NULL && plan->offers != 0) {
            plan->producer_type = NULL; /* found when an object is upgraded */
        }
        plan = plan != NULL ? keep_plan(state, obj, plan) : NULL;
        Py_DECREF(type);
    }
    if (plan != NULL && plan->offers == 0) {
        dls_plan_drop(plan);
        dls_refuse_unsupported(state, obj, false);
        return NULL;
    }
    return plan;
}

void
dls_plan_forget(dls_state *state, dls_plan *plan)
{
    dls_plan_cache_retire(cache_of(state, plan), plan);
}

bool
dls_plan_retire(dls_state *state, dls_plan *plan, PyObject *obj)
{
    PyObject *error = dls_error_take(), *method = NULL;
    int got = dls_plan_offers(plan, DLS_PROTOCOL_DLPACK)
                  ? dls_get_optional(obj, state->names.dlpack, &method)
                  : -1;
    bool lost = got == 0 || method == Py_None;
    Py_XDECREF(method);
    if (!lost) {
        PyErr_Clear();
        dls_error_restore(error);
        return false;
    }
    Py_XDECREF(error);
    dls_plan_forget(state, plan);
    return true;
}
