/* The floor: what an exchange costs at least, in C, without any check.
 *
 * These probes say what the protocol, the interpreter and malloc cost by
 * themselves, so that the product can be judged by a ratio that travels to
 * other machines and interpreters.  They look at capsule names and at nothing
 * else: no versions, flags, layouts, overflow or lifetime cares.  Never use
 * them for anything but measuring.
 *
 * Built for the limited API of CPython 3.10 with the state pointer in every
 * instance and vectorcall found at import, as the product is.
 */
#ifndef DLS_FLOOR_H
#define DLS_FLOOR_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "../../src/abi/dlpack_abi.h"

#define FLOOR_MAX_NDIM 32
#define FLOOR_PLANS 128 /* a power of two; plans are never moved or reused */

#define FLOOR_OFFSET ((size_t)1 << (8 * sizeof(size_t) - 1)) /* PEP 590: args[-1] is ours */
typedef PyObject *(*floor_vectorcall_method)(PyObject *name, PyObject *const *args,
                                             size_t nargsf, PyObject *kwnames);

/* How a type is asked.  Learned once, on the first upgrade of that type. */
typedef enum { FLOOR_LEGACY, FLOOR_VERSIONED, FLOOR_TABLE } floor_form;

typedef struct {
    PyTypeObject *type; /* held for ever */
    floor_form method;  /* what `__dlpack__` gives: never FLOOR_TABLE */
    const dl_exchange_api *table; /* NULL: the type has none */
    bool asks_grad;               /* the table forgets autograd: ask first */
} floor_plan;

typedef struct {
    floor_vectorcall_method vectorcall_method;
    PyObject *name_dlpack;
    PyObject *name_dlpack_device;
    PyObject *name_requires_grad;
    PyObject *word_stream;
    PyObject *word_max_version;
    PyObject *word_dl_device;
    PyObject *word_copy;
    PyObject *keywords;   /* ("max_version",) */
    PyObject *version;    /* (1, 3) */
    PyObject *cpu_device; /* (1, 0) */
    PyTypeObject *legacy;
    PyTypeObject *noargs;
    PyTypeObject *modern;
    PyTypeObject *modernx;
    PyTypeObject *wrapper;
    PyTypeObject *wrapper_gc;
    PyTypeObject *tensor, *checked_tensor;
    floor_plan plans[FLOOR_PLANS];
} floor_state;

/* The memory of one array and the dimensions that all its exports share. */
typedef struct {
    atomic_long holders;
    int32_t ndim;
    int64_t shape[FLOOR_MAX_NDIM];
    int64_t strides[FLOOR_MAX_NDIM];
    float data[64];
} floor_block;

typedef struct {
    PyObject ob_base;
    floor_state *state;
    floor_block *block;
} floor_producer;

typedef struct {
    PyObject ob_base;
    floor_state *state;
    const floor_plan *plan;
    PyObject *source;
    floor_form form;
    dl_managed_tensor_versioned *kept; /* by the first borrow; NULL before */
} floor_wrapper;

typedef struct {
    PyObject ob_base;
    dl_managed_tensor_versioned *managed;
} floor_tensor;

/* module.c: a type of that name and size, put into the module; NULL: exception */
PyTypeObject *floor_add_type(PyObject *module, const char *name, size_t size,
                             unsigned int flags, PyType_Slot *slots);

/* producers.c */
PyObject *floor_make_producer(floor_state *st, PyTypeObject *type, int ndim);
int floor_add_producers(PyObject *module, floor_state *st);

/* exchange.c: translation, taking, and calls of the source */
dl_managed_tensor_versioned *floor_to_versioned(dl_managed_tensor *inner);
dl_managed_tensor *floor_to_legacy(dl_managed_tensor_versioned *inner);
PyObject *floor_capsule_versioned(dl_managed_tensor_versioned *managed);
PyObject *floor_capsule_legacy(dl_managed_tensor *managed);
void *floor_take(PyObject *capsule, const char *name, const char *used);
PyObject *floor_call_bare(floor_state *st, PyObject *source);
PyObject *floor_call_versioned(floor_state *st, PyObject *source);
/* Asks `source` by `form` and owns what comes, as versioned; NULL: exception. */
dl_managed_tensor_versioned *floor_own(floor_state *st, const floor_plan *plan,
                                       floor_form form, PyObject *source);
/* Raises when the table would forget that the tensor requires grad. */
int floor_check_grad(floor_state *st, const floor_plan *plan, PyObject *source);

/* plan.c */
const floor_plan *floor_find_plan(floor_state *st, PyObject *source);
const dl_exchange_api *floor_table_of(PyTypeObject *type);

/* wrapper.c, probes.c, table.c, marks.c */
int floor_add_wrappers(PyObject *module, floor_state *st);
int floor_add_probes(PyObject *module);
int floor_add_table(PyTypeObject *type);
int floor_add_marks(PyObject *module);
PyObject *floor_upgrade(floor_state *st, PyObject *source);
PyObject *floor_upgrade_untracked(floor_state *st, PyObject *source);
PyObject *floor_upgrade_table(floor_state *st, PyObject *source);

static inline floor_state *floor_state_of(PyObject *module)
{
    return (floor_state *)PyModule_GetState(module);
}

/* PyCFunction is what a method table wants, whatever the calling convention. */
#define FLOOR_METHOD(function) ((PyCFunction)(void (*)(void))(function))

#endif
