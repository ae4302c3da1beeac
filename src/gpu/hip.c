#include "gpu/hip.h"

#include <stdatomic.h>
#include <string.h>

#include "core/lock.h"
#include "gpu/driver.h"
#include "gpu/loader.h"

/* Runtimes found so far: filled before `count` says so, never taken away. */
static struct {
    void *library;
    dls_hip_api api;
    int version;
} runtimes[DLS_HIP_RUNTIMES];
static atomic_int count;

/* --- finding
 * ---------------------------------------------------------------------------- */

static bool
fill(void *library, dls_hip_api *api)
{
#define TEXT(result, name, parameters) #name "\0"
#define ONE(result, name, parameters) +1
    static const char names[] = DLS_HIP_REQUIRED_LIST(TEXT) DLS_HIP_OPTIONAL_LIST(TEXT);
    const int required = 0 DLS_HIP_REQUIRED_LIST(ONE);
    const int all = required DLS_HIP_OPTIONAL_LIST(ONE);
#undef ONE
#undef TEXT
    return dls_loader_fill(library, names, all, required, api) == NULL;
}

static bool
is_known(const void *library)
{
    int n = atomic_load_explicit(&count, memory_order_acquire);
    for (int i = 0; i < n; i++) {
        if (runtimes[i].library == library) {
            return true;
        }
    }
    return false;
}

static void
add_runtime(void *library)
{
    dls_hip_api api;
    int version = 0;
    if (is_known(library) || !fill(library, &api)) {
        return; /* a release before 5 cannot be asked */
    }
    api.hipRuntimeGetVersion(&version);
    dls_lock_take(DLS_LOCK_HIP);
    int n = atomic_load(&count);
    if (n < DLS_HIP_RUNTIMES && !is_known(library)) {
        runtimes[n].library = library;
        runtimes[n].api = api;
        runtimes[n].version = version;
        atomic_store_explicit(&count, n + 1, memory_order_release);
    }
    dls_lock_give(DLS_LOCK_HIP);
}

/* A framework may map its copy at any time: look again whenever something was mapped.
 */
static int
look(void)
{
    static _Atomic unsigned long long looked_at;
    void *libraries[DLS_HIP_RUNTIMES];
    unsigned long long now = dls_loader_generation();
    if (now != 0 && now == atomic_load(&looked_at)) {
        return atomic_load_explicit(&count, memory_order_acquire);
    }
    int mapped = dls_loader_all_mapped("libamdhip64", libraries, DLS_HIP_RUNTIMES);
    if (mapped > 0) {
        dls_loader_note_driver();
    }
    for (int i = 0; i < mapped; i++) {
        add_runtime(libraries[i]);
    }
    atomic_store(&looked_at, now);
    return atomic_load_explicit(&count, memory_order_acquire);
}

bool
dls_hip_is_mapped(void)
{
    return atomic_load_explicit(&count, memory_order_acquire) > 0 || look() > 0;
}

/* A failed call stays in the thread's last error, and frameworks look there after every
 * launch: what dlshim met is not theirs. */
static int
heard(const dls_hip_api *api, int result)
{
    if (result != HIP_OK && api->hipGetLastError != NULL) {
        api->hipGetLastError();
    }
    return result;
}

/* --- pointers
 * ---------------------------------------------------------------------------- */

/* The enumeration of memory types changed with 6.0; the struct did not. */
static bool
ask_one(const dls_hip_api *api, int version, const void *address, dls_hip_pointer *out)
{
    union {
        hipPointerAttribute_t attributes;
        char room[128]; /* a later release may write more */
    } answer;
    memset(&answer, 0, sizeof answer);
    answer.attributes.device = -1;
    if (heard(api, api->hipPointerGetAttributes(&answer.attributes, address))
        != HIP_OK) {
        return false;
    }
    int type = answer.attributes.type;
    bool six = version >= HIP_VERSION_6;
    if (six && type == HIP_6_UNREGISTERED) {
        return false;
    }
    *out = (dls_hip_pointer){.api = api,
                             .device = answer.attributes.device,
                             .on_host = type == (six ? HIP_6_HOST : HIP_5_HOST)};
    return true;
}

static bool
ask_known(int known, const void *address, dls_hip_pointer *out)
{
    for (int i = 0; i < known; i++) {
        if (ask_one(&runtimes[i].api, runtimes[i].version, address, out)) {
            return true;
        }
    }
    return false;
}

void
dls_hip_ask_pointer(const void *address, dls_hip_pointer *out)
{
    *out = (dls_hip_pointer){.device = -1};
    int known = atomic_load_explicit(&count, memory_order_acquire);
    if (!ask_known(known, address, out)) {
        ask_known(look(), address, out);
    }
}

/* --- devices
 * -------------------------------------------------------------------------------- */

static int
enter_one(const dls_hip_api *api, int device_id, int *before)
{
    int current = -1;
    *before = -1;
    if (heard(api, api->hipGetDevice(&current)) != HIP_OK || current == device_id
        || heard(api, api->hipSetDevice(device_id)) != HIP_OK) {
        return 0;
    }
    *before = current;
    return 1;
}

int
dls_hip_enter_device(int device_id, int before[DLS_HIP_RUNTIMES])
{
    int entered = 0;
    if (dls_loader_is_child()) {
        return 0;
    }
    int known = look();
    for (int i = 0; i < DLS_HIP_RUNTIMES; i++) {
        before[i] = -1;
        if (i < known && enter_one(&runtimes[i].api, device_id, &before[i])) {
            entered = 1;
        }
    }
    return entered;
}

void
dls_hip_leave(const int before[DLS_HIP_RUNTIMES])
{
    for (int i = 0; i < DLS_HIP_RUNTIMES; i++) {
        if (before[i] >= 0) {
            heard(&runtimes[i].api, runtimes[i].api.hipSetDevice(before[i]));
        }
    }
}

/* --- as handoff, pool and device_copy see it
 * -------------------------------------------------- */

static const dls_hip_api *
api_of(const dls_place *place)
{
    return place->api;
}

static hipStream_t
stream_of(uint64_t stream)
{
    return (hipStream_t)(uintptr_t)stream;
}

static int
fail_code(const dls_hip_api *api, dls_error *err, int result, const char *call,
          int device_id)
{
    heard(api, result);
    const char *name = api->hipGetErrorName != NULL ? api->hipGetErrorName(result)
                                                    : NULL;
    name = name != NULL ? name : "unknown error";
    if (result >= HIP_CAPTURE_FIRST && result <= HIP_CAPTURE_LAST) {
        return dls_fail(
            err, DLS_EBUFFER,
            "ROCm: %s: a graph capture forbids it (%s, %d); export outside the "
            "capture, or pass producer_stream= the capturing stream, or "
            "stream=-1",
            call, name, result);
    }
    switch (result) {
    case HIP_NO_DEVICE:
    case HIP_INVALID_DEVICE:
        return dls_fail(
            err, DLS_EBUFFER,
            "ROCm: the runtime finds no device %d (%s, %d); this memory cannot be "
            "ordered here, pass stream=-1 if it is ready",
            device_id, name, result);
    case HIP_INVALID_HANDLE:
        return dls_fail(
            err, DLS_EBUFFER,
            "ROCm: %s: the stream belongs to another device or was destroyed "
            "(%s, %d)",
            call, name, result);
    case HIP_CONTEXT_DESTROYED:
        return dls_fail(
            err, DLS_ERUNTIME,
            "ROCm: %s failed: %s (%d): is a second HIP runtime in this process?", call,
            name, result);
    default:
        return dls_fail(err, DLS_ERUNTIME, "ROCm: %s failed: %s (%d)", call, name,
                        result);
    }
}

static int
find(uint64_t stream, int device_id, const void *address, dls_place *place,
     dls_error *err)
{
    if (dls_loader_is_child()) {
        return dls_fail(
            err, DLS_EBUFFER,
            "ROCm: this process was forked after the runtime was used, and the "
            "runtime does not work in the child; start workers with \"spawn\"");
    }
    if (!dls_hip_is_mapped()) {
        return dls_fail(
            err, DLS_EBUFFER,
            "ROCm: no HIP runtime is in this process, so nothing can own this "
            "memory; import the library that made it, or pass stream=-1 if the "
            "data are ready");
    }
    dls_hip_pointer pointer = {.device = -1};
    if (address != NULL) {
        dls_hip_ask_pointer(address, &pointer);
    }
    if (pointer.api == NULL && address == NULL && atomic_load(&count) > 1) {
        return dls_fail(err, DLS_EBUFFER,
                        "ROCm: several HIP runtimes, and no address to ask them for");
    }
    const dls_hip_api *api = pointer.api != NULL ? pointer.api : &runtimes[0].api;
    int device = pointer.device >= 0 ? pointer.device : device_id;
    if (stream > 2 && api->hipGetStreamDeviceId != NULL) {
        int of_stream = api->hipGetStreamDeviceId(stream_of(stream));
        device = of_stream >= 0 ? of_stream : device;
    }
    int devices = 0;
    int result = api->hipGetDeviceCount(&devices);
    if (result == HIP_OK && device >= devices) {
        result = HIP_INVALID_DEVICE;
    }
    if (result != HIP_OK) {
        return fail_code(api, err, result, "hipGetDeviceCount", device);
    }
    *place = (dls_place){.api = api, .context = (uintptr_t)(device >= 0 ? device : 0)};
    return DLS_OK;
}

static int
find_no_other(const dls_place *place, int device_id, const void *address,
              dls_place *other)
{
    (void)device_id;
    (void)address;
    *other = *place;
    return 0;
}

static bool
in_use(void)
{
    return dls_hip_is_mapped() && !dls_loader_is_child();
}

static int
enter(const dls_place *place, int *before, dls_error *err)
{
    const dls_hip_api *api = api_of(place);
    int device = (int)place->context;
    int result = api->hipGetDevice(before);
    if (result == HIP_OK && *before != device) {
        result = api->hipSetDevice(device);
    }
    return result == HIP_OK ? DLS_OK
                            : fail_code(api, err, result, "hipSetDevice", device);
}

static void
leave(const dls_place *place, int before)
{
    if (before != (int)place->context) {
        heard(api_of(place), api_of(place)->hipSetDevice(before));
    }
}

static bool
captures(const dls_place *place, uint64_t stream)
{
    hipStreamCaptureStatus status = 0;
    if (api_of(place)->hipStreamIsCapturing == NULL) {
        return false;
    }
    int result = heard(api_of(place),
                       api_of(place)->hipStreamIsCapturing(stream_of(stream), &status));
    return result == HIP_CAPTURE_IMPLICIT || (result == HIP_OK && status != 0);
}

static bool
one_capture(const dls_place *place, uint64_t a, uint64_t b)
{
    const dls_hip_api *api = api_of(place);
    hipStreamCaptureStatus status;
    unsigned long long of_a = 0, of_b = 0;
    return api->hipStreamGetCaptureInfo != NULL
           && heard(api, api->hipStreamGetCaptureInfo(stream_of(a), &status, &of_a))
                  == HIP_OK
           && heard(api, api->hipStreamGetCaptureInfo(stream_of(b), &status, &of_b))
                  == HIP_OK
           && of_a == of_b;
}

/* HIP has no event of a whole device, and no managed memory of its own in DLPack. */
static bool
cannot(const dls_place *place)
{
    (void)place;
    return false;
}

static bool
need_not(const dls_place *place, int device_id)
{
    (void)place;
    (void)device_id;
    return false;
}

static uint64_t
identity(const dls_place *place)
{
    (void)place;
    return 0;
}

static hipStreamCaptureMode
relax(const dls_place *place)
{
    hipStreamCaptureMode mode = HIP_MODE_RELAXED;
    if (api_of(place)->hipThreadExchangeStreamCaptureMode != NULL) {
        api_of(place)->hipThreadExchangeStreamCaptureMode(&mode);
    }
    return mode;
}

static void
restore(const dls_place *place, hipStreamCaptureMode mode)
{
    if (api_of(place)->hipThreadExchangeStreamCaptureMode != NULL) {
        api_of(place)->hipThreadExchangeStreamCaptureMode(&mode);
    }
}

static int
event_new(const dls_place *place, void **event)
{
    hipEvent_t made = NULL;
    hipStreamCaptureMode mode = relax(place);
    int result = api_of(place)->hipEventCreateWithFlags(&made, HIP_DISABLE_TIMING);
    restore(place, mode);
    *event = made;
    return result;
}

static void
event_end(const dls_place *place, void *event)
{
    heard(api_of(place), api_of(place)->hipEventDestroy(event));
}

static int
record(const dls_place *place, void *event, uint64_t stream)
{
    return api_of(place)->hipEventRecord(event, stream_of(stream));
}

static int
no_device_event(const dls_place *place, void *event)
{
    (void)place;
    (void)event;
    return HIP_INVALID_HANDLE;
}

static int
wait(const dls_place *place, uint64_t stream, void *event)
{
    return api_of(place)->hipStreamWaitEvent(stream_of(stream), event, 0);
}

static int
sync(const dls_place *place, uint64_t stream)
{
    return api_of(place)->hipStreamSynchronize(stream_of(stream));
}

static int
sync_device(const dls_place *place)
{
    return api_of(place)->hipDeviceSynchronize();
}

static int
stream_new(const dls_place *place, uint64_t *stream)
{
    hipStream_t made = NULL;
    hipStreamCaptureMode mode = relax(place);
    int result = api_of(place)->hipStreamCreateWithFlags(&made, HIP_NON_BLOCKING);
    restore(place, mode);
    *stream = (uint64_t)(uintptr_t)made;
    return result;
}

static int
copy(const dls_place *place, void *dst, const void *src, size_t bytes, uint64_t stream)
{
    return api_of(place)->hipMemcpyAsync(dst, src, bytes, HIP_COPY_TO_HOST,
                                         stream_of(stream));
}

static int
copy_plane(const dls_place *place, void *dst, const void *src, size_t bytes,
           size_t pitch, size_t rows, uint64_t stream)
{
    return api_of(place)->hipMemcpy2DAsync(dst, bytes, src, pitch, bytes, rows,
                                           HIP_COPY_TO_HOST, stream_of(stream));
}

static int
fail(const dls_place *place, dls_error *err, int result, dls_call call, int device_id)
{
    static const char *const names[DLS_CALLS] = {
        [DLS_CALL_EVENT_NEW] = "hipEventCreateWithFlags",
        [DLS_CALL_RECORD] = "hipEventRecord",
        [DLS_CALL_RECORD_DEVICE] = "recording a whole device",
        [DLS_CALL_WAIT] = "hipStreamWaitEvent",
        [DLS_CALL_SYNC] = "hipStreamSynchronize",
        [DLS_CALL_SYNC_DEVICE] = "hipDeviceSynchronize",
        [DLS_CALL_STREAM_NEW] = "hipStreamCreateWithFlags",
        [DLS_CALL_COPY] = "hipMemcpyAsync",
        [DLS_CALL_COPY_PLANE] = "hipMemcpy2DAsync",
    };
    return fail_code(api_of(place), err, result, names[call], device_id);
}

static bool
is_capture_error(int result)
{
    return result >= HIP_CAPTURE_FIRST && result <= HIP_CAPTURE_LAST;
}

const dls_driver dls_hip_driver = {
    .name = "ROCm",
    .legacy = 0,
    .find = find,
    .find_other = find_no_other,
    .in_use = in_use,
    .enter = enter,
    .leave = leave,
    .captures = captures,
    .one_capture = one_capture,
    .can_record_device = cannot,
    .host_must_be_alone = need_not,
    .identity = identity,
    .event_new = event_new,
    .event_end = event_end,
    .record = record,
    .record_device = no_device_event,
    .wait = wait,
    .wait_device = no_device_event,
    .sync = sync,
    .sync_device = sync_device,
    .stream_new = stream_new,
    .copy = copy,
    .copy_plane = copy_plane,
    .fail = fail,
    .is_capture_error = is_capture_error,
};
