#include "gpu/pointer.h"

#include <stdatomic.h>

#include "core/lock.h"
#include "gpu/loader.h"

static const char *const library_names[] = {
#if defined(_WIN32)
    "nvcuda.dll",
#else
    "libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1",
#endif
    NULL};

/* Written once, then only read: `ready` is set last.  `broken` keeps a lasting failure.
 */
static dls_cuda_api loaded;
static atomic_bool ready;
static atomic_bool broken;
static dls_error why_broken;

/* Primary contexts that we retained, by ordinal. */
#define DEVICES_KEPT 64
static _Atomic(CUcontext) primaries[DEVICES_KEPT];

/* --- loading ------------------------------------------------------------------------
 */

/* 0, or the first required name that the library lacks. */
static const char *
find_symbols(void *library, dls_cuda_api *api)
{
#define TEXT(name, parameters) #name "\0"
#define ONE(name, parameters) +1
    /* In the order of the members, all of which are function pointers. */
    static const char names[] = DLS_CUDA_REQUIRED_LIST(TEXT)
        DLS_CUDA_OPTIONAL_LIST(TEXT);
    const int required = 0 DLS_CUDA_REQUIRED_LIST(ONE);
    const int count = required DLS_CUDA_OPTIONAL_LIST(ONE);
#undef ONE
#undef TEXT
    return dls_loader_fill(library, names, count, required, api);
}

static int
fail_child(dls_error *err)
{
    return dls_fail(
        err, DLS_EBUFFER,
        "CUDA: this process was forked after the driver was started, and the "
        "driver does not work in the child; start workers with \"spawn\"");
}

static int
fail_start(dls_error *err, const dls_cuda_api *api, int result)
{
    switch (result) {
    case CU_STUB:
        return dls_fail(err, DLS_EBUFFER,
                        "CUDA: the libcuda that was found is the toolkit's stub, not a "
                        "driver (error 34); take its folder out of the library path");
    case CU_NO_DEVICE:
    case CU_INVALID_DEVICE:
        return dls_fail(
            err, DLS_EBUFFER,
            "CUDA: the driver finds no device (error %d); this memory cannot "
            "be ordered here, pass stream=-1 if it is ready",
            result);
    case CU_NOT_INITIALIZED: /* what cuInit says where the parent called it */
        return fail_child(err);
    default:
        return dls_cuda_fail(api, err, result, "cuInit", -1);
    }
}

/* Find, check and start the driver.  *lasting: the answer will not change. */
static int
start_driver(dls_cuda_api *api, dls_error *err, bool *lasting)
{
    *lasting = false;
    void *library = dls_loader_open(library_names);
    if (library == NULL) {
        return dls_fail(err, DLS_EBUFFER,
                        "CUDA: no driver (%s) can be loaded here; install it, or pass "
                        "stream=-1 if the data are ready",
                        library_names[0]);
    }
    dls_loader_note_driver();
    *lasting = true;
    const char *missing = find_symbols(library, api);
    if (missing != NULL) {
        return dls_fail(err, DLS_EBUFFER,
                        "CUDA: the driver lacks %s, which every release since 9.2 has; "
                        "update it",
                        missing);
    }
    int result = api->cuInit(0);
    return result == CU_OK ? DLS_OK : fail_start(err, api, result);
}

DLS_COLD int
dls_cuda_load(const dls_cuda_api **api, dls_error *err)
{
    if (dls_loader_is_child()) {
        return fail_child(err);
    }
    if (atomic_load_explicit(&broken, memory_order_acquire)) {
        *err = why_broken;
        return err->code;
    }
    if (!atomic_load_explicit(&ready, memory_order_acquire)) {
        /* Two threads may both start it: the driver allows that, and one is kept. */
        dls_cuda_api fresh;
        bool lasting;
        int result = start_driver(&fresh, err, &lasting);
        dls_lock_take(DLS_LOCK_CUDA);
        if (result == DLS_OK && !atomic_load(&ready)) {
            loaded = fresh;
            atomic_store_explicit(&ready, true, memory_order_release);
        }
        else if (result != DLS_OK && lasting && !atomic_load(&broken)) {
            why_broken = *err;
            atomic_store_explicit(&broken, true, memory_order_release);
        }
        dls_lock_give(DLS_LOCK_CUDA);
        if (result != DLS_OK) {
            return result;
        }
    }
    *api = &loaded;
    return DLS_OK;
}

const dls_cuda_api *
dls_cuda_if_mapped(void)
{
    const dls_cuda_api *api;
    dls_error err;
    bool known = atomic_load_explicit(&ready, memory_order_acquire);
    if (!known && dls_loader_mapped(library_names) == NULL) {
        return NULL;
    }
    return dls_cuda_load(&api, &err) == DLS_OK ? api : NULL;
}

/* --- errors (reference 6.6)
 * ------------------------------------------------------------ */

DLS_COLD int
dls_cuda_fail(const dls_cuda_api *api, dls_error *err, int result, const char *call,
              int device_id)
{
    const char *name = NULL;
    if (api->cuGetErrorName != NULL) {
        api->cuGetErrorName(result, &name);
    }
    if (name == NULL) {
        name = "unknown error";
    }
    if (result >= CU_CAPTURE_FIRST && result <= CU_CAPTURE_LAST) {
        return dls_fail(
            err, DLS_EBUFFER,
            "CUDA: %s: a graph capture forbids it (%s, %d); export outside the "
            "capture, or pass producer_stream= the capturing stream, or "
            "stream=-1",
            call, name, result);
    }
    switch (result) {
    case CU_INVALID_CONTEXT:
        return dls_fail(
            err, DLS_EBUFFER,
            "CUDA: %s: device %d has no live context (%s, %d); was the data's "
            "library used in this process?",
            call, device_id, name, result);
    case CU_INVALID_HANDLE:
        return dls_fail(
            err, DLS_EBUFFER,
            "CUDA: %s: the stream belongs to another device or was destroyed "
            "(%s, %d)",
            call, name, result);
    default:
        /* Sticky errors of the program itself (700 ...) must not pass for a refusal. */
        return dls_fail(err, DLS_ERUNTIME, "CUDA: %s failed: %s (%d)", call, name,
                        result);
    }
}

/* --- pointers and contexts (reference 1.3)
 * ----------------------------------------------- */

CUstreamCaptureMode
dls_cuda_relax(const dls_cuda_api *api)
{
    CUstreamCaptureMode mode = CU_MODE_RELAXED;
    if (api->cuThreadExchangeStreamCaptureMode != NULL) {
        api->cuThreadExchangeStreamCaptureMode(&mode);
    }
    return mode;
}

void
dls_cuda_restore(const dls_cuda_api *api, CUstreamCaptureMode mode)
{
    if (api->cuThreadExchangeStreamCaptureMode != NULL) {
        api->cuThreadExchangeStreamCaptureMode(&mode);
    }
}

void
dls_cuda_ask_pointer(const dls_cuda_api *api, const void *address,
                     dls_cuda_pointer *out)
{
    CUcontext context = NULL;
    unsigned int type = 0, managed = 0; /* the driver writes four bytes for each */
    int ordinal = -1;
    CUpointer_attribute wanted[] = {CU_ATTRIBUTE_CONTEXT, CU_ATTRIBUTE_MEMORY_TYPE,
                                    CU_ATTRIBUTE_IS_MANAGED,
                                    CU_ATTRIBUTE_DEVICE_ORDINAL};
    void *answers[] = {&context, &type, &managed, &ordinal};
    *out = (dls_cuda_pointer){.ordinal = -1};
    CUstreamCaptureMode mode = dls_cuda_relax(api);
    int result = api->cuPointerGetAttributes(4, wanted, answers,
                                             (CUdeviceptr)(uintptr_t)address);
    dls_cuda_restore(api, mode);
    if (result == CU_OK && type != 0) {
        *out = (dls_cuda_pointer){.context = context,
                                  .type = (int)type,
                                  .ordinal = ordinal >= 0 ? ordinal : -1,
                                  .managed = managed != 0};
    }
}

/* The device's primary context if it is active: never made by us (it would take a
 * second and a third of a gigabyte).  Retained once, never released: at the end of the
 * process the driver may be down already. */
static CUcontext
primary_context(const dls_cuda_api *api, int device_id)
{
    CUdevice device;
    unsigned int flags = 0;
    int active = 0;
    CUcontext context = NULL;
    if (device_id < 0 || device_id >= DEVICES_KEPT
        || api->cuDeviceGet(&device, device_id) != CU_OK
        || api->cuDevicePrimaryCtxGetState(device, &flags, &active) != CU_OK
        || !active) {
        return NULL;
    }
    context = atomic_load_explicit(&primaries[device_id], memory_order_acquire);
    if (context == NULL && api->cuDevicePrimaryCtxRetain(&context, device) == CU_OK) {
        atomic_store_explicit(&primaries[device_id], context, memory_order_release);
    }
    return context;
}

static CUcontext
current_context_of(const dls_cuda_api *api, int device_id)
{
    CUcontext context = NULL;
    CUdevice device = -1, wanted = -1;
    if (api->cuCtxGetCurrent(&context) != CU_OK || context == NULL
        || api->cuCtxGetDevice(&device) != CU_OK
        || api->cuDeviceGet(&wanted, device_id) != CU_OK) {
        return NULL;
    }
    return device == wanted ? context : NULL;
}

DLS_COLD int
dls_cuda_context(const dls_cuda_api *api, uint64_t stream, int device_id,
                 const void *address, CUcontext *context, bool *guessed, dls_error *err)
{
    *guessed = false;
    if (stream > 2) {
        int result = api->cuStreamGetCtx(dls_cuda_stream(stream), context);
        return result == CU_OK
                   ? DLS_OK
                   : dls_cuda_fail(api, err, result, "cuStreamGetCtx", device_id);
    }
    dls_cuda_pointer pointer;
    dls_cuda_ask_pointer(api, address, &pointer);
    *context = pointer.context;
    *guessed = pointer.context == NULL;
    if (*context == NULL && pointer.ordinal >= 0) {
        device_id = pointer.ordinal; /* pools and virtual memory belong to no context */
    }
    if (*context == NULL) {
        *context = current_context_of(api, device_id);
    }
    if (*context == NULL) {
        *context = primary_context(api, device_id);
    }
    if (*context == NULL) {
        return dls_cuda_fail(api, err, CU_INVALID_CONTEXT, "looking for a context",
                             device_id);
    }
    return DLS_OK;
}

CUcontext
dls_cuda_other_context(const dls_cuda_api *api, CUcontext context, int device_id,
                       const void *address)
{
    dls_cuda_pointer pointer;
    dls_cuda_ask_pointer(api, address, &pointer);
    device_id = pointer.ordinal >= 0 ? pointer.ordinal : device_id;
    CUcontext primary = primary_context(api, device_id);
    CUcontext other = primary != context ? primary : current_context_of(api, device_id);
    return other != context ? other : NULL;
}

int
dls_cuda_push(const dls_cuda_api *api, CUcontext context, dls_error *err)
{
    int result = api->cuCtxPushCurrent_v2(context);
    return result == CU_OK ? DLS_OK
                           : dls_cuda_fail(api, err, result, "cuCtxPushCurrent", -1);
}

void
dls_cuda_pop(const dls_cuda_api *api)
{
    CUcontext popped;
    api->cuCtxPopCurrent_v2(&popped);
}

int
dls_cuda_enter_device(const dls_cuda_api *api, int device_id)
{
    if (current_context_of(api, device_id) != NULL) {
        return 0;
    }
    CUcontext context = primary_context(api, device_id);
    return context != NULL && api->cuCtxPushCurrent_v2(context) == CU_OK;
}

bool
dls_cuda_concurrent_managed(const dls_cuda_api *api, int device_id)
{
    CUdevice device;
    int value = 0;
    if (api->cuDeviceGet(&device, device_id) != CU_OK
        || api->cuDeviceGetAttribute(&value, CU_CONCURRENT_MANAGED, device) != CU_OK) {
        return false;
    }
    return value != 0;
}
