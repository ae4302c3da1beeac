/* The full exchange: acquire, resolve, export.  GIL held; foreign code runs.
 *
 * All functions of this file give an export or raise; whatever was acquired and does
 * not go out is given back. */
#pragma once

#include "exchange/producer_object.h"
#include "exchange/tensor_object.h"
#include "request/request.h"

/* What goes out. */
typedef enum {
    DLS_EXPORT_CAPSULE, /* a PyCapsule, a new reference */
    DLS_EXPORT_STRUCT,  /* the managed tensor itself, for our C table; owned */
    DLS_EXPORT_TENSOR   /* a Tensor, a new reference */
} dls_export_kind;

/* Begin an exchange.  It takes references to source and plan.  `outcome` is what the
 * fast path got, and is used up; NULL: there was no fast path.  Nothing is asked for
 * yet: the caller writes x->request.  dls_exchange_end gives back all that x still
 * holds. */
void dls_exchange_begin(dls_exchange *x, dls_state *state, PyObject *source,
                        dls_plan *plan, const dls_options *options,
                        const dls_outcome *outcome);
void dls_exchange_end(dls_exchange *x);

/* Run the exchange.  NULL with an exception. */
void *dls_exchange_run(dls_exchange *x, dls_export_kind kind);

/* Make x->source and x->plan what is asked: a type that changed is met anew (N1), and
 * detach=True asks the detached object.  0, or -1 with an exception. */
int dls_exchange_prepare(dls_exchange *x);

/* __dlpack__ of a Producer.  outcome: what the fast path got (used up, on failure too),
 * or NULL. */
PyObject *dls_export_producer(dls_producer *self, PyObject *const *args, Py_ssize_t n,
                              PyObject *kwnames, dls_outcome *outcome);
/* from_dlpack without keywords but copy (1, or -1 for None).  outcome: as above. */
PyObject *dls_export_tensor(dls_state *state, dls_plan *plan, PyObject *source,
                            dls_outcome *outcome, int8_t copy);
/* A raw capsule, taken at once (borrowed): a Tensor that owns its memory.  NULL with
 * BufferError, and the capsule as it was (but T1). */
PyObject *dls_tensor_from_capsule(dls_state *state, PyObject *capsule);
