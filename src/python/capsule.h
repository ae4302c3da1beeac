/* DLPack capsules: look into one, take it, make one (T1, T9).  Called by acquire/,
 * export/ and public/.  GIL held throughout; without a GIL, threads may share a
 * capsule: see dls_capsule_claim. */
#pragma once

#include "abi/dlpack_abi.h"
#include "core/hold.h"
#include "python/py.h"

typedef enum {
    DLS_CAPSULE_LEGACY = 0, /* named dltensor */
    DLS_CAPSULE_VERSIONED,  /* named dltensor_versioned */
    DLS_CAPSULE_USED,       /* consumed already: either used_ name */
    DLS_CAPSULE_FOREIGN     /* any other name */
} dls_capsule_kind;

/* True if obj is exactly a PyCapsule. */
bool dls_capsule_check(PyObject *obj);

/* The kind of a capsule, by its name.  *managed is its pointer, borrowed, for LEGACY
 * and VERSIONED, else NULL.  Never sets an exception, but may make one and drop it: not
 * under a lock. */
dls_capsule_kind dls_capsule_look(PyObject *capsule, void **managed);

/* Is the capsule still of the kind that was seen?  Its pointer is then still the one
 * that was seen.  May be called under a lock. */
bool dls_capsule_is_still(PyObject *capsule, dls_capsule_kind kind);

/* As dls_capsule_is_still, for a capsule that is most likely of the generation
 * `versioned`: one call suffices if it is. */
dls_capsule_kind dls_capsule_look_for(PyObject *capsule, bool versioned,
                                      void **managed);

/* The pointer of a capsule of this generation, borrowed; NULL for all others.  Never
 * sets an exception. */
void *dls_capsule_pointer(PyObject *capsule, bool versioned);

/* Become the owner of the struct in a LEGACY or VERSIONED capsule, by renaming the
 * capsule to its used_ name (T9).  0, or -1 with an exception: the capsule is then
 * unchanged.  The capsule's destructor stays: it acts on the unused name only, and may
 * do other cleaning. */
int dls_capsule_take(PyObject *capsule, bool versioned);

/* Without the GIL, a capsule that others hold too is claimed when it is looked at,
 * because another thread could take it before its struct is read.  It then has its
 * used_ name, and its caller takes it or gives the claim back. */
#ifdef DLS_FREE_THREADED
#define DLS_CAPSULES_CLAIMED true
/* Look as dls_capsule_look does.  LEGACY and VERSIONED: the capsule was not consumed,
 * and is claimed. */
dls_capsule_kind dls_capsule_claim(PyObject *capsule, void **managed);
void dls_capsule_unclaim(PyObject *capsule, bool versioned);
#else
#define DLS_CAPSULES_CLAIMED false
#define dls_capsule_claim dls_capsule_look
#define dls_capsule_unclaim(capsule, versioned) (void)(versioned)
#endif

/* A new capsule that owns `managed` (either generation) until it is consumed.  If it is
 * freed before that, it calls the deleter, with a pending exception saved.  NULL with
 * an exception on failure: `managed` still belongs to the caller then. */
PyObject *dls_capsule_new(void *managed, bool versioned);
