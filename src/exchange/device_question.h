/* The device question: the answer of an object to __dlpack_device__ (N5), our answer,
 * and the thread that has asked us before (N9).  The GIL is held. */
#pragma once

#include <limits.h>

#ifdef __linux__
#include <pthread.h>
#endif

#include "abi/dlpack_abi.h"
#include "core/lock.h"
#include "python/errors.h"
#include "types/plan.h"

/* Read the answer of __dlpack_device__, if it is not the remembered pair.  Results as
 * those of dls_device_ask. */
int dls_device_read(dls_state *state, PyObject *pair, dl_device *device);

/* Call the function by which the author of a decorated class answers (types/plan.h). */
static inline PyObject *
dls_device_call(const dls_plan *plan, PyObject *obj)
{
    PyObject *args[2] = {NULL, obj};
    const PyObject *before = dls_plan_serve(plan, obj);
    PyObject *pair = dls_compat.PyObject_Vectorcall(plan->device_method, &args[1],
                                                    1 | DLS_VECTORCALL_OFFSET, NULL);
    (void)dls_plan_serve(plan, before);
    return pair;
}

/* obj.__dlpack_device__(), which the plan says how to find, as two ints, whatever they
 * were (Paddle's None is 0, open3d's enum has a .value).  1 = *device, 0 = the answer
 * is useless or it raised, nothing set, -1 = an exception that is not ours to hide
 * (MemoryError, KeyboardInterrupt). */
DLS_INLINE int
dls_device_ask(dls_state *state, const dls_plan *plan, PyObject *obj, dl_device *device)
{
    PyObject *args[2] = {NULL, obj};
    const size_t one = 1 | DLS_VECTORCALL_OFFSET;
    PyObject *pair = plan->device_method == NULL
                         ? dls_compat.PyObject_VectorcallMethod(plan->device_name,
                                                                &args[1], one, NULL)
                     : plan->device_name != NULL
                         ? dls_compat.PyObject_Vectorcall(plan->device_method, &args[1],
                                                          one, NULL)
                         : dls_device_call(plan, obj);
    if (pair == NULL) {
        return dls_error_forget();
    }
    int got = 1;
    if (pair == state->memo.host) {
        *device = (dl_device){dl_kDLCPU, 0};
    }
    else {
        got = dls_device_read(state, pair, device);
    }
    Py_DECREF(pair);
    return got;
}

/* A (device_type, device_id) pair from any sequence of two.  strict: ints only (from
 * users and consumers); else also enums, and None as the id (from producers).  1 = yes,
 * 0 = no such pair, nothing set, -1 = an exception that is not ours to hide. */
int dls_device_from_pair(dls_state *state, PyObject *pair, bool strict,
                         dl_device *device);

/* --- who asked us (N9) ---------------------------------------------------- */

/* Threads ask at the same time: from then on every asker counts as one that asked. */
#define DLS_ASKED_BY_MANY ULONG_MAX

/* CPython's thread ident without its detour. */
static inline unsigned long
dls_this_thread(void)
{
#ifdef __linux__
    return (unsigned long)pthread_self();
#else
    return PyThread_get_thread_ident();
#endif
}

/* A device question was put in this thread. */
static inline void
dls_question_note(DLS_ATOMIC(unsigned long) * asked)
{
    unsigned long me = dls_this_thread();
#ifdef DLS_FREE_THREADED
    unsigned long before = *asked, now;
    do {
        now = before == 0 || before == me ? me : DLS_ASKED_BY_MANY;
    } while (before != now && !atomic_compare_exchange_weak(asked, &before, now));
#else
    *asked = *asked == 0 || *asked == me ? me : DLS_ASKED_BY_MANY;
#endif
}

/* An export begins: was the device asked before in this thread?  Only the thread that
 * put a question uses it up. */
static inline bool
dls_question_use(DLS_ATOMIC(unsigned long) * asked)
{
#ifdef DLS_FREE_THREADED
    unsigned long mine = dls_this_thread();
    return atomic_compare_exchange_strong(asked, &mine, 0) || mine == DLS_ASKED_BY_MANY;
#else
    if (*asked == 0 || *asked == DLS_ASKED_BY_MANY) {
        return *asked != 0;
    }
    bool mine = *asked == dls_this_thread();
    if (mine) {
        *asked = 0;
    }
    return mine;
#endif
}

/* The pair that our __dlpack_device__ returns: two plain ints, a new reference. */
static inline PyObject *
dls_device_pair(const dls_state *state, dl_device device)
{
    if (device.device_type == dl_kDLCPU && device.device_id == 0) {
        return Py_NewRef(state->host_device);
    }
    return Py_BuildValue("(ii)", (int)device.device_type, (int)device.device_id);
}
