/* Copies device memory to host memory, and host and device memory to device memory;
 * makes and ends the memory.  Called by export/ while an exchange is resolved, without
 * the GIL.  Makes driver calls; allocates one slab at a time on the host, and on the
 * device where rows go to another one.  Tests: tests/device/test_copies.py,
 * tests/device/test_copies_to_devices.py. */
#include "gpu/device_copy.h"

#include <assert.h>

#include "core/alloc.h"
#include "core/copy.h"
#include "core/lock.h"
#include "gpu/pointer.h"
#include "gpu/sync_rules.h"
#include "gpu/sync_run.h"

/* --- to the host ---------------------------------------------------------- */

/* With more pitched copies than this it is cheaper to fetch the gaps, too. */
#define PLANES_MAX 64
/* Spans up to this size are fetched whole, gaps and all. */
#define SPAN_SMALL (INT64_C(1) << 20)
/* Spans above this are divided, so that the slab stays small. */
#define SPAN_LARGE (INT64_C(1) << 26)
/* The largest distance of two rows that every device accepts. */
#define PITCH_MAX INT32_MAX

typedef struct {
    dls_place place;
    uint64_t stream;
    dls_error *err;
} copier;

static int
check_copy(const copier *c, int result, dls_call call)
{
    return dls_gpu_check(&c->place, result, call, -1, c->err);
}

static int
fetch(const copier *c, char *dst, const char *src, int64_t bytes)
{
    return check_copy(c,
                      c->place.driver->copy(&c->place, dst, src, (size_t)bytes,
                                            DLS_WAY_TO_HOST, c->stream),
                      DLS_CALL_COPY);
}

/* Can a few pitched copies of the driver bring it together?  walk->count > 0. */
static bool
copy_is_pitched(const dls_traversal *walk)
{
    const dls_axis *inner = &walk->axes[walk->count - 1];
    int64_t planes = 1;
    for (int i = 0; i < walk->count - 1; i++) {
        planes *= walk->axes[i].extent; /* the scan has checked the number */
    }
    return planes <= PLANES_MAX && inner->step >= walk->itemsize
           && inner->step <= PITCH_MAX;
}

/* Start them: rows at equal distances to a dense block, one pitched copy for each
 * plane.  The place is current.  DLS_OK, or a code with *err. */
static int
copy_planes(const dls_place *place, void *dst, const void *src, dls_traversal walk,
            dls_copy_way way, uint64_t stream, dls_error *err)
{
    assert(walk.count > 0);
    char *to = dst;
    const char *from = src;
    const dls_axis rows = walk.axes[--walk.count];
    do {
        int result = place->driver->copy_plane(place, to, from, (size_t)walk.itemsize,
                                               (size_t)rows.step, (size_t)rows.extent,
                                               way, stream);
        int code = dls_gpu_check(place, result, DLS_CALL_COPY_PLANE, -1, err);
        if (code != DLS_OK) {
            return code;
        }
        to += rows.extent * walk.itemsize;
    } while (dls_traversal_next(&walk, &from));
    return DLS_OK;
}

/* Lowest byte relative to element zero (<= 0), and the bytes from there to the end. */
static int64_t
span_of(const dls_traversal *walk, int64_t *low)
{
    int64_t high = walk->itemsize;
    *low = 0;
    for (int i = 0; i < walk->count; i++) {
        int64_t reach = (walk->axes[i].extent - 1) * walk->axes[i].step;
        *low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    return high - *low;
}

static int64_t
payload_of(const dls_traversal *walk)
{
    int64_t bytes = walk->itemsize;
    for (int i = 0; i < walk->count; i++) {
        bytes *= walk->axes[i].extent;
    }
    return bytes;
}

/* The whole span to a slab, gathered from there. */
static int
fetch_span(const copier *c, char *dst, const char *src, dls_traversal walk,
           int64_t span, int64_t low)
{
    char *slab = dls_alloc_bytes(span);
    if (slab == NULL) {
        return dls_fail(c->err, DLS_ENOMEM, "no memory for a slab of the copy");
    }
    int code = fetch(c, slab, src + low, span);
    if (code == DLS_OK) {
        /* mutant: wait for a slab */
        code = check_copy(c, c->place.api->stream_sync(dls_gpu_stream(c->stream)),
                          DLS_CALL_SYNC);
    }
    if (code == DLS_OK) {
        dls_host_copy_walk(dst, slab - low, &walk);
    }
    dls_free(slab);
    return code;
}

/* Halving the outermost axis ends: at the latest with runs of one dense item. */
static int
fetch_part(const copier *c, char *dst, const char *src, dls_traversal walk)
{
    if (walk.count == 0) {
        return fetch(c, dst, src, walk.itemsize);
    }
    if (copy_is_pitched(&walk)) {
        return copy_planes(&c->place, dst, src, walk, DLS_WAY_TO_HOST, c->stream,
                           c->err);
    }
    int64_t low, span = span_of(&walk, &low), payload = payload_of(&walk);
    if (span <= SPAN_SMALL || (span <= SPAN_LARGE && span / 2 <= payload)) {
        return fetch_span(c, dst, src, walk, span, low);
    }
    dls_axis *outer = walk.axes;
    int64_t extent = outer->extent, first = extent / 2;
    if (extent == 1) {
        walk.axes++;
        walk.count--;
        return fetch_part(c, dst, src, walk);
    }
    outer->extent = first;
    int code = fetch_part(c, dst, src, walk);
    outer->extent = extent - first;
    if (code == DLS_OK) {
        code = fetch_part(c, dst + payload / extent * first, src + first * outer->step,
                          walk);
    }
    outer->extent = extent;
    return code;
}

int
dls_copy_stream(dl_device device, dls_memory *memory, uint64_t *stream, bool *lost,
                dls_error *err)
{
    const dls_driver *driver = dls_driver_of(device.device_type);
    dls_place place;
    dls_saved_device saved;
    int code = driver->find(driver->legacy, device.device_id, memory, &place, err);
    *lost = code != DLS_OK;
    if (code != DLS_OK || (code = driver->enter(&place, &saved, err)) != DLS_OK) {
        return code;
    }
    code = dls_pool_stream(&place, DLS_POOL_COPIES, stream, err);
    driver->leave(&saved);
    return code;
}

int
dls_copy_to_host(void *dst, const dl_tensor *tensor, int64_t itemsize,
                 const dls_memory *known, uint64_t stream, dls_error *err)
{
    const char *src = (const char *)tensor->data + tensor->byte_offset;
    const dls_driver *driver = dls_driver_of(tensor->device.device_type);
    copier c = {.stream = stream, .err = err};
    dls_memory memory = known->address == src ? *known : (dls_memory){.address = src};
    dls_traversal walk;
    dls_saved_device saved;
    int code = driver->find(stream, -1, &memory, &c.place, err);
    if (code != DLS_OK || (code = driver->enter(&c.place, &saved, err)) != DLS_OK) {
        return code;
    }
    if (dls_traversal_plan(&walk, tensor, itemsize) != DLS_OK) {
        driver->leave(&saved);
        return dls_fail(err, DLS_ENOMEM, "no memory for the axes of the copy");
    }
    code = fetch_part(&c, dst, src, walk);
    dls_free(walk.axes);
    /* Also after a failure: nothing may still be written when dst is freed. */
    /* mutant: wait for a copy */
    int result = c.place.api->stream_sync(dls_gpu_stream(stream));
    if (code == DLS_OK) {
        code = check_copy(&c, result, DLS_CALL_SYNC);
    }
    driver->leave(&saved);
    return code;
}

/* --- memory of a device --------------------------------------------------- */

typedef struct device_memory {
    dls_device_memory head;
    struct device_memory *next; /* of those that have to wait */
    dls_place place;
    uint64_t id; /* of the place, whose address may be used again; 0: not told */
    uint64_t free_stream; /* in whose turn it is freed, if it is pooled */
    bool pooled;
    void *base; /* the address that the driver gave */
} device_memory;

/* Memory that was dropped during a graph capture.  Nothing is lost: it goes with a
 * later end, or with the next copy to a device. */
static device_memory *waiting;

/* --- the end -------------------------------------------------------------- */

/* The stream in whose turn pooled memory is freed waits for all that the place, which
 * is current, has been given.  GPU_OK, or the driver's code; other failures than those
 * of a capture make the host wait instead, which is slower and just as safe. */
static int
come_after(const device_memory *memory, const dls_place *place)
{
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

/* As come_after, for the device's own place, which is entered for it, if the memory is
 * in another one.  False: a capture forbids it. */
static bool
come_after_device(const device_memory *memory)
{
    const dls_driver *driver = memory->place.driver;
    dls_place own;
    dls_saved_device saved;
    dls_error err;
    if (driver->find_own == NULL || !driver->find_own(&memory->place, &own)
        || driver->enter(&own, &saved, &err) != DLS_OK) {
        return true;
    }
    bool captures = dls_gpu_captures(&own, driver->legacy);
    int result = GPU_OK;
    if (!captures) {
        int mode = dls_gpu_set_capture_mode(own.api, GPU_MODE_RELAXED);
        /* mutant: the device's own place */
        result = memory->pooled ? come_after(memory, &own) : own.api->device_sync();
        dls_gpu_set_capture_mode(own.api, mode);
    }
    driver->leave(&saved);
    return !captures && !dls_gpu_is_capture_error(result);
}

/* The place is current, and no capture was seen.  False: a capture forbids it. */
static bool
free_now(const device_memory *memory)
{
    const dls_place *place = &memory->place;
    int mode = dls_gpu_set_capture_mode(place->api, GPU_MODE_RELAXED);
    int result = memory->pooled ? come_after(memory, place) : GPU_OK;
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
    bool done = !dls_gpu_captures(&memory->place, driver->legacy)
                && come_after_device(memory) && free_now(memory);
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

/* Give back the memory that had to wait for the end of a graph capture, if that is
 * over. */
static void
device_memory_flush(void)
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
        device_memory_flush();
    }
}

/* --- the beginning -------------------------------------------------------- */

/* The place is current.  GPU_OK with memory->base; or the driver's code. */
static int
allocate_memory(device_memory *memory, uint64_t stream, size_t bytes)
{
    const dls_place *place = &memory->place;
    int mode = dls_gpu_set_capture_mode(place->api, GPU_MODE_RELAXED);
    int result = place->driver->allocate(place, bytes, memory->pooled, stream,
                                         &memory->base);
    dls_gpu_set_capture_mode(place->api, mode);
    return result;
}

static int
check_memory(const device_memory *memory, int result, int64_t bytes, dls_error *err)
{
    if (result != GPU_OUT_OF_MEMORY) {
        return dls_gpu_check(&memory->place, result, DLS_CALL_ALLOCATE, -1, err);
    }
    return dls_fail(err, DLS_EBUFFER,
                    "%s: the device has no memory for the %lld bytes (error %d)\n"
                    "  free some there (of CuPy by "
                    "cupy.get_default_memory_pool().free_all_blocks()), or take a part",
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
    return check_memory(memory, allocate_memory(memory, stream, (size_t)bytes), bytes,
                        err);
}

int
dls_device_memory_new(const dls_place *place, uint64_t stream, int64_t bytes,
                      int64_t align, dls_device_memory **made, void **address,
                      dls_error *err)
{
    /* The memory of every driver begins at a multiple of this. */
    const int64_t usual = 256;
    int64_t more = align > usual ? align - usual : 0;
    dls_saved_device saved;
    device_memory_flush();
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

/* --- to a device ---------------------------------------------------------- */

/* One copy from device memory in progress. */
typedef struct {
    const dls_copy_target *target;
    dls_place from; /* of the tensor, and of the stream */
    uint64_t stream;
    dls_error *err;
} device_copier;

/* --- where ---------------------------------------------------------------- */

/* The place is current. */
static int
check_capture(const dls_place *place, uint64_t s, dls_error *err)
{
    uint64_t legacy = place->driver->legacy;
    bool captures = dls_gpu_captures(place, legacy)
                    || (s != legacy && dls_gpu_captures(place, s));
    /* mutant: capture before a copy */
    return captures ? dls_fail(err, DLS_ECAPTURE, "%s", DLS_CAPTURE_REFUSAL) : DLS_OK;
}

int
dls_copy_target_find(dl_device to, uint64_t s, const void *source,
                     dls_copy_target *target, dls_error *err)
{
    const dls_driver *driver = dls_driver_of(to.device_type);
    dls_saved_device saved;
    dls_place *place = &target->place;
    /* mutant: context of a copy */
    int code = driver->find_for_memory(s, to.device_id, source, place, err);
    if (code != DLS_OK) {
        return code;
    }
    if ((code = driver->enter(place, &saved, err)) != DLS_OK) {
        return code;
    }
    code = check_capture(place, s, err);
    if (code == DLS_OK) {
        code = dls_pool_stream(place, DLS_POOL_COPIES, &target->stream, err);
    }
    driver->leave(&saved);
    return code;
}

/* --- from the host -------------------------------------------------------- */

/* The stream's end, also after a failure: nothing may still be copied when either end
 * is freed.  The place is current. */
static int
finish(const dls_place *place, uint64_t stream, int code, dls_error *err)
{
    /* mutant: wait for a copy to a device */
    int result = place->api->stream_sync(dls_gpu_stream(stream));
    return code == DLS_OK ? dls_gpu_check(place, result, DLS_CALL_SYNC, -1, err) : code;
}

int
dls_copy_target_wait(const dls_copy_target *target, dls_error *err)
{
    const dls_place *place = &target->place;
    dls_saved_device saved;
    int code = place->driver->enter(place, &saved, err);
    if (code == DLS_OK) {
        code = finish(place, target->stream, code, err);
        place->driver->leave(&saved);
    }
    return code;
}

int
dls_copy_from_host(const dls_copy_target *target, void *dst, const void *src,
                   int64_t bytes, dls_error *err)
{
    const dls_place *place = &target->place;
    dls_saved_device saved;
    int code = place->driver->enter(place, &saved, err);
    if (code != DLS_OK) {
        return code;
    }
    int result = place->driver->copy(place, dst, src, (size_t)bytes, DLS_WAY_TO_DEVICE,
                                     target->stream);
    code = dls_gpu_check(place, result, DLS_CALL_COPY_TO_DEVICE, -1, err);
    code = finish(place, target->stream, code, err);
    place->driver->leave(&saved);
    return code;
}

/* --- from a device -------------------------------------------------------- */

int
dls_copy_is_possible(const dl_tensor *tensor, int64_t itemsize, dls_error *err)
{
    dls_traversal walk;
    if (dls_traversal_plan(&walk, tensor, itemsize) != DLS_OK) {
        return dls_fail(err, DLS_ENOMEM, "no memory for the axes of the copy");
    }
    bool possible = walk.count == 0 || copy_is_pitched(&walk);
    dls_free(walk.axes);
    return possible;
}

/* The memory at the target may be used after the work that its stream has been given:
 * the copying stream waits for that work. */
static int
wait_for_target(const device_copier *c)
{
    const dls_place *place = &c->target->place;
    dls_saved_device saved;
    void *event;
    int code = place->driver->enter(place, &saved, c->err);
    if (code != DLS_OK) {
        return code;
    }
    code = dls_pool_get_event(place, &event, c->err);
    if (code == DLS_OK) {
        int result = place->api->event_record(event, dls_gpu_stream(c->target->stream));
        code = dls_gpu_check(place, result, DLS_CALL_RECORD, -1, c->err);
        if (code == DLS_OK) {
            result = place->api->stream_wait(dls_gpu_stream(c->stream), event, 0);
            code = dls_gpu_check(place, result, DLS_CALL_WAIT, -1, c->err);
        }
        dls_pool_put_event(place, event, code == DLS_OK);
    }
    place->driver->leave(&saved);
    return code;
}

/* Within `from`, which is current, to a dense block there. */
static int
copy_within(const device_copier *c, void *dst, const void *src, dls_traversal walk)
{
    if (walk.count > 0) {
        return copy_planes(&c->from, dst, src, walk, DLS_WAY_WITHIN, c->stream, c->err);
    }
    int result = c->from.driver->copy(&c->from, dst, src, (size_t)walk.itemsize,
                                      DLS_WAY_WITHIN, c->stream);
    return dls_gpu_check(&c->from, result, DLS_CALL_COPY_WITHIN, -1, c->err);
}

static int
copy_dense_to_peer(const device_copier *c, void *dst, const void *src, int64_t bytes)
{
    int result = c->from.driver->copy_peer(&c->target->place, dst, &c->from, src,
                                           (size_t)bytes, c->stream);
    return dls_gpu_check(&c->from, result, DLS_CALL_COPY_PEER, -1, c->err);
}

/* Only dense blocks go from device to device: rows are brought together first.  *block
 * is the memory for that, which the caller ends when the stream has passed. */
static int
copy_to_peer(const device_copier *c, void *dst, const void *src, dls_traversal walk,
             dls_device_memory **block)
{
    int64_t bytes = walk.itemsize;
    void *dense = NULL;
    if (walk.count == 0) {
        return copy_dense_to_peer(c, dst, src, bytes);
    }
    for (int i = 0; i < walk.count; i++) {
        bytes *= walk.axes[i].extent; /* the scan has checked the number */
    }
    int code = dls_device_memory_new(&c->from, c->stream, bytes, 1, block, &dense,
                                     c->err);
    if (code == DLS_OK) {
        code = copy_within(c, dense, src, walk);
    }
    return code == DLS_OK ? copy_dense_to_peer(c, dst, dense, bytes) : code;
}

static bool
is_one_place(const dls_place *a, const dls_place *b)
{
    return a->api == b->api && a->context == b->context;
}

int
dls_copy_from_device(const dls_copy_target *target, void *dst, const dl_tensor *tensor,
                     int64_t itemsize, uint64_t stream, dls_error *err)
{
    const char *src = (const char *)tensor->data + tensor->byte_offset;
    const dls_driver *driver = dls_driver_of(tensor->device.device_type);
    device_copier c = {.target = target, .stream = stream, .err = err};
    dls_device_memory *block = NULL;
    dls_memory memory = {.address = src};
    dls_traversal walk;
    dls_saved_device saved;
    int code = driver->find(stream, tensor->device.device_id, &memory, &c.from, err);
    bool here = code == DLS_OK && is_one_place(&c.from, &target->place);
    if (code == DLS_OK && stream != target->stream) {
        code = wait_for_target(&c); /* mutant: wait for new memory */
    }
    if (code != DLS_OK || (code = driver->enter(&c.from, &saved, err)) != DLS_OK) {
        return code;
    }
    if (dls_traversal_plan(&walk, tensor, itemsize) == DLS_OK) {
        code = here ? copy_within(&c, dst, src, walk)
                    : copy_to_peer(&c, dst, src, walk, &block);
        dls_free(walk.axes);
    }
    else {
        code = dls_fail(err, DLS_ENOMEM, "no memory for the axes of the copy");
    }
    code = finish(&c.from, stream, code, err);
    driver->leave(&saved);
    if (block != NULL) {
        block->end(block);
    }
    return code;
}
