#include "gpu/pool.h"

#include <stdatomic.h>

#include "core/alloc.h"
#include "core/lock.h"

#define EVENTS_KEPT 64

typedef struct pool {
    struct pool *next;
    dls_place place;
    uint64_t id;
    uint64_t copy_stream; /* 0: none yet */
    int count;
    void *events[EVENTS_KEPT];
} pool;

static pool *pools; /* under the lock */
static atomic_int cap = EVENTS_KEPT;

void
dls_pool_cap(int new_cap)
{
    atomic_store(&cap, new_cap < EVENTS_KEPT ? new_cap : EVENTS_KEPT);
}

/* Under the lock.  NULL: there is none yet. */
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

/* Under the lock: the pool of the place, `fresh` if there is none; NULL when that is
 * needed and NULL.  *used: fresh was put into the list. */
static pool *
find_or_add(const dls_place *place, uint64_t id, pool *fresh, bool *used)
{
    pool *p = find(place, id);
    *used = p == NULL && fresh != NULL;
    if (*used) {
        *fresh = (pool){.next = pools, .place = *place, .id = id};
        pools = p = fresh;
    }
    return p;
}

int
dls_pool_get_event(const dls_driver *driver, const dls_place *place, void **event,
                   dls_error *err)
{
    uint64_t id = driver->identity(place);
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
    int result = driver->event_new(place, event);
    return result == 0 ? DLS_OK
                       : driver->fail(place, err, result, DLS_CALL_EVENT_NEW, -1);
}

void
dls_pool_put_event(const dls_driver *driver, const dls_place *place, void *event,
                   bool sound)
{
    bool kept = false, used = false;
    if (sound) {
        uint64_t id = driver->identity(place);
        pool *fresh = NULL;
        dls_lock_take(DLS_LOCK_POOL);
        bool absent = find(place, id) == NULL;
        dls_lock_give(DLS_LOCK_POOL);
        if (absent) {
            fresh = dls_alloc(sizeof *fresh);
        }
        dls_lock_take(DLS_LOCK_POOL);
        pool *p = find_or_add(place, id, fresh, &used);
        if (p != NULL && p->count < atomic_load(&cap)) {
            p->events[p->count++] = event;
            kept = true;
        }
        dls_lock_give(DLS_LOCK_POOL);
        if (!used) {
            dls_free(fresh);
        }
    }
    if (!kept) {
        driver->event_end(place, event);
    }
}

int
dls_pool_copy_stream(const dls_driver *driver, const dls_place *place, uint64_t *stream,
                     dls_error *err)
{
    uint64_t id = driver->identity(place), made = 0;
    bool used;
    dls_lock_take(DLS_LOCK_POOL);
    pool *p = find(place, id);
    uint64_t found = p != NULL ? p->copy_stream : 0;
    dls_lock_give(DLS_LOCK_POOL);
    if (found == 0) {
        pool *fresh = dls_alloc(sizeof *fresh);
        if (fresh == NULL) {
            return dls_fail(err, DLS_ENOMEM, "no memory for a copy stream");
        }
        int result = driver->stream_new(place, &made);
        if (result != 0) {
            dls_free(fresh);
            return driver->fail(place, err, result, DLS_CALL_STREAM_NEW, -1);
        }
        dls_lock_take(DLS_LOCK_POOL);
        p = find_or_add(place, id, fresh, &used);
        if (p->copy_stream == 0) {
            p->copy_stream = made;
        }
        found =
            p->copy_stream; /* another thread's, if it was quicker: ours stays unused */
        dls_lock_give(DLS_LOCK_POOL);
        if (!used) {
            dls_free(fresh);
        }
    }
    *stream = found;
    return DLS_OK;
}
