/* What an argument of a kernel becomes.
 *
 * The parts of a call that public/kernel.c and its arguments share: what was said of
 * the function, the arrays of one call, and what stands for each.  The GIL is held. */
#pragma once

#include "core/alloc.h"
#include "core/lock.h"
#include "python/state.h"
#include "request/options.h"
#include "request/wanted.h"
#include "types/plan.h"

typedef PyObject *(*dls_vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);

/* Values of takes=: what stands for an array. */
typedef enum {
    DLS_TAKES_PRODUCER,
    DLS_TAKES_TENSOR,
    DLS_TAKES_CAPSULE,
    DLS_TAKES_CAPSULE_1,
    DLS_TAKES_IMPORTED /* an array of a library that the user has named */
} dls_kernel_takes;

/* What dlshim.kernel was told of a function (shim/kernels.py has checked it). */
typedef struct {
    dls_kernel_takes takes;
    dls_options *options; /* of upgrade, for each array; owned, NULL: none */
    dls_options *look;    /* the same for a look at memory that is written; owned */
    PyTypeObject *home;   /* like=: the class of Producers; strong, NULL: not given */
    PyObject *of_results; /* the type of arrays that are home already; strong, NULL:
                           * that of the first array */
    bool stay;            /* returns=None: results are left as they are */
    bool all_written;     /* writes=True */
    uint64_t written;     /* bit i: the function writes argument i */
    PyObject *names;      /* ... and keyword arguments of these names; strong, a set */
    bool is_checked;    /* memory is looked at: it is written, or not all is accepted */
    dls_wanted *wanted; /* what is accepted of each argument; owned, NULL: any array */
    Py_ssize_t wanted_count;
    Py_ssize_t wanted_positions; /* so many arguments are named by position */
    PyObject *wanted_names;      /* place in `wanted` by the name of a keyword argument;
                                  * strong, a dict */
} dls_kernel_said;

typedef struct {
    DLS_HEAD
    dls_vectorcall call; /* what CPython calls in the place of tp_call */
    dls_state *state;
    PyObject *keeps;    /* the type Tensor, which keeps the state; strong */
    PyObject *function; /* strong; None after tp_clear, as the next two */
    PyObject *calls;    /* shim/kernels.py: Calls, for what is left to Python; strong */
    PyObject *in_full;  /* a bound method of it; strong */
    PyObject *as_method; /* the same callable for bound methods, whose first argument
                          * is none (K8); strong, NULL: it is that one itself */
    PyObject *dict;      /* shared with as_method; strong */
    PyObject *weakrefs;
    dls_kernel_said
        said; /* of as_method too; its objects are this one's own references */
    /* The plan of the first type whose arrays went in as they are; counted, NULL: none
     * yet.  It is set once, so that any thread may look at its type. */
    DLS_ATOMIC(dls_plan *) as_is;
} dls_kernel;

/* --- one call --------------------------------------------------------------- */

/* Arguments and pairs for which a call needs no memory. */
enum { DLS_KERNEL_ROOM = 8 };

/* An argument, or an item of one, and what the function is given for it, which may be
 * the same object.  Strong: a list may change meanwhile. */
typedef struct {
    PyObject *own, *made;
} dls_kernel_pair;

typedef struct {
    dls_kernel *data;
    bool is_usual;      /* arrays go in upgraded, and nothing was said of them */
    PyObject *first;    /* the first array; borrowed, NULL: none yet */
    PyTypeObject *home; /* the class of the Producers of all; NULL: not known yet */
    /* Where the object stands that is looked at now. */
    Py_ssize_t at;   /* the argument */
    PyObject *named; /* its name, if it is a keyword argument; borrowed or NULL */
    Py_ssize_t item; /* in a container; -1: it is the argument itself */
    dls_kernel_pair room[DLS_KERNEL_ROOM];
    dls_kernel_pair *pairs; /* `room`, or memory of the call's own */
    Py_ssize_t count, size;
} dls_kernel_call;

/* What is of none of these types is looked at. */
static inline bool
dls_kernel_is_simple(PyObject *x)
{
    PyTypeObject *type = Py_TYPE(x);
    return x == Py_None || type == &PyLong_Type || type == &PyFloat_Type
           || type == &PyBool_Type || type == &PyUnicode_Type;
}

/* The table, if it has an allocator: arrays of its library are passed as they are. */
static inline const dl_exchange_api *
dls_kernel_allocating(const dl_exchange_api *table)
{
    return table != NULL && table->managed_tensor_allocator != NULL ? table : NULL;
}

/* Remember the first plan whose arrays went in as they are.  Its count is stolen. */
void dls_kernel_remember(dls_kernel *data, dls_plan *plan);

/* The object of a method is no argument (K8), and may be given back. */
int dls_kernel_give_self(dls_kernel_call *call, PyObject *self, PyObject **passed);

/* An argument, or an item of one.  1: *passed is what the function is given, borrowed;
 * 0: the call is left to Python, which meets types first, and knows columns, tables and
 * deep containers; -1 with an exception. */
int dls_kernel_give(dls_kernel_call *call, PyObject *x, PyObject **passed);
