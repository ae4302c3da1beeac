#include "sync/sycl_queue.h"

#include "gpu/sync_rules.h"
#include "python/errors.h"

/* Call a method if the object has it: 1 with *result, 0, -1. */
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

/* The host waits for the queue (dpctl) or stream (torch). */
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

/* A barrier in P, and one in S that waits for it; the host waits where one of them
 * knows no barriers. */
static int
make_edge(dls_state *state, PyObject *p, PyObject *s)
{
    PyObject *event = NULL, *after = NULL, *result = NULL, *barrier = NULL;
    int got = PyObject_RichCompareBool(p, s, Py_EQ);
    if (got != 0) {
        return got < 0 ? -1 : 0; /* two objects of one queue */
    }
    got = dls_get_optional(s, state->names.submit_barrier, &barrier);
    Py_XDECREF(barrier);
    if (got > 0) {
        got = call_method(p, state->names.submit_barrier, NULL, &event);
    }
    if (got <= 0) {
        return got < 0 ? -1 : wait_for(state, p);
    }
    after = PyList_New(1);
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
dls_queue_order(dls_state *state, PyObject *obj, dls_duty duty, dls_pending p,
                const dls_want *want)
{
    const dls_order_facts facts = {.no_device_wait = true};
    const dls_ordering ordering = {.duty = duty,
                                   .p = p,
                                   .s = (uint64_t)(uintptr_t)want->stream,
                                   .policy = want->unknown_stream == DLS_UNKNOWN_LEGACY
                                                 ? DLS_UNKNOWN_AUTO /* no such stream */
                                                 : want->unknown_stream};
    int result = 0;
    switch (dls_order_settle(&ordering, &facts)) {
    case DLS_ACTION_NOTHING:
        return 0;
    case DLS_ACTION_EDGE:
        result = make_edge(state, p.object, want->stream);
        break;
    case DLS_ACTION_SYNC_STREAM:
        result = wait_for(state, p.object);
        break;
    default:
        dls_raise(
            state, DLS_EBUFFER, obj,
            "the queue with the producer's pending work is not known; give "
            "producer_stream= its SyclQueue, or wait for it and pass stream=-1 or "
            "unknown_stream=\"same\"");
        return -1;
    }
    if (result < 0) {
        dls_raise_from_pending(state, obj, "ordering between SYCL queues failed");
    }
    return result;
}
