/* Coming in and going out of a fake libamdhip64: rules of every call, devices, handles. */
#include "hip.h"

#include <string.h>

static int runtime_version = FAKE_VERSION;

/* ---- the current device ---- */

static unsigned generation = 1;
static _Thread_local struct {
    unsigned generation;
    int device;
    int last_error;
} current;

static int device_now(void)
{
    if (current.generation != generation) {
        current.generation = generation;
        current.device = current.last_error = 0;
    }
    return current.device;
}

static fm_domain *domains[DEVICES]; /* NULL until it is used */

fm_domain *front_domain_of(int device)
{
    if (device < 0 || device >= DEVICES)
        return NULL;
    if (!domains[device])
        domains[device] = fm_domain_new(device, false);
    return domains[device];
}

fm_domain *current_device(void)
{
    return front_domain_of(device_now());
}

/* ---- a call ---- */

const char *const front_home = "dev";

unsigned front_home_now(void)
{
    return (unsigned)device_now();
}

void front_left(const call *made, int rc)
{
    bool real = rc != OK && rc != NOT_READY;
    if (!(made->rules & APART) && (MAJOR < 7 || real))
        current.last_error = rc;
}

int call_refused(const call *made, unsigned rules)
{
    int forced;
    if (fm_forced(made->name, &forced))
        return forced;
    if (rules & EARLY)
        return OK;
#ifdef FAKE_NODEV
    return FAKE_NODEV;
#else
    fm_claim_process(); /* any call starts the runtime */
    return OK;
#endif
}

/* ---- starting ---- */

int front_start(void)
{
#ifdef FAKE_NODEV
    return FAKE_NODEV;
#else
    fm_claim_process();
    for (int device = 0; device < DEVICES; device++)
        front_domain_of(device);
    return OK;
#endif
}

void front_reset(bool hard)
{
    runtime_version = FAKE_VERSION;
    current.device = current.last_error = 0;
    if (hard) {
        generation++;
        memset(domains, 0, sizeof domains); /* the model ended them */
        fm_disclaim_process();
    }
}

int front_option(const char *name, int value)
{
    if (strcmp(name, "not_ready") == 0) {
        fm_set_not_ready((unsigned)value);
        return 0;
    }
    if (strcmp(name, "runtime_version") != 0)
        fm_die("no option %s", name);
    int before = runtime_version;
    runtime_version = value;
    return before;
}

/* ---- devices, versions, names of errors ---- */

FM_EXPORT hipError_t hipInit(unsigned int flags)
{
    ENTER(0, "flags=%u", flags);
    LEAVE(flags ? INVALID_VALUE : OK);
}

FM_EXPORT hipError_t hipRuntimeGetVersion(int *version)
{
    ENTER(EARLY, "%s", "");
    *version = runtime_version;
    LEAVE(OK);
}

FM_EXPORT hipError_t hipDriverGetVersion(int *version)
{
    ENTER(EARLY, "%s", "");
    *version = runtime_version;
    LEAVE(OK);
}

FM_EXPORT hipError_t hipGetDeviceCount(int *count)
{
    ENTER(EARLY, "%s", "");
#ifdef FAKE_NODEV
    *count = 0;
    LEAVE(NO_DEVICE); /* in every release */
#else
    *count = DEVICES;
    LEAVE(OK);
#endif
}

FM_EXPORT hipError_t hipGetDevice(int *device)
{
    ENTER(0, "%s", "");
    *device = device_now();
    LEAVE(OK);
}

FM_EXPORT hipError_t hipSetDevice(int device)
{
    ENTER(0, "set=%d", device);
    LEAVE_IF(!front_domain_of(device), INVALID_DEVICE);
    current.device = device;
    LEAVE(OK);
}

FM_EXPORT hipError_t hipDeviceSynchronize(void)
{
    ENTER(BLOCKS, "%s", "");
    LEAVE(front_error(fm_domain_sync(current_device())));
}

static const char *name_of(int error)
{
    static const struct {
        int error;
        const char *name;
    } names[] = {
        {OK, "hipSuccess"},
        {INVALID_VALUE, "hipErrorInvalidValue"},
        {2, "hipErrorOutOfMemory"},
        {3, "hipErrorNotInitialized"},
        {4, "hipErrorDeinitialized"},
        {NO_DEVICE, "hipErrorNoDevice"},
        {INVALID_DEVICE, "hipErrorInvalidDevice"},
        {201, "hipErrorInvalidContext"},
        {INVALID_HANDLE, "hipErrorInvalidHandle"},
        {NOT_READY, "hipErrorNotReady"},
        {700, "hipErrorIllegalAddress"},
        {CONTEXT_IS_DESTROYED, "hipErrorContextIsDestroyed"},
        {719, "hipErrorLaunchFailure"},
        {801, "hipErrorNotSupported"},
        {900, "hipErrorStreamCaptureUnsupported"},
        {901, "hipErrorStreamCaptureInvalidated"},
        {902, "hipErrorStreamCaptureMerge"},
        {903, "hipErrorStreamCaptureUnmatched"},
        {904, "hipErrorStreamCaptureUnjoined"},
        {905, "hipErrorStreamCaptureIsolation"},
        {906, "hipErrorStreamCaptureImplicit"},
        {907, "hipErrorCapturedEvent"},
        {908, "hipErrorStreamCaptureWrongThread"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].error == error)
            return names[i].name;
    return "hipErrorUnknown";
}

/* Unlike CUDA's: they return the text. */
FM_EXPORT const char *hipGetErrorName(hipError_t error)
{
    OPEN(EARLY | APART, "error=%d", (int)error);
    call_leave(&this_call, OK);
    return name_of((int)error);
}

FM_EXPORT const char *hipGetErrorString(hipError_t error)
{
    OPEN(EARLY | APART, "error=%d", (int)error);
    call_leave(&this_call, OK);
    return "an error of the fake runtime";
}

static int take_error(bool clear)
{
    int error = current.last_error;
    if (clear)
        current.last_error = OK;
    return error;
}

/* What they return is no failure of theirs. */
static hipError_t tell_error(const char *name, bool clear)
{
    call made;
    call_open(&made, name, EARLY | APART);
    int error = take_error(clear);
    call_note(&made, "told=%d", error);
    call_leave(&made, OK);
    return (hipError_t)error;
}

FM_EXPORT hipError_t hipGetLastError(void)
{
    return tell_error(__func__, true);
}

FM_EXPORT hipError_t hipPeekAtLastError(void)
{
    return tell_error(__func__, false);
}

/* ---- handles ---- */

/* Those of one release mean nothing to another: two runtimes may be mapped. */
static const uintptr_t DEVICE_HANDLES = 0x7d0000000000 + MAJOR * 0x10000000000,
                       STREAMS = 0x7d2000000000 + MAJOR * 0x10000000000,
                       EVENTS = 0x7d3000000000 + MAJOR * 0x10000000000;

hipStream_t stream_handle(const fm_stream *stream)
{
    return (hipStream_t)cookie(STREAMS, stream->number);
}

hipEvent_t event_handle(const fm_event *event)
{
    return (hipEvent_t)cookie(EVENTS, event->number);
}

uintptr_t front_domain_handle(const fm_domain *domain)
{
    return cookie(DEVICE_HANDLES, domain->number);
}

uintptr_t front_stream_handle(const fm_stream *stream)
{
    return (uintptr_t)stream_handle(stream);
}

fm_domain *front_domain(uintptr_t handle)
{
    fm_domain *domain = fm_domain_at(number_of(DEVICE_HANDLES, handle));
    if (!domain)
        fm_die("unknown device %#lx", (unsigned long)handle);
    return domain;
}

/* hipStreamLegacy came with 6.3; before, 1 is a wild pointer. */
static bool is_reserved(uintptr_t handle)
{
    return handle == 0 || handle == 2 || (handle == 1 && FAKE_VERSION >= 60300000);
}

static fm_stream *reserved(uintptr_t handle, fm_domain *domain)
{
    return handle == 2 ? fm_stream_per_thread(domain) : domain->legacy;
}

fm_stream *front_stream(uintptr_t handle, fm_domain *domain)
{
    if (is_reserved(handle)) {
        if (!domain)
            fm_die("the stream %lu needs a device", (unsigned long)handle);
        return reserved(handle, domain);
    }
    fm_stream *stream = fm_stream_at(number_of(STREAMS, handle));
    if (!stream || !stream->alive)
        fm_die("%s stream %#lx", stream ? "destroyed" : "unknown", (unsigned long)handle);
    return stream;
}

int find_stream(hipStream_t handle, fm_stream **stream)
{
    uintptr_t value = (uintptr_t)handle;
    if (is_reserved(value)) {
        *stream = reserved(value, current_device());
        return OK;
    }
    *stream = fm_stream_at(number_of(STREAMS, value));
    if (*stream && (*stream)->alive)
        return OK;
    if (MAJOR >= 7)
        fm_die("%s stream %#lx: HIP 7 crashes", *stream ? "destroyed" : "unknown",
               (unsigned long)value);
    return CONTEXT_IS_DESTROYED;
}

int find_event(hipEvent_t handle, fm_event **event)
{
    if (!handle)
        return INVALID_HANDLE;
    *event = event_to_end(handle);
    if (!(*event)->alive)
        fm_die("destroyed event %p", (void *)handle);
    return OK;
}

fm_event *event_to_end(hipEvent_t handle)
{
    fm_event *event = fm_event_at(number_of(EVENTS, (uintptr_t)handle));
    if (!event)
        fm_die("unknown event %p", (void *)handle);
    return event;
}

label stream_label(hipStream_t handle)
{
    static const char *const names[] = {"0", "1", "PTDS"};
    uintptr_t value = (uintptr_t)handle;
    return label_of_stream(value, number_of(STREAMS, value), names);
}

label event_label(hipEvent_t handle)
{
    unsigned number = number_of(EVENTS, (uintptr_t)handle);
    return label_of((uintptr_t)handle, number, fm_event_at(number));
}

/* ---- what only tests call ---- */

FM_EXPORT int fake_current_device(void);
FM_EXPORT void fake_set_device(int device);
FM_EXPORT int fake_last_error(void);

int fake_current_device(void)
{
    return device_now();
}

void fake_set_device(int device)
{
    device_now();
    current.device = device;
}

int fake_last_error(void)
{
    device_now();
    return current.last_error;
}
