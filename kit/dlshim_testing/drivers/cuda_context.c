/* Devices and contexts: primary ones, others, and each thread's stack of them. */
#include "cuda.h"

#include <stdio.h>
#include <string.h>

/* ---- the stack ---- */

enum { DEPTH = 64 };

static unsigned generation = 1;
static _Thread_local struct {
    unsigned generation;
    unsigned depth;
    fm_domain *at[DEPTH];
} stack;

static void renew(void)
{
    if (stack.generation != generation) {
        stack.generation = generation;
        stack.depth = 0;
    }
}

fm_domain *current_context(void)
{
    renew();
    return stack.depth ? stack.at[stack.depth - 1] : NULL;
}

static void push(fm_domain *domain)
{
    renew();
    if (stack.depth == DEPTH)
        fm_die("%d contexts pushed and not popped", DEPTH);
    stack.at[stack.depth++] = domain;
}

static void set_current(fm_domain *domain)
{
    renew();
    if (stack.depth)
        stack.depth--;
    if (domain)
        push(domain);
}

/* ---- primary contexts ---- */

static struct {
    fm_domain *domain; /* NULL while inactive */
    unsigned retained;
    bool held; /* by the tests, for the library that owns the arrays */
} primary[DEVICES];

bool device_exists(CUdevice device)
{
    return device >= 0 && device < DEVICES;
}

fm_domain *primary_of(CUdevice device)
{
    if (!primary[device].domain)
        primary[device].domain = fm_domain_new(device, false);
    return primary[device].domain;
}

bool is_primary(const fm_domain *domain)
{
    return domain == primary[domain->device].domain;
}

fm_domain *front_domain_of(int device)
{
    if (!device_exists(device))
        return NULL;
    primary[device].held = true;
    return primary_of(device);
}

static void let_go(CUdevice device)
{
    if (primary[device].retained || primary[device].held || !primary[device].domain)
        return;
    fm_domain_end(primary[device].domain);
    primary[device].domain = NULL;
}

void start_again(bool hard);
void start_again(bool hard)
{
    stack.depth = 0;
    if (!hard)
        return;
    generation++;
    memset(primary, 0, sizeof primary); /* the model ended the domains */
}

FM_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER(BLOCKS, "dev=%d", device);
    LEAVE_IF(!device_exists(device), INVALID_DEVICE);
    bool fresh = !primary[device].domain;
    *context = context_handle(primary_of(device));
    primary[device].retained++;
    NOTE(" got=%s%s", X(*context), fresh ? " CREATED" : "");
    LEAVE(OK);
}

static int release(CUdevice device)
{
    if (!device_exists(device))
        return INVALID_DEVICE;
    if (!primary[device].retained)
        return INVALID_CONTEXT;
    primary[device].retained--;
    let_go(device);
    return OK;
}

FM_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    ENTER(BLOCKS, "dev=%d", device);
    LEAVE(release(device));
}

#if FAKE_VERSION >= 11000
FM_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    ENTER(BLOCKS, "dev=%d", device);
    LEAVE(release(device));
}
#endif

FM_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    ENTER(0, "dev=%d", device);
    LEAVE_IF(!device_exists(device), INVALID_DEVICE);
    *flags = 0;
    *active = primary[device].domain != NULL;
    NOTE(" active=%d", *active);
    LEAVE(OK);
}

/* ---- devices ---- */

FM_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER(0, "ordinal=%d", ordinal);
    LEAVE_IF(!device_exists(ordinal), INVALID_DEVICE);
    *device = ordinal;
    LEAVE(OK);
}

FM_EXPORT CUresult cuDeviceGetCount(int *count)
{
    ENTER(0, "%s", "");
    *count = DEVICES;
    LEAVE(OK);
}

FM_EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    ENTER(0, "dev=%d", device);
    LEAVE_IF(!device_exists(device), INVALID_DEVICE);
    snprintf(name, (size_t)length, "Fake %d", device);
    LEAVE(OK);
}

FM_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    ENTER(0, "dev=%d", device);
    LEAVE_IF(!device_exists(device), INVALID_DEVICE);
    *bytes = (size_t)1 << 36;
    LEAVE(OK);
}

FM_EXPORT CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device)
{
    ENTER(0, "dev=%d", device);
    LEAVE_IF(!device_exists(device), INVALID_DEVICE);
    snprintf(id, (size_t)length, "0000:%02x:00.0", (unsigned)device + 1);
    LEAVE(OK);
}

static int uuid(CUuuid *to, CUdevice device)
{
    if (!device_exists(device))
        return INVALID_DEVICE;
    memset(to, 0, sizeof *to);
    to->bytes[0] = (char)(device + 1);
    return OK;
}

FM_EXPORT CUresult cuDeviceGetUuid(CUuuid *to, CUdevice device)
{
    ENTER(0, "dev=%d", device);
    LEAVE(uuid(to, device));
}

#if FAKE_VERSION >= 11040
FM_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *to, CUdevice device)
{
    ENTER(0, "dev=%d", device);
    LEAVE(uuid(to, device));
}
#endif

static int device_attribute(int attribute)
{
    switch (attribute) {
    case 1: /* MAX_THREADS_PER_BLOCK */
    case 2: /* MAX_BLOCK_DIM_X */
    case 3:
        return 1024;
    case 10: /* WARP_SIZE */
        return 32;
    case 16: /* MULTIPROCESSOR_COUNT */
        return 4;
    case 41: /* UNIFIED_ADDRESSING */
    case 83: /* MANAGED_MEMORY */
        return 1;
    case 75: /* COMPUTE_CAPABILITY_MAJOR */
        return 9;
    case 88:
        return the_options.pageable_access;
    case 89:
        return the_options.concurrent_managed;
    case 115: /* MEMORY_POOLS_SUPPORTED */
        return the_options.memory_pools;
    default:
        return 0;
    }
}

FM_EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    ENTER(0, "attribute=%d dev=%d", (int)attribute, device);
    LEAVE_IF(!device_exists(device), INVALID_DEVICE);
    *value = device_attribute((int)attribute);
    LEAVE(OK);
}

FM_EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    ENTER(0, "dev=%d", device);
    LEAVE_IF(!device_exists(device), INVALID_DEVICE);
    *major = device_attribute(75);
    *minor = 0;
    LEAVE(OK);
}

FM_EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    ENTER(0, "dev=%d peer=%d", device, peer);
    LEAVE_IF(!device_exists(device) || !device_exists(peer), INVALID_DEVICE);
    *can = 0;
    LEAVE(OK);
}

/* ---- current contexts ---- */

FM_EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
    ENTER(0, "%s", "");
    *context = context_handle(current_context());
    LEAVE(OK);
}

FM_EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
    ENTER(0, "to=%s", X(context));
    fm_domain *domain = NULL;
    int rc = context ? find_context(context, &domain) : OK;
    if (rc == OK)
        set_current(domain);
    LEAVE(rc);
}

FM_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    ENTER(0, "push=%s", X(context));
    LEAVE_IF(!context, INVALID_CONTEXT);
    fm_domain *domain;
    int rc = find_context(context, &domain);
    if (rc == OK)
        push(domain);
    LEAVE(rc);
}

FM_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    ENTER(0, "%s", "");
    fm_domain *domain = current_context();
    LEAVE_IF(!domain, INVALID_CONTEXT);
    stack.depth--;
    if (context)
        *context = context_handle(domain);
    LEAVE(OK);
}

FM_EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
    ENTER(CONTEXT, "%s", "");
    *device = current_context()->device;
    LEAVE(OK);
}

FM_EXPORT CUresult cuCtxSynchronize(void)
{
    ENTER(CONTEXT | BLOCKS, "%s", "");
    LEAVE(front_error(fm_domain_sync(current_context())));
}

#if FAKE_VERSION >= 13000
FM_EXPORT CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context)
{
    ENTER(0, "of=%s", X(context));
    fm_domain *domain;
    int rc = find_context(context, &domain);
    if (rc == OK)
        *device = domain->device;
    LEAVE(rc);
}

FM_EXPORT CUresult cuCtxSynchronize_v2(CUcontext context)
{
    ENTER(BLOCKS, "of=%s", X(context));
    fm_domain *domain;
    int rc = find_context(context, &domain);
    LEAVE(rc == OK ? front_error(fm_domain_sync(domain)) : rc);
}
#endif

#if FAKE_VERSION >= 12000
FM_EXPORT CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
    ENTER(0, "of=%s", X(context));
    fm_domain *domain;
    int rc = find_context(context, &domain);
    if (rc == OK)
        *id = domain->number;
    LEAVE(rc);
}
#endif

FM_EXPORT CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
    ENTER(0, "of=%s", X(context));
    fm_domain *domain;
    int rc = find_context(context, &domain);
    if (rc == OK)
        *version = 3020;
    LEAVE(rc);
}

FM_EXPORT CUresult cuCtxGetFlags(unsigned int *flags)
{
    ENTER(CONTEXT, "%s", "");
    *flags = 0;
    LEAVE(OK);
}

FM_EXPORT CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
    ENTER(BLOCKS, "flags=%u dev=%d", flags, device);
    LEAVE_IF(!device_exists(device), INVALID_DEVICE);
    fm_domain *domain = fm_domain_new(device, false);
    push(domain);
    *context = context_handle(domain);
    NOTE(" got=%s", X(*context));
    LEAVE(OK);
}

FM_EXPORT CUresult cuCtxDestroy_v2(CUcontext context)
{
    ENTER(BLOCKS, "of=%s", X(context));
    fm_domain *domain;
    int rc = context ? find_context(context, &domain) : INVALID_CONTEXT;
    LEAVE_IF(rc != OK, rc);
    LEAVE_IF(is_primary(domain), INVALID_CONTEXT);
    if (domain == current_context())
        stack.depth--;
    fm_domain_end(domain);
    LEAVE(OK);
}

/* ---- what only tests call ---- */

FM_EXPORT unsigned fake_stack(unsigned *numbers, unsigned room);
FM_EXPORT void fake_set_current(uintptr_t context);
FM_EXPORT int fake_primary_active(int device);
FM_EXPORT void fake_primary_release(int device);
FM_EXPORT unsigned fake_context_number(uintptr_t context);

unsigned fake_stack(unsigned *numbers, unsigned room)
{
    renew();
    for (unsigned i = 0; i < stack.depth && i < room; i++)
        numbers[i] = stack.at[i]->number;
    return stack.depth;
}

void fake_set_current(uintptr_t context)
{
    fm_lock();
    renew();
    stack.depth = 0;
    if (context)
        push(front_domain(context));
    fm_unlock();
}

int fake_primary_active(int device)
{
    return device_exists(device) && primary[device].domain;
}

void fake_primary_release(int device)
{
    fm_lock();
    primary[device].held = false;
    primary[device].retained = 0;
    let_go(device);
    fm_unlock();
}

unsigned fake_context_number(uintptr_t context)
{
    fm_lock();
    unsigned number = front_domain(context)->number;
    fm_unlock();
    return number;
}
