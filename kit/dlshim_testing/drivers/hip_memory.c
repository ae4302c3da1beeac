/* Attributes of pointers, and copies: these are operations of their stream, carried out in its turn. */
#include "hip.h"

#include <string.h>

#include "queue.h"

/* ---- pointers ---- */

enum {
    HOST = MAJOR < 6 ? 0 : 1,
    DEVICE = MAJOR < 6 ? 1 : 2,
    MANAGED = MAJOR < 6 ? 0 : 3, /* 5.x tells it from the host's in no way */
    UNREGISTERED = 0,            /* since 6.0 */
    NO_SUCH_DEVICE = -2,
};

static int type_of(const fm_memory *memory)
{
    return memory->kind == FM_PINNED ? HOST : memory->kind == FM_MANAGED ? MANAGED : DEVICE;
}

/* Of unknown pointers 5.x tells nothing, 6.0 that they are unknown, 7.0 that of NULL too. */
FM_EXPORT hipError_t hipPointerGetAttributes(hipPointerAttribute_t *to, const void *address)
{
    ENTER(0, "ptr=%s", M(address));
    LEAVE_IF(!to || (!address && MAJOR < 7), INVALID_VALUE);
    const fm_memory *memory = fm_memory_at((uintptr_t)address);
    pointer_facts facts = {.type = UNREGISTERED, .device = NO_SUCH_DEVICE};
    LEAVE_IF(!memory && MAJOR < 6, INVALID_VALUE);
    if (memory) {
        facts.type = type_of(memory);
        facts.device = memory->domain->device;
        facts.device_pointer = (void *)(uintptr_t)address;
        facts.managed = memory->kind == FM_MANAGED && MAJOR >= 6;
        if (memory->kind == FM_PINNED || memory->kind == FM_MANAGED)
            facts.host_pointer = facts.device_pointer;
    }
    memcpy(to, &facts, sizeof facts);
    LEAVE(OK);
}

/* ---- allocation ---- */

FM_EXPORT hipError_t hipMalloc(void **to, size_t size)
{
    ENTER(BLOCKS, "bytes=%zu", size);
    int rc = front_error(fm_unsafe_call());
    LEAVE_IF(rc != OK, rc);
    const fm_memory *memory = fm_memory_new(current_device(), size, FM_DEVICE, false);
    LEAVE_IF(!memory, OUT_OF_MEMORY);
    *to = (void *)memory->base;
    NOTE(" got=m%u", memory->number);
    LEAVE(OK);
}

/* Waits for all that the device does. */
FM_EXPORT hipError_t hipFree(void *address)
{
    ENTER(BLOCKS, "ptr=%s", M(address));
    int rc = front_error(fm_unsafe_call());
    LEAVE_IF(rc != OK, rc);
    LEAVE_IF(!address, OK);
    fm_memory *memory = fm_memory_at((uintptr_t)address);
    LEAVE_IF(!memory || memory->base != (uintptr_t)address, INVALID_VALUE);
    bool racy = false;
    fm_domain_drain(memory->domain);
    fm_touch(NULL, memory->base, memory->size, true, &racy);
    fm_memory_free(memory);
    LEAVE(OK);
}

/* ---- copies ---- */

enum { TO_DEVICE = 1, TO_HOST = 2, WITHIN = 3, BY_ADDRESS = 4 };

typedef struct {
    uintptr_t base;
    size_t pitch;
    bool device; /* the address must be one that the runtime knows */
} side;

typedef struct {
    size_t width, rows;
} box;

static size_t reach(const side *at, box of)
{
    return (of.rows - 1) * at->pitch + of.width;
}

/* A device pointer must lie in one allocation; one of another device is noted. */
static int check(const side *at, box of, const fm_stream *stream)
{
    const fm_memory *memory = fm_memory_at(at->base);
    if (at->device && (!memory || at->base - memory->base + reach(at, of) > memory->size))
        return INVALID_VALUE;
    if (memory && memory->kind != FM_PINNED && memory->domain->device != stream->domain->device)
        fm_log("PEER m%u stream=%s", memory->number, stream->name);
    return OK;
}

typedef struct {
    side to, from;
    box of;
} copying;

static void copy(void *argument)
{
    const copying *it = argument;
    for (size_t j = 0; j < it->of.rows; j++)
        fm_move((void *)(it->to.base + j * it->to.pitch),
                (void *)(it->from.base + j * it->from.pitch), it->of.width);
}

static int move(hipStream_t handle, side to, side from, box of)
{
    fm_stream *stream;
    int rc = find_stream(handle, &stream);
    if (rc != OK || !of.width || !of.rows)
        return rc;
    if (of.rows > 1 && (to.pitch < of.width || from.pitch < of.width))
        return INVALID_VALUE;
    rc = check(&to, of, stream);
    if (rc == OK)
        rc = check(&from, of, stream);
    if (rc == OK)
        rc = front_error(
            fm_touch_copy(stream, to.base, reach(&to, of), from.base, reach(&from, of)));
    copying it = {to, from, of};
    if (rc == OK)
        fm_queue_run(stream, copy, &it, sizeof it);
    return rc;
}

static bool is_kind(int kind)
{
    return kind >= 0 && kind <= BY_ADDRESS;
}

static side target(void *address, size_t pitch, int kind)
{
    return (side){(uintptr_t)address, pitch, kind == TO_DEVICE || kind == WITHIN};
}

static side source(const void *address, size_t pitch, int kind)
{
    return (side){(uintptr_t)address, pitch, kind == TO_HOST || kind == WITHIN};
}

FM_EXPORT hipError_t hipMemcpyAsync(void *to, const void *from, size_t size, hipMemcpyKind kind,
                                    hipStream_t stream)
{
    ENTER(BLOCKS, "to=%s from=%s bytes=%zu kind=%d stream=%s", M(to), M(from), size, (int)kind,
          S(stream));
    LEAVE_IF(!is_kind((int)kind), INVALID_VALUE);
    LEAVE(move(stream, target(to, 0, (int)kind), source(from, 0, (int)kind), (box){size, 1}));
}

FM_EXPORT hipError_t hipMemcpy2DAsync(void *to, size_t to_pitch, const void *from,
                                      size_t from_pitch, size_t width, size_t rows,
                                      hipMemcpyKind kind, hipStream_t stream)
{
    ENTER(BLOCKS, "to=%s from=%s width=%zu rows=%zu kind=%d stream=%s", M(to), M(from), width,
          rows, (int)kind, S(stream));
    LEAVE_IF(!is_kind((int)kind), INVALID_VALUE);
    LEAVE(move(stream, target(to, to_pitch, (int)kind), source(from, from_pitch, (int)kind),
               (box){width, rows}));
}

FM_EXPORT hipError_t hipMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                        size_t size, hipStream_t stream)
{
    ENTER(BLOCKS, "to=%s dev=%d from=%s dev=%d bytes=%zu stream=%s", M(to), to_device, M(from),
          from_device, size, S(stream));
    LEAVE_IF(!front_domain_of(to_device) || !front_domain_of(from_device), INVALID_DEVICE);
    LEAVE(move(stream, target(to, 0, WITHIN), source(from, 0, WITHIN), (box){size, 1}));
}
