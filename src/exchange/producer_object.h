/* The Producer's object: what is in it.  Its type is module/producer.  Called by
 * export/ and module/.  The GIL is held.
 *
 * Without the GIL, threads may export the same Producer.  Source, plan and options are
 * never changed but by its dealloc and by the collector, which no other thread meets.
 * What is changed is atomic: `kept` is swapped, `borrowed` only grows, at its head. */
#pragma once

#include "abi/dlpack_abi.h"
#include "core/lock.h"
#include "exchange/device_question.h"
#include "exchange/exchange.h"
#include "python/py.h"

/* A Producer is lazy: it asks `source` when a consumer asks it.  96 bytes with the
 * collector's head. */
typedef struct {
    DLS_HEAD
    PyObject *source;     /* strong */
    dls_state *state;     /* lives as long as the type, which this object owns */
    dls_plan *plan;       /* a count; the state's tensor_plan if source is a Tensor */
    dls_options *options; /* owned; NULL: none */
    /* A share of memory made for the last export (T8), or NULL. */
    DLS_ATOMIC(dls_shared *) kept;
    DLS_ATOMIC(struct dls_borrowed *) borrowed; /* exports that views point into */
    DLS_ATOMIC(unsigned long)
    asked; /* the thread that asked for the device before the next export
            * (N9), 0, or DLS_ASKED_BY_MANY */
    DLS_ATOMIC(PyObject *) weakrefs;
} dls_producer;

static inline dls_producer *
dls_producer_data(PyObject *self)
{
    return DLS_DATA(dls_producer, self);
}

/* Keep this share (stolen) until the next export. */
static inline void
dls_producer_keep_share(dls_producer *self, dls_shared *share)
{
    DLS_SWAP(dls_shared *, before, self->kept, share);
    dls_shared_drop(before, DLS_ATTACHED);
}

/* After an export: `kept` becomes x->kept, the memory that was made for it, which is
 * stolen (T8).  The memory of the export before is given back.  made: there is an
 * export. */
static inline void
dls_producer_keep(dls_producer *self, dls_exchange *x, bool made)
{
    if (made || x->kept != NULL) {
        dls_shared *kept = x->kept;
        x->kept = NULL;
        dls_producer_keep_share(self, kept);
    }
}

/* --- exports that are kept for borrowers ---------------------------------- */
/* The exports that a Producer keeps for consumers that only borrow a view through its
 * C table.  Without a GIL any thread may read the list and add to it. */

/* One export.  Views point into it, so it lives as long as the Producer. */
typedef struct dls_borrowed {
    struct dls_borrowed *next;
    dl_managed_tensor *managed;
} dls_borrowed;

/* The kept export that equals `tensor`, borrowed, or NULL.  Only the newest few are
 * compared, so that a source which never gives the same twice does not get slower. */
const dl_tensor *dls_borrowed_find(const dls_borrowed *list, const dl_tensor *tensor);

/* Add a new export (stolen, on failure too), unless an equal one is kept already.  The
 * tensor in the list, borrowed; NULL with MemoryError. */
const dl_tensor *dls_borrowed_keep(DLS_ATOMIC(dls_borrowed *) * list,
                                   dl_managed_tensor *managed);

/* NULL, the empty list, is allowed. */
void dls_borrowed_drop(dls_borrowed *list);
int dls_borrowed_visit(const dls_borrowed *list, visitproc visit, void *arg);
