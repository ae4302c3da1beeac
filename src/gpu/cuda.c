/* The CUDA driver: loading, contexts, its answers about an address, and its row of the
 * driver table.  Called through gpu/driver.h and by pointer, without the GIL.  Writes
 * the function table and the retained contexts below, under DLS_LOCK_CUDA or
 * atomically. Tests: tests/device/test_loading.py, test_fake_driver.py,
 * test_managed.py. */
#include "gpu/cuda.h"

#include <stdatomic.h>

#include "abi/gpu_calls.h"
#include "core/lock.h"
#include "gpu/driver.h"
#include "gpu/pointer.h"

static const char *const library_names[] = {
#if defined(_WIN32)
    "nvcuda.dll",
#else
    "libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1",
#endif
    NULL};

/* Written once and then only read; `ready` is set last.  `broken` says that why_broken
 * is a failure that lasts. */
static dls_cuda_api cuda;
static atomic_bool ready;
static atomic_bool broken;
static dls_error why_broken;

/* Primary contexts that we retained, by ordinal. */
#define DEVICES_KEPT 64
static _Atomic(CUcontext) primaries[DEVICES_KEPT];

/* --- loading (S16, S24) --------------------------------------------------- */

static const dls_loader_symbol symbols[] = {
#define OWN(need, name, parameters) \
    {#name, offsetof(dls_cuda_api, name), DLS_LOADER_##need},
#define SHARED(need, member, cuda, hip, parameters) \
    {#cuda, offsetof(dls_cuda_api, calls.member), DLS_LOADER_##need},
    DLS_CUDA_CALL_LIST(OWN) DLS_GPU_CALL_LIST(SHARED)
#undef SHARED
#undef OWN
};
#define SYMBOLS (sizeof symbols / sizeof *symbols)

static int
fail_child(dls_error *err)
{
    return dls_fail(err, DLS_EBUFFER,
                    "CUDA: this process was forked after the driver was started, and "
                    "the driver does not work in the child\n"
                    "  start workers with \"spawn\"");
}

static int
fail_start(const dls_cuda_api *api, int result, dls_error *err)
{
    switch (result) {
    case CU_STUB:
        return dls_fail(err, DLS_EBUFFER,
                        "CUDA: the libcuda that was found is the toolkit's stub, not a "
                        "driver (error 34)\n"
                        "  take its folder out of the library path");
    case GPU_NO_DEVICE:
    case GPU_INVALID_DEVICE:
        return dls_fail(err, DLS_ENODRIVER,
                        "CUDA: the driver finds no device (error %d)", result);
    case CU_NOT_INITIALIZED: /* the code of cuInit if the parent process called it */
        return fail_child(err);
    default:
        return dls_gpu_check(
            &(dls_place){.driver = &dls_cuda_driver, .api = &api->calls}, result,
            DLS_CALL_START, -1, err);
    }
}

/* Find, check and start the driver.  *lasting: the answer will not change.  DLS_OK with
 * *api, or a code with *err. */
static int
start_driver(dls_cuda_api *api, bool *lasting, dls_error *err)
{
    void *library = dls_loader_find(library_names, false);
    *lasting = library != NULL;
    if (library == NULL) {
        return dls_fail(err, DLS_ENODRIVER,
                        "CUDA: no driver (%s) can be loaded here\n"
                        "  install it",
                        library_names[0]);
    }
    dls_loader_note_driver();
    const char *missing = dls_loader_fill(library, symbols, SYMBOLS, api);
    if (missing != NULL) {
        return dls_fail(err, DLS_EBUFFER,
                        "CUDA: the driver lacks %s, which every release since 9.2 has\n"
                        "  update it",
                        missing);
    }
    int result = api->cuInit(0);
    return result == GPU_OK ? DLS_OK : fail_start(api, result, err);
}

int
dls_cuda_load(dls_error *err)
{
    if (dls_loader_is_child()) {
        return fail_child(err);
    }
    if (atomic_load_explicit(&broken, memory_order_acquire)) {
        *err = why_broken;
        return err->code;
    }
    if (atomic_load_explicit(&ready, memory_order_acquire)) {
        return DLS_OK;
    }
    /* Two threads may both start it: the driver allows that, and one is kept. */
    dls_cuda_api fresh;
    bool lasting;
    int code = start_driver(&fresh, &lasting, err);
    dls_lock_take(DLS_LOCK_CUDA);
    if (code == DLS_OK && !atomic_load(&ready)) {
        cuda = fresh;
        atomic_store_explicit(&ready, true, memory_order_release);
    }
    else if (code != DLS_OK && lasting && !atomic_load(&broken)) {
        why_broken = *err;
        atomic_store_explicit(&broken, true, memory_order_release);
    }
    dls_lock_give(DLS_LOCK_CUDA);
    return code;
}

bool
dls_cuda_is_found(void)
{
    return dls_loader_find(library_names, true) != NULL;
}

bool
dls_cuda_is_mapped(void)
{
    dls_error err;
    bool known = atomic_load_explicit(&ready, memory_order_acquire);
    return (known || dls_loader_find(library_names, true) != NULL)
           && dls_cuda_load(&err) == DLS_OK;
}

/* --- contexts (S15) ------------------------------------------------------- */

/* Retain the primary context.  One count is kept and never released, because the driver
 * may be down already at the end of the process.  The context is asked for anew each
 * time, because the device has another one after cudaDeviceReset. */
static CUcontext
retain_primary_context(int device_id, CUdevice device)
{
    CUcontext context = NULL;
    if (cuda.cuDevicePrimaryCtxRetain(&context, device) != GPU_OK) {
        return NULL;
    }
    CUcontext kept = atomic_exchange_explicit(&primaries[device_id], context,
                                              memory_order_acq_rel);
    if (kept == context && cuda.cuDevicePrimaryCtxRelease != NULL) {
        cuda.cuDevicePrimaryCtxRelease(device); /* the count that was kept stays */
    }
    return context;
}

/* The device's primary context if it is active: only memory that is wanted on the
 * device has it made (it takes a second and a third of a gigabyte). */
static CUcontext
primary_context(int device_id)
{
    CUdevice device;
    unsigned int flags = 0;
    int active = 0;
    if (device_id < 0 || device_id >= DEVICES_KEPT
        || cuda.cuDeviceGet(&device, device_id) != GPU_OK
        || cuda.cuDevicePrimaryCtxGetState(device, &flags, &active) != GPU_OK
        || !active) {
        return NULL;
    }
    return retain_primary_context(device_id, device);
}

/* The current context if it is one of this device, else NULL. */
static CUcontext
current_context_of(int device_id)
{
    CUcontext context = NULL;
    CUdevice device = -1, wanted = -1;
    bool is = cuda.cuCtxGetCurrent(&context) == GPU_OK && context != NULL
              && cuda.cuCtxGetDevice(&device) == GPU_OK
              && cuda.cuDeviceGet(&wanted, device_id) == GPU_OK && device == wanted;
    return is ? context : NULL;
}

static void
leave_context(void)
{
    CUcontext popped;
    cuda.cuCtxPopCurrent_v2(&popped);
}

/* Is the device of the current context another one (or is none current)?  Then the
 * device's own context, if it has a live one, is pushed: true, and the caller must call
 * leave_context. */
static bool
enter_live_device(int device_id)
{
    if (current_context_of(device_id) != NULL) {
        return false;
    }
    CUcontext context = primary_context(device_id);
    /* mutant: context of the producer */
    return context != NULL && cuda.cuCtxPushCurrent_v2(context) == GPU_OK;
}

/* The current context is not saved: the driver keeps a stack of contexts. */
static bool
cuda_enter_device(int device_id, dls_saved_device *DLS_UNUSED(saved))
{
    return dls_cuda_is_mapped() && enter_live_device(device_id);
}

/* In a child that a producer forked the stack is not ours any more (S23). */
static void
cuda_leave(const dls_saved_device *DLS_UNUSED(saved))
{
    if (dls_cuda_is_mapped()) {
        leave_context();
    }
}

static CUcontext
context_of(const dls_place *place)
{
    return (CUcontext)place->context;
}

static int
cuda_enter(const dls_place *place, dls_saved_device *DLS_UNUSED(saved), dls_error *err)
{
    return dls_gpu_check(place, cuda.cuCtxPushCurrent_v2(context_of(place)),
                         DLS_CALL_ENTER, -1, err);
}

int
dls_cuda_current_device(void)
{
    CUdevice current, device;
    if (cuda.cuCtxGetDevice(&current) != GPU_OK) {
        return 0;
    }
    for (int i = 0; cuda.cuDeviceGet(&device, i) == GPU_OK; i++) {
        if (device == current) {
            return i;
        }
    }
    return 0;
}

int
dls_cuda_system_memory_device(void)
{
    CUdevice device;
    int pageable = 0;
    int id = dls_cuda_current_device();
    bool told = cuda.cuDeviceGet(&device, id) == GPU_OK
                && cuda.cuDeviceGetAttribute(&pageable, CU_PAGEABLE_ACCESS, device)
                       == GPU_OK;
    return told && pageable ? id : -1;
}

/* --- memory --------------------------------------------------------------- */

static CUdeviceptr
on_device(const void *address)
{
    return (CUdeviceptr)(uintptr_t)address;
}

/* Nobody is asked about an address that is not known yet. */
static void
ask(dls_memory *memory)
{
    CUcontext context = NULL;
    unsigned int type = 0, managed = 0; /* the driver writes four bytes for each */
    int ordinal = -1, result = GPU_INVALID_VALUE;
    CUpointer_attribute wanted[] = {CU_ATTRIBUTE_CONTEXT, CU_ATTRIBUTE_MEMORY_TYPE,
                                    CU_ATTRIBUTE_IS_MANAGED,
                                    CU_ATTRIBUTE_DEVICE_ORDINAL};
    void *answers[] = {&context, &type, &managed, &ordinal};
    if (memory->address != NULL) {
        int mode = dls_gpu_set_capture_mode(&cuda.calls, GPU_MODE_RELAXED);
        result = cuda.cuPointerGetAttributes(4, wanted, answers,
                                             on_device(memory->address));
        dls_gpu_set_capture_mode(&cuda.calls, mode);
    }
    bool told = result == GPU_OK && type != 0;
    bool unknown = result == GPU_OK || result == GPU_INVALID_VALUE
                   || dls_gpu_is_capture_error(result);
    *memory = (dls_memory){.address = memory->address,
                           .asked = &dls_cuda_driver,
                           .owner = told ? (uintptr_t)context : 0,
                           .type = told ? (int)type : 0,
                           .device = told && ordinal >= 0 ? ordinal : -1,
                           .managed = told && managed != 0,
                           .error = unknown ? GPU_OK : result};
}

static void
ask_once(dls_memory *memory)
{
    if (memory->asked != &dls_cuda_driver) {
        ask(memory);
    }
}

/* A driver need not answer where no context is current, and CuPy makes one before it
 * asks.  We make none, but ask again inside one that lives already. */
void
dls_cuda_ask_memory(dls_memory *memory)
{
    CUcontext current;
    CUdevice device;
    ask(memory);
    if (memory->type != 0 || cuda.cuCtxGetCurrent(&current) != GPU_OK
        || current != NULL) {
        return;
    }
    for (int i = 0; memory->type == 0 && cuda.cuDeviceGet(&device, i) == GPU_OK; i++) {
        if (enter_live_device(i)) {
            ask(memory);
            leave_context();
        }
    }
}

/* --- places (S15) --------------------------------------------------------- */

static dls_place
place_of(CUcontext context)
{
    return (dls_place){.driver = &dls_cuda_driver,
                       .api = &cuda.calls,
                       .context = (uintptr_t)context,
                       .records_device = cuda.cuCtxRecordEvent != NULL
                                         && cuda.cuCtxWaitEvent != NULL};
}

static int
cuda_find(uint64_t stream, int device_id, dls_memory *memory, dls_place *place,
          dls_error *err)
{
    CUcontext context = NULL;
    int code = dls_cuda_load(err);
    if (code != DLS_OK) {
        return code;
    }
    *place = place_of(NULL);
    /* mutant: context of the stream */
    if (stream > 2) {
        int result = cuda.cuStreamGetCtx(dls_gpu_stream(stream), &context);
        place->context = (uintptr_t)context;
        return dls_gpu_check(place, result, DLS_CALL_FIND_STREAM, device_id, err);
    }
    ask_once(memory);
    if (memory->error == GPU_INVALID_CONTEXT) {
        dls_cuda_ask_memory(memory);
    }
    if (memory->error != GPU_OK) { /* what was not answered is not "no context" */
        return dls_gpu_check(place, memory->error, DLS_CALL_FIND, device_id, err);
    }
    context = (CUcontext)memory->owner; /* mutant: context of the memory */
    place->guessed = context == NULL;
    if (context == NULL) {
        /* Pools and virtual memory belong to no context. */
        device_id = memory->device >= 0 ? memory->device : device_id;
        context = current_context_of(device_id);
    }
    if (context == NULL) {
        context = primary_context(device_id);
    }
    place->context = (uintptr_t)context;
    return dls_gpu_check(place, context != NULL ? GPU_OK : GPU_INVALID_CONTEXT,
                         DLS_CALL_FIND, device_id, err);
}

/* If a pointer names no context, work on it may be unfinished in the current context
 * and in the primary one. */
static int
find_other(const dls_place *place, int device_id, dls_memory *memory, dls_place *other)
{
    if (!place->guessed) {
        return 0;
    }
    ask_once(memory);
    device_id = memory->device >= 0 ? memory->device : device_id;
    CUcontext context = primary_context(device_id);
    if (context == context_of(place)) {
        context = current_context_of(device_id);
    }
    *other = *place;
    other->context = (uintptr_t)context;
    return context != NULL && context != context_of(place);
}

/* --- what HIP does otherwise, or not at all ------------------------------- */

static int
record_device(const dls_place *place, void *event)
{
    return cuda.cuCtxRecordEvent(context_of(place), event);
}

static int
wait_device(const dls_place *place, void *event)
{
    return cuda.cuCtxWaitEvent(context_of(place), event);
}

static bool
host_must_be_alone(int device_id)
{
    CUdevice device;
    int concurrent = 0;
    /* mutant: concurrent access */
    return cuda.cuDeviceGet(&device, device_id) != GPU_OK
           || cuda.cuDeviceGetAttribute(&concurrent, CU_CONCURRENT_MANAGED, device)
                  != GPU_OK
           || !concurrent;
}

static uint64_t
identity(const dls_place *place)
{
    unsigned long long id = 0;
    bool told = cuda.cuCtxGetId != NULL
                && cuda.cuCtxGetId(context_of(place), &id) == GPU_OK;
    return told ? id : 0;
}

/* --- memory and copies (S18, S19) ------------------------------------------ */

static int
cuda_copy(const dls_place *DLS_UNUSED(place), void *dst, const void *src, size_t bytes,
          dls_copy_way way, uint64_t stream)
{
    CUstream on = dls_gpu_stream(stream);
    switch (way) {
    case DLS_WAY_TO_DEVICE:
        return cuda.cuMemcpyHtoDAsync_v2(on_device(dst), src, bytes, on);
    case DLS_WAY_WITHIN:
        return cuda.cuMemcpyDtoDAsync_v2(on_device(dst), on_device(src), bytes, on);
    default:
        return cuda.cuMemcpyDtoHAsync_v2(dst, on_device(src), bytes, on);
    }
}

static int
cuda_copy_plane(const dls_place *DLS_UNUSED(place), void *dst, const void *src,
                size_t bytes, size_t pitch, size_t rows, dls_copy_way way,
                uint64_t stream)
{
    bool to_host = way == DLS_WAY_TO_HOST;
    const CUDA_MEMCPY2D what = {
        .srcMemoryType = CU_TYPE_DEVICE,
        .srcDevice = on_device(src),
        .srcPitch = pitch,
        .dstMemoryType = to_host ? CU_TYPE_HOST : CU_TYPE_DEVICE,
        .dstHost = to_host ? dst : NULL,
        .dstDevice = to_host ? 0 : on_device(dst),
        .dstPitch = bytes,
        .WidthInBytes = bytes,
        .Height = rows,
    };
    return cuda.cuMemcpy2DAsync_v2(&what, dls_gpu_stream(stream));
}

static int
cuda_copy_peer(const dls_place *to, void *dst, const dls_place *from, const void *src,
               size_t bytes, uint64_t stream)
{
    return cuda.cuMemcpyPeerAsync(on_device(dst), context_of(to), on_device(src),
                                  context_of(from), bytes, dls_gpu_stream(stream));
}

/* Pools are used only if an event can stand for all work of the context.  Without such
 * an event, memory of a pool could not be freed after that work: cuMemFree does not
 * wait for it, as it does for other memory. */
static bool
has_pools(const dls_place *place)
{
    CUdevice device;
    int pools = 0;
    /* mutant: pools of the device */
    return place->records_device && cuda.cuMemAllocAsync != NULL
           && cuda.cuMemFreeAsync != NULL && cuda.cuCtxGetDevice(&device) == GPU_OK
           && cuda.cuDeviceGetAttribute(&pools, CU_HAS_POOLS, device) == GPU_OK
           && pools;
}

static int
cuda_allocate(const dls_place *DLS_UNUSED(place), size_t bytes, bool pooled,
              uint64_t stream, void **address)
{
    CUdeviceptr made = 0;
    int result = pooled ? cuda.cuMemAllocAsync(&made, bytes, dls_gpu_stream(stream))
                        : cuda.cuMemAlloc_v2(&made, bytes);
    *address = result == GPU_OK ? (void *)(uintptr_t)made : NULL;
    return result;
}

static int
cuda_deallocate(const dls_place *DLS_UNUSED(place), void *address, bool pooled,
                uint64_t stream)
{
    /* mutant: memory of a pool */
    return pooled ? cuda.cuMemFreeAsync(on_device(address), dls_gpu_stream(stream))
                  : cuda.cuMemFree_v2(on_device(address));
}

static int
fail_device(int device_id, dls_error *err)
{
    return dls_fail(err, DLS_EBUFFER, "CUDA: there is no device %d here", device_id);
}

/* The context of the stream, if it is one of this device. */
static int
find_stream_on(uint64_t stream, int device_id, dls_place *place, dls_error *err)
{
    CUcontext context = NULL;
    int result = cuda.cuStreamGetCtx(dls_gpu_stream(stream), &context);
    place->context = (uintptr_t)context;
    if (result == GPU_OK) {
        result = cuda.cuCtxPushCurrent_v2(context);
    }
    if (result == GPU_OK) {
        result = current_context_of(device_id) == NULL ? GPU_INVALID_HANDLE : GPU_OK;
        leave_context();
    }
    return dls_gpu_check(place, result, DLS_CALL_FIND_STREAM, device_id, err);
}

static int
cuda_find_for_memory(uint64_t stream, int device_id, const void *DLS_UNUSED(source),
                     dls_place *place, dls_error *err)
{
    CUdevice device;
    int code = dls_cuda_load(err);
    if (code != DLS_OK) {
        return code;
    }
    if (device_id < 0 || device_id >= DEVICES_KEPT
        || cuda.cuDeviceGet(&device, device_id) != GPU_OK) {
        return fail_device(device_id, err);
    }
    *place = place_of(NULL);
    if (stream > 2) {
        return find_stream_on(stream, device_id, place, err);
    }
    CUcontext context = current_context_of(device_id);
    if (context == NULL) {
        context = primary_context(device_id);
    }
    if (context == NULL) {
        context = retain_primary_context(device_id, device);
    }
    place->context = (uintptr_t)context;
    return dls_gpu_check(place, context != NULL ? GPU_OK : GPU_INVALID_CONTEXT,
                         DLS_CALL_FIND, device_id, err);
}

static int
cuda_find_own(const dls_place *place, dls_place *own)
{
    *own = place_of(primary_context(dls_cuda_current_device()));
    return own->context != 0 && own->context != place->context;
}

static int
cuda_current_device(void)
{
    return dls_cuda_is_mapped() ? dls_cuda_current_device() : 0;
}

/* Also for a driver that did not start, which is in no place yet. */
static const char *
cuda_error_name(const dls_gpu_calls *calls, int result)
{
    const dls_cuda_api *api = (const dls_cuda_api *)calls;
    const char *name = NULL;
    if (api->cuGetErrorName != NULL) {
        api->cuGetErrorName(result, &name);
    }
    return name;
}

const dls_driver dls_cuda_driver = {
    .name = "CUDA",
    .legacy = 1,
    .find = cuda_find,
    .find_other = find_other,
    .in_use = dls_cuda_is_mapped,
    .enter = cuda_enter,
    .enter_device = cuda_enter_device,
    .leave = cuda_leave,
    .record_device = record_device,
    .wait_device = wait_device,
    .host_must_be_alone = host_must_be_alone,
    .identity = identity,
    .copy = cuda_copy,
    .copy_plane = cuda_copy_plane,
    .copy_peer = cuda_copy_peer,
    .find_for_memory = cuda_find_for_memory,
    .find_own = cuda_find_own,
    .current_device = cuda_current_device,
    .has_pools = has_pools,
    .allocate = cuda_allocate,
    .deallocate = cuda_deallocate,
    .error_name = cuda_error_name,
};
