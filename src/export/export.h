/* The full exchange: acquire, resolve, export.  GIL held; foreign code runs.
 *
 * All functions here give an export or raise; whatever was acquired and does not go out
 * is given back.  track() stands here, too. */
#pragma once

#include <stdatomic.h>

#include "exchange/exchange.h"
#include "exchange/objects.h"
#include "request/request.h"

/* --- what is told to dlshim.track() --------------------------------------- */
/* dlshim.track(): shim/tracking.py is told of each export.  While it is on, the fast
 * path is closed and nothing is handed on, so all exports are structs of ours and are
 * made in one place; off, it costs that place one branch.  Each import of the module is
 * switched by itself and told of its own exports alone.  Called by export.c,
 * tensor_type.c, module.c and records.c.  The GIL is held but in the deleters. */

/* How many modules it is on for. */
DLS_EXTERN atomic_int dls_track_modules;

/* May it be on for the module that has made this (NULL: nothing was made)? */
static inline bool
dls_track_wants(const void *made)
{
    return atomic_load_explicit(&dls_track_modules, memory_order_relaxed) != 0
           && made != NULL;
}

void dls_track_switch(dls_state *state, bool on);

/* Tell of a new Tensor.  0, or -1 with an exception, after which the caller drops the
 * Tensor; 0 if tracking is off for this module.  The next function does the same. */
int dls_track_tensor(dls_state *state, PyObject *tensor);

/* The numbers of this module's structs that have ended since the last call: a list, or
 * NULL with an exception. */
PyObject *dls_track_ended(const dls_state *state);

/* --- the exchange --------------------------------------------------------- */

/* The kind of an export. */
typedef enum {
    DLS_EXPORT_CAPSULE, /* a PyCapsule, a new reference */
    DLS_EXPORT_STRUCT,  /* the managed tensor itself, for our C table; owned */
    DLS_EXPORT_TENSOR   /* a Tensor, a new reference */
} dls_export_kind;

/* Begin an exchange.  It takes references to source and plan.  `outcome` is the fast
 * path's, and is used up; NULL: there was no fast path.  Nothing is asked for yet: the
 * caller writes x->request.  dls_exchange_end gives back all that x still holds. */
void dls_exchange_begin(dls_exchange *x, dls_state *state, PyObject *source,
                        dls_plan *plan, const dls_options *options,
                        const dls_outcome *outcome);
void dls_exchange_end(dls_exchange *x);

/* Run the exchange.  NULL with an exception. */
void *dls_exchange_run(dls_exchange *x, dls_export_kind kind);

/* Set x->source and x->plan to those that are asked: a type that changed is met anew
 * (N1), and detach=True asks the detached object.  0, or -1 with an exception. */
int dls_exchange_prepare(dls_exchange *x);
/* Let the author's methods of a decorated class be asked, for an export or for the
 * device, in the place of ours, which would export without the options.  0, or -1 with
 * BufferError. */
int dls_exchange_ask_author(dls_exchange *x, bool device);

/* __dlpack__ of a Producer.  outcome: the fast path's (used up, on failure too), or
 * NULL. */
PyObject *dls_export_producer(dls_producer *self, PyObject *const *args, Py_ssize_t n,
                              PyObject *kwnames, dls_outcome *outcome);
/* from_dlpack without keywords but copy (1, or -1 for None) and idle options (borrowed;
 * NULL: none).  outcome: as above. */
PyObject *dls_export_tensor(dls_state *state, dls_plan *plan, PyObject *source,
                            const dls_options *options, dls_outcome *outcome,
                            int8_t copy);
/* A raw capsule, taken at once (borrowed): a Tensor that owns its memory.  NULL with
 * BufferError, and the capsule as it was (but T1). */
PyObject *dls_tensor_from_capsule(dls_state *state, PyObject *capsule);

/* --- for consumers of our C table (export_struct.c) ----------------------- */

/* An owned struct for the consumer of our C table, which asks for its stream afterwards
 * (sync/work_stream).  versioned: dl_managed_tensor_versioned*; else, for borrowers,
 * which are told no flags, dl_managed_tensor*.  The caller's to delete; NULL with an
 * exception.  outcome: as above. */
void *dls_export_producer_struct(dls_producer *self, bool versioned,
                                 dls_outcome *outcome);
void *dls_export_tensor_struct(dls_tensor *self, bool versioned);
