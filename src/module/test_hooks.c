/* Switches and looks for tests, and for a table of the manual (docs/development.rst).
 * dlshim itself calls none of them.
 * Tests: tests/core/test_bad_input.py, tests/core/test_odd_answers.py. */
#include "module/test_hooks.h"

#include <string.h>
#include <time.h>

#include "core/alloc.h"
#include "core/lock.h"
#include "exchange/objects.h"
#include "gpu/sync_rules.h"
#include "gpu/sync_run.h"
#include "python/py.h"
#include "python/state.h"
#include "types/plan.h"
#include "types/plan_cache.h"

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

/* Private, so no texts for help(). */
PyMethodDef dls_hook_methods[] = {
    {"_hook", hook, METH_VARARGS, NULL}, /* name, value=0 */
    {"_planned_type", planned_type, METH_O, NULL},
    /* for each CPython function that is bound late, whether the real one is used */
    {"_compat", dls_compat_report, METH_NOARGS, NULL},
    {"_sync_action", sync_action, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
