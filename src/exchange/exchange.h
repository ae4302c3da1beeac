/* The record of one exchange, and the words of what a consumer asks for.
 *
 * An exchange has four steps: the request is read (request/), the producer is asked
 * (acquire/), what came is resolved against the request, and it is exported (export/).
 * Two forms of the record exist.  The fast path passes a dls_hot by value, so that it
 * stays in registers.  All else passes the address of a dls_exchange.  A dls_outcome
 * carries what came from the one to the other.
 * GIL held throughout. */
#pragma once

#include "core/sync_words.h"
#include "exchange/acquired.h"
#include "exchange/plan.h"

/* Values of readonly=.  The three words decide for consumers that are not told of
 * read-only memory or do not heed it; the two bools speak of the memory itself (T8). */
typedef enum {
    DLS_READONLY_UNSAID,
    DLS_READONLY_ERROR, /* refuse them */
    DLS_READONLY_COPY,  /* give every consumer a private, writable copy */
    DLS_READONLY_SHARE, /* give them the memory all the same */
    DLS_READONLY_FALSE, /* the memory may be written */
    DLS_READONLY_TRUE   /* the memory is read-only */
} dls_readonly;

/* Options of upgrade(); only request/options knows what is in them. */
typedef struct dls_options dls_options;

/* What a request's stream was when it was read. */
typedef struct {
    PyObject *object; /* borrowed; NULL: not read yet */
    dls_stream read;
} dls_stream_memory;

/* What is known of the values of a consumer's keywords; beside DLS_ASK_*, the keywords
 * that it passed (consumers.def). */
#define DLS_ASKED_NONE (1u << DLS_KW_COUNT)        /* at least one is None */
#define DLS_ASKED_1_0 (1u << (DLS_KW_COUNT + 1))   /* max_version is (n, 0) */
#define DLS_ASKED_PLACE (1u << (DLS_KW_COUNT + 2)) /* dl_device is not None */
/* max_version is the tuple that dlshim itself passes: another exchange asks. */
#define DLS_ASKED_OURS (1u << (DLS_KW_COUNT + 3))

/* The consumer's request; after dls_request_options, with the options in it. */
typedef struct {
    const dls_options *options; /* borrowed; NULL: none */
    unsigned asked_with;  /* DLS_ASK_*, DLS_ASKED_*: what the consumer passed (N9) */
    bool stream_said;     /* a stream was named, None included (S14) */
    bool device_question; /* it asked for the device just before (N9) */
    bool hides_queue;     /* it names no stream, but on oneAPI it has one (S6) */
    bool versioned;       /* generation that it asked for */
    bool bears_anything;  /* it is a Tensor: it takes strides of any sign */
    bool keeps_word;      /* a Tensor is made, which keeps the word of readonly= (T8) */
    bool kernel_asks;     /* through our C table: kernels take Parameters */
    bool has_device;      /* a device is wanted: *device */
    bool has_assumed;     /* the producer's label is wrong: it is *assumed */
    bool ask_device;      /* the device must be known before the export (N5) */
    bool host_reads;      /* dlshim itself reads pinned memory, whatever the stream */
    bool waits;  /* where no stream is given, the host waits: as "wait" (S25) */
    bool empty;  /* copies to the host: the object says that it has no elements */
    int8_t copy; /* -1 None, 0 False, 1 True: sent off the host only (T8) */
    uint8_t unknown_stream; /* DLS_UNKNOWN_* */
    dl_device device;
    dl_device assumed;
    const dl_exchange_api
        *like; /* the C table that allocates on like_device, or NULL */
    dl_device like_device;
    bool like_tells_stream;
    PyObject *stream;          /* borrowed; NULL or None: none given */
    PyObject *producer_stream; /* borrowed; NULL or None: none given */
    dls_stream_memory *seen; /* where the read stream is remembered: `stream_read` here
                              * or in the record that this one is a copy of */
    dls_stream_memory stream_read;
} dls_request;

/* What came of asking a producer. */
typedef enum {
    DLS_NOT_LEARNED, /* nobody was asked: no call form has worked for the type yet */
    DLS_PLAIN,       /* host memory that leaves nothing to decide */
    DLS_GOT,         /* something that needs a look or a decision */
    DLS_RAISED       /* an exception, or nothing */
} dls_outcome_kind;

/* The outcome as the fast path hands it to the full record.  It owns what it holds.
 */
typedef struct {
    dls_outcome_kind kind;
    unsigned form;                        /* DLS_FAST_*: how the producer was asked */
    PyObject *capsule;                    /* what __dlpack__ returned, or NULL */
    dl_managed_tensor_versioned *managed; /* what the C table gave, or NULL */
    PyObject *error;                      /* what was raised, or NULL */
} dls_outcome;

/* The record on the fast path.  Its address is never taken: that would cost its place
 * in registers, some 14 instructions an exchange. */
typedef struct {
    dls_state *state;
    PyObject *source;  /* borrowed: the producer that is asked */
    dls_plan *plan;    /* borrowed: of the source's type */
    unsigned form;     /* DLS_FAST_*: how it is asked, 0: no form was learned */
    PyObject *capsule; /* strong, after the call: what __dlpack__ returned, or NULL */
    void *managed;     /* after the call: the struct in the capsule, or (owned) the C
                        * table's; NULL: there is none that can be read at once */
} dls_hot;

/* The full record.  dls_exchange_begin fills it, dls_exchange_end gives back what it
 * still holds. */
typedef struct {
    dls_state *state;
    PyObject *source; /* strong: the producer, or a Tensor of ours, or a raw capsule */
    dls_plan *plan;   /* a count: of the source's type; the state's tensor_plan for a
                       * Tensor and a raw capsule */
    dls_request request;
    dls_outcome outcome;   /* what the fast path left; used up by acquire */
    dls_acquired acquired; /* what came; empty until acquire has succeeded */
    bool synced;           /* acquire: the acquired needs no synchronisation any more */
    bool refused_otherwise; /* negotiation: an attempt raised something else than
                             * TypeError, so what works next is not learned (N1) */
    PyObject *first_error; /* negotiation, strong: the error to show if nothing works */
    dls_form tried; /* known: this form failed already, and is not asked again ... */
    PyObject *tried_error; /* ... it raised this (strong); NULL: it gave nothing */
    bool learned_failed; /* the learned form failed for this object: what works instead
                          * is not learned (N1) */
    bool copied;      /* export: dlshim made a copy, which is ready for every stream */
    bool keeps;       /* a Producer asks, and keeps memory made for its export (T8) */
    dls_shared *kept; /* export: that memory, a share; NULL: none was made */
    unsigned running; /* prepare: the call of a decorated class's author that runs, for
                       * dls_running_end; DLS_NO_CALL: none */
} dls_exchange;

/* For asserts: do its members fit together?  The rules are in the source. */
bool dls_exchange_check(const dls_exchange *x);
