/* The record of one exchange, and the words of a consumer's request.
 *
 * An exchange has four steps: the request is read (request/), the producer is asked
 * (acquire/), the answer is resolved against the request, and it is exported (export/).
 * Two forms of the record exist.  The fast path passes a dls_hot by value, so that it
 * stays in registers.  All else passes the address of a dls_exchange.  A dls_outcome
 * carries the answer from the one to the other.
 * GIL held throughout. */
#pragma once

#include <stdatomic.h>

#include "abi/arrow_abi.h"
#include "abi/dlpack_abi.h"
#include "core/base.h"
#include "core/hold.h"
#include "core/sync_words.h"
#include "python/py.h"
#include "python/state.h"
#include "types/plan.h"

/* --- what was acquired ---------------------------------------------------- */
/* The memory that was got from a source and is not yet given to a consumer.
 *
 * The record of an exchange has one.  acquire/, protocols/ and a Tensor's object
 * fill it in place; resolve and export read it.  It is moved by dls_acquired_move, and
 * never copied, because it may point into itself. */

typedef enum {
    DLS_LEGACY = 0,    /* `dltensor`: flags unknown */
    DLS_VERSIONED = 1, /* `dltensor_versioned`, also from a C table */
    DLS_DESCRIBED = 2  /* described by another protocol: no struct of the source's */
} dls_generation;

/* Dimensions that need no memory of their own. */
enum { DLS_FEW_DIMS = 4 };

/* tensor.shape and tensor.strides point into the source's struct (alive as long as
 * capsule or hold) or into dims. */
typedef struct {
    dl_tensor tensor;
    uint64_t flags;     /* READ_ONLY when stated or known, IS_COPIED, PADDED */
    dl_version version; /* versioned only */
    dls_generation generation;
    bool readonly_stated; /* the source can say READ_ONLY, so its absence counts */
    bool shared;          /* others held the capsule when it was looked at */
    bool altered;         /* tensor differs from the source's struct */
    bool copy_asked;     /* the producer has taken copy=True, or was asked to move it */
    bool not_synced;     /* no sync was asked for: by None on oneAPI (S6), or in a graph
                          * capture, where no stream was named (S14) */
    bool queue_unknown;  /* oneAPI: nobody tells where it is worked on, nor has asked */
    dls_copy_place copy; /* where it is copied to the host, if it is (S18) */
    /* For copies that come after the work in it, whatever the consumer's stream: */
    dl_device sync_device; /* by whose rules it was synced; 0 as the type: it was not */
    dls_producer_stream p; /* P, as its protocol named it; READY: it was waited for */
    dls_memory memory;     /* as dls_acquired_memory gives it */
    void *managed;     /* the struct behind capsule or hold, NULL for DLS_DESCRIBED */
    PyObject *capsule; /* strong; not yet taken, may be handed on; NULL: taken */
    dls_hold hold;     /* once taken: owned */
    int64_t *dims;     /* DLS_DESCRIBED, and a shared capsule: shape, then strides:
                        * few_dims, or owned memory */
    int64_t few_dims[2 * DLS_FEW_DIMS];
} dls_acquired;

/* Make it empty.  The things that it held before are not given back. */
void dls_acquired_init(dls_acquired *acquired);

/* Room for the shape and the strides of `ndim` dimensions in acquired->dims, which must
 * be NULL.  0, or -1 with MemoryError. */
int dls_acquired_make_dims(dls_acquired *acquired, int32_t ndim);

/* The memory of its tensor, with what a driver has told of it in this exchange. */
dls_memory *dls_acquired_memory(dls_acquired *acquired);

/* Move all that *from has into *to, which is empty, and leave *from empty. */
void dls_acquired_move(dls_acquired *from, dls_acquired *to);

/* Give back whatever it still owns, and leave it empty.  A capsule that was not taken
 * is dropped (its own destructor frees), a hold is dropped.  Foreign code runs; a
 * pending exception is kept. */
void dls_acquired_drop(dls_acquired *acquired);

/* Does it own nothing? */
bool dls_acquired_is_empty(const dls_acquired *acquired);

/* --- the record ----------------------------------------------------------- */

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

/* Values of order=. */
typedef enum {
    DLS_ORDER_K,
    DLS_ORDER_C,
    DLS_ORDER_AUTO, /* a copy, if the consumer is known not to take the layout (N9) */
    DLS_ORDER_UNSAID
} dls_order;

/* Options of upgrade(); their members are declared in request/options.h. */
typedef struct dls_options dls_options;

/* A request's stream, as it was when it was read. */
typedef struct {
    PyObject *object; /* borrowed; NULL: not read yet */
    dls_stream read;
} dls_stream_memory;

/* Facts about the values of a consumer's keywords; beside DLS_ASK_*, the keywords that
 * it passed (consumers.def). */
#define DLS_ASKED_NONE (1u << DLS_KW_COUNT)        /* at least one is None */
#define DLS_ASKED_1_0 (1u << (DLS_KW_COUNT + 1))   /* max_version is (n, 0) */
#define DLS_ASKED_PLACE (1u << (DLS_KW_COUNT + 2)) /* dl_device is not None */
/* max_version is the tuple that dlshim itself passes: another exchange asks. */
#define DLS_ASKED_OURS (1u << (DLS_KW_COUNT + 3))

/* What the consumer and the user want of the memory that goes out. */
typedef struct {
    bool versioned;        /* generation that the consumer asked for */
    int8_t copy;           /* -1 None, 0 False, 1 True: sent off the host only (T8) */
    dls_readonly readonly; /* readonly= of the options */
    dls_order order;
    bool mends;         /* order= asks for a copy of what no consumer takes (N9, C9) */
    int64_t align;      /* bytes, a power of two; 0: memory of any alignment will do */
    int64_t copy_align; /* of a copy, in bytes: `align`, and DLS_ALIGNMENT at least */
    bool detaches;      /* detach= is of dlshim.h: for types with autograd alone */
    bool guards;        /* on_release="guard" (S22) */
    bool has_dtype;   /* the elements have another dtype than the source says: dtype */
    bool has_device;  /* a device is wanted: device */
    bool has_assumed; /* the producer's label is wrong: it is `assumed` */
    dl_dtype dtype;
    dl_device device;
    dl_device assumed;
    const dl_exchange_api *like; /* the C table that allocates, or NULL */
    dl_device like_device;       /* where it allocates */
    bool like_tells_stream;
} dls_request_want;

/* Was a copy asked for?  In memory of the host it then mends what no consumer takes as
 * it is: a byte order that is not the machine's, strides that are no whole elements,
 * chunks. */
static inline bool
dls_want_copies(const dls_request_want *want)
{
    return want->copy == 1 || (want->mends && want->copy != 0);
}

/* Who asks, and what they can take. */
typedef struct {
    unsigned asked_with;    /* DLS_ASK_*, DLS_ASKED_*: the consumer's keywords (N9) */
    bool device_question;   /* it asked for the device just before (N9) */
    bool supports_anything; /* it is a Tensor: it takes strides of any sign */
    bool hidden;            /* to_capsule asks: nobody knows who will take it (N9) */
    bool keeps_word;  /* a Tensor is made, which keeps the word of readonly= (T8) */
    bool kernel_asks; /* through our C table: kernels take Parameters */
    bool ask_device;  /* the device must be known before the export (N5) */
    bool host_reads;  /* dlshim itself reads pinned memory, whatever the stream */
    bool empty;       /* copies to the host: the object says that it has no elements */
} dls_request_who;

/* The order of the work of both sides. */
typedef struct {
    PyObject *consumer; /* stream=, borrowed; NULL or None: none given */
    PyObject *producer; /* producer_stream=, borrowed; NULL or None: none given */
    bool said;          /* a consumer stream was named, None included (S14) */
    bool hides_queue;   /* it names no stream, but on oneAPI it has one (S6) */
    bool waits;         /* where no stream is given, the host waits: as "wait" (S25) */
    uint8_t unknown;    /* DLS_UNKNOWN_*: the word of unknown_stream= */
    dls_stream_memory *seen; /* where the read stream is remembered: `read` here or in
                              * the record that this one is a copy of */
    dls_stream_memory read;
} dls_request_streams;

/* The consumer's request; after dls_request_options, with all options in it but
 * detach=, which says which object is exported. */
typedef struct {
    const dls_options *options; /* borrowed; NULL: none */
    dls_request_want want;
    dls_request_who who;
    dls_request_streams streams;
} dls_request;

/* The outcome of asking a producer. */
typedef enum {
    DLS_NOT_LEARNED, /* no producer was asked: no call form has worked for the type yet
                      */
    DLS_PLAIN,       /* host memory that leaves nothing to decide */
    DLS_GOT,         /* something that needs a look or a decision */
    DLS_RAISED       /* an exception, or nothing */
} dls_outcome_kind;

/* A column that was read without a record. */
typedef struct {
    dls_protocol protocol; /* the method of Arrow that was called */
    dls_acquired acquired; /* empty where the outcome is DLS_RAISED */
    dls_producer_stream p; /* as the method named it */
    arrow_array array;     /* until `acquired` has it; release NULL: there is none */
} dls_column;

/* The outcome as the fast path hands it to the full record.  It owns what it holds.
 */
typedef struct {
    dls_outcome_kind kind;
    dls_form form;                        /* how the producer was asked */
    PyObject *capsule;                    /* the result of __dlpack__, or NULL */
    dl_managed_tensor_versioned *managed; /* the struct of the C table, or NULL */
    PyObject *error;                      /* the exception, or NULL */
    dls_column *column; /* of a protocol of Arrow, else NULL.  The struct is the fast
                         * path's, what it holds is the outcome's. */
} dls_outcome;

/* The record on the fast path.  Its address is never taken: that would cost its place
 * in registers, some 14 instructions an exchange. */
typedef struct {
    dls_state *state;
    PyObject *source;  /* borrowed: the producer that is asked */
    dls_plan *plan;    /* borrowed: of the source's type */
    dls_form form;     /* how it is asked */
    PyObject *capsule; /* strong, after the call: the result of __dlpack__, or NULL */
    void *managed;     /* after the call: the struct in the capsule, or (owned) the C
                        * table's; NULL: there is none that can be read at once */
} dls_hot;

/* The full record.  dls_exchange_begin fills it, dls_exchange_end gives back all that
 * it still holds. */
typedef struct {
    dls_state *state;
    PyObject *source; /* strong: the producer, or a Tensor of ours, or a raw capsule */
    dls_plan *plan;   /* a count: of the source's type; the state's tensor_plan for a
                       * Tensor and a raw capsule */
    dls_request request;
    dls_outcome outcome;   /* the fast path's; used up by acquire */
    dls_acquired acquired; /* the memory; empty until acquire has succeeded */
    bool synced;           /* acquire: the acquired needs no synchronisation any more */
    bool refused_otherwise; /* negotiation: an attempt raised what is not about the
                             * signature of the type's __dlpack__, so what works next is
                             * not learned (N1) */
    PyObject *first_error; /* negotiation, strong: the error to show if nothing works */
    dls_form tried; /* KNOWN: this form failed already, and is not asked again ... */
    PyObject *tried_error; /* ... it raised this (strong); NULL: it gave nothing */
    bool learned_failed; /* the learned form failed for this object: what works instead
                          * is not learned (N1) */
    bool resolved; /* the source is a copy that its library made of lazy bits (T12) */
    bool copied;   /* export: dlshim made a copy, which is ready for every stream */
    bool keeps;    /* a Producer asks, and keeps memory made for its export (T8) */
    dls_shared *kept; /* export: that memory, a share; NULL: none was made */
} dls_exchange;

/* For asserts: do its members fit together?  The rules are in the source. */
bool dls_exchange_check(const dls_exchange *x);

/* --- holds and the collector ---------------------------------------------- */
/* The objects that a hold keeps alive, as the garbage collector sees them.  Called by
 * the traverse functions of Producer and Tensor, by exchange/objects, and by
 * public/interfaces_out.  The GIL is held. */

/* Show the Python objects behind a hold to the collector.  Objects behind a share are
 * shown only if there is no other share: else the reference is not ours alone. */
static inline int
dls_hold_visit(const dls_hold *hold, visitproc visit, void *arg)
{
    for (;;) {
        if (hold->kind == DLS_HOLD_GUARDED) {
            hold = &((dls_guarded *)hold->base)->hold;
        }
        bool is_buffer = hold->kind == DLS_HOLD_BUFFER;
        PyObject *of = is_buffer ? ((dls_buffer *)hold->base)->obj : NULL;
        if (of != NULL && PyMemoryView_Check(of)) {
            return 0; /* cleared while it is exported, it crashes CPython: not shown */
        }
        Py_VISIT((PyObject *)hold->py);
        Py_VISIT(of);
        dls_shared *shared = hold->kind == DLS_HOLD_SHARED ? hold->base : NULL;
        if (shared == NULL
            || atomic_load_explicit(&shared->shares, memory_order_relaxed) != 1) {
            return 0;
        }
        hold = &shared->hold;
    }
}

/* dls_hold_visit for one share; NULL is allowed. */
static inline int
dls_shared_visit(dls_shared *shared, visitproc visit, void *arg)
{
    const dls_hold hold = {.base = shared, .kind = DLS_HOLD_SHARED};
    return dls_hold_visit(&hold, visit, arg);
}

/* The first hold that is not a share. */
static inline const dls_hold *
dls_hold_behind(const dls_hold *hold)
{
    while (hold->kind == DLS_HOLD_SHARED) {
        hold = &((dls_shared *)hold->base)->hold;
    }
    return hold;
}
