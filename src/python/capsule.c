/* Looks into capsules, takes them and makes new ones (T1, T9).  The GIL is held. Tests:
 * tests/core/test_capsule_life.py. */
#include "python/capsule.h"

#include <string.h>

#include "core/tensor.h"
#include "python/errors.h"

/* Each name has one address: capsules of ours are recognised without strcmp. */
static const char name_legacy[] = DL_NAME_LEGACY;
static const char name_versioned[] = DL_NAME_VERSIONED;
static const char name_legacy_used[] = DL_NAME_LEGACY_USED;
static const char name_versioned_used[] = DL_NAME_VERSIONED_USED;

bool
dls_capsule_check(PyObject *obj)
{
    return Py_IS_TYPE(obj, &PyCapsule_Type);
}

static dls_capsule_kind
kind_of_name(const char *name)
{
    if (name == NULL) {
        return DLS_CAPSULE_FOREIGN;
    }
    if (name == name_legacy || strcmp(name, name_legacy) == 0) {
        return DLS_CAPSULE_LEGACY;
    }
    if (name == name_versioned || strcmp(name, name_versioned) == 0) {
        return DLS_CAPSULE_VERSIONED;
    }
    if (strcmp(name, name_legacy_used) == 0 || strcmp(name, name_versioned_used) == 0) {
        return DLS_CAPSULE_USED;
    }
    return DLS_CAPSULE_FOREIGN;
}

dls_capsule_kind
dls_capsule_look(PyObject *capsule, void **managed)
{
    const char *name = PyCapsule_GetName(capsule);
    dls_capsule_kind kind = kind_of_name(name);
    *managed = NULL;
    if (name == NULL) {
        PyErr_Clear();
    }
    if (kind <= DLS_CAPSULE_VERSIONED) {
        *managed = PyCapsule_GetPointer(capsule, name);
    }
    if (kind <= DLS_CAPSULE_VERSIONED && *managed == NULL) {
        PyErr_Clear(); /* without the GIL: it was taken between the two calls */
        kind = DLS_CAPSULE_USED;
    }
    return kind;
}

bool
dls_capsule_is_still(PyObject *capsule, dls_capsule_kind kind)
{
    return kind_of_name(PyCapsule_GetName(capsule)) == kind;
}

void *
dls_capsule_pointer(PyObject *capsule, bool versioned)
{
    void *managed = PyCapsule_GetPointer(capsule,
                                         versioned ? name_versioned : name_legacy);
    if (managed == NULL) {
        PyErr_Clear();
    }
    return managed;
}

dls_capsule_kind
dls_capsule_look_for(PyObject *capsule, bool versioned, void **managed)
{
    *managed = dls_capsule_pointer(capsule, versioned);
    if (*managed != NULL) {
        return versioned ? DLS_CAPSULE_VERSIONED : DLS_CAPSULE_LEGACY;
    }
    return dls_capsule_look(capsule, managed);
}

static const char *
used_name(bool versioned)
{
    return versioned ? name_versioned_used : name_legacy_used;
}

int
dls_capsule_take(PyObject *capsule, bool versioned)
{
    if (DLS_CAPSULES_CLAIMED && !dls_is_unshared(capsule)) {
        assert(kind_of_name(PyCapsule_GetName(capsule)) == DLS_CAPSULE_USED);
        return 0; /* it was claimed, and others may look at its name */
    }
    return PyCapsule_SetName(capsule, used_name(versioned));
}

#ifdef DLS_FREE_THREADED
/* Threads that take the same capsule read and write its name under the lock only.
 * Other consumers do not take that lock: against them nothing helps but a capsule for
 * each consumer, as DLPack demands.  The pointer is read after the lock was given back,
 * because that raises where such a consumer has renamed the capsule. */
dls_capsule_kind
dls_capsule_claim(PyObject *capsule, void **managed)
{
    *managed = NULL;
    DLS_LOCK_CAPSULE(capsule);
    dls_capsule_kind kind = kind_of_name(PyCapsule_GetName(capsule));
    const bool versioned = kind == DLS_CAPSULE_VERSIONED;
    if (kind <= DLS_CAPSULE_VERSIONED) {
        PyCapsule_SetName(capsule, used_name(versioned)); /* it is a capsule, so 0 */
    }
    DLS_UNLOCK();
    if (kind <= DLS_CAPSULE_VERSIONED) {
        *managed = PyCapsule_GetPointer(capsule, used_name(versioned));
        if (*managed == NULL) {
            PyErr_Clear();
            kind = DLS_CAPSULE_USED;
        }
    }
    return kind;
}

void
dls_capsule_unclaim(PyObject *capsule, bool versioned)
{
    DLS_LOCK_CAPSULE(capsule);
    PyCapsule_SetName(capsule, versioned ? name_versioned : name_legacy);
    DLS_UNLOCK();
}
#endif

static void
delete_unconsumed(PyObject *capsule, const char *name, bool versioned)
{
    /* The same name may have another address: a consumer took the capsule, failed, and
     * gave it back. */
    const char *now = PyCapsule_GetName(capsule);
    if (now != name && (now == NULL || now[0] != name[0] || strcmp(now, name) != 0)) {
        return;
    }
    void *managed = PyCapsule_GetPointer(capsule, name);
    PyObject *type, *value, *trace;
    bool pending = PyErr_Occurred() != NULL;
    if (pending) {
        PyErr_Fetch(&type, &value, &trace);
    }
    dls_managed_delete_attached(managed, versioned);
    dls_error_report();
    if (pending) {
        PyErr_Restore(type, value, trace);
    }
}

static void
destroy_legacy(PyObject *capsule)
{
    delete_unconsumed(capsule, name_legacy, false);
}

static void
destroy_versioned(PyObject *capsule)
{
    delete_unconsumed(capsule, name_versioned, true);
}

PyObject *
dls_capsule_new(void *managed, bool versioned)
{
    return versioned ? PyCapsule_New(managed, name_versioned, destroy_versioned)
                     : PyCapsule_New(managed, name_legacy, destroy_legacy);
}
