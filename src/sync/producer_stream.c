/* Finds P: the user's option, the type's C table, the current stream of its library.
 *
 * Called by sync_exchange after (and, for captures, before) the producer is called, by
 * the C table's exports, and for a new Tensor on oneAPI.  Calls into the producer's
 * library. Tests: tests/device/test_matrix.py, tests/device/test_cuda_interface.py,
 * tests/core/test_torch_xpu.py.
 */
#include "sync/producer_stream.h"

#include <assert.h>

#include "core/device.h"
#include "gpu/driver_of.h"
#include "gpu/sync_rules.h"
#include "python/errors.h"
#include "sync/device_context.h"
#include "sync/stream_value.h"

static bool
is_rocm(dls_family family)
{
    return family == DLS_FAMILY_ROCM || family == DLS_FAMILY_ROCM_HOST;
}

/* --- the option producer_stream ------------------------------------------- */

/* P from a value of a device whose streams nobody here knows (S8).  0, or -1. */
static int
read_opaque(dls_state *state, PyObject *stream, dls_producer_stream *p)
{
    dls_stream named;
    if (dls_stream_read_opaque(state, stream, &named) < 0) {
        return -1;
    }
    *p = named.value == DLS_VALUE_MINUS_ONE
             ? (dls_producer_stream){.known = DLS_P_READY}
             : dls_producer_stream_of_handle(named.handle);
    return 0;
}

/* On oneAPI P is an object, or -1 for "ready" (S6).  0, or -1. */
static int
read_oneapi(dls_state *state, PyObject *stream, const dls_stream *named,
            dls_producer_stream *p)
{
    switch (named->value) {
    case DLS_VALUE_OBJECT:
        *p = dls_producer_stream_of_object(stream);
        return 0;
    case DLS_VALUE_MINUS_ONE:
        *p = (dls_producer_stream){.known = DLS_P_READY};
        return 0;
    default:
        return dls_stream_raise_wrong(state, DLS_FAMILY_ONEAPI, DLS_TASK_TYPE_ERROR,
                                      stream);
    }
}

/* On CUDA 1 and 2 are streams and 0 is ambiguous (S1); on ROCm 0 is a stream and 1 and
 * 2 are none (S7).  0, or -1. */
static int
read_gpu(dls_state *state, dls_family family, PyObject *stream, const dls_stream *named,
         dls_producer_stream *p)
{
    bool rocm = is_rocm(family);
    switch (named->value) {
    case DLS_VALUE_MINUS_ONE:
        *p = (dls_producer_stream){.known = DLS_P_READY};
        return 0;
    case DLS_VALUE_HANDLE:
        *p = dls_producer_stream_of_handle(named->handle);
        return 0;
    case DLS_VALUE_ONE:
    case DLS_VALUE_TWO:
        if (!rocm) {
            *p = dls_producer_stream_of_handle(named->handle);
            return 0;
        }
        return dls_stream_raise_wrong(state, DLS_FAMILY_ROCM, DLS_TASK_VALUE_ERROR,
                                      stream);
    case DLS_VALUE_ZERO:
        if (rocm || named->from_object) {
            *p = dls_producer_stream_of_handle(rocm ? 0 : 1);
            return 0;
        }
        return dls_stream_raise_wrong(state, DLS_FAMILY_CUDA, DLS_TASK_VALUE_ERROR,
                                      stream);
    default:
        return dls_stream_raise_wrong(state, family, DLS_TASK_TYPE_ERROR, stream);
    }
}

static int
read_option(dls_state *state, dls_family family, PyObject *stream,
            dls_producer_stream *p)
{
    dls_stream named;
    if (family == DLS_FAMILY_OTHER) {
        return read_opaque(state, stream, p);
    }
    if (dls_stream_read(state, stream, &named) < 0) {
        return -1;
    }
    return family == DLS_FAMILY_ONEAPI ? read_oneapi(state, stream, &named, p)
                                       : read_gpu(state, family, stream, &named, p);
}

/* --- the C table and the library ------------------------------------------ */

/* The handle of L on this device. */
static uint64_t
legacy_of(dl_device device)
{
    return dls_driver_of(device.device_type)->legacy;
}

/* Ask the type's C table.  Where it fails, nothing was said. */
static void
ask_table(const dls_plan *plan, dl_device device, dls_producer_stream *p)
{
    void *stream = NULL;
    if (device.device_type == dl_kDLOneAPI) {
        return; /* it gives a sycl::queue of C++, for which Python cannot wait */
    }
    if (plan->table == NULL || plan->table->current_work_stream == NULL
        || dls_plan_has(plan, DLS_LIB_NO_WORK_STREAM)) {
        return;
    }
    if (plan->table->current_work_stream(device.device_type, device.device_id, &stream)
        == 0) {
        *p = dls_producer_stream_of_handle(stream != NULL ? (uint64_t)(uintptr_t)stream
                                                          : legacy_of(device));
    }
    PyErr_Clear();
}

/* Ask the library for its current stream, with the memory's device current.  1 with a
 * new reference in *stream and what was read from it in *named, 0, or -1. */
static int
ask_library_object(const dls_sync_source *from, PyObject **stream, dls_stream *named)
{
    dls_saved_device saved;
    bool entered = dls_device_context_enter(from->device, &saved);
    int got = dls_library_stream(from->state, from->plan->library, from->source,
                                 from->device, stream);
    if (entered) {
        dls_device_context_leave(from->device, &saved);
    }
    if (got > 0 && dls_stream_read(from->state, *stream, named) < 0) {
        Py_CLEAR(*stream);
        return -1;
    }
    return got;
}

/* Ask the library.  Where it fails, nothing was said, unless the error is fatal. */
static int
ask_library(const dls_sync_source *from, dls_producer_stream *p, PyObject **queue)
{
    PyObject *stream = NULL;
    dls_stream named = {.value = DLS_VALUE_NONE};
    if (from->plan->library == NULL) {
        return 0;
    }
    int got = ask_library_object(from, &stream, &named);
    if (got < 0) {
        Py_XDECREF(stream);
        return dls_error_forget();
    }
    if (got > 0 && named.value == DLS_VALUE_OBJECT
        && from->device.device_type == dl_kDLOneAPI) {
        *p = dls_producer_stream_of_object(stream);
        *queue = stream;
        return 0;
    }
    /* Some libraries say 0 also where nobody has chosen a stream. */
    bool says = got > 0 && named.value != DLS_VALUE_OBJECT
                && named.value != DLS_VALUE_MINUS_ONE
                && (named.handle != 0
                    || !dls_plan_has(from->plan, DLS_LIB_ZERO_UNSAID));
    if (says) {
        *p = dls_producer_stream_of_handle(named.handle != 0 ? named.handle
                                                             : legacy_of(from->device));
    }
    Py_XDECREF(stream);
    return 0;
}

/* --- what others call ----------------------------------------------------- */

int
dls_producer_stream_ask(const dls_sync_source *from, dls_producer_stream *p,
                        PyObject **queue)
{
    assert(from->plan != NULL && *queue == NULL);
    ask_table(from->plan, from->device, p);
    return p->known == DLS_P_UNKNOWN ? ask_library(from, p, queue) : 0;
}

static int
find(const dls_sync_source *from, dls_producer_stream *p, PyObject **queue)
{
    if (p->known != DLS_P_UNKNOWN) {
        return 0;
    }
    dls_family family = dls_family_of(from->device.device_type);
    PyObject *named = from->request->producer_stream;
    if (named != NULL && named != Py_None) {
        return read_option(from->state, family, named, p);
    }
    /* Nobody keeps track of copies into pinned memory, and a current stream says
     * nothing of them (S5); of the streams of other devices nothing is known (S8). */
    if (dls_plan_is_tensor(from->plan) || family == DLS_FAMILY_OTHER
        || dls_device_is_host(from->device.device_type)) {
        return 0;
    }
    return dls_producer_stream_ask(from, p, queue);
}

int
dls_producer_stream_find(const dls_sync_source *from, dls_producer_stream *p,
                         PyObject **queue)
{
    if (queue != NULL) {
        return find(from, p, queue);
    }
    PyObject *dropped = NULL;
    int code = find(from, p, &dropped);
    if (p->object != NULL) {
        *p = (dls_producer_stream){.known = DLS_P_UNKNOWN};
    }
    Py_XDECREF(dropped);
    return code;
}

int
dls_producer_stream_find_queue(const dls_sync_source *from, PyObject **queue)
{
    dls_producer_stream p = {.known = DLS_P_UNKNOWN};
    assert(from->plan != NULL && *queue == NULL);
    return ask_library(from, &p, queue);
}
