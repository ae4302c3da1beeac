#include "exchange/plan.h"

#include <string.h>

#include "acquire/call.h"
#include "acquire/ctable.h"
#include "core/alloc.h"
#include "exchange/plan_cache.h"
#include "python/errors.h"

const char *const dls_rung_names[DLS_RUNG_COUNT] = {
#define NAME(name, text) text,
    DLS_RUNG_LIST(NAME)
#undef NAME
};

/* --- plans ------------------------------------------------------------------- */

void
dls_plan_drop(dls_plan *plan)
{
    if (plan != NULL && --plan->refs == 0) {
        Py_XDECREF(plan->method);
        Py_XDECREF(plan->device_method);
        Py_XDECREF(plan->is_neg);
        Py_XDECREF(plan->requires_grad.descriptor);
        Py_XDECREF(plan->where.descriptor);
        dls_free(plan);
    }
}

/* Position in the MRO of the class whose own dict has `name`, and in *value what it
 * holds, a new reference.  -1: nowhere, -2: exception. */
static Py_ssize_t
find_in_mro(dls_state *state, PyObject *mro, PyObject *name, PyObject **value)
{
    Py_ssize_t n = PyTuple_Size(mro);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *dict = PyObject_GetAttr(PyTuple_GetItem(mro, i), state->names.dict);
        int has = dict != NULL ? PySequence_Contains(dict, name)
                               : -1; /* a KeyError costs more */
        if (has > 0) {
            *value = PyObject_GetItem(dict, name);
            has = *value != NULL ? 1 : -1;
        }
        Py_XDECREF(dict);
        if (has != 0) {
            return has > 0 ? i : -2;
        }
    }
    return -1;
}

typedef struct {
    dls_rung rung;
    size_t name; /* offset in state->names */
} attribute_rung;

#define NAME_OFFSET(member) (offsetof(dls_state, names.member))
/* FUNCTION and BUFFER are not attributes and are found apart. */
static const attribute_rung attribute_rungs[] = {
    {DLS_RUNG_DLPACK, NAME_OFFSET(dlpack)},
    {DLS_RUNG_CUDA, NAME_OFFSET(cuda_array_interface)},
    {DLS_RUNG_SYCL, NAME_OFFSET(sycl_usm_array_interface)},
    {DLS_RUNG_STRUCT, NAME_OFFSET(array_struct)},
    {DLS_RUNG_INTERFACE, NAME_OFFSET(array_interface)},
};
#define ATTRIBUTE_RUNGS (sizeof attribute_rungs / sizeof *attribute_rungs)

static PyObject *
name_at(dls_state *state, size_t offset)
{
    PyObject *name;
    memcpy(&name, (char *)state + offset, sizeof name);
    return name;
}

/* The table counts only if no class before its owner defines __dlpack__ itself (N2). */
static int
find_table(dls_state *state, PyObject *mro, Py_ssize_t dlpack_at, dls_plan *plan)
{
    PyObject *names[] = {state->names.exchange_api, state->names.exchange_api_old};
    for (int i = 0; i < 2 && plan->table == NULL; i++) {
        PyObject *value = NULL;
        Py_ssize_t at = find_in_mro(state, mro, names[i], &value);
        if (at == -2) {
            return -1;
        }
        if (at >= 0 && !(dlpack_at >= 0 && dlpack_at < at)) {
            const dl_exchange_api *table = dls_table_from_attribute(value);
            plan->table = table != state->own_table ? table : NULL;
        }
        Py_XDECREF(value);
    }
    if (plan->table != NULL) {
        plan->offers |= 1u << DLS_RUNG_TABLE;
    }
    return 0;
}

/* The class in whose dict `name` is first found, borrowed, and *value: a new reference.
 * NULL: nowhere, with an exception or without. */
static PyTypeObject *
owner_of(dls_state *state, PyObject *mro, PyObject *name, PyObject **value)
{
    Py_ssize_t at = find_in_mro(state, mro, name, value);
    PyObject *owner = at >= 0 ? PyTuple_GetItem(mro, at) : NULL;
    if (owner != NULL && !PyType_Check(owner)) { /* a metaclass may say anything */
        Py_CLEAR(*value);
        return NULL;
    }
    return (PyTypeObject *)owner;
}

static int
find_getter(dls_state *state, PyObject *mro, PyObject *name, dls_getter *getter)
{
    PyObject *value = NULL;
    PyTypeObject *owner = owner_of(state, mro, name, &value);
    if (owner != NULL) {
        dls_lasting_getter(owner, value, getter);
    }
    Py_XDECREF(value);
    return PyErr_Occurred() != NULL ? -1 : 0;
}

/* What is asked of each tensor before it goes out by its table (T12).  0, or -1. */
static int
find_lazy_bits(dls_state *state, PyObject *mro, dls_plan *plan)
{
    PyObject *value = NULL;
    PyTypeObject *owner = owner_of(state, mro, state->names.is_neg, &value);
    if (owner != NULL) {
        plan->is_neg = dls_lasting_method(owner, value);
    }
    Py_XDECREF(value);
    if (PyErr_Occurred() != NULL) {
        return -1;
    }
    return find_getter(state, mro, state->names.requires_grad, &plan->requires_grad);
}

/* Of the row's own class only: what a user's subclass says may change. */
static int
find_lasting(dls_state *state, PyObject *mro, dls_plan *plan)
{
    if (dls_plan_has(plan, DLS_LIB_LAZY_BITS) && find_lazy_bits(state, mro, plan) < 0) {
        return -1;
    }
    PyObject *tells = dls_plan_has(plan, DLS_LIB_BASE_TELLS)     ? state->names.base
                      : dls_plan_has(plan, DLS_LIB_IS_CPU_TELLS) ? state->names.is_cpu
                                                                 : NULL;
    return tells != NULL ? find_getter(state, mro, tells, &plan->where) : 0;
}

/* None as a class attribute is Python's word for "not offered". */
static int
offers_of_type(dls_state *state, PyObject *mro, dls_plan *plan)
{
    Py_ssize_t dlpack_at = -1, library_at = -1;
    plan->library = dls_library_match(mro, &library_at);
    for (size_t i = 0; i < ATTRIBUTE_RUNGS; i++) {
        PyObject *value = NULL;
        PyObject *name = name_at(state, attribute_rungs[i].name);
        Py_ssize_t at = find_in_mro(state, mro, name, &value);
        if (at == -2) {
            return -1;
        }
        if (at >= 0 && value != Py_None) {
            plan->offers |= 1u << attribute_rungs[i].rung;
            if (attribute_rungs[i].rung == DLS_RUNG_DLPACK) {
                dlpack_at = at;
                plan->by_type = dls_is_method(value)
                                && dls_has_instance_dict(plan->type);
                plan->method = dls_lasting_method(plan->type, value);
            }
        }
        Py_XDECREF(value);
    }
    if (dlpack_at >= 0 && dlpack_at < library_at) {
        plan->library =
            NULL; /* a subclass exports its own way: nothing is known of it */
    }
    plan->traits = plan->library != NULL ? plan->library->traits : 0;
    PyObject *value = NULL;
    Py_ssize_t device_at = find_in_mro(state, mro, state->names.dlpack_device, &value);
    if (device_at == -2) {
        return -1;
    }
    /* A subclass that answers for itself may know of other devices. */
    plan->cpu_only = dls_plan_has(plan, DLS_LIB_CPU_ONLY)
                     && !(device_at >= 0 && device_at < library_at);
    if (device_at >= 0) {
        plan->has_device = true;
        plan->device_method = dls_lasting_method(plan->type, value);
    }
    Py_XDECREF(value);
    if (library_at == 0 && find_lasting(state, mro, plan) < 0) {
        return -1;
    }
    return find_table(state, mro, dlpack_at, plan);
}

static dls_plan *
plan_new(dls_state *state, PyObject *obj)
{
    PyObject *mro = NULL;
    dls_plan *plan = dls_alloc(sizeof *plan);
    if (plan == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    *plan = (dls_plan){.refs = 1, .type = Py_TYPE(obj)};
    plan->can_cycle = (PyType_GetFlags(plan->type) & Py_TPFLAGS_HAVE_GC) != 0;
    mro = PyObject_GetAttr((PyObject *)plan->type, state->names.mro);
    if (mro == NULL || !PyTuple_Check(mro)) {
        goto fail;
    }
    if (offers_of_type(state, mro, plan) < 0) {
        goto fail;
    }
    if (dls_late.PyObject_CheckBuffer(obj)) {
        plan->offers |= 1u << DLS_RUNG_BUFFER;
    }
    plan->met = plan->cpu_only;
    Py_DECREF(mro);
    return plan;
fail:
    if (PyErr_Occurred() == NULL) {
        PyErr_SetString(PyExc_TypeError, "type.__mro__ is not a tuple");
    }
    Py_XDECREF(mro);
    dls_plan_drop(plan);
    return NULL;
}

/* The instance's own attributes; never generalised to its type (N1). */
static int
offers_of_instance(dls_state *state, PyObject *obj, dls_plan *plan)
{
    for (size_t i = 0; i < ATTRIBUTE_RUNGS; i++) {
        PyObject *value = NULL;
        int got = dls_get_optional(obj, name_at(state, attribute_rungs[i].name),
                                   &value);
        if (got < 0) {
            return -1;
        }
        if (got && value != Py_None) {
            plan->offers |= 1u << attribute_rungs[i].rung;
            plan->on_instance = true;
        }
        Py_XDECREF(value);
    }
    if (dls_plan_offers(plan, DLS_RUNG_DLPACK)) {
        PyObject *value = NULL;
        int got = dls_get_optional(obj, state->names.dlpack_device, &value);
        Py_XDECREF(value);
        if (got < 0) {
            return -1;
        }
        plan->has_device = got;
    }
    return 0;
}

static int
offers_of_functions(dls_state *state, PyObject *obj, dls_plan *plan)
{
    int got = dls_library_has_capsule(state, plan->library, obj);
    if (got > 0) {
        plan->offers |= 1u << DLS_RUNG_FUNCTION;
        int of_type = plan->library != NULL
                          ? 1
                          : dls_library_has_capsule(state, NULL,
                                                    (PyObject *)plan->type);
        plan->on_instance = of_type == 0;
        got = of_type < 0 ? -1 : got;
    }
    return got;
}

static void
raise_unsupported(dls_state *state, PyObject *obj)
{
    PyObject *name = dls_type_name(obj);
    if (name == NULL) {
        return;
    }
    PyErr_Format(
        state->unsupported_object_error,
        "'%U' object offers none of __dlpack__, an exchange table, a capsule "
        "function, __cuda_array_interface__, __sycl_usm_array_interface__, "
        "__array_struct__, __array_interface__ or the buffer protocol; convert "
        "it to an array first (for example numpy.asarray(obj))",
        name);
    Py_DECREF(name);
}

dls_plan *
dls_plan_find(dls_state *state, PyObject *obj)
{
    dls_plan *known = dls_plan_known(state, obj);
    if (known != NULL) {
        return dls_plan_share(known);
    }
    dls_plan *plan = plan_new(state, obj);
    if (plan == NULL) {
        return NULL;
    }
    /* A class is no array, though its methods look like ours. */
    bool is_class = PyType_Check(obj);
    if (!is_class && !dls_plan_offers(plan, DLS_RUNG_DLPACK)
        && offers_of_functions(state, obj, plan) < 0) {
        goto fail;
    }
    if (!is_class && (plan->offers == 0 || plan->on_instance)
        && offers_of_instance(state, obj, plan) < 0) {
        goto fail;
    }
    if (plan->offers == 0) {
        raise_unsupported(state, obj);
        goto fail;
    }
    if (!plan->on_instance && dls_plan_cache_add(state, plan) < 0) {
        goto fail;
    }
    return plan;
fail:
    dls_plan_drop(plan);
    return NULL;
}

bool
dls_plan_retire(dls_state *state, dls_plan *plan, PyObject *obj)
{
    PyObject *error = dls_error_take(), *method = NULL;
    bool lost = dls_plan_offers(plan, DLS_RUNG_DLPACK)
                && dls_get_optional(obj, state->names.dlpack, &method) == 0;
    Py_XDECREF(method);
    if (!lost) {
        PyErr_Clear();
        dls_error_restore(error);
        return false;
    }
    Py_XDECREF(error);
    const PyTypeObject *type = plan->type;
    plan->type = NULL;
    dls_plan_cache_evict(state->plans, type, plan);
    return true;
}
