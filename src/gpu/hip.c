/* The HIP runtimes: finding those that are mapped, their answers about an address, and
 * their row of the driver table.  Called through gpu/driver.h and by pointer, without
 * the GIL.  Writes the list of runtimes under DLS_LOCK_HIP.
 * Tests: tests/device/test_hip_runtimes.py, test_fake_hip.py, test_matrix.py. */
#include "gpu/hip.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "core/lock.h"
#include "gpu/driver.h"
#include "gpu/pointer.h"

/* Runtimes found so far: filled before `count` says so, never taken away. */
static struct {
    void *library;
    dls_hip_api api;
    int version;
} runtimes[DLS_HIP_RUNTIMES];
static atomic_int count;

/* --- finding -------------------------------------------------------------- */

static const dls_loader_symbol symbols[] = {
#define SHARED(need, member, cuda, hip, parameters) \
    {#hip, offsetof(dls_hip_api, calls.member), DLS_LOADER_##need},
#define OWN(need, result, name, parameters) \
    {#name, offsetof(dls_hip_api, name), DLS_LOADER_##need},
    DLS_GPU_CALL_LIST(SHARED) DLS_HIP_CALL_LIST(OWN)
#undef OWN
#undef SHARED
};
#define SYMBOLS (sizeof symbols / sizeof *symbols)

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
    if (is_known(library) || dls_loader_fill(library, symbols, SYMBOLS, &api) != NULL) {
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
look_for_runtimes(void)
{
    static _Atomic unsigned long long looked_at;
    void *libraries[DLS_HIP_RUNTIMES];
    unsigned long long now = dls_loader_generation();
    if (dls_loader_is_child()) {
        return atomic_load_explicit(&count, memory_order_acquire); /* no call (S23) */
    }
    if (now != 0 && now == atomic_load(&looked_at)) {
        return atomic_load_explicit(&count, memory_order_acquire);
    }
    int mapped = dls_loader_all_mapped("libamdhip64", libraries, DLS_HIP_RUNTIMES);
    if (mapped < 0) {
        now = 0; /* look again the next time */
    }
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
dls_hip_is_found(void)
{
    void *libraries[DLS_HIP_RUNTIMES];
    return dls_loader_all_mapped("libamdhip64", libraries, DLS_HIP_RUNTIMES) > 0;
}

bool
dls_hip_is_mapped(void)
{
    return atomic_load_explicit(&count, memory_order_acquire) > 0
           || look_for_runtimes() > 0;
}

static const dls_hip_api *
api_of(const dls_gpu_calls *calls)
{
    return (const dls_hip_api *)calls; /* its first member */
}

static void
forget_error(const dls_gpu_calls *calls)
{
    if (api_of(calls)->hipGetLastError != NULL) {
        api_of(calls)->hipGetLastError(); /* mutant: error of ROCm */
    }
}

static int
heard(const dls_hip_api *api, int result)
{
    if (result != GPU_OK) {
        forget_error(&api->calls);
    }
    return result;
}

/* --- memory --------------------------------------------------------------- */

/* The enumeration of memory types changed with 6.0; the struct did not. */
static bool
ask_one(const dls_hip_api *api, int version, dls_memory *memory)
{
    union {
        hipPointerAttribute_t attributes;
        char room[128]; /* a later release may write more */
    } answer;
    memset(&answer, 0, sizeof answer);
    answer.attributes.device = -1;
    if (heard(api, api->hipPointerGetAttributes(&answer.attributes, memory->address))
        != GPU_OK) {
        return false;
    }
    int type = answer.attributes.type;
    bool six = version >= HIP_VERSION_6; /* mutant: ROCm 6 */
    if (six && type == HIP_6_UNREGISTERED) {
        return false;
    }
    memory->owner = (uintptr_t)api;
    memory->device = answer.attributes.device;
    memory->type = type == (six ? HIP_6_HOST : HIP_5_HOST) ? CU_TYPE_HOST
                                                           : CU_TYPE_DEVICE;
    return true;
}

static bool
ask_known(int known, dls_memory *memory)
{
    for (int i = 0; i < known; i++) {
        if (ask_one(&runtimes[i].api, runtimes[i].version, memory)) {
            return true;
        }
    }
    return false;
}

void
dls_hip_ask_memory(dls_memory *memory)
{
    if (memory->asked == &dls_hip_driver) {
        return;
    }
    *memory = (dls_memory){
        .address = memory->address, .asked = &dls_hip_driver, .device = -1};
    if (dls_loader_is_child()) {
        return;
    }
    int known = atomic_load_explicit(&count, memory_order_acquire);
    if (!ask_known(known, memory)) {
        ask_known(look_for_runtimes(), memory);
    }
}

/* --- devices -------------------------------------------------------------- */

/* Make the device current in one runtime, and note the one before in *saved.  The
 * runtime's code. */
static int
set_device(int runtime, int device, dls_saved_device *saved)
{
    const dls_hip_api *api = &runtimes[runtime].api;
    int current = -1;
    int result = api->hipGetDevice(&current);
    if (result == GPU_OK && current != device) {
        result = api->hipSetDevice(device); /* mutant: device set */
        saved->device[runtime] = result == GPU_OK ? current + 1 : 0;
    }
    return result;
}

static int
hip_enter(const dls_place *place, dls_saved_device *saved, dls_error *err)
{
    int device = (int)place->context, runtime = 0;
    while (&runtimes[runtime].api.calls != place->api) {
        runtime++;
        assert(runtime < DLS_HIP_RUNTIMES);
    }
    *saved = (dls_saved_device){0};
    return dls_gpu_check(place, set_device(runtime, device, saved), DLS_CALL_ENTER,
                         device, err);
}

/* Do so in every mapped runtime: it is not known yet to which of them the memory will
 * belong. */
static bool
hip_enter_device(int device_id, dls_saved_device *saved)
{
    bool entered = false;
    *saved = (dls_saved_device){0};
    int known = dls_loader_is_child() ? 0 : look_for_runtimes();
    for (int i = 0; i < known; i++) {
        heard(&runtimes[i].api, set_device(i, device_id, saved));
        entered = entered || saved->device[i] > 0;
    }
    return entered;
}

static void
hip_leave(const dls_saved_device *saved)
{
    for (int i = 0; i < DLS_HIP_RUNTIMES; i++) {
        /* mutant: device put back */
        if (saved->device[i] > 0) {
            heard(&runtimes[i].api, runtimes[i].api.hipSetDevice(saved->device[i] - 1));
        }
    }
}

/* --- places (S7) ---------------------------------------------------------- */

int
dls_hip_check_child(dls_error *err)
{
    return !dls_loader_is_child()
               ? DLS_OK
               : dls_fail(err, DLS_EBUFFER,
                          "ROCm: this process was forked after the runtime was used, "
                          "and the runtime does not work in the child\n"
                          "  start workers with \"spawn\"");
}

/* -1: the runtime does not tell, or it is a default stream. */
static int
device_of_stream(const dls_hip_api *api, uint64_t stream)
{
    /* mutant: device of the stream */
    return stream > 2 && api->hipGetStreamDeviceId != NULL
               ? api->hipGetStreamDeviceId(dls_gpu_stream(stream))
               : -1;
}

static int
hip_find(uint64_t stream, int device_id, dls_memory *memory, dls_place *place,
         dls_error *err)
{
    int child = dls_hip_check_child(err);
    if (child != DLS_OK) {
        return child;
    }
    if (!dls_hip_is_mapped()) {
        return dls_fail(err, DLS_ENODRIVER,
                        "ROCm: no HIP runtime is in this process\n"
                        "  import a library that brings it");
    }
    if (memory->address == NULL && atomic_load(&count) > 1) {
        return dls_fail(err, DLS_EBUFFER,
                        "ROCm: several HIP runtimes, and no address to ask them for");
    }
    const dls_hip_api *api = &runtimes[0].api;
    int device = device_id;
    if (memory->address != NULL) {
        dls_hip_ask_memory(memory);
        api = memory->owner != 0 ? (const dls_hip_api *)memory->owner : api;
        device = memory->device >= 0 ? memory->device : device_id;
    }
    int of_stream = device_of_stream(api, stream);
    device = of_stream >= 0 ? of_stream : device;
    int devices = 0;
    int result = api->hipGetDeviceCount(&devices);
    if (result == GPU_OK && device >= devices) {
        result = GPU_INVALID_DEVICE;
    }
    *place = (dls_place){.driver = &dls_hip_driver,
                         .api = &api->calls,
                         .context = (uintptr_t)(device >= 0 ? device : 0)};
    return dls_gpu_check(place, result, DLS_CALL_FIND, device, err);
}

static bool
in_use(void)
{
    return dls_hip_is_mapped() && !dls_loader_is_child();
}

/* --- what CUDA does otherwise --------------------------------------------- */

static uint64_t
no_identity(const dls_place *DLS_UNUSED(place))
{
    return 0;
}

static hipMemcpyKind
kind_of(dls_copy_way way)
{
    return way == DLS_WAY_TO_HOST     ? HIP_COPY_TO_HOST
           : way == DLS_WAY_TO_DEVICE ? HIP_COPY_TO_DEVICE
                                      : HIP_COPY_WITHIN;
}

static int
hip_copy(const dls_place *place, void *dst, const void *src, size_t bytes,
         dls_copy_way way, uint64_t stream)
{
    return api_of(place->api)
        ->hipMemcpyAsync(dst, src, bytes, kind_of(way), dls_gpu_stream(stream));
}

static int
hip_copy_plane(const dls_place *place, void *dst, const void *src, size_t bytes,
               size_t pitch, size_t rows, dls_copy_way way, uint64_t stream)
{
    return api_of(place->api)
        ->hipMemcpy2DAsync(dst, bytes, src, pitch, bytes, rows, kind_of(way),
                           dls_gpu_stream(stream));
}

static int
hip_copy_peer(const dls_place *to, void *dst, const dls_place *from, const void *src,
              size_t bytes, uint64_t stream)
{
    return api_of(from->api)->hipMemcpyPeerAsync(
        dst, (int)to->context, src, (int)from->context, bytes, dls_gpu_stream(stream));
}

/* --- memory (S19) ----------------------------------------------------------- */

/* HIP has pools, but no event of a whole device, so their memory could not be freed
 * after the work of other streams: since ROCm 7.0 hipFree does not wait for such memory
 * either. */
static bool
no_pools(const dls_place *DLS_UNUSED(place))
{
    return false;
}

static int
hip_allocate(const dls_place *place, size_t bytes, bool DLS_UNUSED(pooled),
             uint64_t DLS_UNUSED(stream), void **address)
{
    *address = NULL;
    return heard(api_of(place->api), api_of(place->api)->hipMalloc(address, bytes));
}

static int
hip_deallocate(const dls_place *place, void *address, bool DLS_UNUSED(pooled),
               uint64_t DLS_UNUSED(stream))
{
    return heard(api_of(place->api), api_of(place->api)->hipFree(address));
}

static int
hip_find_for_memory(uint64_t stream, int device_id, const void *source,
                    dls_place *place, dls_error *err)
{
    int devices = 0;
    dls_memory memory = {.address = source};
    int code = hip_find(dls_hip_driver.legacy, 0, &memory, place, err);
    if (code != DLS_OK) {
        return code;
    }
    const dls_hip_api *api = api_of(place->api);
    if (heard(api, api->hipGetDeviceCount(&devices)) != GPU_OK || device_id < 0
        || device_id >= devices) {
        return dls_fail(err, DLS_EBUFFER, "ROCm: there is no device %d here",
                        device_id);
    }
    int of_stream = device_of_stream(api, stream);
    if (of_stream >= 0 && of_stream != device_id) {
        return dls_gpu_check(place, GPU_INVALID_HANDLE, DLS_CALL_FIND, device_id, err);
    }
    place->context = (uintptr_t)device_id; /* mutant: device of new memory */
    return DLS_OK;
}

static int
hip_current_device(void)
{
    int device = 0;
    bool told = in_use()
                && heard(&runtimes[0].api, runtimes[0].api.hipGetDevice(&device))
                       == GPU_OK;
    return told && device >= 0 ? device : 0;
}

static const char *
hip_error_name(const dls_gpu_calls *calls, int result)
{
    forget_error(calls);
    return api_of(calls)->hipGetErrorName != NULL
               ? api_of(calls)->hipGetErrorName(result)
               : NULL;
}

/* HIP has no event of a whole device and no second place (S7), and no managed memory of
 * its own in DLPack: these members of CUDA's stay NULL. */
const dls_driver dls_hip_driver = {
    .name = "ROCm",
    .is_hip = true,
    .legacy = 0,
    .find = hip_find,
    .in_use = in_use,
    .enter = hip_enter,
    .enter_device = hip_enter_device,
    .leave = hip_leave,
    .identity = no_identity,
    .copy = hip_copy,
    .copy_plane = hip_copy_plane,
    .copy_peer = hip_copy_peer,
    .find_for_memory = hip_find_for_memory,
    .current_device = hip_current_device,
    .has_pools = no_pools,
    .allocate = hip_allocate,
    .deallocate = hip_deallocate,
    .error_name = hip_error_name,
    .forget_error = forget_error,
};
