/* The underscore functions of the module: test switches, and dlshim's tables and
 * records as dicts and lists (docs/development.rst).  Called by the tests, by inspect()
 * and by the documentation.
 * Tests: tests/core/test_inspect.py, tests/core/test_doubles.py. */
#include "module/functions.h"

#include <string.h>
#include <time.h>

#include "core/alloc.h"
#include "core/lock.h"
#include "exchange/device_question.h"
#include "exchange/objects.h"
#include "export/export.h"
#include "gpu/pointer.h"
#include "gpu/sync_rules.h"
#include "gpu/sync_run.h"
#include "python/capsule.h"
#include "python/py.h"
#include "python/state.h"
#include "request/request.h"
#include "types/library.h"
#include "types/plan.h"
#include "types/plan_cache.h"

/* Append `item`, which is stolen; NULL: making it failed.  Returns the list, or frees
 * it and returns NULL. */
static PyObject *
list_append(PyObject *list, PyObject *item)
{
    if (item == NULL || PyList_Append(list, item) < 0) {
        Py_CLEAR(list);
    }
    Py_XDECREF(item);
    return list;
}

static PyObject *
counters(PyObject *DLS_UNUSED(module), PyObject *DLS_UNUSED(ignored))
{
#define FORMAT(member) "s:L"
#define VALUE(member) , #member, (long long)DLS_COUNTED(member)
    return Py_BuildValue("{" DLS_COUNTER_LIST(FORMAT) "}" DLS_COUNTER_LIST(VALUE));
#undef FORMAT
#undef VALUE
}

static int64_t
milliseconds(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Hold all locks of core while other threads run: the GIL is let go, but not the
 * locks. */
static void
hold_locks(long duration)
{
    dls_lock_take_all();
    Py_BEGIN_ALLOW_THREADS
    for (int64_t end = milliseconds() + duration; milliseconds() < end;) {
    }
    dls_lock_give_all();
    Py_END_ALLOW_THREADS
}

static PyObject *
hook(PyObject *module, PyObject *args)
{
    const char *name;
    long value = 0;
    if (!PyArg_ParseTuple(args, "s|l:_hook", &name, &value)) {
        return NULL;
    }
    if (strcmp(name, "hand_on") == 0) {
        dls_hand_on_allow(value != 0);
    }
    else if (strcmp(name, "fallback") == 0) {
        dls_compat_force_fallback(value != 0);
    }
    else if (strcmp(name, "forget_plans") == 0) {
        dls_plan_caches_clear(dls_state_of(module)->plans);
    }
    else if (strcmp(name, "event_pool") == 0) {
        dls_pool_cap((int)value);
    }
    else if (strcmp(name, "hold_locks") == 0) {
        hold_locks(value);
    }
    else if (strcmp(name, "fail_alloc") == 0) {
        dls_alloc_fail(value);
    }
    else {
        return PyErr_Format(PyExc_ValueError, "no hook named '%s'", name);
    }
    Py_RETURN_NONE;
}

/* dlshim.track().  A module: on, and exports are told to it; 0: off; -1: as it is. */
static PyObject *
track_hook(PyObject *module, PyObject *value)
{
    dls_state *state = dls_state_of(module);
    if (PyModule_Check(value)) {
        dls_in_python_give(state, DLS_IN_TRACKING, value);
        dls_track_switch(state, true);
        return dls_track_ended(state);
    }
    long on = PyLong_AsLong(value);
    if (on == -1 && PyErr_Occurred() != NULL) {
        return NULL;
    }
    if (on == 0) {
        dls_track_switch(state, false);
    }
    return dls_track_ended(state);
}

/* --- what a capsule says -------------------------------------------------- */

/* The contents of a capsule's struct; of a foreign major the version alone is read. */
typedef struct {
    dl_version version; /* VERSIONED only */
    dl_tensor tensor;   /* its dims are `dims`, or NULL */
    uint64_t flags;
    bool has_deleter;
    int32_t ndim; /* as many dims were copied */
    int64_t dims[2 * DLS_NDIM_ABSURD];
} contents;

static void
copy_contents(contents *into, const void *managed, bool versioned)
{
    const dl_managed_tensor_versioned *newer = versioned ? managed : NULL;
    const dl_managed_tensor *legacy = versioned ? NULL : managed;
    if (versioned) {
        into->version = newer->version;
    }
    if (versioned && newer->version.major != DL_MAJOR) {
        return; /* (T1) */
    }
    dl_tensor *tensor = &into->tensor;
    *tensor = *dls_managed_tensor(managed, versioned);
    into->flags = versioned ? newer->flags : 0;
    into->has_deleter = versioned ? newer->deleter != NULL : legacy->deleter != NULL;
    bool absurd = tensor->ndim < 0 || tensor->ndim > DLS_NDIM_ABSURD;
    into->ndim = absurd ? 0 : tensor->ndim;
    size_t size = (size_t)into->ndim * sizeof *into->dims;
    if (tensor->shape != NULL) {
        memcpy(into->dims, tensor->shape, size);
        tensor->shape = into->dims;
    }
    if (tensor->strides != NULL) {
        memcpy(into->dims + into->ndim, tensor->strides, size);
        tensor->strides = into->dims + into->ndim;
    }
}

/* Look at a capsule once: its name, and a copy of what its struct says.  It may be
 * taken as soon as any Python code runs, and without the GIL at any time. */
static dls_capsule_kind
look_once(PyObject *capsule, const char **name, contents *into)
{
    dls_capsule_kind kind;
    bool still;
    do {
        void *managed;
        kind = dls_capsule_look(capsule, &managed);
        DLS_LOCK_CAPSULE(capsule);
        *name = PyCapsule_GetName(capsule);
        still = dls_capsule_is_still(capsule, kind);
        if (still && kind <= DLS_CAPSULE_VERSIONED) {
            copy_contents(into, managed, kind == DLS_CAPSULE_VERSIONED);
        }
        DLS_UNLOCK();
    } while (!still);
    return kind;
}

static PyObject *
dims_or_none(const int64_t *dims, int32_t n)
{
    return dims != NULL ? dls_dims_tuple(dims, n, 1) : Py_BuildValue("");
}

static PyObject *
contents_dict(dls_state *state, const contents *seen, bool versioned)
{
    const dl_tensor *t = &seen->tensor;
    /* Made first, because no call may be made while an exception is pending. */
    PyObject *dtype = dls_dtype_object(state, t->dtype);
    if (dtype == NULL) {
        return NULL;
    }
    /* N steals, and passes on what failed; "" makes None. */
    return Py_BuildValue(
        "{s:s,s:N,s:(ii),s:N,s:i,s:N,s:N,s:K,s:N,s:K,s:N}", "name",
        versioned ? DL_NAME_VERSIONED : DL_NAME_LEGACY, "version",
        versioned ? Py_BuildValue("(II)", seen->version.major, seen->version.minor)
                  : Py_BuildValue(""),
        "device", (int)t->device.device_type, (int)t->device.device_id, "dtype", dtype,
        "ndim", (int)t->ndim, "shape", dims_or_none(t->shape, seen->ndim), "strides",
        dims_or_none(t->strides, seen->ndim), "byte_offset",
        (unsigned long long)t->byte_offset, "data", dls_address_object(t->data),
        "flags", (unsigned long long)seen->flags, "has_deleter",
        PyBool_FromLong(seen->has_deleter));
}

static PyObject *
peek_into(dls_state *state, PyObject *capsule, contents *seen)
{
    const char *name;
    dls_capsule_kind kind = look_once(capsule, &name, seen);
    if (kind > DLS_CAPSULE_VERSIONED) {
        return Py_BuildValue("{s:z}", "name", name);
    }
    if (kind == DLS_CAPSULE_VERSIONED && seen->version.major != DL_MAJOR) {
        return Py_BuildValue("{s:s,s:(II)}", "name", DL_NAME_VERSIONED, "version",
                             seen->version.major, seen->version.minor);
    }
    return contents_dict(state, seen, kind == DLS_CAPSULE_VERSIONED);
}

static PyObject *
peek(PyObject *module, PyObject *capsule)
{
    if (!dls_capsule_check(capsule)) {
        return PyErr_Format(PyExc_TypeError, "_peek takes a PyCapsule");
    }
    contents *seen = dls_alloc(sizeof *seen);
    if (seen == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *result = peek_into(dls_state_of(module), capsule, seen);
    dls_free(seen);
    return result;
}

/* --- what is known of a type ---------------------------------------------- */

static PyObject *
form_dict(dls_form form)
{
    if (!form.known) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("{s:s,s:i}", "protocol", dls_protocol_names[form.protocol],
                         "keywords", (int)form.mask);
}

/* The names of the protocols, in the order in which they are tried. */
static PyObject *
offers_list(const dls_plan *plan)
{
    bool first = dls_plan_reads_buffer_first(plan);
    PyObject *offers = PyList_New(0);
    for (int i = first ? -1 : 0; offers != NULL && i < DLS_PROTOCOL_COUNT; i++) {
        int protocol = i < 0 ? DLS_PROTOCOL_BUFFER : i;
        bool again = first && i == DLS_PROTOCOL_BUFFER;
        if (dls_plan_offers(plan, (dls_protocol)protocol) && !again) {
            const char *name = dls_protocol_names[protocol];
            offers = list_append(offers, PyUnicode_FromString(name));
        }
    }
    return offers;
}

static PyObject *
plan(PyObject *module, PyObject *obj)
{
    dls_state *state = dls_state_of(module);
    dls_plan *found = dls_plan_find(state, obj);
    if (found == NULL) {
        return NULL;
    }
    const dls_learned learned = dls_plan_learned(found);
    PyObject *offers = offers_list(found);
    /* N steals, and passes on what failed. */
    PyObject *result = Py_BuildValue(
        "{s:N,s:z,s:N,s:N,s:O,s:O,s:O,s:O}", "offers", offers, "library",
        found->library != NULL ? found->library->name : NULL, "legacy",
        form_dict(learned.forms[0]), "versioned", form_dict(learned.forms[1]),
        "off_host", learned.off_host ? Py_True : Py_False, "on_instance",
        found->on_instance ? Py_True : Py_False, "has_device",
        found->has_device ? Py_True : Py_False, "cpu_only",
        found->cpu_only ? Py_True : Py_False);
    dls_plan_drop(found);
    return result;
}

/* --- what a Producer was given ------------------------------------------------------
 */

static PyObject *
options(PyObject *module, PyObject *obj)
{
    if (!PyObject_TypeCheck(obj, dls_state_of(module)->producer_type)) {
        return PyErr_Format(PyExc_TypeError, "_options takes a Producer");
    }
    return dls_options_dict(dls_producer_data(obj)->options);
}

/* The address of the type that a Producer's plan fits; 0: it fits none any more. */
static PyObject *
planned_type(PyObject *module, PyObject *obj)
{
    if (!PyObject_TypeCheck(obj, dls_state_of(module)->producer_type)) {
        return PyErr_Format(PyExc_TypeError, "_planned_type takes a Producer");
    }
    return dls_address_object(dls_producer_data(obj)->plan->type);
}

/* --- the sync rules ------------------------------------------------------- */

static PyObject *
sync_rules(PyObject *DLS_UNUSED(module), PyObject *DLS_UNUSED(ignored))
{
    PyObject *list = PyList_New(0);
    const int rows = (int)DLS_FAMILIES * (int)DLS_PRODUCERS * DLS_VALUES;
    for (int i = 0; list != NULL && i < rows; i++) {
        dls_value value = (dls_value)(i % DLS_VALUES);
        int rest = i / DLS_VALUES;
        dls_producer_kind producer = (dls_producer_kind)(rest % DLS_PRODUCERS);
        dls_family family = (dls_family)(rest / DLS_PRODUCERS);
        dls_sync_rule rule = dls_sync_rule_find(family, producer, value);
        list = list_append(list, Py_BuildValue("{s:s,s:s,s:s,s:s,s:s}", "device",
                                               dls_family_names[family], "producer",
                                               dls_producer_names[producer], "stream",
                                               dls_value_names[value], "passed",
                                               dls_argument_names[rule.argument],
                                               "task", dls_task_names[rule.task]));
    }
    return list;
}

/* All words as their positions in the lists of core/sync_words.h. */
static PyObject *
sync_action(PyObject *DLS_UNUSED(module), PyObject *args)
{
    int task, known, policy, fact[6];
    unsigned long long p, s;
    if (!PyArg_ParseTuple(args, "iiKKi(pppppp):_sync_action", &task, &known, &p, &s,
                          &policy, &fact[0], &fact[1], &fact[2], &fact[3], &fact[4],
                          &fact[5])) {
        return NULL;
    }
    if ((unsigned)task >= DLS_TASKS || (unsigned)known > DLS_P_EVENT
        || (unsigned)policy > DLS_UNKNOWN_ERROR) {
        PyErr_SetString(PyExc_ValueError, "no such word");
        return NULL;
    }
    const dls_sync_facts facts = {.can_record_device = fact[0],
                                  .host_must_be_alone = fact[1],
                                  .s_captures = fact[2],
                                  .p_captures = fact[3],
                                  .one_capture = fact[4],
                                  .device_captures = fact[5]};
    const dls_sync_job job = {.task = (dls_task)task,
                              .p = {.known = (dls_knowledge)known, .handle = p},
                              .s = s,
                              .policy = (uint8_t)policy};
    return PyLong_FromLong((long)dls_sync_action_find(&job, &facts));
}

/* --- whose memory an address is ------------------------------------------- */

static PyObject *
true_device(PyObject *module, PyObject *args)
{
    unsigned long long address;
    int type, id;
    if (!PyArg_ParseTuple(args, "K(ii):_true_device", &address, &type, &id)) {
        return NULL;
    }
    dl_device device = {type, id};
    Py_BEGIN_ALLOW_THREADS
    dls_pointer_mend_label((const void *)(uintptr_t)address, &device);
    Py_END_ALLOW_THREADS
    return dls_device_pair(dls_state_of(module), device);
}

/* Private, so no texts for help().  They give, in this order: the exports that have
 * ended; counts since import; test switches; the fields of a capsule, which is not
 * consumed; the plan of an object's type; the options of a Producer; the type that its
 * plan fits; the given device, or the one that the driver names for the memory at the
 * address; for each CPython function that is bound late, whether the real one is used;
 * the sync rules, every combination; the action of dlshim for a task, as its position.
 */
PyMethodDef dls_hook_methods[] = {
    {"_track", track_hook, METH_O, NULL},
    {"_counters", counters, METH_NOARGS, NULL},
    {"_hook", hook, METH_VARARGS, NULL}, /* name, value=0 */
    {"_peek", peek, METH_O, NULL},
    {"_plan", plan, METH_O, NULL},
    {"_options", options, METH_O, NULL},
    {"_planned_type", planned_type, METH_O, NULL},
    {"_true_device", true_device, METH_VARARGS, NULL}, /* address, device */
    {"_compat", dls_compat_report, METH_NOARGS, NULL},
    {"_sync_rules", sync_rules, METH_NOARGS, NULL},
    {"_sync_action", sync_action, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
