#include "module/test_hooks.h"

#include <string.h>
#include <time.h>

#include "core/alloc.h"
#include "core/counters.h"
#include "core/device.h"
#include "core/lock.h"
#include "exchange/plan.h"
#include "exchange/plan_cache.h"
#include "gpu/pool.h"
#include "gpu/sync_rules.h"
#include "python/capsule.h"
#include "python/errors.h"
#include "request/request.h"

static PyObject *
counters(PyObject *module, PyObject *ignored)
{
    (void)module;
    (void)ignored;
#define FORMAT(member) "s:L"
#define VALUE(member) , #member, (long long)atomic_load(&dls_counters.member)
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

/* Held from before the GIL is let go until before it is taken back. */
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
    dls_state *state = PyModule_GetState(module);
    const char *name;
    PyObject *value;
    if (!PyArg_ParseTuple(args, "sO:_hook", &name, &value)) {
        return NULL;
    }
    int truth = PyObject_IsTrue(value);
    if (truth < 0) {
        return NULL;
    }
    if (strcmp(name, "hand_on") == 0) {
        atomic_store(&dls_hand_on_allowed, truth);
    }
    else if (strcmp(name, "fallback") == 0) {
        dls_late_force_fallback(truth);
    }
    else if (strcmp(name, "forget_plans") == 0) {
        dls_plan_cache_clear(state->plans);
    }
    else if (strcmp(name, "forget_imports") == 0) {
        state->gil_deleters = -1;
        state->legacy_hold = 0;
    }
    else if (strcmp(name, "event_pool") == 0) {
        dls_pool_cap((int)PyLong_AsLong(value));
    }
    else if (strcmp(name, "hold_locks") == 0) {
        hold_locks(PyLong_AsLong(value));
    }
    else if (strcmp(name, "fail_alloc") == 0) {
        long n = PyLong_AsLong(value);
        if (n == -1 && PyErr_Occurred()) {
            return NULL;
        }
        dls_alloc_fail(n);
    }
    else {
        PyErr_Format(PyExc_ValueError, "no hook named '%s'", name);
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
dims_tuple(const int64_t *dims, int32_t n)
{
    if (dims == NULL) {
        Py_RETURN_NONE;
    }
    PyObject *tuple = PyTuple_New(n);
    for (int32_t i = 0; tuple != NULL && i < n; i++) {
        PyObject *item = PyLong_FromLongLong(dims[i]);
        if (item == NULL) {
            Py_CLEAR(tuple);
            break;
        }
        PyTuple_SetItem(tuple, i, item);
    }
    return tuple;
}

static PyObject *
peek_tensor(dls_state *state, const dl_tensor *t, const char *name, PyObject *version,
            unsigned long long flags, bool has_deleter)
{
    int32_t ndim = t->ndim < 0 || t->ndim > DLS_NDIM_ABSURD ? 0 : t->ndim;
    return Py_BuildValue("{s:s,s:N,s:(ii),s:N,s:i,s:N,s:N,s:K,s:N,s:K,s:O}", "name",
                         name, "version", version, "device", (int)t->device.device_type,
                         (int)t->device.device_id, "dtype",
                         dls_dtype_new(state, t->dtype), "ndim", (int)t->ndim, "shape",
                         dims_tuple(t->shape, ndim), "strides",
                         dims_tuple(t->strides, ndim), "byte_offset",
                         (unsigned long long)t->byte_offset, "data",
                         PyLong_FromVoidPtr(t->data), "flags", flags, "has_deleter",
                         has_deleter ? Py_True : Py_False);
}

static PyObject *
peek(PyObject *module, PyObject *capsule)
{
    dls_state *state = PyModule_GetState(module);
    void *managed;
    if (!dls_capsule_check(capsule)) {
        PyErr_SetString(PyExc_TypeError, "_peek takes a PyCapsule");
        return NULL;
    }
    dls_capsule_kind kind = dls_capsule_look(capsule, &managed);
    if (kind == DLS_CAPSULE_LEGACY) {
        dl_managed_tensor *legacy = managed;
        return peek_tensor(state, &legacy->dl_tensor, DL_NAME_LEGACY,
                           Py_BuildValue("O", Py_None), 0, legacy->deleter != NULL);
    }
    if (kind == DLS_CAPSULE_VERSIONED) {
        dl_managed_tensor_versioned *v = managed;
        PyObject *version = Py_BuildValue("(II)", v->version.major, v->version.minor);
        if (v->version.major != DL_MAJOR) {
            /* Nothing else of a foreign major may be read (T1). */
            return Py_BuildValue("{s:s,s:N}", "name", DL_NAME_VERSIONED, "version",
                                 version);
        }
        return peek_tensor(state, &v->dl_tensor, DL_NAME_VERSIONED, version, v->flags,
                           v->deleter != NULL);
    }
    const char *name = PyCapsule_GetName(capsule);
    PyErr_Clear();
    return Py_BuildValue("{s:z}", "name", name);
}

static PyObject *
way_dict(const dls_way *way)
{
    if (!way->known) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("{s:s,s:i}", "rung", dls_rung_names[way->rung], "keywords",
                         (int)way->mask);
}

static PyObject *
plan(PyObject *module, PyObject *obj)
{
    dls_state *state = PyModule_GetState(module);
    dls_plan *found = dls_plan_find(state, obj);
    if (found == NULL) {
        return NULL;
    }
    PyObject *offers = PyList_New(0);
    for (int rung = 0; offers != NULL && rung < DLS_RUNG_COUNT; rung++) {
        if (dls_plan_offers(found, (dls_rung)rung)) {
            PyObject *name = PyUnicode_FromString(dls_rung_names[rung]);
            if (name == NULL || PyList_Append(offers, name) < 0) {
                Py_CLEAR(offers);
            }
            Py_XDECREF(name);
        }
    }
    PyObject *result = NULL;
    if (offers != NULL) {
        result = Py_BuildValue("{s:N,s:z,s:N,s:N,s:O,s:O,s:O,s:O}", "offers", offers,
                               "library",
                               found->library != NULL ? found->library->name : NULL,
                               "legacy", way_dict(&found->ways[0]), "versioned",
                               way_dict(&found->ways[1]), "off_host",
                               found->off_host ? Py_True : Py_False, "on_instance",
                               found->on_instance ? Py_True : Py_False, "has_device",
                               found->has_device ? Py_True : Py_False, "cpu_only",
                               found->cpu_only ? Py_True : Py_False);
    }
    dls_plan_drop(found);
    return result;
}

static PyObject *
late(PyObject *module, PyObject *ignored)
{
    (void)module;
    (void)ignored;
    return dls_late_report();
}

static PyObject *
libraries(PyObject *module, PyObject *ignored)
{
    (void)module;
    (void)ignored;
    return dls_library_table();
}

static PyObject *
askers(PyObject *module, PyObject *ignored)
{
    (void)module;
    (void)ignored;
    return dls_request_askers();
}

/* --- the stream table
 * ------------------------------------------------------------------ */

static PyObject *
streams(PyObject *module, PyObject *ignored)
{
    (void)module;
    (void)ignored;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < DLS_FAMILIES * DLS_PRODUCERS * DLS_VALUES;
         i++) {
        dls_value value = (dls_value)(i % DLS_VALUES);
        dls_producer_kind producer = (dls_producer_kind)(i / DLS_VALUES
                                                         % DLS_PRODUCERS);
        dls_family family = (dls_family)(i / (DLS_VALUES * DLS_PRODUCERS));
        dls_stream_rule rule = dls_order_decide(family, producer, value);
        PyObject *row = Py_BuildValue("{s:s,s:s,s:s,s:s,s:s}", "device",
                                      dls_family_names[family], "producer",
                                      dls_producer_names[producer], "stream",
                                      dls_value_names[value], "passed",
                                      dls_argument_names[rule.argument], "owed",
                                      dls_duty_names[rule.duty]);
        if (row == NULL || PyList_Append(list, row) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(row);
    }
    return list;
}

/* Position of `text` in names, -1 with ValueError. */
static int
position_of(const char *text, const char *const *names, int count)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            return i;
        }
    }
    PyErr_Format(PyExc_ValueError, "'%s' is not in this table", text);
    return -1;
}

static PyObject *
settle(PyObject *module, PyObject *args)
{
    static const char *const knowledge[] = {"unknown", "ready", "known"};
    static const char *const policies[] = {"auto", "legacy", "same", "error"};
    static const char *const facts_names[] = {"can_record_device", "host_must_be_alone",
                                              "s_captures",        "p_captures",
                                              "one_capture",       "device_captures"};
    const char *duty, *known, *policy;
    unsigned long long p, s;
    PyObject *given;
    (void)module;
    if (!PyArg_ParseTuple(args, "ssKKsO:_settle", &duty, &known, &p, &s, &policy,
                          &given)) {
        return NULL;
    }
    int d = position_of(duty, dls_duty_names, DLS_DUTIES);
    int k = d < 0 ? -1 : position_of(known, knowledge, 3);
    int u = k < 0 ? -1 : position_of(policy, policies, 4);
    dls_order_facts facts = {0};
    bool *members[] = {&facts.can_record_device, &facts.host_must_be_alone,
                       &facts.s_captures,        &facts.p_captures,
                       &facts.one_capture,       &facts.device_captures};
    for (size_t i = 0; u >= 0 && i < sizeof members / sizeof *members; i++) {
        PyObject *name = PyUnicode_FromString(facts_names[i]);
        int has = name != NULL ? PySequence_Contains(given, name) : -1;
        Py_XDECREF(name);
        if (has < 0) {
            return NULL;
        }
        *members[i] = has;
    }
    if (u < 0) {
        return NULL;
    }
    const dls_ordering ordering = {.duty = (dls_duty)d,
                                   .p = {(dls_knowledge)k, p},
                                   .s = s,
                                   .policy = (uint8_t)u};
    return PyUnicode_FromString(dls_action_names[dls_order_settle(&ordering, &facts)]);
}

PyMethodDef dls_hook_methods[] = {
    {"_counters", counters, METH_NOARGS,
     "_counters($module, /)\n--\n\n"
     "Counts since import: handed_on, translated, copied, taken, live."},
    {"_hook", hook, METH_VARARGS,
     "_hook($module, name, value, /)\n--\n\nTest switches: hand_on, fallback, "
     "fail_alloc, "
     "forget_plans, forget_imports, event_pool, hold_locks."},
    {"_peek", peek, METH_O,
     "_peek($module, capsule, /)\n--\n\nFields of a capsule, which is not consumed."},
    {"_plan", plan, METH_O,
     "_plan($module, obj, /)\n--\n\nWhat an object's type offers and what asking it "
     "has taught."},
    {"_late", late, METH_NOARGS,
     "_late($module, /)\n--\n\nLate-bound CPython functions: is the real one in use?"},
    {"_libraries", libraries, METH_NOARGS,
     "_libraries($module, /)\n--\n\nThe rows of exchange/libraries.def."},
    {"_askers", askers, METH_NOARGS,
     "_askers($module, /)\n--\n\nThe rows of request/consumers.def (rule N9)."},
    {"_streams", streams, METH_NOARGS,
     "_streams($module, /)\n--\n\nThe stream table (gpu/sync_rules.def), every "
     "combination."},
    {"_settle", settle, METH_VARARGS,
     "_settle($module, owed, known, p, s, policy, facts, /)\n--\n\nWhat an ordering "
     "comes down "
     "to, a pure function: the action's name."},
    {NULL, NULL, 0, NULL},
};
