/* One attempt: ask the producer through one protocol, once.  Called by negotiate.c,
 * which decides what is tried next, by acquire.c for the learned form, and by
 * attempt_device.c for what is asked alike off the host.  GIL held; foreign code runs.
 *
 * An attempt that returns DLS_ATTEMPT_GOT has filled x->acquired, which then owns what
 * came.  After every other result x->acquired is empty. */
#pragma once

#include "exchange/exchange.h"

typedef enum {
    DLS_ATTEMPT_GOT = 1,
    DLS_ATTEMPT_NOT_OFFERED = 0, /* nothing is set: try the next protocol */
    DLS_ATTEMPT_RAISED = -1,     /* an exception of the producer's: it may be kept */
    DLS_ATTEMPT_FINAL = -2       /* an exception that is shown as it is */
} dls_attempt;

/* What the pending exception means to a negotiation (N2). */
typedef enum {
    DLS_ERROR_STEP,   /* try fewer keywords, or the next protocol */
    DLS_ERROR_BUFFER, /* BufferError: it is about the data, not about the keywords */
    DLS_ERROR_FINAL   /* it is shown as it is */
} dls_error_kind;

dls_error_kind dls_error_class(void);
/* Take the pending exception away.  The first that is no TypeError and no
 * NotImplementedError is kept in x->first_error. */
void dls_error_keep(dls_exchange *x);

/* The end of an attempt whose last step returned `code`: GOT for 0, else `failed`, and
 * x->acquired is dropped. */
dls_attempt dls_attempt_end(dls_exchange *x, int code, dls_attempt failed);

/* The memory came without a stream: do the synchronisation that it needs.  GOT or
 * FINAL. */
dls_attempt dls_attempt_sync(dls_exchange *x, dls_producer_kind kind,
                             dls_producer_stream p);
/* The same for a producer that was asked without a stream and does not name its own. */
dls_attempt dls_attempt_sync_as_it_came(dls_exchange *x);
/* How a producer behaves that was passed no stream: it has waited, or it orders
 * nothing. */
dls_producer_kind dls_kind_without_stream(const dls_plan *plan);

/* The capsule that `__dlpack__` or a capsule function returned (stolen; NULL: it
 * raised).  mask: DLS_ASK_*, how it was asked for. */
dls_attempt dls_attempt_read_capsule(dls_exchange *x, PyObject *capsule, unsigned mask);
/* What the C table gave (stolen).  strict: device memory only where no synchronisation
 * is needed. */
dls_attempt dls_attempt_read_table(dls_exchange *x,
                                   dl_managed_tensor_versioned *managed, bool strict);
dls_attempt dls_attempt_table(dls_exchange *x, bool strict);
/* Does the memory hold what the tensor shows (T12)?  Only libraries with lazy bits are
 * asked.  GOT or RAISED. */
dls_attempt dls_attempt_check_bits(dls_exchange *x);

/* Ask through a protocol without passing a stream.  mask: DLS_ASK_* for the protocol
 * DLPACK.  What FUNCTION, CUDA and SYCL give may lie on a device.  CUDA and SYCL name
 * the device and the stream themselves: they are asked alike everywhere, and what they
 * give is synchronised (x->synced).  What the others give is not synchronised yet: the
 * caller does it. */
dls_attempt dls_attempt_ask(dls_exchange *x, dls_protocol protocol, unsigned mask);
/* The same on the host, but nobody is asked twice in one form: x->tried was asked
 * before this negotiation began, and what it raised then is raised again, once. */
dls_attempt dls_attempt_on_host(dls_exchange *x, dls_protocol protocol, unsigned mask);
