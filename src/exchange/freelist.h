/* Freelists: the memory of dead Producers and Tensors, for the next ones.  Getting it
 * from the collector's allocator and giving it back is a third of what a Producer
 * costs.  Called by what makes and destroys the two.  The GIL is held.
 *
 * An entry is memory with a collector's head, untracked, without references.  What it
 * was an object of is never looked at, because that type may be freed.  The lists are
 * globals, because objects outlive the module's state.  They stay empty without a GIL,
 * under a sanitizer (which should see dead objects), after Python's end, and for ever
 * once a subinterpreter has imported this module: it may have an allocator of its own.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>

#include "python/py.h"

#define DLS_FREELIST_ROOM 8 /* of each kind */
#define DLS_FREELIST_NDIM 4

typedef struct {
    int count, room; /* room 0: nothing is kept */
    PyObject *objects[DLS_FREELIST_ROOM];
} dls_freelist;

DLS_EXTERN dls_freelist dls_freelist_producers;
DLS_EXTERN dls_freelist dls_freelist_tensors[DLS_FREELIST_NDIM + 1]; /* at [ndim] */

/* At each import: use the lists from now on, until Py_Finalize.  alone: no
 * subinterpreter has imported this; else the lists are closed. */
void dls_freelists_open(bool alone);

/* Memory for one object, or NULL.  PyObject_Init or PyObject_InitVar makes an object of
 * it. */
static inline PyObject *
dls_freelist_take(dls_freelist *list)
{
#ifdef DLS_FREE_THREADED
    (void)list;
    return NULL;
#else
    return list->count > 0 ? list->objects[--list->count] : NULL;
#endif
}

/* Keep or free the memory of `self`, which is untracked and holds nothing.  After that
 * a dealloc may only drop its reference to the type. */
static inline void
dls_freelist_put(dls_freelist *list, PyObject *self)
{
#ifdef DLS_FREE_THREADED
    (void)list;
    PyObject_GC_Del(self);
#else
    assert(list->room <= DLS_FREELIST_ROOM);
    if (list->count < list->room) {
        list->objects[list->count++] = self;
    }
    else {
        PyObject_GC_Del(self);
    }
#endif
}
