/* Syncs queues and copies oneAPI memory, by the functions of shim/oneapi.py.
 *
 * Called by transfer, sync_exchange, export/resolve and public/interfaces_out.  They
 * call classes and methods of the library; memory that is fetched with gaps is
 * allocated here.  Tests: tests/oneapi/test_copies.py, tests/core/test_sycl_copies.py,
 * tests/core/test_torch_xpu.py, tests/core/test_sycl_interface.py, tests/oneapi. */
#include "sync/sycl.h"

#include <assert.h>
#include <stdio.h>

#include "core/alloc.h"
#include "core/copy.h"
#include "core/tensor.h"
#include "gpu/sync_rules.h"
#include "python/errors.h"
#include "python/state.h"

/* --- syncs of queues ------------------------------------------------------ */

int
dls_sycl_queue_sync(dls_state *state, PyObject *source, const dls_sync_job *job,
                    PyObject *s, bool shows_syclobj)
{
    const dls_sync_facts facts = {.no_device_wait = true};
    dls_sync_job here = *job;
    here.s = (uint64_t)(uintptr_t)s;
    if (job->policy == DLS_UNKNOWN_LEGACY) {
        here.policy = DLS_UNKNOWN_AUTO; /* there is no default queue */
    }
    if (job->policy == DLS_UNKNOWN_ERROR && job->task == DLS_TASK_WAIT_IF_KNOWN) {
        here.task = DLS_TASK_WAIT; /* the user wants to be told */
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
            state, DLS_EOPTION, source,
            "the producer's queue is not known%s\n"
            "  give producer_stream= its SyclQueue, or wait for it and pass "
            "%sunknown_stream=\"same\"",
            shows_syclobj ? ", for ['syclobj'] names a context or a device" : "",
            job->said_ready ? "" : "stream=-1 or ");
    }
    Py_XDECREF(done);
    return done != NULL ? 0
                        : dls_refuse_from_pending(state, source,
                                                  "synchronising SYCL queues failed");
}

/* --- copies --------------------------------------------------------------- */

/* Spans up to this size are fetched whole, gaps and all. */
#define SPAN_MAX (INT64_C(1) << 26)
/* From this size on, gathering lets other threads run. */
#define GATHER_WITHOUT_GIL 65536

/* Check the result of a function of shim/oneapi.py: a new reference, or NULL with
 * BufferError because the library has refused, or is not imported (None). */
static PyObject *
check_queue(dls_state *state, PyObject *source, PyObject *given, const char *what)
{
    if (given == Py_None) {
        Py_CLEAR(given);
        dls_refuse(state, DLS_EBUFFER, source, "%s: its library is not imported", what);
    }
    else if (given == NULL) {
        dls_refuse_from_pending(state, source, "%s", what);
    }
    return given;
}

PyObject *
dls_sycl_copy_queue(dls_state *state, PyObject *source, int32_t device_id)
{
    return check_queue(
        state, source,
        dls_in_python_with(state, DLS_IN_ONEAPI, "copy_queue", "(i)", (int)device_id),
        "no queue could be made for its device");
}

/* --- to the host ---------------------------------------------------------- */

typedef struct {
    dls_state *state;
    PyObject *source;
    PyObject *syclobj; /* borrowed */
    int64_t itemsize;
} fetcher;

/* Fetch bytes that lie together.  0, or -1. */
static int
fetch(const fetcher *f, char *dst, const char *src, int64_t bytes)
{
    PyObject *done = dls_in_python_with(
        f->state, DLS_IN_ONEAPI, "fetch", "(NKO)",
        PyMemoryView_FromMemory(dst, (Py_ssize_t)bytes, DLS_BUF_MAY_WRITE),
        (unsigned long long)(uintptr_t)src, f->syclobj);
    done = check_queue(f->state, f->source, done, "copying it to the host failed");
    Py_XDECREF(done);
    return done != NULL ? 0 : -1;
}

/* Gather on the host.  0, or -1 with MemoryError. */
static int
gather(char *dst, const dl_tensor *tensor, int64_t itemsize, bool large)
{
    PyThreadState *away = large ? PyEval_SaveThread() : NULL;
    int code = dls_host_copy(dst, tensor, itemsize);
    if (away != NULL) {
        PyEval_RestoreThread(away);
    }
    if (code != DLS_OK) {
        PyErr_NoMemory();
    }
    return code == DLS_OK ? 0 : -1;
}

/* Fetch the memory between the lowest and the highest byte, and gather. */
static int
fetch_span(const fetcher *f, char *dst, dl_tensor part, int64_t low, int64_t high)
{
    char *slab = dls_alloc_bytes(high - low);
    if (slab == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int code = fetch(f, slab, (const char *)part.data + low, high - low);
    if (code == 0) {
        part.data = slab - low;
        code = gather(dst, &part, f->itemsize, high - low >= GATHER_WITHOUT_GIL);
    }
    dls_free(slab);
    return code;
}

/* Would its halves along the outermost axis take half of the memory? */
static bool
is_worth_halving(const dl_tensor *part, int64_t span, int64_t payload)
{
    int64_t stride = part->strides[0] < 0 ? -part->strides[0] : part->strides[0];
    for (int32_t i = 1; i < part->ndim; i++) {
        int64_t other = part->strides[i] < 0 ? -part->strides[i] : part->strides[i];
        if (part->shape[i] > 1 && other > stride) {
            return false;
        }
    }
    return part->shape[0] > 1 && span > SPAN_MAX && span / 2 > payload;
}

/* part->data is element zero, and part->shape is the caller's own: it is changed, and
 * changed back. */
static int
fetch_part(const fetcher *f, char *dst, dl_tensor part)
{
    int64_t count, low, high;
    dls_error err;
    if (dls_layout_count(part.ndim, part.shape, &count, &err) != DLS_OK
        || dls_layout_span(part.ndim, part.shape, part.strides, count, f->itemsize,
                           &low, &high, &err)
               != DLS_OK) {
        return dls_refuse_error(f->state, f->source, &err);
    }
    int64_t payload = count * f->itemsize;
    if (dls_layout_is_contiguous(part.ndim, part.shape, part.strides)) {
        return fetch(f, dst, part.data, payload);
    }
    if (!is_worth_halving(&part, high - low, payload)) {
        return fetch_span(f, dst, part, low, high);
    }
    int64_t extent = part.shape[0], first = extent / 2;
    part.shape[0] = first;
    int code = fetch_part(f, dst, part);
    part.shape[0] = extent - first;
    if (code == 0) {
        part.data = (char *)part.data + first * part.strides[0] * f->itemsize;
        code = fetch_part(f, dst + payload / extent * first, part);
    }
    part.shape[0] = extent;
    return code;
}

int
dls_sycl_copy_to_host(dls_state *state, PyObject *source, void *dst,
                      const dl_tensor *tensor, int64_t itemsize, PyObject *syclobj)
{
    dl_tensor whole = *tensor;
    PyObject *queue = NULL;
    bool named = syclobj != NULL && !PyUnicode_Check(syclobj);
    if (!named) {
        queue = dls_sycl_copy_queue(state, source, tensor->device.device_id);
        if (queue == NULL) {
            return -1;
        }
    }
    int code = -1;
    whole.data = (char *)tensor->data + tensor->byte_offset;
    whole.byte_offset = 0;
    whole.shape = dls_alloc((size_t)(tensor->ndim + 1) * sizeof *whole.shape);
    if (whole.shape == NULL) {
        PyErr_NoMemory();
    }
    else {
        for (int32_t i = 0; i < tensor->ndim; i++) {
            whole.shape[i] = tensor->shape[i];
        }
        const fetcher f = {state, source, named ? syclobj : queue, itemsize};
        code = fetch_part(&f, dst, whole);
    }
    dls_free(whole.shape);
    Py_XDECREF(queue);
    return code;
}

/* --- from the host -------------------------------------------------------- */

int
dls_sycl_copy_from_host(dls_state *state, PyObject *source, dls_sycl_block *block)
{
    char what[96];
    unsigned long long address;
    /* Only read.  An empty array may have no address, and needs none. */
    char *start = block->bytes != 0 ? (char *)(uintptr_t)block->src : what;
    assert(block->hold == NULL);
    PyObject *made = dls_in_python_with(
        state, DLS_IN_ONEAPI, "send", "(NLi)",
        PyMemoryView_FromMemory(start, (Py_ssize_t)block->bytes, DLS_BUF_MAY_READ),
        (long long)block->alignment, (int)block->device_id);
    snprintf(what, sizeof what, "copying %lld bytes to oneAPI device %d failed",
             (long long)block->bytes, (int)block->device_id);
    made = check_queue(state, source, made, what);
    if (made == NULL || !PyArg_ParseTuple(made, "KO", &address, &block->hold)) {
        Py_XDECREF(made);
        return -1;
    }
    block->data = (void *)(uintptr_t)address;
    Py_INCREF(block->hold);
    Py_DECREF(made);
    return 0;
}
