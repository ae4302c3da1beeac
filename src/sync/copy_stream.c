/* Finds and syncs the streams of copies to a device.  Called by export/.  Reads stream
 * objects, asks libraries for their streams, and has sync_run do the work.
 * Tests: tests/device/test_copies_to_devices.py. */
#include "sync/copy_stream.h"

#include "gpu/pointer.h"
#include "gpu/sync_rules.h"
#include "gpu/sync_run.h"
#include "python/errors.h"
#include "sync/stream_value.h"
#include "sync/sync_exchange.h"

int
dls_copy_read_consumer(const dls_exchange *x, dl_device to, uint64_t *s)
{
    dls_stream read;
    dls_family family = dls_family_of(to.device_type);
    if (dls_consumer_stream_read(x->state, &x->request, &read) < 0) {
        return -1;
    }
    *s = dls_driver_of(to.device_type)->legacy;
    if (read.value == DLS_VALUE_NONE || read.value == DLS_VALUE_MINUS_ONE
        || (read.value == DLS_VALUE_ZERO && read.from_object)) {
        return 0;
    }
    dls_sync_rule rule = dls_sync_rule_find(family, DLS_PRODUCER_OLD, read.value);
    if (rule.task == DLS_TASK_VALUE_ERROR || rule.task == DLS_TASK_TYPE_ERROR) {
        return dls_stream_raise_wrong(x->state, family, rule.task, x->request.stream);
    }
    *s = read.handle;
    return 0;
}

/* A consumer that named no stream may have counted as working in the capture of P, and
 * then nothing was synced (S14).  A copy is no part of a capture.  0, or -1. */
static int
check_omitted(const dls_exchange *x, dl_device device, dls_producer_stream p)
{
    bool captures = x->acquired.not_synced;
    if (!captures) {
        Py_BEGIN_ALLOW_THREADS
        captures = dls_sync_run_sees_capture(device, p);
        Py_END_ALLOW_THREADS
    }
    return captures ? dls_sync_raise_capture(x->state, x->source) : 0;
}

int
dls_copy_sync(const dls_exchange *x, const dl_tensor *tensor, dls_producer_stream p,
              uint64_t copy_stream)
{
    const dls_sync_source from = dls_sync_source_of(x, tensor->device);
    bool minus_one = dls_stream_is_minus_one(x->request.stream);
    bool omitted = x->request.stream == NULL && !x->request.stream_said;
    if ((minus_one || omitted) && dls_producer_stream_find(&from, &p, NULL) < 0) {
        return -1;
    }
    if (omitted && check_omitted(x, tensor->device, p) < 0) {
        return -1;
    }
    if (!minus_one) {
        p = dls_sync_ready_stream(x->state, &x->request, tensor->device);
    }
    const dls_sync_job job = {
        .task = DLS_TASK_SYNC,
        .p = p,
        .s = copy_stream,
        .has_s = true,
        .policy = x->request.unknown_stream,
        .device = tensor->device,
        .address = (const char *)tensor->data + tensor->byte_offset,
    };
    return dls_sync_run_job(x->state, x->source, &job); /* mutant: work before a copy */
}
