/* Allocations, and what pointers tell. */
#include "cuda.h"

#include <string.h>

#include "queue.h"

/* ---- allocation ---- */

static int allocate(call *made, fm_domain *domain, size_t size, fm_kind kind, uintptr_t *address)
{
    if (!size)
        return INVALID_VALUE;
    const fm_memory *memory = fm_memory_new(domain, size, kind, false);
    if (!memory)
        return OUT_OF_MEMORY;
    *address = memory->base;
    call_note(made, " got=m%u", memory->number);
    return OK;
}

static int allocate_device(call *made, size_t size, fm_kind kind, CUdeviceptr *to)
{
    uintptr_t address;
    int rc = allocate(made, current_context(), size, kind, &address);
    if (rc == OK)
        *to = address;
    return rc;
}

static int allocate_host(call *made, size_t size, void **to)
{
    uintptr_t address;
    int rc = allocate(made, current_context(), size, FM_PINNED, &address);
    if (rc == OK)
        *to = (void *)address;
    return rc;
}

/* Freeing waits for all that its context does, unless that is being captured; but not for memory
 * of a pool (cuda.h, cuMemFree). */
static int free_at(uintptr_t address, bool host)
{
    if (!address)
        return OK;
    fm_memory *memory = fm_memory_at(address);
    if (!memory || memory->base != address || (memory->kind == FM_PINNED) != host)
        return INVALID_VALUE;
    if (memory->kind != FM_POOL)
        fm_domain_drain(memory->domain);
    bool racy = false;
    fm_touch(NULL, memory->base, memory->size, true, &racy);
    fm_memory_free(memory);
    return OK;
}

FM_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *to, size_t size)
{
    ENTER(CONTEXT | BLOCKS | UNSEEN, "bytes=%zu", size);
    LEAVE(allocate_device(&this_call, size, FM_DEVICE, to));
}

FM_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *to, size_t size, unsigned int flags)
{
    ENTER(CONTEXT | BLOCKS | UNSEEN, "bytes=%zu flags=%u", size, flags);
    LEAVE(allocate_device(&this_call, size, FM_MANAGED, to));
}

FM_EXPORT CUresult cuMemFree_v2(CUdeviceptr address)
{
    ENTER(CONTEXT | BLOCKS | UNSEEN, "ptr=%s", M(address));
    LEAVE(free_at((uintptr_t)address, false));
}

FM_EXPORT CUresult cuMemHostAlloc(void **to, size_t size, unsigned int flags)
{
    ENTER(CONTEXT | BLOCKS | UNSEEN, "bytes=%zu flags=%u", size, flags);
    LEAVE(allocate_host(&this_call, size, to));
}

FM_EXPORT CUresult cuMemAllocHost_v2(void **to, size_t size)
{
    ENTER(CONTEXT | BLOCKS | UNSEEN, "bytes=%zu", size);
    LEAVE(allocate_host(&this_call, size, to));
}

FM_EXPORT CUresult cuMemFreeHost(void *address)
{
    ENTER(CONTEXT | BLOCKS | UNSEEN, "ptr=%s", M(address));
    LEAVE(free_at((uintptr_t)address, true));
}

FM_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *to, void *address, unsigned int flags)
{
    ENTER(CONTEXT, "ptr=%s flags=%u", M(address), flags);
    const fm_memory *memory = fm_memory_at((uintptr_t)address);
    LEAVE_IF(!memory || memory->kind != FM_PINNED, INVALID_VALUE);
    *to = (uintptr_t)address;
    LEAVE(OK);
}

FM_EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
    ENTER(CONTEXT, "%s", "");
    *total = (size_t)1 << 36;
    *available = *total - fm_live_bytes();
    LEAVE(OK);
}

FM_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    ENTER(CONTEXT, "ptr=%s", M(address));
    const fm_memory *memory = fm_memory_at((uintptr_t)address);
    LEAVE_IF(!memory, INVALID_VALUE);
    if (base)
        *base = memory->base;
    if (size)
        *size = memory->size;
    LEAVE(OK);
}

/* ---- allocation in a stream's turn ---- */

#if FAKE_VERSION >= 11020

static int pool; /* its address is the one pool's handle */

static int allocate_in_turn(call *made, CUstream handle, size_t size, CUdeviceptr *to)
{
    fm_stream *stream;
    uint64_t seq;
    int rc = find_stream(handle, &stream);
    if (rc == OK)
        rc = front_error(fm_operation(stream, &seq));
    if (rc != OK)
        return rc;
    uintptr_t address;
    bool racy = false;
    rc = allocate(made, stream->domain, size, FM_POOL, &address);
    if (rc == OK)
        rc = front_error(fm_touch(stream, address, size, true, &racy)); /* others come after */
    if (rc == OK)
        *to = address;
    return rc;
}

FM_EXPORT CUresult cuMemAllocAsync(CUdeviceptr *to, size_t size, CUstream stream)
{
    ENTER(BLOCKS, "bytes=%zu stream=%s", size, S(stream));
    LEAVE(allocate_in_turn(&this_call, stream, size, to));
}

FM_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *to, size_t size, CUmemoryPool from,
                                           CUstream stream)
{
    ENTER(BLOCKS, "bytes=%zu stream=%s", size, S(stream));
    LEAVE_IF((void *)from != &pool, INVALID_VALUE);
    LEAVE(allocate_in_turn(&this_call, stream, size, to));
}

static void free_in_turn(void *memory)
{
    fm_memory_free(*(fm_memory **)memory);
}

FM_EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle)
{
    ENTER(BLOCKS, "ptr=%s stream=%s", M(address), S(handle));
    fm_stream *stream;
    fm_memory *memory = fm_memory_at((uintptr_t)address);
    LEAVE_IF(!memory || memory->base != address, INVALID_VALUE);
    int rc = find_stream(handle, &stream);
    bool racy = false;
    if (rc == OK)
        rc = front_error(fm_touch(stream, memory->base, memory->size, true, &racy));
    if (rc == OK)
        fm_queue_run(stream, free_in_turn, &memory, sizeof memory);
    LEAVE(rc);
}

static int get_pool(CUmemoryPool *to, CUdevice device)
{
    if (!device_exists(device))
        return INVALID_DEVICE;
    *to = (CUmemoryPool)(void *)&pool;
    return OK;
}

FM_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *to, CUdevice device)
{
    ENTER(0, "dev=%d", device);
    LEAVE(get_pool(to, device));
}

FM_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *to, CUdevice device)
{
    ENTER(0, "dev=%d", device);
    LEAVE(get_pool(to, device));
}

FM_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool of, CUmemPool_attribute attribute,
                                         void *value)
{
    ENTER(UNSEEN, "attribute=%d", (int)attribute);
    LEAVE_IF((void *)of != &pool, INVALID_VALUE);
    if (attribute >= 1 && attribute <= 3)
        *(int *)value = 1;
    else
        *(cuuint64_t *)value = 0;
    LEAVE(OK);
}

FM_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool of, CUmemPool_attribute attribute,
                                         void *value)
{
    ENTER(UNSEEN, "attribute=%d value=%s", (int)attribute, value ? "set" : "NULL");
    LEAVE((void *)of == &pool ? OK : INVALID_VALUE);
}

#endif

/* ---- pointers ---- */

enum { HOST = 1, DEVICE = 2 };

static void put(void *to, const void *value, size_t size)
{
    memcpy(to, value, size);
}

#define PUT(type, value)                                                                           \
    do {                                                                                           \
        type it_ = (value);                                                                        \
        put(to, &it_, sizeof it_);                                                                 \
    } while (0)

/* Of memory that is not known: zeros. */
static int attribute_of(const fm_memory *memory, uintptr_t address, int attribute, void *to)
{
    bool known = memory != NULL;
    switch (attribute) {
    case 1: /* CONTEXT: none for what a pool gave */
        PUT(CUcontext, known && memory->kind != FM_POOL ? context_handle(memory->domain) : NULL);
        return OK;
    case 2: /* MEMORY_TYPE: managed memory says that it is the device's */
        PUT(unsigned, !known ? 0 : memory->kind == FM_PINNED ? HOST : DEVICE);
        return OK;
    case 3: /* DEVICE_POINTER */
        PUT(CUdeviceptr, known ? address : 0);
        return OK;
    case 4: /* HOST_POINTER */
        if (known && memory->kind != FM_PINNED && memory->kind != FM_MANAGED)
            return INVALID_VALUE;
        PUT(void *, known ? (void *)address : NULL);
        return OK;
    case 6: /* SYNC_MEMOPS */
        PUT(bool, false);
        return OK;
    case 7: /* BUFFER_ID */
        PUT(unsigned long long, known ? memory->number : 0);
        return OK;
    case 8: /* IS_MANAGED */
        PUT(unsigned, known && memory->kind == FM_MANAGED);
        return OK;
    case 9: /* DEVICE_ORDINAL */
        PUT(int, known ? memory->domain->device : 0);
        return OK;
    case 11: /* RANGE_START_ADDR */
        PUT(CUdeviceptr, known ? memory->base : 0);
        return OK;
    case 12: /* RANGE_SIZE */
        PUT(size_t, known ? memory->size : 0);
        return OK;
    case 13: /* MAPPED */
        PUT(unsigned, known);
        return OK;
#if FAKE_VERSION >= 11020
    case 17: /* MEMPOOL_HANDLE */
        PUT(void *, known && memory->kind == FM_POOL ? &pool : NULL);
        return OK;
#endif
    default:
        return INVALID_VALUE;
    }
}

static bool context_wanted(void)
{
    return the_options.pointer_needs_context && !current_context();
}

/* What the driver knows of the address: of the system's own memory nothing, and with the option 2
 * it asks for a context of the memory's device. */
static const fm_memory *told_of(CUdeviceptr address)
{
    const fm_memory *memory = fm_memory_at((uintptr_t)address);
    const fm_domain *current = current_context();
    bool elsewhere = memory && the_options.pointer_needs_context == 2
                     && (!current || current->device != memory->domain->device);
    return !memory || memory->kind == FM_SYSTEM || elsewhere ? NULL : memory;
}

/* For a pointer that the driver does not know, one function fails and the other gives zeros. */
FM_EXPORT CUresult cuPointerGetAttribute(void *to, CUpointer_attribute attribute,
                                         CUdeviceptr address)
{
    ENTER(0, "attribute=%d ptr=%s", (int)attribute, M(address));
    LEAVE_IF(context_wanted(), INVALID_CONTEXT);
    const fm_memory *memory = told_of(address);
    LEAVE_IF(!memory, INVALID_VALUE);
    LEAVE(attribute_of(memory, (uintptr_t)address, (int)attribute, to));
}

FM_EXPORT CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes,
                                          void **to, CUdeviceptr address)
{
    ENTER(0, "count=%u ptr=%s", count, M(address));
    LEAVE_IF(context_wanted(), INVALID_CONTEXT);
    const fm_memory *memory = told_of(address);
    for (unsigned i = 0; i < count; i++) {
        int rc = attribute_of(memory, (uintptr_t)address, (int)attributes[i], to[i]);
        if (rc == INVALID_VALUE && (int)attributes[i] == 4)
            memset(to[i], 0, sizeof(void *));
        else
            LEAVE_IF(rc != OK, rc);
    }
    LEAVE(OK);
}
