/* The objects of our two types: the members of a Producer and of a Tensor, how a Tensor
 * is made, the facts that can be read from it; and the freelists.  Their types, which
 * destroy them, are in public/.  Called by acquire/ (takes from Tensors), export/
 * (makes them) and public/. The GIL is held throughout. */
#pragma once

#include <assert.h>
#include <stdbool.h>

#include "abi/dlpack_abi.h"
#include "core/hold.h"
#include "core/lock.h"
#include "core/sync_words.h"
#include "core/tensor.h"
#include "exchange/device_question.h"
#include "exchange/exchange.h"
#include "python/py.h"

/* --- Producers ------------------------------------------------------------ */
/* Without the GIL, threads may export the same Producer.  Source, plan and options are
 * changed only by its dealloc and by the collector, which no other thread meets.  The
 * other members are atomic: `kept` is swapped, and what `borrowed` points to is read
 * under the Producer's own lock. */

/* A Producer is lazy: it asks `source` when a consumer asks it.  96 bytes with the
 * collector's head. */
typedef struct {
    DLS_HEAD
    PyObject *source;     /* strong */
    dls_state *state;     /* lives as long as the type, which this object owns */
    dls_plan *plan;       /* a count; the state's tensor_plan if source is a Tensor */
    dls_options *options; /* owned; NULL: none */
    /* A share of memory made for the last export (T8), or an answer of the source that
     * was looked at and is for the next export (K12), or NULL. */
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
    return DLS_DATA_OF_BASE(dls_producer, self);
}

/* Put this share (stolen) in the place of what is kept, which is now the caller's. */
static inline dls_shared *
dls_producer_swap_share(dls_producer *self, dls_shared *share)
{
    DLS_SWAP(dls_shared *, before, self->kept, share);
    return before;
}

/* Keep this share (stolen) until the next export. */
static inline void
dls_producer_keep_share(dls_producer *self, dls_shared *share)
{
    dls_shared_drop(dls_producer_swap_share(self, share), DLS_ATTACHED);
}

/* After an export: `kept` becomes x->kept, the memory that was made for it, which is
 * stolen (T8).  The memory of the export before is given back.  made: there is an
 * export. */
static inline void
dls_producer_keep(dls_producer *self, dls_exchange *x, bool made)
{
    if (x->kept != NULL || (made && self->kept != NULL)) {
        dls_shared *kept = x->kept;
        x->kept = NULL;
        dls_producer_keep_share(self, kept);
    }
}

/* Keep the source's answer, a capsule that nobody has taken and that is stolen, for the
 * next export.  0, or -1 with MemoryError. */
int dls_producer_keep_answer(dls_producer *self, PyObject *capsule);
/* That answer, now the caller's; NULL: there is none.  Kept memory stays. */
PyObject *dls_producer_take_answer(dls_producer *self);

/* --- exports that are kept for borrowers ---------------------------------- */
/* The exports that a Producer keeps for consumers that only borrow a view through its
 * C table (T13).  The newest is first.  Each thread has entries of its own, because
 * nobody else knows when its call returns; without a GIL the Producer's own lock guards
 * the list. */

/* So many entries of a thread stay: the views that it has borrowed last. */
#define DLS_BORROWED_ROOM 16

/* One kept export.  Views point into it. */
typedef struct dls_borrowed {
    struct dls_borrowed *next;
    dl_managed_tensor *managed;
    unsigned long thread; /* that has borrowed it */
} dls_borrowed;

/* *out: the kept export that equals `tensor` and is of this thread, which becomes the
 * newest.  False: there is none. */
bool dls_borrowed_find(dls_producer *self, const dl_tensor *tensor, dl_tensor *out);

/* Add a new export (stolen, on failure too), unless an equal one is kept already; *out
 * describes the one that is kept.  The thread's oldest entry goes if it has too many:
 * foreign code may run then.  0, or -1 with MemoryError. */
int dls_borrowed_keep(dls_producer *self, dl_managed_tensor *managed, dl_tensor *out);

/* NULL, the empty list, is allowed. */
void dls_borrowed_drop(dls_borrowed *list);
int dls_borrowed_visit(const dls_borrowed *list, visitproc visit, void *arg);

/* --- freelists ------------------------------------------------------------ */
/* The memory of dead Producers and Tensors, for the next ones.  Getting it from the
 * collector's allocator and giving it back is a third of the cost of a Producer.
 * Called by the functions that make and destroy the two.  The GIL is held.
 *
 * An entry is memory with a collector's head, untracked, without references.  The type
 * that it was an object of is never read, because that type may be freed.  The lists
 * are globals, because objects outlive the module's state.  They stay empty without a
 * GIL, under a sanitizer (which should see dead objects), after Python's end, and for
 * ever once a subinterpreter has imported this module: it may have an allocator of its
 * own. */

#define DLS_FREELIST_ROOM 8 /* of each kind */
#define DLS_FREELIST_NDIM 4

typedef struct {
    int count, room; /* room 0: nothing is kept */
    PyObject *objects[DLS_FREELIST_ROOM];
} dls_freelist;

DLS_EXTERN dls_freelist dls_freelist_producers;
DLS_EXTERN dls_freelist dls_freelist_tensors[DLS_FREELIST_NDIM + 1]; /* at [ndim] */

/* At each import: use the lists from now on, until Py_Finalize.  alone: no
 * subinterpreter has imported this; else the lists are closed. */
void dls_freelists_open(bool alone);

/* Memory for one object, or NULL.  PyObject_Init or PyObject_InitVar makes an object of
 * it. */
static inline PyObject *
dls_freelist_take(dls_freelist *list)
{
#ifdef DLS_FREE_THREADED
    (void)list;
    return NULL;
#else
    return list->count > 0 ? list->objects[--list->count] : NULL;
#endif
}

/* Keep or free the memory of `self`, which is untracked and holds nothing.  After that
 * a dealloc may only drop its reference to the type. */
static inline void
dls_freelist_put(dls_freelist *list, PyObject *self)
{
#ifdef DLS_FREE_THREADED
    (void)list;
    PyObject_GC_Del(self);
#else
    assert(list->room <= DLS_FREELIST_ROOM);
    if (list->count < list->room) {
        list->objects[list->count++] = self;
    }
    else {
        PyObject_GC_Del(self);
    }
#endif
}

/* --- Tensors -------------------------------------------------------------- */
/* Only this file and public/tensor_type write a Tensor's hold and `ready`.  Without a
 * GIL, the Tensor's own lock guards `ready` once other threads can see the Tensor.
 * Nothing else of it changes then but `asked` and `shared`, which are atomic. */

/* The stream that a Tensor's data are on.  Most data lie on the host and need none. */
typedef struct {
    dls_producer_stream p;
    PyObject *stream; /* keeps the stream of `p` alive; NULL: an int, or none */
    uintptr_t thread; /* the one that meant its own default stream by 2 */
} dls_ready;

/* A Tensor owns the tensor that was taken.  It may be exported any number of times. */
typedef struct {
    DLS_VAR_HEAD           /* size: of dims */
        dls_state *state;  /* lives as long as the type, which this object owns */
    dls_hold hold;         /* with a GIL: of kind SHARED from the first export on */
    dl_tensor tensor;      /* data folded (T5), strides filled (T4) */
    uint32_t flags;        /* DL_FLAG_* */
    dls_readonly readonly; /* a word that from_dlpack was given for later exports */
    uint16_t major, minor; /* version of the struct that was taken */
    uint8_t generation;    /* dls_generation it came in */
    bool readonly_stated;  /* READ_ONLY, or its absence, is the source's word */
    dls_ready *ready;      /* owned; NULL: the data can be read without a sync */
    DLS_ATOMIC(unsigned long) asked; /* as in dls_producer */
    DLS_ATOMIC(PyObject *) weakrefs;
#ifdef DLS_FREE_THREADED
    /* From the first export on: owns what `hold` names.  NULL where that is a share. */
    DLS_ATOMIC(dls_shared *) shared;
#endif
    int64_t dims[]; /* shape, then strides */
} dls_tensor;

/* The only place that says where in the object the struct is. */
static inline dls_tensor *
dls_tensor_data(PyObject *self)
{
    return DLS_DATA(dls_tensor, self);
}

/* The hold that the Tensor gives back when it ends, and shows to the collector. */
static inline dls_hold
dls_tensor_hold(const dls_tensor *self)
{
#ifdef DLS_FREE_THREADED
    if (self->shared != NULL) {
        return (dls_hold){.base = self->shared, .kind = DLS_HOLD_SHARED};
    }
#endif
    return self->hold;
}

/* --- making one ----------------------------------------------------------- */

/* A new Tensor with the values of `tensor`, without flags, that needs no sync and holds
 * nothing.  The caller writes dims, readonly_stated and the version, and shows the
 * Tensor to the collector (PyObject_GC_Track).  NULL with MemoryError. */
DLS_INLINE dls_tensor *
dls_tensor_new_plain(dls_state *state, const dl_tensor *tensor)
{
    int32_t ndim = tensor->ndim;
    Py_ssize_t dims = 2 * (Py_ssize_t)ndim;
    PyObject *memory = NULL;
    assert(ndim >= 0);
    if (ndim <= DLS_FREELIST_NDIM) {
        memory = dls_freelist_take(&dls_freelist_tensors[ndim]);
    }
    if (memory != NULL) {
        PyObject_InitVar((PyVarObject *)memory, state->tensor_type, dims);
    }
    else {
        memory = DLS_NEW_VAR(dls_tensor, state->tensor_type, dims);
    }
    if (memory == NULL) {
        return NULL;
    }
    DLS_COUNT_BY(tensors, 1);
    dls_tensor *data = dls_tensor_data(memory);
    data->state = state;
    data->hold = (dls_hold){0};
    data->tensor = *tensor;
    data->tensor.shape = data->dims;
    data->tensor.strides = data->dims + ndim;
    data->flags = 0;
    data->readonly = DLS_READONLY_UNSAID;
    data->ready = NULL;
    data->asked = 0;
    data->weakrefs = NULL;
#ifdef DLS_FREE_THREADED
    data->shared = NULL;
#endif
    return data;
}

/* Set the generation in which the struct came; `version` counts for VERSIONED only. */
void dls_tensor_set_version(dls_tensor *self, dls_generation generation,
                            dl_version version);

/* A new Tensor of the resolved tensor; dims are copied.  It holds nothing yet:
 * dls_tensor_set_hold moves a hold in, as the last step.  ready: on which stream the
 * data are, in this thread; stream: its object, borrowed, or NULL.  NULL with
 * MemoryError. */
PyObject *dls_tensor_new(dls_state *state, const dls_delivery *what,
                         const dls_acquired *acquired, dls_producer_stream ready,
                         PyObject *stream);
void dls_tensor_set_hold(PyObject *self, dls_hold *hold);

/* --- what is known of it -------------------------------------------------- */

/* Number of elements. */
int64_t dls_tensor_count(const dls_tensor *self);
/* Bytes from element to element, 0 for packed elements below 8 bits. */
int64_t dls_tensor_itemsize(const dls_tensor *self);
/* Address of element zero where the device has addresses, else the handle. */
void *dls_tensor_address(const dls_tensor *self);
/* n dims, each multiplied by `unit`, as a tuple; a new reference. */
PyObject *dls_dims_tuple(const int64_t *dims, int32_t n, int64_t unit);

/* P of a Tensor, seen from this thread: another thread's per-thread default stream
 * cannot be named, but the legacy default stream comes after it. */
dls_producer_stream dls_tensor_ready_stream(const dls_tensor *self);
/* Set the stream of a new Tensor to p, if the Tensor has `ready`.  p has no object. */
void dls_tensor_set_ready(dls_tensor *self, dls_producer_stream p);
/* The data of a Tensor that has `ready` were synchronised with the stream `handle`. */
void dls_tensor_set_ready_stream(dls_tensor *self, uint64_t handle);

/* --- sharing its memory --------------------------------------------------- */

/* Add a share of a Tensor's memory; NULL with MemoryError. */
dls_shared *dls_tensor_share(dls_tensor *self);

/* Fill `acquired` from a Tensor; its hold is a new share of the Tensor's memory.  0, or
 * -1 with MemoryError. */
int dls_tensor_acquire(dls_tensor *self, dls_acquired *acquired);
