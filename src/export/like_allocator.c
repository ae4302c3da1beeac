/* Asks a foreign C table for device memory.  Called by resolve_device_copy.c.
 * Tests: tests/device/test_like.py. */
#include "export/like_allocator.h"

#include "gpu/pointer.h"
#include "gpu/sync_rules.h"
#include "python/errors.h"
#include "sync/sync_exchange.h"

/* The stream on which the library works; unknown where it does not tell. */
static dls_producer_stream
work_stream(const dls_request *request, dl_device device)
{
    dls_producer_stream p = {.known = DLS_P_UNKNOWN};
    const dl_exchange_api *table = request->like;
    void *stream = NULL;
    if (!request->like_tells_stream || table->current_work_stream == NULL) {
        return p;
    }
    if (table->current_work_stream(device.device_type, device.device_id, &stream)
        != 0) {
        PyErr_Clear();
        return p;
    }
    p.known = DLS_P_KNOWN;
    p.handle = stream != NULL ? (uint64_t)(uintptr_t)stream
                              : dls_driver_of(device.device_type)->legacy;
    return p;
}

/* What an allocator says of its failure. */
static void
note_failure(void *context, const char *kind, const char *message)
{
    dls_error *err = context;
    dls_fail(err, DLS_EBUFFER, "%s: %s", kind != NULL ? kind : "an error",
             message != NULL ? message : "");
}

/* Bytes, whatever the elements are: a library knows fewer dtypes than DLPack.  NULL
 * with an exception. */
static dl_managed_tensor_versioned *
call_allocator(const dls_exchange *x, dl_device device, int64_t bytes)
{
    dls_error err = {.text = "it does not say why"};
    int64_t stride = 1;
    dl_managed_tensor_versioned *managed = NULL;
    dl_tensor prototype = {.device = device,
                           .ndim = 1,
                           .dtype = {dl_kDLUInt, 8, 1},
                           .shape = &bytes,
                           .strides = &stride};
    int code = x->request.like->managed_tensor_allocator(&prototype, &managed, &err,
                                                         note_failure);
    PyErr_Clear();
    if (code == 0 && managed != NULL && managed->version.major == DL_MAJOR
        && managed->dl_tensor.data != NULL
        && managed->dl_tensor.device.device_type == device.device_type
        && managed->dl_tensor.device.device_id == device.device_id) {
        return managed;
    }
    if (code == 0 && managed != NULL) {
        dls_managed_run_deleter(managed, true);
        dls_fail(&err, DLS_EBUFFER, "what it gave lies elsewhere");
    }
    dls_refuse(
        x->state, DLS_EBUFFER, x->source,
        "the library of like= gave no memory for the %lld bytes of the copy (%s); "
        "free some on device (%d, %d), or pass device= instead",
        (long long)bytes, err.text, (int)device.device_type, (int)device.device_id);
    return NULL;
}

static int
sync_with(const dls_exchange *x, dl_device device, dls_producer_stream p,
          const void *address, uint64_t copy_stream)
{
    const dls_sync_job job = {
        .task = DLS_TASK_SYNC,
        .p = p,
        .s = copy_stream,
        .has_s = true,
        .policy = DLS_UNKNOWN_AUTO,
        .device = device,
        .address = address,
    };
    return dls_sync_run_job(x->state, x->source, &job);
}

int
dls_like_allocate(const dls_exchange *x, const dls_wanted_memory *wanted,
                  dls_hold *hold, void **address)
{
    dl_device device = wanted->device;
    uintptr_t more = (uintptr_t)wanted->align - 1;
    dls_producer_stream p = work_stream(&x->request, device);
    bool captures;
    Py_BEGIN_ALLOW_THREADS
    captures = dls_sync_run_sees_capture(device, p);
    Py_END_ALLOW_THREADS
    /* mutant: capture of a library */
    if (captures) {
        return dls_refuse(x->state, DLS_EBUFFER, x->source, "%s", DLS_CAPTURE_REFUSAL);
    }
    dl_managed_tensor_versioned *managed = call_allocator(
        x, device, wanted->bytes + wanted->align - 1);
    if (managed == NULL) {
        return -1;
    }
    *hold = (dls_hold){.base = managed, .kind = DLS_HOLD_VERSIONED};
    uintptr_t start = (uintptr_t)managed->dl_tensor.data
                      + (uintptr_t)managed->dl_tensor.byte_offset;
    *address = (void *)((start + more) & ~more);
    /* mutant: memory of a library */
    return sync_with(x, device, p, *address, wanted->copy_stream);
}
