/* What the Python files of dlshim read of the extension: its counters, tables and
 * records as dicts and lists (docs/development.rst).  Called by inspect(), track(), the
 * command line, the documentation and the tests.
 * Tests: tests/core/test_inspect.py, tests/core/test_tracking.py,
 * tests/core/test_doubles.py. */
#include "module/test_hooks.h"

#include <string.h>

#include "core/alloc.h"
#include "core/lock.h"
#include "exchange/device_question.h"
#include "exchange/objects.h"
#include "export/export.h"
#include "gpu/pointer.h"
#include "gpu/sync_rules.h"
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
    if (!(form & DLS_FORM_KNOWN)) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("{s:s,s:i}", "protocol",
                         dls_protocol_names[dls_form_protocol(form)], "keywords",
                         (int)(form & DLS_FORM_KEYWORDS));
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
        "{s:N,s:O,s:N,s:N,s:O,s:O,s:O,s:O}", "offers", offers, "library",
        found->library != NULL ? found->library : Py_None, "legacy",
        form_dict(learned.forms[0]), "versioned", form_dict(learned.forms[1]),
        "off_host", learned.off_host ? Py_True : Py_False, "on_instance",
        found->on_instance ? Py_True : Py_False, "has_device",
        found->has_device ? Py_True : Py_False, "cpu_only",
        found->cpu_only ? Py_True : Py_False);
    dls_plan_drop(found);
    return result;
}

/* --- what a Producer was given -------------------------------------------- */

static PyObject *
options(PyObject *module, PyObject *obj)
{
    if (!PyObject_TypeCheck(obj, dls_state_of(module)->producer_type)) {
        return PyErr_Format(PyExc_TypeError, "_options takes a Producer");
    }
    return dls_options_dict(dls_producer_data(obj)->options);
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
    dls_memory memory = {.address = (const void *)(uintptr_t)address};
    Py_BEGIN_ALLOW_THREADS
    dls_pointer_mend_label(&memory, &device);
    Py_END_ALLOW_THREADS
    return dls_device_pair(dls_state_of(module), device);
}

/* Private, so no texts for help(). */
PyMethodDef dls_record_methods[] = {
    {"_track", track_hook, METH_O, NULL},
    {"_counters", counters, METH_NOARGS, NULL}, /* counts since import */
    {"_peek", peek, METH_O, NULL},              /* a capsule, which is not consumed */
    {"_plan", plan, METH_O, NULL},              /* of the object's type */
    {"_options", options, METH_O, NULL},        /* of a Producer */
    /* address, device: that one, or the one that the driver names for the memory */
    {"_true_device", true_device, METH_VARARGS, NULL},
    {"_sync_rules", sync_rules, METH_NOARGS, NULL}, /* every combination */
    {NULL, NULL, 0, NULL},
};
