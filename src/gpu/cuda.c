/* CUDA as handoff, pool and device_copy see it. */
#include "gpu/driver.h"
#include "gpu/pointer.h"

static const dls_cuda_api *
api_of(const dls_place *place)
{
    return place->api;
}

static CUcontext
context_of(const dls_place *place)
{
    return (CUcontext)place->context;
}

static int
find(uint64_t stream, int device_id, const void *address, dls_place *place,
     dls_error *err)
{
    const dls_cuda_api *api;
    CUcontext context;
    bool guessed;
    int code = dls_cuda_load(&api, err);
    if (code == DLS_OK) {
        code = dls_cuda_context(api, stream, device_id, address, &context, &guessed,
                                err);
    }
    if (code == DLS_OK) {
        *place = (dls_place){api, (uintptr_t)context, guessed};
    }
    return code;
}

static int
find_other(const dls_place *place, int device_id, const void *address, dls_place *other)
{
    const dls_cuda_api *api = api_of(place);
    CUcontext context = NULL;
    if (place->guessed) {
        context = dls_cuda_other_context(api, context_of(place), device_id, address);
    }
    *other = (dls_place){.api = api, .context = (uintptr_t)context};
    return context != NULL;
}

static bool
in_use(void)
{
    return dls_cuda_if_mapped() != NULL;
}

static int
enter(const dls_place *place, int *before, dls_error *err)
{
    *before = 0; /* the driver keeps a stack */
    return dls_cuda_push(api_of(place), context_of(place), err);
}

static void
leave(const dls_place *place, int before)
{
    (void)before;
    dls_cuda_pop(api_of(place));
}

/* L answers 906 while a blocking stream of its context captures, without harm to the
 * capture. */
static bool
captures(const dls_place *place, uint64_t stream)
{
    const dls_cuda_api *api = api_of(place);
    CUstreamCaptureStatus status = 0;
    if (api->cuStreamIsCapturing == NULL) {
        return false;
    }
    int result = api->cuStreamIsCapturing(dls_cuda_stream(stream), &status);
    return result == CU_CAPTURE_IMPLICIT || (result == CU_OK && status != 0);
}

static bool
one_capture(const dls_place *place, uint64_t a, uint64_t b)
{
    const dls_cuda_api *api = api_of(place);
    CUstreamCaptureStatus status;
    cuuint64_t of_a = 0, of_b = 0;
    return api->cuStreamGetCaptureInfo != NULL
           && api->cuStreamGetCaptureInfo(dls_cuda_stream(a), &status, &of_a) == CU_OK
           && api->cuStreamGetCaptureInfo(dls_cuda_stream(b), &status, &of_b) == CU_OK
           && of_a == of_b;
}

static bool
can_record_device(const dls_place *place)
{
    return api_of(place)->cuCtxRecordEvent != NULL
           && api_of(place)->cuCtxWaitEvent != NULL;
}

static bool
host_must_be_alone(const dls_place *place, int device_id)
{
    return !dls_cuda_concurrent_managed(api_of(place), device_id);
}

static uint64_t
identity(const dls_place *place)
{
    unsigned long long id = 0;
    const dls_cuda_api *api = api_of(place);
    bool told = api->cuCtxGetId != NULL
                && api->cuCtxGetId(context_of(place), &id) == CU_OK;
    return told ? id : 0;
}

/* Events and streams are made in the mode that captures of other threads bear. */
static int
event_new(const dls_place *place, void **event)
{
    CUevent made = NULL;
    CUstreamCaptureMode mode = dls_cuda_relax(api_of(place));
    int result = api_of(place)->cuEventCreate(&made, CU_DISABLE_TIMING);
    dls_cuda_restore(api_of(place), mode);
    *event = made;
    return result;
}

static void
event_end(const dls_place *place, void *event)
{
    api_of(place)->cuEventDestroy_v2(event);
}

static int
record(const dls_place *place, void *event, uint64_t stream)
{
    return api_of(place)->cuEventRecord(event, dls_cuda_stream(stream));
}

static int
record_device(const dls_place *place, void *event)
{
    return api_of(place)->cuCtxRecordEvent(context_of(place), event);
}

static int
wait(const dls_place *place, uint64_t stream, void *event)
{
    return api_of(place)->cuStreamWaitEvent(dls_cuda_stream(stream), event, 0);
}

static int
wait_device(const dls_place *place, void *event)
{
    return api_of(place)->cuCtxWaitEvent(context_of(place), event);
}

static int
sync(const dls_place *place, uint64_t stream)
{
    return api_of(place)->cuStreamSynchronize(dls_cuda_stream(stream));
}

static int
sync_device(const dls_place *place)
{
    return api_of(place)->cuCtxSynchronize();
}

static int
stream_new(const dls_place *place, uint64_t *stream)
{
    CUstream made = NULL;
    CUstreamCaptureMode mode = dls_cuda_relax(api_of(place));
    int result = api_of(place)->cuStreamCreate(&made, CU_NON_BLOCKING);
    dls_cuda_restore(api_of(place), mode);
    *stream = (uint64_t)(uintptr_t)made;
    return result;
}

static int
copy(const dls_place *place, void *dst, const void *src, size_t bytes, uint64_t stream)
{
    return api_of(place)->cuMemcpyDtoHAsync_v2(dst, (CUdeviceptr)(uintptr_t)src, bytes,
                                               dls_cuda_stream(stream));
}

static int
copy_plane(const dls_place *place, void *dst, const void *src, size_t bytes,
           size_t pitch, size_t rows, uint64_t stream)
{
    const CUDA_MEMCPY2D what = {
        .srcMemoryType = CU_TYPE_DEVICE,
        .srcDevice = (CUdeviceptr)(uintptr_t)src,
        .srcPitch = pitch,
        .dstMemoryType = CU_TYPE_HOST,
        .dstHost = dst,
        .dstPitch = bytes,
        .WidthInBytes = bytes,
        .Height = rows,
    };
    return api_of(place)->cuMemcpy2DAsync_v2(&what, dls_cuda_stream(stream));
}

static int
fail(const dls_place *place, dls_error *err, int result, dls_call call, int device_id)
{
    static const char *const names[DLS_CALLS] = {
        [DLS_CALL_EVENT_NEW] = "cuEventCreate",
        [DLS_CALL_RECORD] = "cuEventRecord",
        [DLS_CALL_RECORD_DEVICE] = "cuCtxRecordEvent",
        [DLS_CALL_WAIT] = "cuStreamWaitEvent",
        [DLS_CALL_SYNC] = "cuStreamSynchronize",
        [DLS_CALL_SYNC_DEVICE] = "cuCtxSynchronize",
        [DLS_CALL_STREAM_NEW] = "cuStreamCreate",
        [DLS_CALL_COPY] = "cuMemcpyDtoHAsync",
        [DLS_CALL_COPY_PLANE] = "cuMemcpy2DAsync",
    };
    return dls_cuda_fail(api_of(place), err, result, names[call], device_id);
}

static bool
is_capture_error(int result)
{
    return result >= CU_CAPTURE_FIRST && result <= CU_CAPTURE_LAST;
}

const dls_driver dls_cuda_driver = {
    .name = "CUDA",
    .legacy = 1,
    .find = find,
    .find_other = find_other,
    .in_use = in_use,
    .enter = enter,
    .leave = leave,
    .captures = captures,
    .one_capture = one_capture,
    .can_record_device = can_record_device,
    .host_must_be_alone = host_must_be_alone,
    .identity = identity,
    .event_new = event_new,
    .event_end = event_end,
    .record = record,
    .record_device = record_device,
    .wait = wait,
    .wait_device = wait_device,
    .sync = sync,
    .sync_device = sync_device,
    .stream_new = stream_new,
    .copy = copy,
    .copy_plane = copy_plane,
    .fail = fail,
    .is_capture_error = is_capture_error,
};
