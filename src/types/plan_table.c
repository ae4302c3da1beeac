/* A hash table with open addressing: makes, fills, grows and empties it.  Called by
 * types/plan_cache and types/class_method.  Tests: tests/core/test_lifetime.py,
 * tests/core/test_leaks.py. */
#include "types/plan_table.h"

#include <string.h>

#include "core/alloc.h"

/* Without the GIL one extra slot links to the previous, smaller table (in its
 * reference): a reader without a lock may still be in it. */
#ifdef DLS_FREE_THREADED
#define MORE 1
#else
#define MORE 0
#endif

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

void
dls_plan_cache_clear(dls_plan_cache *cache)
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
        dls_plan_cache_clear(cache);
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

/* --- adding ----------------------------------------------------------------- */

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
