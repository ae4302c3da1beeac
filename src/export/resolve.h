/* Resolve: from the acquired memory and the consumer's request to the memory that goes
 * out.  Every rule that concerns the data is decided here, once (T2 to T8, T11, N9).
 * Called by export.c, after acquire.  The GIL is held. */
#pragma once

#include "core/tensor.h"
#include "request/request.h"

/* Why a copy is made.  Plain values. */
typedef struct {
    const char *word; /* CopyRequiredError.reason */
    const char *text; /* in messages */
} dls_copy_reason;

typedef struct {
    dls_delivery delivery; /* shape and strides still point into x->acquired */
    dls_scan scan;
    bool copied;        /* a copy was made for this export ... */
    dls_hold made;      /* ... and this holds it */
    bool needs_keeping; /* the memory was made for this export, by dlshim or by the
                         * producer, and the Producer that exports it keeps it (T8) */

    /* Members for resolve only: */
    bool fetch;         /* the memory is copied from its device to the host */
    bool send;          /* the memory is copied to the wanted device */
    bool readonly;      /* the memory that came is read-only */
    bool is_named_bool; /* bytes that reinterpret= calls booleans (T7) */
    const dls_copy_reason *reason; /* why it is copied; NULL: it is not */
} dls_resolved;

/* Decide and, where the request needs one, make the copy.  *resolved is all zero
 * before.  0, or -1 with an exception; either way the caller drops resolved->made, and
 * x->acquired keeps its memory. */
int dls_resolve(dls_exchange *x, dls_resolved *resolved);

/* The checks alone, for a tensor that is taken as it is: those that every producer's
 * tensor must pass, and that of its address (T5, T6, T11).  *resolved is all zero
 * before.  0, or -1 with BufferError. */
int dls_resolve_checks(const dls_exchange *x, dls_resolved *resolved);

/* The word of readonly= that decides for consumers: said to this exchange, or to
 * from_dlpack when it made the Tensor that is exported.  DLS_READONLY_UNSAID: none. */
dls_readonly dls_resolve_readonly_word(const dls_exchange *x);

/* The copy in CUDA or ROCm memory (resolve_device_copy.c, S19), once it is decided and
 * allowed; other threads run during driver calls.  Make a row-major copy of the memory
 * that resolved->delivery describes: on the wanted device if resolved->send, else on
 * its own.  0: resolved->delivery describes the copy, which is complete, and
 * resolved->made holds it.  -1: an exception is set. */
int dls_resolve_device_copy(dls_exchange *x, dls_resolved *resolved);
