/* Events and streams that are kept for later syncs and copies.  Called by sync_run,
 * device_copy, copy_to_device and device_memory, without the GIL.  Writes the list of
 * pools under DLS_LOCK_POOL; no driver call is made while the lock is held. Tests:
 * tests/device/test_sync_threads.py, tests/device/test_failures.py.
 */
#include "gpu/pool.h"

#include <stdatomic.h>

#include "core/alloc.h"
#include "core/lock.h"

#define EVENTS_KEPT 64

typedef struct pool {
    struct pool *next;
    dls_place place;
    uint64_t id;
    uint64_t streams[DLS_POOL_STREAMS]; /* 0: none yet */
    int count;
    void *events[EVENTS_KEPT];
} pool;

static pool *pools; /* written and read under DLS_LOCK_POOL */
static atomic_int cap = EVENTS_KEPT;

void
dls_pool_cap(int new_cap)
{
    atomic_store(&cap, new_cap < EVENTS_KEPT ? new_cap : EVENTS_KEPT);
}

/* The pool of the place; NULL: there is none yet.  The caller holds the lock. */
static pool *
find(const dls_place *place, uint64_t id)
{
    for (pool *p = pools; p != NULL; p = p->next) {
        if (p->place.context == place->context && p->place.api == place->api
            && p->id == id) {
            return p;
        }
    }
    return NULL;
}

/* The pool of the place, which is made if there is none.  NULL: no memory for it. */
static pool *
find_or_add(const dls_place *place, uint64_t id)
{
    dls_lock_take(DLS_LOCK_POOL);
    pool *p = find(place, id);
    dls_lock_give(DLS_LOCK_POOL);
    pool *fresh = p == NULL ? dls_alloc(sizeof *fresh) : NULL;
    if (fresh == NULL) {
        return p;
    }
    dls_lock_take(DLS_LOCK_POOL);
    p = find(place, id); /* another thread may have been quicker */
    if (p == NULL) {
        *fresh = (pool){.next = pools, .place = *place, .id = id};
        pools = fresh;
    }
    dls_lock_give(DLS_LOCK_POOL);
    if (p != NULL) {
        dls_free(fresh);
        return p;
    }
    return fresh;
}

int
dls_pool_get_event(const dls_place *place, void **event, dls_error *err)
{
    uint64_t id = place->driver->identity(place);
    *event = NULL;
    dls_lock_take(DLS_LOCK_POOL);
    pool *p = find(place, id);
    if (p != NULL && p->count > 0) {
        *event = p->events[--p->count];
    }
    dls_lock_give(DLS_LOCK_POOL);
    if (*event != NULL) {
        return DLS_OK;
    }
    return dls_gpu_check(place, dls_gpu_event_new(place, event), DLS_CALL_EVENT_NEW, -1,
                         err);
}

void
dls_pool_put_event(const dls_place *place, void *event, bool is_sound)
{
    bool kept = false;
    /* mutant: event kept */
    if (is_sound) {
        pool *p = find_or_add(place, place->driver->identity(place));
        dls_lock_take(DLS_LOCK_POOL);
        kept = p != NULL && p->count < atomic_load(&cap);
        if (kept) {
            p->events[p->count++] = event;
        }
        dls_lock_give(DLS_LOCK_POOL);
    }
    /* mutant: event not kept */
    if (!kept) {
        dls_gpu_event_end(place, event);
    }
}

int
dls_pool_stream(const dls_place *place, dls_pool_use use, uint64_t *stream,
                dls_error *err)
{
    pool *p = find_or_add(place, place->driver->identity(place));
    if (p == NULL) {
        return dls_fail(err, DLS_ENOMEM, "no memory for a copy stream");
    }
    dls_lock_take(DLS_LOCK_POOL);
    *stream = p->streams[use];
    dls_lock_give(DLS_LOCK_POOL);
    if (*stream != 0) {
        return DLS_OK;
    }
    uint64_t made;
    int code = dls_gpu_check(place, dls_gpu_stream_new(place, &made),
                             DLS_CALL_STREAM_NEW, -1, err);
    if (code != DLS_OK) {
        return code;
    }
    dls_lock_take(DLS_LOCK_POOL);
    if (p->streams[use] == 0) {
        /* mutant: stream of our own */
        p->streams[use] = made; /* else another thread was quicker: ours stays unused */
    }
    *stream = p->streams[use];
    dls_lock_give(DLS_LOCK_POOL);
    return DLS_OK;
}
