/* One attempt: ask the producer through one protocol, once.  Called by negotiate.c,
 * which decides what is tried next, and by acquire.c for the learned form.  GIL held;
 * foreign code runs.
 *
 * An attempt that returns DLS_ATTEMPT_GOT has filled x->acquired, which then owns what
 * came.  After every other result x->acquired is empty. */
#ifndef DLS_ACQUIRE_ATTEMPT_H
#define DLS_ACQUIRE_ATTEMPT_H

#include "exchange/exchange.h"

typedef enum {
    DLS_ATTEMPT_GOT = 1,
    DLS_ATTEMPT_NOT_OFFERED = 0, /* nothing is set: try the next protocol */
    DLS_ATTEMPT_RAISED = -1,     /* an exception of the producer's: it may be kept */
    DLS_ATTEMPT_FINAL = -2       /* an exception of ours that says it all: show it */
} dls_attempt;

/* What the pending exception means to a negotiation (N2). */
typedef enum {
    DLS_ERROR_STEP,   /* try fewer keywords, or the next protocol */
    DLS_ERROR_BUFFER, /* BufferError: it is about the data, not about the keywords */
    DLS_ERROR_FINAL   /* not ours to hide */
} dls_error_kind;

dls_error_kind dls_error_class(void);
/* Take the pending exception away.  The first that is no TypeError and no
 * NotImplementedError is kept in x->first_error. */
void dls_error_keep(dls_exchange *x);

/* The memory came without a stream: do the synchronisation that it needs.  GOT, or
 * FINAL and x->acquired is dropped. */
dls_attempt dls_attempt_sync(dls_exchange *x, dls_producer_kind kind,
                             dls_producer_stream p);
/* How a producer behaves that was passed no stream: it has waited, or it orders
 * nothing. */
dls_producer_kind dls_kind_without_stream(const dls_plan *plan);

/* Used by both kinds of attempts.  The capsule that `__dlpack__` or a capsule function
 * returned (stolen; NULL: it raised); mask as in dls_attempt_on_host. */
dls_attempt dls_attempt_read_capsule(dls_exchange *x, PyObject *capsule, unsigned mask);
/* What the C table gave (stolen).  strict: device memory only where no synchronisation
 * is needed. */
dls_attempt dls_attempt_read_table(dls_exchange *x,
                                   dl_managed_tensor_versioned *managed, bool strict);
dls_attempt dls_attempt_table(dls_exchange *x, bool strict);
/* A tensor that requires grad goes out only to kernels, which take Parameters (T12). 0,
 * or -1 with BufferError. */
int dls_attempt_check_autograd(const dls_exchange *x);
/* Does the memory hold what the tensor shows (T12)?  Only libraries with lazy bits are
 * asked.  GOT, or RAISED and x->acquired is dropped. */
dls_attempt dls_attempt_check_bits(dls_exchange *x);
/* The first capsule function of the library.  Nothing is synchronised. */
dls_attempt dls_attempt_function(dls_exchange *x);
/* Read the memory behind an older protocol.  An immutable type's is marked READ_ONLY,
 * but the producer did not state it (T8).  As dls_older_read. */
int dls_attempt_read_older(dls_exchange *x, dls_protocol protocol,
                           dls_producer_stream *p);
/* The CUDA or the SYCL interface: it names device and stream itself, so it is asked
 * alike everywhere, and nothing is left to synchronise afterwards (x->synced). */
dls_attempt dls_attempt_interface(dls_exchange *x, dls_protocol protocol);

#endif
