/* Allocates device memory, and gives it back after all that its context does (S19).
 * Called by export/ for copies, and by core/hold when an export ends; makes driver
 * calls.  Writes the list of memory that has to wait under DLS_LOCK_MEMORY.
 * Tests: tests/device/test_copies_to_devices.py.
 */
#include "gpu/device_memory.h"

#include "core/alloc.h"
#include "core/lock.h"
#include "gpu/pool.h"

typedef struct device_memory {
    dls_device_memory head;
    struct device_memory *next; /* of those that have to wait */
    dls_place place;
    uint64_t id; /* of the place, whose address may be used again; 0: not told */
    uint64_t free_stream; /* in whose turn it is freed, if it is pooled */
    bool pooled;
    void *base; /* what the driver gave */
} device_memory;

/* Memory that was dropped during a graph capture.  Nothing is lost: it goes with a
 * later end, or with the next copy to a device. */
static device_memory *waiting;

/* --- the end -------------------------------------------------------------- */

/* The stream in whose turn the memory is freed waits for all that the place has been
 * given.  GPU_OK, or the driver's code; other failures than those of a capture make the
 * host wait instead, which is slower and just as safe. */
static int
come_after_all(const device_memory *memory)
{
    const dls_place *place = &memory->place;
    void *event;
    dls_error err;
    int result = -1;
    if (dls_pool_get_event(place, &event, &err) == DLS_OK) {
        /* mutant: record before memory is freed */
        result = place->driver->record_device(place, event);
        if (result == GPU_OK) {
            /* mutant: wait before memory is freed */
            result = place->api->stream_wait(dls_gpu_stream(memory->free_stream), event,
                                             0);
        }
        dls_pool_put_event(place, event, result == GPU_OK);
    }
    return result == GPU_OK || dls_gpu_is_capture_error(result)
               ? result
               : place->api->device_sync();
}

/* The place is current, and no capture was seen.  False: a capture forbids it. */
static bool
free_now(const device_memory *memory)
{
    const dls_place *place = &memory->place;
    int mode = dls_gpu_set_capture_mode(place->api, GPU_MODE_RELAXED);
    int result = memory->pooled ? come_after_all(memory) : GPU_OK;
    if (!dls_gpu_is_capture_error(result)) {
        result = place->driver->deallocate(place, memory->base, memory->pooled,
                                           memory->free_stream);
    }
    dls_gpu_set_capture_mode(place->api, mode);
    return !dls_gpu_is_capture_error(result);
}

/* False: not now, because of a graph capture.  True also in a forked child (S23), and
 * where the context is gone and its memory with it. */
static bool
give_back(const device_memory *memory)
{
    const dls_driver *driver = memory->place.driver;
    dls_saved_device saved;
    dls_error err;
    if (!driver->in_use()
        || (memory->id != 0 && driver->identity(&memory->place) != memory->id)
        || driver->enter(&memory->place, &saved, &err) != DLS_OK) {
        return true;
    }
    /* mutant: memory freed during a capture */
    bool done = !dls_gpu_captures(&memory->place, driver->legacy) && free_now(memory);
    driver->leave(&saved);
    return done;
}

static void
wait_for_later(device_memory *memory)
{
    dls_lock_take(DLS_LOCK_MEMORY);
    memory->next = waiting;
    waiting = memory; /* mutant: memory that waits */
    dls_lock_give(DLS_LOCK_MEMORY);
}

static bool
end_one(device_memory *memory)
{
    if (!give_back(memory)) {
        wait_for_later(memory);
        return false;
    }
    dls_free(memory);
    return true;
}

void
dls_device_memory_flush(void)
{
    device_memory *next;
    dls_lock_take(DLS_LOCK_MEMORY);
    device_memory *list = waiting;
    waiting = NULL;
    dls_lock_give(DLS_LOCK_MEMORY);
    for (; list != NULL; list = next) {
        next = list->next;
        end_one(list);
    }
}

static void
end(dls_device_memory *self)
{
    if (end_one((device_memory *)self)) {
        dls_device_memory_flush();
    }
}

/* --- the beginning -------------------------------------------------------- */

/* The place is current.  GPU_OK with memory->base; or the driver's code. */
static int
allocate(device_memory *memory, uint64_t stream, size_t bytes)
{
    const dls_place *place = &memory->place;
    int mode = dls_gpu_set_capture_mode(place->api, GPU_MODE_RELAXED);
    int result = place->driver->allocate(place, bytes, memory->pooled, stream,
                                         &memory->base);
    dls_gpu_set_capture_mode(place->api, mode);
    return result;
}

static int
check(const device_memory *memory, int result, int64_t bytes, dls_error *err)
{
    if (result != GPU_OUT_OF_MEMORY) {
        return dls_gpu_check(&memory->place, result, DLS_CALL_ALLOCATE, -1, err);
    }
    return dls_fail(err, DLS_EBUFFER,
                    "%s: the device has no memory for the %lld bytes of the copy "
                    "(error %d); free some there, or copy a part",
                    memory->place.driver->name, (long long)bytes, result);
}

/* The place is current. */
static int
begin(device_memory *memory, uint64_t stream, int64_t bytes, dls_error *err)
{
    const dls_place *place = &memory->place;
    memory->id = place->driver->identity(place);
    memory->pooled = place->driver->has_pools(place);
    /* mutant: stream of freed memory */
    if (memory->pooled
        && dls_pool_stream(place, DLS_POOL_FREES, &memory->free_stream, err)
               != DLS_OK) {
        return err->code;
    }
    return check(memory, allocate(memory, stream, (size_t)bytes), bytes, err);
}

int
dls_device_memory_new(const dls_place *place, uint64_t stream, int64_t bytes,
                      int64_t align, dls_device_memory **made, void **address,
                      dls_error *err)
{
    /* Every driver's memory begins at a multiple of this. */
    const int64_t usual = 256;
    int64_t more = align > usual ? align - usual : 0;
    dls_saved_device saved;
    dls_device_memory_flush();
    device_memory *memory = dls_alloc(sizeof *memory);
    if (memory == NULL) {
        return dls_fail(err, DLS_ENOMEM, "no memory for the record of a device copy");
    }
    *memory = (device_memory){.head.end = end, .place = *place};
    int code = place->driver->enter(place, &saved, err);
    if (code == DLS_OK) {
        code = begin(memory, stream, bytes + more, err);
        place->driver->leave(&saved);
    }
    if (code != DLS_OK) {
        dls_free(memory);
        return code;
    }
    uintptr_t start = (uintptr_t)memory->base;
    *address = (void *)((start + (uintptr_t)align - 1) & ~((uintptr_t)align - 1));
    *made = &memory->head;
    return DLS_OK;
}
