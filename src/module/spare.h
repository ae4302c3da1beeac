/* Spare objects: what the collector's allocator takes for a Producer or a Tensor, at birth and
 * at death, is a third of what making one costs.
 *
 * A spare is memory with a collector's head, untracked, without references of any kind; its type
 * lives as long as the module's state.  GIL held; none are kept where there is no GIL, nor under
 * a sanitizer, which should see what is dead.
 */
#ifndef DLS_MODULE_SPARE_H
#define DLS_MODULE_SPARE_H

#include "python/py.h"
#include "python/state.h"

/* From now on: at import, when the types are there. */
void dls_spares_open(dls_state *state);
/* Free all, and keep no more: before the types go.  Any number of times. */
void dls_spares_close(dls_state *state);

/* NULL: none that fits.  PyObject_Init or PyObject_InitVar makes an object of it. */
static inline PyObject *
dls_spare_take(dls_spares *spares)
{
    return spares->count > 0 ? spares->objects[--spares->count] : NULL;
}

/* The last step of a dealloc but for the type's reference: self is untracked, and empty. */
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
