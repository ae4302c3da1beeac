/* Copies device memory to host memory.  Called while an exchange is resolved, without
 * the GIL.  Makes driver calls, allocates one slab at a time.
 * Tests: tests/device/test_copies.py.
 */
#include "gpu/device_copy.h"

#include <assert.h>

#include "core/alloc.h"
#include "core/copy.h"
#include "gpu/pointer.h"
#include "gpu/sync_run.h"

/* With more pitched copies than this it is cheaper to fetch the gaps, too. */
#define PLANES_MAX 64
/* Spans up to this size are fetched whole, gaps and all. */
#define SPAN_SMALL (INT64_C(1) << 20)
/* Spans above this are divided, so that the slab stays small. */
#define SPAN_LARGE (INT64_C(1) << 26)
/* Every device accepts this distance of two rows. */
#define PITCH_MAX INT32_MAX

typedef struct {
    dls_place place;
    uint64_t stream;
    dls_error *err;
} copier;

static int
check(const copier *c, int result, dls_call call)
{
    return dls_gpu_check(&c->place, result, call, -1, c->err);
}

static int
fetch(const copier *c, char *dst, const char *src, int64_t bytes)
{
    return check(c,
                 c->place.driver->copy(&c->place, dst, src, (size_t)bytes,
                                       DLS_WAY_TO_HOST, c->stream),
                 DLS_CALL_COPY);
}

bool
dls_copy_is_pitched(const dls_traversal *walk)
{
    const dls_axis *inner = &walk->axes[walk->count - 1];
    int64_t planes = 1;
    for (int i = 0; i < walk->count - 1; i++) {
        planes *= walk->axes[i].extent; /* the scan has checked the number */
    }
    return planes <= PLANES_MAX && inner->step >= walk->itemsize
           && inner->step <= PITCH_MAX;
}

int
dls_copy_planes(const dls_place *place, void *dst, const void *src, dls_traversal walk,
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
        code = check(c, c->place.api->stream_sync(dls_gpu_stream(c->stream)),
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
    if (dls_copy_is_pitched(&walk)) {
        return dls_copy_planes(&c->place, dst, src, walk, DLS_WAY_TO_HOST, c->stream,
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
dls_copy_stream(dl_device device, const void *address, uint64_t *stream, bool *lost,
                dls_error *err)
{
    const dls_driver *driver = dls_driver_of(device.device_type);
    dls_place place;
    dls_saved_device saved;
    int code = driver->find(driver->legacy, device.device_id, address, &place, err);
    *lost = code != DLS_OK;
    if (code != DLS_OK || (code = driver->enter(&place, &saved, err)) != DLS_OK) {
        return code;
    }
    code = dls_pool_stream(&place, DLS_POOL_COPIES, stream, err);
    driver->leave(&saved);
    return code;
}

int
dls_copy_to_host(void *dst, const dl_tensor *tensor, int64_t itemsize, uint64_t stream,
                 dls_error *err)
{
    const char *src = (const char *)tensor->data + tensor->byte_offset;
    const dls_driver *driver = dls_driver_of(tensor->device.device_type);
    copier c = {.stream = stream, .err = err};
    dls_traversal walk;
    dls_saved_device saved;
    int code = driver->find(stream, -1, src, &c.place, err);
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
        code = check(&c, result, DLS_CALL_SYNC);
    }
    driver->leave(&saved);
    return code;
}
