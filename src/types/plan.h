/* One plan for each type: which protocols it offers, and the facts learned from asking
 * it (N1).
 *
 * A plan is constant after it was made, but for its count, for the one word of learned
 * facts, for its class of Producers, which is found when it is first asked for, and for
 * its type, which may become NULL.  Every keeper of a plan owns a count
 * of it.  A Producer does, so that the fast path looks nothing up.  A plan holds
 * nothing that leads back to its type.  GIL held throughout; without a GIL any number
 * of threads may call these functions with the same plan. */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "abi/dlpack_abi.h"
#include "python/py.h"
#include "python/state.h"
#include "types/library.h"

/* Keywords of a call of __dlpack__; also the index of state->kwnames. */
#define DLS_ASK_STREAM (1u << DLS_KW_STREAM)
#define DLS_ASK_VERSION (1u << DLS_KW_VERSION)
#define DLS_ASK_DEVICE (1u << DLS_KW_DEVICE)
#define DLS_ASK_COPY (1u << DLS_KW_COPY)

/* The protocols, in the order in which they are tried (N2).  TENSOR is a Tensor of
 * ours: it is never tried beside another.  X(name, the attribute that offers it, text);
 * NONE: it is no attribute, or (TABLE) more than one. */
#define DLS_PROTOCOL_LIST(X)                                                   \
    X(TABLE, NONE, "C table")                                                  \
    X(DLPACK, dlpack, "__dlpack__")                                            \
    X(FUNCTION, NONE, "capsule function")                                      \
    X(CUDA, cuda_array_interface, "__cuda_array_interface__")                  \
    X(SYCL, sycl_usm_array_interface, "__sycl_usm_array_interface__")          \
    X(STRUCT, array_struct, "__array_struct__")                                \
    X(INTERFACE, array_interface, "__array_interface__")                       \
    X(VALUES, NONE, "to_numpy()")                                              \
    X(ARROW_DEVICE_ARRAY, arrow_c_device_array, "__arrow_c_device_array__")    \
    X(ARROW_ARRAY, arrow_c_array, "__arrow_c_array__")                         \
    X(ARROW_DEVICE_STREAM, arrow_c_device_stream, "__arrow_c_device_stream__") \
    X(ARROW_STREAM, arrow_c_stream, "__arrow_c_stream__")                      \
    X(BUFFER, NONE, "buffer protocol")                                         \
    X(TENSOR, NONE, "Tensor")

typedef enum {
#define DLS_PROTOCOL_ENUM(name, attribute, text) DLS_PROTOCOL_##name,
    DLS_PROTOCOL_LIST(DLS_PROTOCOL_ENUM) DLS_PROTOCOL_COUNT
} dls_protocol;

DLS_EXTERN const char *const dls_protocol_names[DLS_PROTOCOL_COUNT];

/* Protocols through which memory of a device may come (bits as in dls_plan.offers). */
#define DLS_PROTOCOLS_OFF_HOST                                                         \
    (1u << DLS_PROTOCOL_TABLE | 1u << DLS_PROTOCOL_DLPACK                              \
     | 1u << DLS_PROTOCOL_FUNCTION | 1u << DLS_PROTOCOL_CUDA | 1u << DLS_PROTOCOL_SYCL \
     | 1u << DLS_PROTOCOL_ARROW_DEVICE_ARRAY | 1u << DLS_PROTOCOL_ARROW_DEVICE_STREAM)

static inline bool
dls_protocol_is_arrow(dls_protocol protocol)
{
    return protocol >= DLS_PROTOCOL_ARROW_DEVICE_ARRAY
           && protocol <= DLS_PROTOCOL_ARROW_STREAM;
}

/* DLS_NAME_INDEX_* of a protocol's attribute, or DLS_NAME_INDEX_NONE. */
enum { DLS_NAME_INDEX_NONE = -1 };
DLS_EXTERN const int8_t dls_protocol_attributes[DLS_PROTOCOL_COUNT];

/* A call form: its protocol, its keywords, and the generation of its answer.  It is a
 * word and no struct of bits, which the compiler would keep in memory on the fast path.
 * The lowest bits are the keywords that are passed (DLS_ASK_*, of protocol DLPACK). */
typedef uint16_t dls_form;
#define DLS_FORM_KEYWORDS 15u
#define DLS_FORM_KNOWN 16u        /* else the rest says nothing */
#define DLS_FORM_WANTED 32u       /* a versioned tensor is wanted */
#define DLS_FORM_VERSIONED 64u    /* the answer is versioned */
#define DLS_FORM_FAST 128u        /* the fast path may use it: TABLE or DLPACK ... */
#define DLS_FORM_DIRECT 256u      /* ... the plan's method is called */
#define DLS_FORM_ASKS_DEVICE 512u /* ... the device is asked by a method looked up */
#define DLS_FORM_PROTOCOL 10      /* the first bit of the protocol, which has four */
/* As FAST, of a type that was also seen off the host: for an object that shows that it
 * lies on the host. */
#define DLS_FORM_FAST_ON_HOST 16384u

static inline dls_form
dls_form_of(dls_protocol protocol, unsigned bits)
{
    return (dls_form)((unsigned)protocol << DLS_FORM_PROTOCOL | bits);
}

static inline dls_protocol
dls_form_protocol(dls_form form)
{
    return (dls_protocol)(form >> DLS_FORM_PROTOCOL & 15u);
}

/* The facts learned from asking a type.  They are one word: dls_plan.learned. */
typedef struct {
    /* The form that worked, where [0] a legacy, [1] a versioned one is wanted. */
    dls_form forms[2];
    uint16_t met : 1; /* exported once: the device is known to be the host, or asked */
    uint16_t off_host : 1; /* was seen off the host: the device is always asked (N5) */
    uint16_t refused : 4;  /* DLS_ASK_*: keywords that were dropped off the host (N1) */
    uint16_t taken : 4;    /* DLS_ASK_*: taken off the host, so never refused */
    uint16_t no_minus_one : 1; /* its objects refused stream -1, and took None (N6) */
    uint16_t unused;           /* 0 */
} dls_learned;

_Static_assert(sizeof(dls_learned) == sizeof(uint64_t),
               "it is read and written at once");

/* An attribute with a getter in C, found on a static type, whose classes cannot be
 * changed and do not end; all NULL: none. */
typedef struct {
    PyObject *descriptor; /* strong */
    descrgetfunc get;
} dls_getter;

/* The getter's value for an object, a new reference. */
static inline PyObject *
dls_getter_read(const dls_getter *getter, PyObject *obj)
{
    return getter->get(getter->descriptor, obj, (PyObject *)Py_TYPE(obj));
}

/* Without the GIL: the part of a plan's count that the threads of one slot have made,
 * twice, plus 1 while it is closed.  It may be negative: another thread drops. */
#ifdef DLS_FREE_THREADED
typedef struct {
    _Atomic intptr_t word;
    char rest[DLS_LINE - sizeof(intptr_t)];
} dls_plan_part;
#endif

typedef struct dls_plan {
    /* Only plan.c, dls_plan_share and dls_plan_drop touch it. */
    DLS_ATOMIC(intptr_t) refs;
    _Atomic uint64_t learned; /* the bytes of a dls_learned; plan.c alone writes it */
    /* An address to compare with, not a reference.  NULL: it fits no type any more.  It
     * becomes NULL when the cache that keeps the plan lets it go, at the latest when
     * the type ends: a new type may get the address. */
    DLS_ATOMIC(PyTypeObject *) type;
    uint64_t traits; /* DLS_LIB_* of the row */
    uint32_t offers; /* bit 1 << dls_protocol */
    /* How its library is asked (types/library.h): a tuple that shim/habits.py has made
     * of constants and functions, which lead to no object and no import of dlshim.
     * Strong, or NULL: nothing is known. */
    PyObject *habits;
    PyObject *library; /* the name of its row there, borrowed; NULL: no row */
    const dl_exchange_api *table;
    /* The C table that the class showed when it was met, whether it counts (N2) or not:
     * an address to compare with (offers.h). */
    const dl_exchange_api *shown_table;
    /* The library's C table for readonly=True; NULL: table serves. */
    const dl_exchange_api *read_only_table;
    /* __dlpack__ and __dlpack_device__ of a type that is never changed and never ends,
     * and whose instances have no attributes of their own: called without a look-up.
     * Strong, or NULL. */
    PyObject *method, *device_method;
    /* The names by which the two are looked up otherwise: strong.  NULL: `method` (or
     * `device_method`) is a function that the author of a decorated class wrote, and is
     * called always. */
    PyObject *name, *device_name;
    /* The object for which such a function was called last: only a hint, because other
     * threads and greenlets call it meanwhile.  An address to compare with; NULL: none
     * is called. */
    DLS_ATOMIC(const PyObject *) serves;
    /* Where such a function is a base's: that class, and what it showed under the name
     * when the plan was made.  A base may get another one.  Strong, or NULL. */
    PyObject *seen_on, *seen;
    /* The attribute of a decorated class that has its inner array, or the method that
     * returns it (inner_is_called).  The other members of the plan serve objects whose
     * __dlpack__ is another one by now.  Strong, or NULL. */
    PyObject *inner;
    /* Attributes of the library's own class (no subclass), found on a class that cannot
     * be changed; an attribute that is later put on a class before it is not seen.
     * Strong, or NULL: looked up each time. */
    PyObject *is_neg;         /* LAZY_BITS */
    dls_getter requires_grad; /* LAZY_BITS */
    /* LAZY_BITS, a subclass whose is_neg and requires_grad go through its library's
     * hook: makes a guard under which they do not.  Strong, or NULL. */
    PyObject *plain_calls;
    dls_getter where; /* BASE_TELLS, IS_CPU_TELLS (types/offers.h) */
    /* The class of Producers of these objects: that of their home (ctable/homes), or
     * Producer itself.  The state owns it.  NULL: it was not asked for yet. */
    DLS_ATOMIC(PyTypeObject *) producer_type;
    /* Why the methods of Arrow are not called (C10), a text; NULL: they are. */
    const char *no_column;
    bool tells_elements; /* it has get_element_type, which its buffer may not agree with
                            (T7) */
    bool can_cycle;      /* instances take part in garbage collection */
    bool has_device;     /* __dlpack_device__ is there */
    bool cpu_only;       /* objects cannot be elsewhere: the device is not asked (N5) */
    bool on_instance;  /* __dlpack__ or another attribute is the instance's own (N1) */
    bool is_proxy;     /* on_instance, and the type has __getattr__ */
    bool is_decorated; /* dlshim.producer has put our methods on the class */
    bool hides_question; /* ... but the class has another __dlpack_device__ by now (N9)
                          */
    bool inner_is_called;
    bool forwards; /* `seen` is our method of a base, which has a plan of its own */
    /* Of a plan that offers nothing: it may be kept in the cache, and what was looked
     * at need never be looked at again, because nothing of it can change. */
    bool keeps_refusal, lasts;
#ifdef DLS_FREE_THREADED
    struct dls_plan *next; /* in the list of those without an owner */
    char apart[DLS_LINE];  /* the members above are read at each exchange */
    dls_plan_part parts[DLS_THREAD_SLOTS]; /* of the count */
#endif
} dls_plan;

static inline bool
dls_plan_has(const dls_plan *plan, uint64_t trait)
{
    return (plan->traits & trait) != 0;
}

static inline bool
dls_plan_offers(const dls_plan *plan, dls_protocol protocol)
{
    return plan->offers >> protocol & 1;
}

/* The class of Producers of an object of the plan, which the state owns.  At the first
 * time foreign code may run.  NULL with a fatal exception.  Whatever else is raised
 * says nothing of the type: dlshim is the home, this once. */
static inline PyTypeObject *
dls_plan_home(dls_state *state, dls_plan *plan, PyObject *obj)
{
    PyTypeObject *home = plan->producer_type;
    return home != NULL ? home : state->find_home(state, plan, Py_TYPE(obj));
}

/* The protocols that are tried (bits as in plan->offers).  Only the call tells whether
 * __dlpack__ is a placeholder, and a real capsule function may stand beside one (N8).
 * Beside an instance's __dlpack__ nothing else was looked for. */
uint32_t dls_plan_tried(const dls_plan *plan);

/* Is the buffer of the type's objects read before __dlpack__ is asked (N2)? */
static inline bool
dls_plan_reads_buffer_first(const dls_plan *plan)
{
    return dls_plan_has(plan, DLS_LIB_BUFFER_FIRST)
           && dls_plan_offers(plan, DLS_PROTOCOL_BUFFER);
}

/* Is the source a Tensor of ours (or a raw capsule)? */
static inline bool
dls_plan_is_tensor(const dls_plan *plan)
{
    return dls_plan_offers(plan, DLS_PROTOCOL_TENSOR);
}

/* A function of the plan's author is called for this object, or no more (NULL, or what
 * it was called for before, which is returned). */
static inline const PyObject *
dls_plan_serve(const dls_plan *plan, const PyObject *obj)
{
    dls_plan *hint = (dls_plan *)(uintptr_t)plan;
    const PyObject *before = hint->serves;
    hint->serves = obj;
    return before;
}

/* The facts learned so far, read once. */
static inline dls_learned
dls_plan_learned(const dls_plan *plan)
{
    dls_learned learned;
    uint64_t word = atomic_load_explicit(&plan->learned, memory_order_relaxed);
    memcpy(&learned, &word, sizeof learned);
    return learned;
}

/* Do the type's objects refuse stream -1, as its row says or they themselves did? */
static inline bool
dls_plan_refuses_minus_one(const dls_plan *plan)
{
    return dls_plan_has(plan, DLS_LIB_REFUSES_MINUS_ONE)
           || dls_plan_learned(plan).no_minus_one;
}

/* false = always translate, and the fast path is closed: for dlshim.track(), and for
 * tests, so that the same tests run on the full record. */
DLS_EXTERN atomic_bool dls_hand_on_allowed;
void dls_hand_on_allow(bool allowed);

static inline bool
dls_fast_is_open(void)
{
    return atomic_load_explicit(&dls_hand_on_allowed, memory_order_relaxed);
}

/* The form for objects of the plan's own type.  Not FAST: none was learned that the
 * fast path may use, or it is closed. */
static inline dls_form
dls_fast_form_of(const dls_plan *plan, bool wanted)
{
    const dls_learned learned = dls_plan_learned(plan);
    return dls_fast_is_open() ? learned.forms[wanted] : 0;
}

/* A form has worked.  Not KNOWN: the type was met (its device is known), but the form
 * serves this one exchange only. */
void dls_plan_learn_form(dls_plan *plan, dls_form form);
/* Learn that these keywords were taken off the host.  refused: the keywords that are
 * refused from now on, but for those that other objects took, or -1: as before. */
void dls_plan_learn_keywords(dls_plan *plan, unsigned taken, int refused);
/* Learn that stream -1 was refused, and None was not. */
void dls_plan_learn_no_minus_one(dls_plan *plan);
/* An object of the type lies off the host: the device is asked from now on (N5).  The
 * learned forms stay for objects that lie on the host; the fast path may use them only
 * for those that show it. */
void dls_plan_leave_host(dls_plan *plan);

/* A plan of `type` that says nothing yet, with a count of 1; NULL with MemoryError. */
dls_plan *dls_plan_begin(const dls_state *state, PyTypeObject *type);
/* The one plan of Tensors and raw capsules; NULL with MemoryError. */
dls_plan *dls_plan_new_of_tensors(dls_state *state);

/* For dls_plan_drop: the last count has gone. */
void dls_plan_end(dls_plan *plan);

/* Without the GIL, all threads would wait for the one word of a plan that all use.  So,
 * while a cache (or the state) keeps the plan, its parts are open: each thread counts
 * in its own part, and `refs` has the cache's count, which keeps it above 0.  Otherwise
 * the parts are closed, and `refs` is the count. */
#ifdef DLS_FREE_THREADED
/* Change the count in the part of this thread.  False: it is closed, and what was
 * counted there says nothing. */
static inline bool
dls_plan_count(dls_plan *plan, intptr_t change)
{
    _Atomic intptr_t *word = &plan->parts[dls_thread_slot()].word;
    return (atomic_fetch_add(word, 2 * change) & 1) == 0;
}
#else
#define dls_plan_count(plan, change) false
#endif

/* Add a count, and drop one (NULL allowed). */
static inline dls_plan *
dls_plan_share(dls_plan *plan)
{
    assert(plan->refs > 0);
    if (!dls_plan_count(plan, 1)) {
        plan->refs++;
    }
    return plan;
}
DLS_INLINE void
dls_plan_drop(dls_plan *plan)
{
    if (plan != NULL && !dls_plan_count(plan, -1) && --plan->refs == 0) {
        dls_plan_end(plan);
    }
}

/* The caller's count becomes a cache's, and the parts are opened.  The plan is new: no
 * other thread has it.  dls_plan_close drops that count (NULL allowed) and closes them.
 */
#ifdef DLS_FREE_THREADED
void dls_plan_open(dls_plan *plan);
void dls_plan_close(dls_plan *plan);
#else
#define dls_plan_open(plan) (void)(plan)
#define dls_plan_close dls_plan_drop
#endif

#ifdef DLS_FREE_THREADED
/* A plan that was found without a lock (NULL allowed): with a count more if it still is
 * the plan of this living type, else NULL. */
dls_plan *dls_plan_share_found(dls_plan *plan, const PyTypeObject *type);
#endif

/* For asserts: do its members fit together?  The rules are in the source. */
bool dls_plan_check(const dls_plan *plan);
