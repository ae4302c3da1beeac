/* Spare objects: what the collector's allocator takes for a Producer or a Tensor, at
 * birth and at death, is a third of what making one costs.
 *
 * A spare is memory with a collector's head, untracked, without references of any kind;
 * what it was an object of is not looked at again, for that type may be gone.  The
 * lists belong to the process: at the end of the interpreter objects outlive the
 * module's state.  GIL held; none are kept where there is no GIL, nor under a
 * sanitizer, which should see what is dead, nor ever after a subinterpreter has
 * imported this module: it may have an allocator of its own.
 */
#ifndef DLS_MODULE_SPARE_H
#define DLS_MODULE_SPARE_H

#include <stdbool.h>

#include "python/py.h"

#define DLS_SPARES 8 /* of each kind */
#define DLS_SPARE_NDIM 4

typedef struct {
    int count, room; /* room 0: none are kept */
    PyObject *objects[DLS_SPARES];
} dls_spares;

extern dls_spares dls_spare_producers;
extern dls_spares dls_spare_tensors[DLS_SPARE_NDIM + 1]; /* by ndim */

/* At each import: from now on, until Py_Finalize.  alone: no subinterpreter has
 * imported this. */
void dls_spares_open(bool alone);

/* NULL: none that fits.  PyObject_Init or PyObject_InitVar makes an object of it. */
static inline PyObject *
dls_spare_take(dls_spares *spares)
{
    return spares->count > 0 ? spares->objects[--spares->count] : NULL;
}

/* The last step of a dealloc but for the type's reference: self is untracked, and
 * empty. */
static inline void
dls_spare_give(dls_spares *spares, PyObject *self)
{
    if (spares->count < spares->room) {
        spares->objects[spares->count++] = self;
    }
    else {
        PyObject_GC_Del(self);
    }
}

#endif
