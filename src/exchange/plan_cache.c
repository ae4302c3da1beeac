/* Finds the plan of a type in a hash table with open addressing; makes, fills, grows
 * and empties that table.  Called by module/ (upgrade, from_dlpack, the module's life)
 * and export/.  Foreign code runs where a new plan is made.  Tests:
 * tests/core/test_lifetime.py, tests/core/test_leaks.py. */
#include "exchange/plan_cache.h"

#include <string.h>

#include "core/alloc.h"
#include "python/errors.h"

static dls_plan_entry *
entries_new(size_t size)
{
    dls_plan_entry *entries = dls_alloc(size * sizeof *entries);
    if (entries == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    memset(entries, 0, size * sizeof *entries);
    return entries;
}

static dls_plan_cache *
cache_new(void)
{
    enum { FIRST_SIZE = 32 };
    dls_plan_entry *entries = entries_new(FIRST_SIZE);
    dls_plan_cache *cache = entries != NULL ? dls_alloc(sizeof *cache) : NULL;
    if (cache == NULL) {
        dls_free(entries);
        PyErr_NoMemory();
        return NULL;
    }
    *cache = (dls_plan_cache){.entries = entries, .size = FIRST_SIZE};
    return cache;
}

dls_plan_cache *
dls_plan_cache_new(void)
{
    dls_plan_cache *cache = cache_new();
    if (cache != NULL) {
        cache->of_instances = cache_new();
    }
    if (cache != NULL && cache->of_instances == NULL) {
        dls_plan_cache_free(cache);
        return NULL;
    }
    return cache;
}

void
dls_plan_cache_clear(dls_plan_cache *cache)
{
    for (size_t i = 0; i < cache->size; i++) {
        dls_plan_entry taken = cache->entries[i];
        cache->entries[i] = (dls_plan_entry){0};
        dls_plan_drop(taken.plan);
        Py_XDECREF(taken.reference);
    }
    cache->used = 0;
    if (cache->of_instances != NULL) {
        dls_plan_cache_clear(cache->of_instances);
    }
}

void
dls_plan_cache_free(dls_plan_cache *cache)
{
    if (cache != NULL) {
        dls_plan_cache_clear(cache);
        dls_plan_cache_free(cache->of_instances);
        dls_free(cache->entries);
        dls_free(cache);
    }
}

int
dls_plan_cache_visit(dls_plan_cache *cache, visitproc visit, void *arg)
{
    for (size_t i = 0; i < cache->size; i++) {
        Py_VISIT(cache->entries[i].reference);
    }
    return cache->of_instances != NULL
               ? dls_plan_cache_visit(cache->of_instances, visit, arg)
               : 0;
}

static void
cache_remove(dls_plan_cache *cache, size_t hole)
{
    dls_plan_entry taken = cache->entries[hole];
    size_t mask = cache->size - 1;
    cache->entries[hole] = (dls_plan_entry){0};
    cache->used--;
    for (size_t i = (hole + 1) & mask; cache->entries[i].type != NULL;
         i = (i + 1) & mask) {
        size_t home = dls_plan_home(cache, cache->entries[i].type);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            cache->entries[hole] = cache->entries[i];
            cache->entries[i] = (dls_plan_entry){0};
            hole = i;
        }
    }
    dls_plan_drop(taken.plan);
    Py_XDECREF(taken.reference);
}

void
dls_plan_cache_forget(dls_plan_cache *cache, PyObject *reference)
{
    for (size_t i = 0; i < cache->size; i++) {
        if (cache->entries[i].reference == reference) {
            cache_remove(cache, i);
            return;
        }
    }
    if (cache->of_instances != NULL) {
        dls_plan_cache_forget(cache->of_instances, reference);
    }
}

static int
cache_grow(dls_plan_cache *cache)
{
    dls_plan_cache grown = {.size = cache->size * 2, .used = cache->used};
    grown.entries = entries_new(grown.size);
    if (grown.entries == NULL) {
        return -1;
    }
    for (size_t i = 0; i < cache->size; i++) {
        if (cache->entries[i].type != NULL) {
            *dls_plan_slot(&grown, cache->entries[i].type) = cache->entries[i];
        }
    }
    dls_free(cache->entries);
    grown.of_instances = cache->of_instances;
    *cache = grown;
    return 0;
}

/* Takes a count of its own, and leaves a plan of the same type that is there already.
 * Adds nothing to the plans of a module that was emptied (state.h). */
static int
cache_add(dls_state *state, dls_plan_cache *cache, dls_plan *plan)
{
    if (state->forget == NULL) {
        return 0; /* the module was emptied (state.h): nobody would take the plan out */
    }
    PyObject *reference = PyWeakref_NewRef((PyObject *)plan->type, state->forget);
    if (reference == NULL) {
        return -1;
    }
    /* Making a weak reference may run the collector, and that our callback: look for
     * the slot only now. */
    if (cache->used * 3 >= cache->size * 2 && cache_grow(cache) < 0) {
        Py_DECREF(reference);
        return -1;
    }
    dls_plan_entry *slot = dls_plan_slot(cache, plan->type);
    if (slot->type != NULL) {
        Py_DECREF(reference);
        return 0;
    }
    *slot = (dls_plan_entry){plan->type, dls_plan_share(plan), reference};
    cache->used++;
    return 0;
}

dls_plan *
dls_plan_cache_forget_dead(dls_plan_cache *cache, dls_plan_entry *slot)
{
    cache_remove(cache, (size_t)(slot - cache->entries));
    return NULL;
}

/* The plan of a type whose instances may have a __dlpack__ of their own, if this one
 * has it.  A proxy (a type with __getattr__) is not asked: looking can cost it a
 * millisecond, and its export tells the same. */
static dls_plan *
known_of_instance(dls_state *state, PyObject *obj)
{
    PyObject *method = NULL;
    dls_plan *plan = dls_plan_known_in(state->plans->of_instances, obj);
    if (plan == NULL || plan->is_proxy) {
        return plan;
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

dls_plan *
dls_plan_find(dls_state *state, PyObject *obj)
{
    dls_plan_cache *plans = state->plans;
    dls_plan *plan = dls_plan_known(state, obj);
    plan = plan != NULL ? plan : known_of_instance(state, obj);
    if (plan != NULL) {
        return plan;
    }
    plan = dls_plan_new(state, obj);
    bool kept = plan != NULL
                && (!plan->on_instance || dls_plan_offers(plan, DLS_PROTOCOL_DLPACK));
    if (kept
        && cache_add(state, plan->on_instance ? plans->of_instances : plans, plan)
               < 0) {
        dls_plan_drop(plan);
        return NULL;
    }
    return plan;
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
    dls_plan_cache *cache = plan->on_instance ? state->plans->of_instances
                                              : state->plans;
    dls_plan_entry *slot = dls_plan_slot(cache, plan->type);
    plan->type = NULL;
    if (slot->plan == plan) {
        cache_remove(cache, (size_t)(slot - cache->entries));
    }
    return true;
}
