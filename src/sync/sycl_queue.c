/* Syncs SYCL queues: barriers, or a wait of the host.
 *
 * Called by sync_exchange, and for what a Tensor on oneAPI shows.  Calls
 * functions of shim/oneapi.py; touches no driver. Tests: tests/core/test_torch_xpu.py,
 * tests/core/test_sycl_interface.py, tests/oneapi.
 */
#include "sync/sycl_queue.h"

#include "gpu/sync_rules.h"
#include "python/errors.h"
#include "python/state.h"

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
    PyObject *done = NULL;
    switch (dls_sync_action_find(&here, &facts)) {
    case DLS_ACTION_NOTHING:
        return 0;
    case DLS_ACTION_EDGE:
        done = dls_in_python_with(state, DLS_IN_ONEAPI, "order", "(OO)", job->p.object,
                                  s);
        break;
    case DLS_ACTION_WAIT_STREAM:
        done = dls_in_python_with(state, DLS_IN_ONEAPI, "wait", "(O)", job->p.object);
        break;
    default:
        return dls_refuse(
            state, DLS_EBUFFER, source,
            "the producer's queue is not known; give "
            "producer_stream= its SyclQueue, or wait for it and pass stream=-1 or "
            "unknown_stream=\"same\"");
    }
    Py_XDECREF(done);
    return done != NULL ? 0
                        : dls_refuse_from_pending(state, source,
                                                  "synchronising SYCL queues failed");
}
