/* From a producer's struct to the acquired, and from there to ownership (T1, T9, T10).
 * Called by attempts and export/.
 * Tests: tests/core/test_capsule_life.py, tests/core/test_bad_input.py. */
#include "acquire/from_capsule.h"

#include <string.h>

#include "core/base.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "python/errors.h"
#include "types/library.h"

/* Only the stable prefix of the struct is read (T1). */
static int
refuse_major(const dls_exchange *x, PyObject *capsule,
             dl_managed_tensor_versioned *managed)
{
    unsigned major = managed->version.major;
    if (dls_capsule_take(capsule, true) == 0) {
        dls_managed_delete(managed, true);
    }
    PyErr_Clear();
    return dls_refuse(x->state, DLS_EBUFFER, x->source,
                      "its capsule has DLPack major version %u, dlshim knows 1\n"
                      "  ask the producer for max_version=(1, 0)",
                      major);
}

static int
refuse_capsule(const dls_exchange *x, PyObject *capsule, dls_capsule_kind kind)
{
    if (kind == DLS_CAPSULE_USED) {
        return dls_refuse(
            x->state, DLS_EBUFFER, x->source,
            "the capsule was consumed already (its name starts with \"used_\")\n"
            "  export a fresh one, a capsule serves once");
    }
    const char *name = PyCapsule_GetName(capsule);
    PyErr_Clear();
    return dls_refuse(x->state, DLS_EBUFFER, x->source,
                      "a capsule named \"%s\" is no DLPack capsule (\"dltensor\" or "
                      "\"dltensor_versioned\")\n"
                      "  pass the array itself",
                      name != NULL ? name : "(no name)");
}

/* The object that __dlpack__ returned is no capsule at all. */
static int
refuse_object(const dls_exchange *x, PyObject *returned)
{
    PyObject *type = dls_type_name(x->state, returned);
    PyObject *cure = dls_cure_find(x->state, x->source);
    if (type != NULL) {
        dls_refuse(x->state, DLS_EBUFFER, x->source,
                   "its library is at fault, for its __dlpack__ or capsule function "
                   "returned a '%U', not a capsule%V",
                   type, cure, "\n  pass another array instead");
        Py_DECREF(type);
    }
    Py_XDECREF(cure);
    return -1;
}

void
dls_acquired_describe(dls_acquired *acquired, dl_managed_tensor_versioned *managed)
{
    acquired->tensor = managed->dl_tensor;
    acquired->flags = managed->flags;
    acquired->version = managed->version;
    acquired->generation = DLS_VERSIONED;
    acquired->readonly_stated = true;
    acquired->managed = managed;
}

/* A legacy capsule cannot say READ_ONLY: an immutable type's is marked, but the
 * producer did not state it (T8). */
static void
describe_legacy(dls_exchange *x, dl_managed_tensor *managed)
{
    bool immutable = dls_plan_has(x->plan, DLS_LIB_IMMUTABLE);
    x->acquired.tensor = managed->dl_tensor;
    x->acquired.flags = immutable ? DL_FLAG_READ_ONLY : 0;
    x->acquired.generation = DLS_LEGACY;
    x->acquired.readonly_stated = false;
    x->acquired.managed = managed;
}

/* Describe the struct behind a capsule.  0, or -1 with an exception. */
static int
describe(dls_exchange *x, PyObject *capsule, dls_generation likely)
{
    void *managed = NULL;
    if (!dls_capsule_check(capsule)) {
        return refuse_object(x, capsule);
    }
    dls_capsule_kind kind = DLS_CAPSULES_CLAIMED && x->acquired.shared
                                ? dls_capsule_claim(capsule, &managed)
                            : likely == DLS_DESCRIBED
                                ? dls_capsule_look(capsule, &managed)
                                : dls_capsule_look_for(capsule, likely == DLS_VERSIONED,
                                                       &managed);
    if (kind == DLS_CAPSULE_LEGACY) {
        describe_legacy(x, managed);
        return 0;
    }
    if (kind != DLS_CAPSULE_VERSIONED) {
        return refuse_capsule(x, capsule, kind);
    }
    if (((dl_managed_tensor_versioned *)managed)->version.major != DL_MAJOR) {
        return refuse_major(x, capsule, managed);
    }
    dls_acquired_describe(&x->acquired, managed);
    return 0;
}

/* Copy the dims, because other holders of the capsule may consume it while foreign code
 * runs.  The dims of a struct with a wrong ndim, shape or flag stay where they are: it
 * is refused before they are read.  0, or -1 with MemoryError. */
static int
copy_dims(dls_acquired *acquired)
{
    dl_tensor *tensor = &acquired->tensor;
    size_t n = (size_t)tensor->ndim;
    if (tensor->ndim <= 0 || tensor->ndim > DLS_NDIM_ABSURD || tensor->shape == NULL
        || (acquired->flags & ~DL_FLAGS_KNOWN) != 0) {
        return 0;
    }
    if (dls_acquired_make_dims(acquired, tensor->ndim) < 0) {
        return -1;
    }
    memcpy(acquired->dims, tensor->shape, n * sizeof *tensor->shape);
    tensor->shape = acquired->dims;
    if (tensor->strides != NULL) {
        memcpy(acquired->dims + n, tensor->strides, n * sizeof *tensor->strides);
        tensor->strides = acquired->dims + n;
    }
    return 0;
}

int
dls_acquired_read_capsule(dls_exchange *x, PyObject *capsule, dls_generation likely)
{
    x->acquired.shared = !dls_is_unshared(capsule);
    if (describe(x, capsule, likely) < 0) {
        x->acquired.shared = false;
        dls_drop_foreign(capsule);
        return -1;
    }
    x->acquired.capsule = capsule;
    if (x->acquired.shared && copy_dims(&x->acquired) < 0) {
        dls_acquired_drop(&x->acquired);
        return -1;
    }
    return 0;
}

/* T10: some libraries' deleters want the GIL; they own host memory only. */
static uint32_t
hold_flags(const dls_exchange *x)
{
    bool concerned = x->acquired.generation == DLS_LEGACY
                     && dls_device_is_host(x->acquired.tensor.device.device_type);
    return concerned ? x->state->legacy_hold : 0;
}

int
dls_acquired_recheck(const dls_exchange *x)
{
    const dls_acquired *acquired = &x->acquired;
    void *managed = acquired->managed;
    if (!DLS_CAPSULES_CLAIMED && acquired->capsule != NULL && acquired->shared) {
        dls_capsule_look(acquired->capsule, &managed);
    }
    if (managed == acquired->managed) {
        return 0;
    }
    return dls_refuse(x->state, DLS_EBUFFER, x->source,
                      "its capsule was consumed by another holder meanwhile\n"
                      "  give each consumer a capsule of its own");
}

int
dls_acquired_take(dls_exchange *x)
{
    dls_acquired *acquired = &x->acquired;
    if (acquired->managed == NULL) {
        return 0; /* an older protocol or a Tensor: its hold is complete */
    }
    const dls_hot hot = {.state = x->state,
                         .source = x->source,
                         .plan = x->plan,
                         .capsule = acquired->capsule,
                         .managed = acquired->managed};
    if (dls_acquired_recheck(x) < 0
        || dls_take(hot, acquired->generation == DLS_VERSIONED, &acquired->hold) < 0) {
        return -1;
    }
    acquired->hold.flags = x->state->import_number | hold_flags(x);
    acquired->capsule = NULL;
    return 0;
}

bool
dls_acquired_may_hand_on(const dls_exchange *x)
{
    /* Another holder of the capsule may consume it. */
    return !x->acquired.shared && !x->acquired.altered
           && x->acquired.generation != DLS_DESCRIBED && hold_flags(x) == 0
           && !dls_plan_has(x->plan, DLS_LIB_DOES_NOT_OWN);
}
