#include "device/handoff.h"

#include "device/cuda.h"
#include "device/pool.h"
#include "device/stream.h"

/* One ordering in progress.  home: the context of the memory, or of P when it says so. */
typedef struct {
    const dls_cuda_api *api;
    const dls_ordering *what;
    uint64_t p;
    CUcontext home;
    bool home_of_memory;
    dls_error *err;
} handoff;

static int
refuse(dls_action action, dls_error *err)
{
    switch (action) {
    case DLS_ACTION_REFUSE_CAPTURE:
        return dls_fail(err, DLS_EBUFFER,
                        "a graph capture is running, and ordering the export would break "
                        "it; export outside the capture, or say producer_stream= the "
                        "capturing stream, or pass stream=-1");
    case DLS_ACTION_REFUSE_UNKNOWN:
        return dls_fail(err, DLS_EBUFFER,
                        "the stream with the producer's pending work is not known, and "
                        "unknown_stream=\"error\" was asked for; give producer_stream=, or "
                        "pass stream=-1");
    default:
        return dls_fail(err, DLS_EBUFFER,
                        "its producer takes no stream, so its pending work cannot be "
                        "ordered on this device; synchronise it and pass stream=-1");
    }
}

/* Is the stream capturing?  L answers 906 while a blocking stream of its context does,
 * without harm to the capture.  The stream's context is current if it has no handle. */
static bool
captures(const handoff *h, uint64_t stream)
{
    CUstreamCaptureStatus status = 0;
    if (h->api->cuStreamIsCapturing == NULL) {
        return false;
    }
    int result = h->api->cuStreamIsCapturing(dls_cuda_stream(stream), &status);
    return result == CU_CAPTURE_IMPLICIT || (result == CU_OK && status != 0);
}

static bool
same_capture(const handoff *h)
{
    CUstreamCaptureStatus status;
    cuuint64_t a = 0, b = 0;
    return h->api->cuStreamGetCaptureInfo != NULL
           && h->api->cuStreamGetCaptureInfo(dls_cuda_stream(h->p), &status, &a) == CU_OK
           && h->api->cuStreamGetCaptureInfo(dls_cuda_stream(h->what->s), &status, &b) == CU_OK
           && a == b;
}

/* h->home is current. */
static void
ask_facts(const handoff *h, dls_action action, dls_order_facts *facts)
{
    bool of_device = action == DLS_ACTION_DEVICE_EDGE || action == DLS_ACTION_SYNC_DEVICE;
    bool to_s = action != DLS_ACTION_SYNC_STREAM && h->what->s != 0;
    facts->can_record_device = h->api->cuCtxRecordEvent != NULL;
    facts->s_captures = to_s && captures(h, h->what->s);
    facts->p_captures = !of_device && captures(h, h->p);
    facts->device_captures = of_device && captures(h, 1);
    facts->one_capture = facts->s_captures && facts->p_captures && same_capture(h);
    if (h->what->duty == DLS_DUTY_WAIT || h->what->duty == DLS_DUTY_WAIT_L) {
        facts->host_must_be_alone = !dls_cuda_concurrent_managed(h->api, h->what->device_id);
    }
}

/* S waits for the event; special handles mean "of the current context". */
static int
wait_event(const handoff *h, CUevent event)
{
    CUcontext context = h->home;
    uint64_t s = h->what->s;
    if (s <= 2 && !h->home_of_memory) {
        int found = dls_cuda_context(h->api, s, h->what->device_id, h->what->address, &context,
                                     h->err);
        if (found != DLS_OK) {
            return found;
        }
    }
    bool other = context != h->home;
    if (other && dls_cuda_push(h->api, context, h->err) != DLS_OK) {
        return h->err->code;
    }
    int result = h->api->cuStreamWaitEvent(dls_cuda_stream(s), event, 0);
    if (other) {
        dls_cuda_pop(h->api);
    }
    return result == CU_OK ? DLS_OK
                           : dls_cuda_fail(h->api, h->err, result, "cuStreamWaitEvent",
                                           h->what->device_id);
}

/* Event after P, or after all of the context, and S waits.  h->home is current. */
static int
make_edge(const handoff *h, bool whole_device)
{
    CUevent event;
    int code = dls_pool_get_event(h->api, h->home, &event, h->err);
    if (code != DLS_OK) {
        return code;
    }
    int result = whole_device ? h->api->cuCtxRecordEvent(h->home, event)
                              : h->api->cuEventRecord(event, dls_cuda_stream(h->p));
    if (result != CU_OK) {
        code = dls_cuda_fail(h->api, h->err, result,
                             whole_device ? "cuCtxRecordEvent" : "cuEventRecord",
                             h->what->device_id);
    }
    else {
        code = wait_event(h, event);
    }
    dls_pool_put_event(h->api, h->home, event, code == DLS_OK);
    return code;
}

static int
carry_out(const handoff *h, dls_action action)
{
    int result;
    switch (action) {
    case DLS_ACTION_NOTHING:
        return DLS_OK;
    case DLS_ACTION_EDGE:
        return make_edge(h, false);
    case DLS_ACTION_DEVICE_EDGE:
        return make_edge(h, true);
    case DLS_ACTION_SYNC_STREAM:
        result = h->api->cuStreamSynchronize(dls_cuda_stream(h->p));
        break;
    case DLS_ACTION_SYNC_DEVICE:
        result = h->api->cuCtxSynchronize();
        break;
    default:
        return refuse(action, h->err);
    }
    return result == CU_OK ? DLS_OK
                           : dls_cuda_fail(h->api, h->err, result,
                                           action == DLS_ACTION_SYNC_STREAM
                                               ? "cuStreamSynchronize"
                                               : "cuCtxSynchronize",
                                           h->what->device_id);
}

static dls_action
without_driver(const dls_ordering *ordering)
{
    const dls_order_facts none = {0};
    return dls_order_settle(ordering, &none);
}

bool
dls_handoff_needs_driver(const dls_ordering *ordering)
{
    dls_action action = without_driver(ordering);
    return action >= DLS_ACTION_EDGE && action <= DLS_ACTION_SYNC_DEVICE;
}

DLS_COLD int
dls_handoff(const dls_ordering *ordering, dls_error *err)
{
    dls_action action = without_driver(ordering);
    if (!dls_handoff_needs_driver(ordering)) {
        return action == DLS_ACTION_NOTHING ? DLS_OK : refuse(action, err);
    }
    handoff h = {.what = ordering, .err = err};
    int code = dls_cuda_load(&h.api, err);
    if (code != DLS_OK) {
        return code;
    }
    dls_pending p = dls_order_pending(ordering);
    h.p = p.handle;
    /* Of the unknown stream no more is known than where the memory lies. */
    uint64_t at = p.known == DLS_P_KNOWN ? p.handle : 1;
    h.home_of_memory = at <= 2;
    code = dls_cuda_context(h.api, at, ordering->device_id, ordering->address, &h.home, err);
    if (code != DLS_OK || (code = dls_cuda_push(h.api, h.home, err)) != DLS_OK) {
        return code;
    }
    dls_order_facts facts = {0};
    ask_facts(&h, action, &facts);
    code = carry_out(&h, dls_order_settle(ordering, &facts));
    dls_cuda_pop(h.api);
    return code;
}

/* --- release (reference 8) --------------------------------------------------------------- */

int
dls_handoff_can_guard(dls_error *err)
{
    const dls_cuda_api *api;
    int code = dls_cuda_load(&api, err);
    if (code == DLS_OK && (api->cuCtxRecordEvent == NULL || api->cuCtxWaitEvent == NULL)) {
        code = dls_fail(err, DLS_EBUFFER,
                        "on_release=\"guard\" needs a driver of CUDA 12.5 or later; keep the "
                        "array until its streams have passed, and drop the option");
    }
    return code;
}

static bool
is_capture_error(int result)
{
    return result >= CU_CAPTURE_FIRST && result <= CU_CAPTURE_LAST;
}

bool
dls_handoff_guard(const dls_ordering *what)
{
    const dls_cuda_api *api = dls_cuda_if_mapped();
    CUcontext context;
    CUevent event;
    dls_error err;
    if (api == NULL
        || dls_cuda_context(api, 1, what->device_id, what->address, &context, &err) != DLS_OK
        || dls_cuda_push(api, context, &err) != DLS_OK) {
        return true;
    }
    const handoff h = {.api = api, .what = what, .home = context, .err = &err};
    int result = captures(&h, 1) ? CU_CAPTURE_FIRST : CU_OK;
    if (result == CU_OK && dls_pool_get_event(api, context, &event, &err) == DLS_OK) {
        result = api->cuCtxRecordEvent(context, event);
        if (result == CU_OK) {
            result = api->cuCtxWaitEvent(context, event);
        }
        dls_pool_put_event(api, context, event, result == CU_OK);
    }
    dls_cuda_pop(api);
    return !is_capture_error(result);
}
