/* DLPack capsules: look, take, make (T1, T9).  GIL held throughout. */
#ifndef DLS_PYTHON_CAPSULE_H
#define DLS_PYTHON_CAPSULE_H

#include "abi/dlpack_abi.h"
#include "core/hold.h"
#include "python/py.h"

typedef enum {
    DLS_CAPSULE_LEGACY = 0, /* named dltensor */
    DLS_CAPSULE_VERSIONED,  /* named dltensor_versioned */
    DLS_CAPSULE_USED,       /* consumed already: either used_ name */
    DLS_CAPSULE_FOREIGN     /* any other name */
} dls_capsule_kind;

/* obj is exactly a PyCapsule? */
bool dls_capsule_check(PyObject *obj);

/* Kind and pointer of a capsule; *managed is set for the two live kinds only.  Never
 * leaves an exception. */
dls_capsule_kind dls_capsule_look(PyObject *capsule, void **managed);

/* The same for a capsule whose flavour is as good as known: one call when it is so. */
dls_capsule_kind dls_capsule_look_for(PyObject *capsule, bool versioned,
                                      void **managed);

/* The pointer of a capsule of just this flavour; NULL for all others, nothing set. */
void *dls_capsule_pointer(PyObject *capsule, bool versioned);

/* Become the owner: rename a live capsule to its static used_ name.  0, or -1 with an
 * exception (the capsule is then as it was).  The capsule's destructor is left alone:
 * it must act on the unused name only, and may do other cleaning. */
int dls_capsule_take(PyObject *capsule, bool versioned);

/* A new capsule that owns `managed` (either flavour) until it is consumed: dropped
 * unconsumed, it calls the deleter with a pending exception saved.  NULL with an
 * exception on failure: managed is then still the caller's. */
PyObject *dls_capsule_new(void *managed, bool versioned);

#endif
