#include "acquire/from_capsule.h"

#include "core/counters.h"
#include "core/device.h"
#include "core/tensor.h"
#include "python/capsule.h"
#include "python/errors.h"

/* T1: through the stable prefix only. */
DLS_COLD static void
refuse_major(dls_state *state, PyObject *named, PyObject *capsule,
             dl_managed_tensor_versioned *managed)
{
    unsigned major = managed->version.major;
    if (dls_capsule_take(capsule, true) == 0) {
        dls_managed_delete(managed, true);
    }
    PyErr_Clear();
    dls_raise(
        state, DLS_EBUFFER, named,
        "its capsule has DLPack major version %u, dlshim knows 1; ask the producer "
        "for max_version=(1, 0)",
        major);
}

DLS_COLD static void
refuse_capsule(dls_state *state, PyObject *named, PyObject *capsule,
               dls_capsule_kind kind)
{
    if (kind == DLS_CAPSULE_USED) {
        dls_raise(state, DLS_EBUFFER, named,
                  "the capsule was consumed already (its name starts with \"used_\"); "
                  "export a fresh one, a capsule serves once");
        return;
    }
    const char *name = PyCapsule_GetName(capsule);
    if (name == NULL) {
        PyErr_Clear();
        name = "(no name)";
    }
    dls_raise(state, DLS_EBUFFER, named,
              "a capsule named \"%s\" is no DLPack capsule (\"dltensor\" or "
              "\"dltensor_versioned\"); pass the array itself",
              name);
}

static dls_capsule_kind
look(PyObject *capsule, dls_flavour likely, void **managed)
{
    return likely == DLS_OLDER
               ? dls_capsule_look(capsule, managed)
               : dls_capsule_look_for(capsule, likely == DLS_VERSIONED, managed);
}

int
dls_loan_from_capsule(dls_state *state, const dls_library *row, PyObject *source,
                      PyObject *capsule, dls_flavour likely, dls_loan *loan)
{
    PyObject *named = source != NULL ? source : capsule;
    void *managed;
    if (!dls_capsule_check(capsule)) {
        PyObject *type = dls_type_name(capsule);
        if (type != NULL) {
            dls_raise(
                state, DLS_EBUFFER, named,
                "its __dlpack__ or capsule function returned a '%U', not a capsule; "
                "report it to the library, or pass numpy.asarray(obj)",
                type);
            Py_DECREF(type);
        }
        goto fail;
    }
    dls_capsule_kind kind = look(capsule, likely, &managed);
    if (kind == DLS_CAPSULE_LEGACY) {
        loan->tensor = ((dl_managed_tensor *)managed)->dl_tensor;
        loan->flavour = DLS_LEGACY;
        loan->readonly_stated = false;
        loan->flags = row != NULL && (row->traits & DLS_LIB_IMMUTABLE)
                          ? DL_FLAG_READ_ONLY
                          : 0;
    }
    else if (kind == DLS_CAPSULE_VERSIONED) {
        dl_managed_tensor_versioned *versioned = managed;
        if (versioned->version.major != DL_MAJOR) {
            refuse_major(state, named, capsule, versioned);
            goto fail;
        }
        loan->tensor = versioned->dl_tensor;
        loan->flags = versioned->flags;
        loan->version = versioned->version;
        loan->flavour = DLS_VERSIONED;
        loan->readonly_stated = true;
    }
    else {
        refuse_capsule(state, named, capsule, kind);
        goto fail;
    }
    loan->managed = managed;
    loan->shared = Py_REFCNT(capsule) > 1;
    loan->capsule = capsule;
    return 0;
fail:
    dls_drop_foreign(capsule);
    return -1;
}

static uint32_t
hold_flags(dls_state *state, const dls_loan *loan)
{
    bool concerned = loan->flavour == DLS_LEGACY
                     && dls_device_is_host(loan->tensor.device.device_type);
    return concerned ? state->legacy_hold : 0;
}

int
dls_loan_recheck(dls_state *state, PyObject *source, const dls_loan *loan)
{
    if (loan->capsule == NULL || !loan->shared) {
        return 0;
    }
    void *managed;
    dls_capsule_look(loan->capsule, &managed);
    if (managed == loan->managed) {
        return 0;
    }
    dls_raise(
        state, DLS_EBUFFER, source,
        "its capsule was consumed by another holder meanwhile; give each consumer a "
        "capsule of its own");
    return -1;
}

int
dls_loan_take(dls_state *state, const dls_library *row, PyObject *source,
              dls_loan *loan)
{
    if (loan->capsule == NULL) {
        return 0;
    }
    bool versioned = loan->flavour == DLS_VERSIONED;
    if (dls_loan_recheck(state, source, loan) < 0) {
        return -1;
    }
    loan->hold.flags = hold_flags(state, loan);
    if (dls_capsule_take(loan->capsule, versioned) < 0) {
        return -1;
    }
    loan->hold.base = loan->managed;
    loan->hold.kind = versioned ? DLS_HOLD_VERSIONED : DLS_HOLD_LEGACY;
    if (source != NULL && !(row != NULL && (row->traits & DLS_LIB_OWNS))) {
        Py_INCREF(source);
        loan->hold.py = source;
    }
    PyObject *capsule = loan->capsule;
    loan->capsule = NULL;
    Py_DECREF(capsule);
    dls_error_report(); /* its destructor's: the tensor is ours all the same */
    DLS_COUNT(taken);
    return 0;
}

bool
dls_loan_may_hand_on(dls_state *state, const dls_library *row, const dls_loan *loan)
{
    if (row != NULL && (row->traits & DLS_LIB_DOES_NOT_OWN)) {
        return false;
    }
    if (loan->shared) {
        return false; /* others hold it too and may consume it */
    }
    return hold_flags(state, loan) == 0 && loan->flavour != DLS_OLDER && !loan->altered;
}
