/* The three types that Python sees.  One accessor a type is the only place that knows
 * the layout of its objects (an abi3t build changes that line). */
#ifndef DLS_MODULE_OBJECTS_H
#define DLS_MODULE_OBJECTS_H

#include <assert.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>

#ifdef __linux__
#include <pthread.h>
#endif

#include "core/hold.h"
#include "core/sync_words.h"
#include "exchange/acquired.h"
#include "exchange/plan.h"
#include "request/options.h"

/* Threads ask at the same time: from then on every asker counts as one that asked. */
#define DLS_ASKED_BY_MANY ULONG_MAX

/* CPython's thread ident without its detour. */
static inline unsigned long
dls_this_thread(void)
{
#ifdef __linux__
    return (unsigned long)pthread_self();
#else
    return PyThread_get_thread_ident();
#endif
}

/* A device question was put in this thread. */
static inline void
dls_mark_question(unsigned long *asked)
{
    unsigned long me = dls_this_thread();
    *asked = *asked == 0 || *asked == me ? me : DLS_ASKED_BY_MANY;
}

/* An export begins: was the device asked before in this thread?  Only the thread that
 * put a question uses it up. */
static inline bool
dls_use_question(unsigned long *asked)
{
    if (*asked == 0 || *asked == DLS_ASKED_BY_MANY) {
        return *asked != 0;
    }
    bool mine = *asked == dls_this_thread();
    if (mine) {
        *asked = 0;
    }
    return mine;
}

/* Lazy: asks `source` when a consumer asks it.  96 bytes with the GC's head. */
typedef struct {
    PyObject_HEAD
    PyObject *source;     /* strong */
    dls_state *state;     /* lives as long as the type, which this object owns */
    dls_plan *plan;       /* a count; NULL when source is a Tensor */
    dls_options *options; /* NULL: none */
    dls_shared *kept;     /* memory made for the last export (T8), or NULL */
    struct dls_borrowed *borrowed; /* exports that borrowers look at, or NULL */
    unsigned long asked; /* thread whose device question is not used up yet (N9), 0, or
                          * DLS_ASKED_BY_MANY */
    PyObject *weakrefs;
} dls_producer;

/* What is still pending in a Tensor's memory; most lie on the host and have none. */
typedef struct {
    dls_pending p;
    PyObject *stream; /* keeps the stream of `p` alive; NULL: an int, or none */
    uintptr_t thread; /* the one that meant its own default stream by 2 */
} dls_ready;

/* Eager: owns a tensor that was taken, may be exported any number of times. */
typedef struct {
    PyObject_VAR_HEAD /* size: of dims */
    dls_state *state;
    dls_hold hold;         /* kind SHARED from the first export on */
    dl_tensor tensor;      /* data folded (T5), strides filled (T4) */
    uint32_t flags;        /* DL_FLAG_* */
    uint16_t major, minor; /* version of the struct that was taken */
    uint8_t flavour;       /* dls_flavour it came in */
    bool readonly_stated;  /* READ_ONLY, or its absence, is the source's word */
    dls_ready *ready;      /* owned; NULL: nothing is pending */
    unsigned long asked;   /* as in dls_producer */
    PyObject *weakrefs;
    int64_t dims[]; /* shape, then strides */
} dls_tensor;

/* Show the Python objects behind a hold to the collector; those behind a share only if
 * nobody else has a share of them: only then they are ours to show. */
static inline int
dls_hold_visit(const dls_hold *hold, visitproc visit, void *arg)
{
    for (;;) {
        if (hold->kind == DLS_HOLD_GUARDED) {
            hold = &((dls_guarded *)hold->base)->hold;
        }
        Py_VISIT((PyObject *)hold->py);
        if (hold->kind == DLS_HOLD_BUFFER) {
            Py_VISIT(((dls_buffer *)hold->base)->obj);
        }
        dls_shared *shared = hold->kind == DLS_HOLD_SHARED ? hold->base : NULL;
        if (shared == NULL
            || atomic_load_explicit(&shared->shares, memory_order_relaxed) != 1) {
            return 0;
        }
        hold = &shared->hold;
    }
}

/* The first hold behind shares. */
static inline const dls_hold *
dls_hold_behind(const dls_hold *hold)
{
    while (hold->kind == DLS_HOLD_SHARED) {
        hold = &((dls_shared *)hold->base)->hold;
    }
    return hold;
}

/* The same for one share; NULL allowed. */
static inline int
dls_shared_visit(dls_shared *shared, visitproc visit, void *arg)
{
    const dls_hold hold = {.base = shared, .kind = DLS_HOLD_SHARED};
    return dls_hold_visit(&hold, visit, arg);
}

static inline dls_producer *
dls_producer_data(PyObject *self)
{
    return (dls_producer *)self;
}

static inline dls_tensor *
dls_tensor_data(PyObject *self)
{
    return (dls_tensor *)self;
}

/* Of an object that is one of the two: they have the state in the same place. */
static_assert(offsetof(dls_producer, state) == offsetof(dls_tensor, state),
              "state's place");
static inline bool
dls_is_producer(PyObject *self)
{
    return Py_IS_TYPE(self, dls_producer_data(self)->state->producer_type);
}

/* As __dlpack_device__ answers: two plain ints, a new reference. */
static inline PyObject *
dls_device_pair(const dls_state *state, dl_device device)
{
    if (device.device_type == dl_kDLCPU && device.device_id == 0) {
        Py_INCREF(state->host_device);
        return state->host_device;
    }
    return Py_BuildValue("(ii)", (int)device.device_type, (int)device.device_id);
}

/* Type objects, added to the module.  0, or -1 with an exception. */
int dls_producer_type_init(dls_state *state, PyObject *module);
int dls_tensor_type_init(dls_state *state, PyObject *module);
int dls_dtype_type_init(dls_state *state, PyObject *module);

/* Is it such a type, whichever import made it?  Any type may be asked about. */
bool dls_producer_is_type(PyTypeObject *type);
bool dls_tensor_is_type(PyTypeObject *type);

/* A Producer over source.  Steals the plan's count and the options, on failure too. */
PyObject *dls_producer_new(dls_state *state, PyObject *source, dls_plan *plan,
                           dls_options *options);

/* A Tensor with the values of `tensor` that nothing is owed for: host memory, no flags,
 * holds nothing yet.  The caller writes dims, stamps flavour and version, sets
 * readonly_stated, and shows it to the collector (PyObject_GC_Track). */
dls_tensor *dls_tensor_bare(dls_state *state, const dl_tensor *tensor);
void dls_tensor_stamp(dls_tensor *self, dls_flavour flavour, dl_version version);

/* A Tensor from final values: dims are copied.  It holds nothing yet: dls_tensor_hold
 * moves a hold in, as the last step.  ready: on which stream the data are, in this
 * thread; stream: its object, borrowed or NULL. */
PyObject *dls_tensor_new(dls_state *state, const dl_tensor *tensor, bool canonical,
                         const dls_loan *loan, uint64_t flags, dls_pending ready,
                         PyObject *stream);
void dls_tensor_hold(PyObject *self, dls_hold *hold);

/* P of a Tensor, seen from this thread: another thread's per-thread default stream
 * cannot be named, but the legacy one comes after it. */
dls_pending dls_tensor_pending(const dls_tensor *self);

/* One share more of a Tensor's memory; NULL with MemoryError. */
dls_shared *dls_tensor_share(dls_tensor *self);

/* Describe a Tensor as a loan that shares its memory.  0, or -1 with MemoryError. */
int dls_tensor_lend(dls_tensor *self, dls_loan *loan);

/* A dtype tuple (code, bits, lanes) with a readable repr. */
PyObject *dls_dtype_new(dls_state *state, dl_dtype dtype);

#endif
