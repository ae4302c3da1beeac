/* Syncs SYCL queues: barriers, or a wait of the host.
 *
 * Called by sync_exchange, and for what a Tensor on oneAPI shows.  Calls methods of
 * queues; touches no driver. Tests: tests/core/test_torch_xpu.py,
 * tests/core/test_sycl_interface.py, tests/oneapi.
 */
#include "sync/sycl_queue.h"

#include "gpu/sync_rules.h"
#include "python/errors.h"

/* Call a method if the object has it.  1 with a new reference in *result, 0, or -1. */
static int
call_method(PyObject *object, PyObject *name, PyObject *argument, PyObject **result)
{
    PyObject *method = NULL;
    int got = dls_get_optional(object, name, &method);
    if (got > 0) {
        *result = PyObject_CallFunctionObjArgs(method, argument, NULL);
        Py_DECREF(method);
        got = *result != NULL ? 1 : -1;
    }
    return got;
}

/* The host waits for the queue (dpctl) or stream (torch).  0, or -1. */
static int
wait_for(dls_state *state, PyObject *queue)
{
    PyObject *result = NULL;
    int got = call_method(queue, state->names.wait, NULL, &result);
    if (got == 0) {
        got = call_method(queue, state->names.synchronize, NULL, &result);
    }
    Py_XDECREF(result);
    if (got == 0) {
        PyErr_Format(PyExc_TypeError, "%R has neither wait() nor synchronize()", queue);
    }
    return got > 0 ? 0 : -1;
}

/* Make S wait for P: a barrier in P, and one in S that waits for it.  Where one of them
 * knows no barriers the host waits for P.  0, or -1. */
static int
make_edge(dls_state *state, PyObject *p, PyObject *s)
{
    int got = PyObject_RichCompareBool(p, s, Py_EQ);
    if (got != 0) {
        return got < 0 ? -1 : 0; /* two objects of one queue */
    }
    PyObject *barrier = NULL, *event = NULL, *result = NULL;
    got = dls_get_optional(s, state->names.submit_barrier, &barrier);
    Py_XDECREF(barrier);
    if (got > 0) {
        got = call_method(p, state->names.submit_barrier, NULL, &event);
    }
    if (got <= 0) {
        return got < 0 ? -1 : wait_for(state, p);
    }
    PyObject *after = PyList_New(1);
    if (after == NULL) {
        Py_DECREF(event);
        return -1;
    }
    PyList_SetItem(after, 0, event);
    got = call_method(s, state->names.submit_barrier, after, &result);
    Py_DECREF(after);
    Py_XDECREF(result);
    return got > 0 ? 0 : -1;
}

int
dls_sycl_queue_sync(dls_state *state, PyObject *source, const dls_sync_job *job,
                    PyObject *s)
{
    const dls_sync_facts facts = {.no_device_wait = true};
    dls_sync_job here = *job;
    here.s = (uint64_t)(uintptr_t)s;
    if (job->policy == DLS_UNKNOWN_LEGACY) {
        here.policy = DLS_UNKNOWN_AUTO; /* there is no default queue */
    }
    int result = 0;
    switch (dls_sync_action_find(&here, &facts)) {
    case DLS_ACTION_NOTHING:
        return 0;
    case DLS_ACTION_EDGE:
        result = make_edge(state, job->p.object, s);
        break;
    case DLS_ACTION_WAIT_STREAM:
        result = wait_for(state, job->p.object);
        break;
    default:
        return dls_refuse(
            state, DLS_EBUFFER, source,
            "the producer's queue is not known; give "
            "producer_stream= its SyclQueue, or wait for it and pass stream=-1 or "
            "unknown_stream=\"same\"");
    }
    if (result < 0) {
        dls_refuse_from_pending(state, source, "synchronising SYCL queues failed");
    }
    return result;
}
