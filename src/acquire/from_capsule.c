/* From a capsule to the acquired, and from there to ownership (T1, T9, T10).
 * Tests: tests/core/test_capsule_life.py, tests/core/test_bad_input.py. */
#include "acquire/from_capsule.h"

#include "core/device.h"
#include "core/tensor.h"
#include "python/errors.h"

/* T1: through the stable prefix only. */
static void
refuse_major(dls_exchange *x, PyObject *capsule, dl_managed_tensor_versioned *managed)
{
    unsigned major = managed->version.major;
    if (dls_capsule_take(capsule, true) == 0) {
        dls_managed_delete(managed, true);
    }
    PyErr_Clear();
    dls_refuse(
        x->state, DLS_EBUFFER, x->source,
        "its capsule has DLPack major version %u, dlshim knows 1; ask the producer "
        "for max_version=(1, 0)",
        major);
}

static void
refuse_capsule(dls_exchange *x, PyObject *capsule, dls_capsule_kind kind)
{
    if (kind == DLS_CAPSULE_USED) {
        dls_refuse(x->state, DLS_EBUFFER, x->source,
                   "the capsule was consumed already (its name starts with \"used_\"); "
                   "export a fresh one, a capsule serves once");
        return;
    }
    const char *name = PyCapsule_GetName(capsule);
    if (name == NULL) {
        PyErr_Clear();
        name = "(no name)";
    }
    dls_refuse(x->state, DLS_EBUFFER, x->source,
               "a capsule named \"%s\" is no DLPack capsule (\"dltensor\" or "
               "\"dltensor_versioned\"); pass the array itself",
               name);
}

/* What __dlpack__ returned is no capsule at all. */
static void
refuse_object(dls_exchange *x, PyObject *returned)
{
    PyObject *type = dls_type_name(returned);
    if (type != NULL) {
        dls_refuse(x->state, DLS_EBUFFER, x->source,
                   "its __dlpack__ or capsule function returned a '%U', not a capsule; "
                   "report it to the library, or pass numpy.asarray(obj)",
                   type);
        Py_DECREF(type);
    }
}

static dls_capsule_kind
look(PyObject *capsule, dls_generation likely, void **managed)
{
    return likely == DLS_OLDER
               ? dls_capsule_look(capsule, managed)
               : dls_capsule_look_for(capsule, likely == DLS_VERSIONED, managed);
}

/* A legacy capsule cannot say READ_ONLY: an immutable type's is marked, but the
 * producer did not state it (T8). */
static void
describe_legacy(dls_exchange *x, const dl_managed_tensor *managed)
{
    x->acquired.tensor = managed->dl_tensor;
    x->acquired.generation = DLS_LEGACY;
    x->acquired.readonly_stated = false;
    x->acquired.flags = dls_plan_has(x->plan, DLS_LIB_IMMUTABLE) ? DL_FLAG_READ_ONLY
                                                                 : 0;
}

static void
describe_versioned(dls_exchange *x, const dl_managed_tensor_versioned *managed)
{
    x->acquired.tensor = managed->dl_tensor;
    x->acquired.flags = managed->flags;
    x->acquired.version = managed->version;
    x->acquired.generation = DLS_VERSIONED;
    x->acquired.readonly_stated = true;
}

/* Describes the struct behind a capsule.  0, or -1 with an exception. */
static int
describe(dls_exchange *x, PyObject *capsule, dls_generation likely, void **managed)
{
    dls_capsule_kind kind = look(capsule, likely, managed);
    if (kind == DLS_CAPSULE_LEGACY) {
        describe_legacy(x, *managed);
        return 0;
    }
    if (kind != DLS_CAPSULE_VERSIONED) {
        refuse_capsule(x, capsule, kind);
        return -1;
    }
    const dl_managed_tensor_versioned *versioned = *managed;
    if (versioned->version.major != DL_MAJOR) {
        refuse_major(x, capsule, *managed);
        return -1;
    }
    describe_versioned(x, versioned);
    return 0;
}

int
dls_acquired_read_capsule(dls_exchange *x, PyObject *capsule, dls_generation likely)
{
    void *managed = NULL;
    bool is_capsule = dls_capsule_check(capsule);
    if (!is_capsule) {
        refuse_object(x, capsule);
    }
    if (!is_capsule || describe(x, capsule, likely, &managed) < 0) {
        dls_drop_foreign(capsule);
        return -1;
    }
    x->acquired.managed = managed;
    x->acquired.shared = !dls_is_unshared(capsule);
    x->acquired.capsule = capsule;
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
    if (acquired->capsule == NULL || !acquired->shared) {
        return 0;
    }
    void *managed;
    dls_capsule_look(acquired->capsule, &managed);
    if (managed == acquired->managed) {
        return 0;
    }
    return dls_refuse(
        x->state, DLS_EBUFFER, x->source,
        "its capsule was consumed by another holder meanwhile; give each consumer "
        "a capsule of its own");
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
    acquired->hold.flags = hold_flags(x);
    acquired->capsule = NULL;
    return 0;
}

bool
dls_acquired_may_hand_on(const dls_exchange *x)
{
    /* Others that hold the capsule too may consume it. */
    return !dls_plan_has(x->plan, DLS_LIB_DOES_NOT_OWN) && !x->acquired.shared
           && hold_flags(x) == 0 && x->acquired.generation != DLS_OLDER
           && !x->acquired.altered;
}
