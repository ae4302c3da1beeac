/* The floor: what an exchange costs at least, in C, without any check.
 *
 * These probes say what the protocol, the interpreter and malloc cost by themselves, so that the
 * product can be judged by a ratio that travels to other machines and interpreters.  They look at
 * capsule names and at nothing else: no versions, flags, layouts, overflow or lifetime cares.  Where
 * memory is out, the process ends.  Never use them for anything but measuring.
 *
 * Built for the limited API of CPython 3.10 with the state pointer in every instance and vectorcall
 * found at import, as the product is.  A measuring tool lives as long as its process: types and plans
 * are never freed.
 */
#ifndef DLS_FLOOR_H
#define DLS_FLOOR_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

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
    PyTypeObject *type;
    floor_form method;            /* what `__dlpack__` gives: never FLOOR_TABLE */
    const dl_exchange_api *table; /* NULL: the type has none */
    bool asks_grad;               /* the table forgets autograd: ask first */
} floor_plan;

typedef struct {
    floor_vectorcall_method vectorcall_method;
    PyObject *name_dlpack, *name_requires_grad, *name_arrow_array, *name_arrow_stream;
    PyObject *word_stream, *word_max_version, *word_dl_device, *word_copy;
    PyObject *keywords;   /* ("max_version",) */
    PyObject *version;    /* (1, 3) */
    PyObject *cpu_device; /* (1, 0) */
    PyTypeObject *wrapper, *tensor;
    floor_plan plans[FLOOR_PLANS];
} floor_state;

/* probes.c: a type of that name and size, put into the module; NULL: exception */
PyTypeObject *floor_add_type(PyObject *module, const char *name, size_t size, unsigned int flags,
                             PyType_Slot *slots);

/* arrow.c */
int floor_add_arrow(PyObject *module);

/* producers.c */
int floor_add_producers(PyObject *module);

/* wrapper.c */
void *floor_get(size_t size); /* malloc's, or the process ends */
PyObject *floor_capsule_versioned(dl_managed_tensor_versioned *managed);
PyObject *floor_capsule_legacy(dl_managed_tensor *managed);
bool floor_wants_versioned(PyObject *max_version);
int floor_set_table(PyTypeObject *type, dl_exchange_api *table); /* fills what is empty */
const dl_exchange_api *floor_table_of(PyTypeObject *type);
const floor_plan *floor_find_plan(floor_state *st, PyObject *source);
/* Asks `source` by `form` and owns what comes, as versioned; NULL: exception. */
dl_managed_tensor_versioned *floor_own(floor_state *st, const floor_plan *plan, floor_form form,
                                       PyObject *source);
PyObject *floor_upgrade(floor_state *st, PyObject *source, bool by_table);
int floor_add_wrapper(PyObject *module, floor_state *st);

/* PyCFunction is what a method table wants, whatever the calling convention. */
#define FLOOR_METHOD(function) ((PyCFunction)(void (*)(void))(function))

#endif
