/* P: in which stream the producer's work on the memory is pending (reference streams.md
 * 5 and 6.4).  GIL held. */
#ifndef DLS_SOURCE_PENDING_H
#define DLS_SOURCE_PENDING_H

#include "sync/transfer.h"

static inline dls_pending
dls_pending_handle(uint64_t handle)
{
    return (dls_pending){.known = DLS_P_KNOWN, .handle = handle};
}

/* queue: borrowed, where streams are objects. */
static inline dls_pending
dls_pending_object(PyObject *queue)
{
    return (dls_pending){.known = DLS_P_KNOWN,
                         .handle = (uint64_t)(uintptr_t)queue,
                         .object = queue};
}

/* Both: *p is left as it is where nobody knows.  0, or -1 with an exception. */

/* What the type's table says, or else its library. */
int dls_pending_ask(dls_state *state, const dls_plan *plan, PyObject *obj,
                    dls_order *order, dls_pending *p);

/* What the protocol said already, or else the user named; or else as above. */
int dls_pending_learn(dls_state *state, const dls_plan *plan, PyObject *obj,
                      const dls_want *want, dls_order *order, dls_pending *p);

/* The same where there is no exchange yet: of an object on `device`.  p->object is not
 * set. */
int dls_pending_of(dls_state *state, const dls_plan *plan, PyObject *obj,
                   const dls_want *want, dl_device device, dls_pending *p);

/* *queue: a new reference to the SYCL queue that the library names for this array, or
 * NULL. */
int dls_pending_queue(dls_state *state, const dls_plan *plan, PyObject *obj,
                      dl_device device, PyObject **queue);

#endif
