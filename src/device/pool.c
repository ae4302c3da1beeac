#include "device/pool.h"

#include <stdatomic.h>

#include "core/alloc.h"
#include "core/lock.h"

#define EVENTS_KEPT 64

typedef struct pool {
    struct pool *next;
    CUcontext context;
    unsigned long long id;
    CUstream copy_stream;
    int count;
    CUevent events[EVENTS_KEPT];
} pool;

static pool *pools; /* under the lock */
static dls_lock lock = DLS_LOCK_INIT;
static atomic_int cap = EVENTS_KEPT;

void
dls_pool_cap(int new_cap)
{
    atomic_store(&cap, new_cap < EVENTS_KEPT ? new_cap : EVENTS_KEPT);
}

static unsigned long long
id_of(const dls_cuda_api *api, CUcontext context)
{
    unsigned long long id = 0;
    if (api->cuCtxGetId != NULL && api->cuCtxGetId(context, &id) != CU_OK) {
        id = 0;
    }
    return id;
}

/* Under the lock.  NULL: there is none yet. */
static pool *
find(CUcontext context, unsigned long long id)
{
    for (pool *p = pools; p != NULL; p = p->next) {
        if (p->context == context && p->id == id) {
            return p;
        }
    }
    return NULL;
}

/* Under the lock: the pool of the context, `fresh` if there is none; NULL when that is
 * needed and NULL.  *used: fresh was put into the list. */
static pool *
find_or_add(CUcontext context, unsigned long long id, pool *fresh, bool *used)
{
    pool *p = find(context, id);
    *used = p == NULL && fresh != NULL;
    if (*used) {
        *fresh = (pool){.next = pools, .context = context, .id = id};
        pools = p = fresh;
    }
    return p;
}

/* Events are made and destroyed in the mode that captures of other threads bear. */
static void
exchange_mode(const dls_cuda_api *api, CUstreamCaptureMode *mode)
{
    if (api->cuThreadExchangeStreamCaptureMode != NULL) {
        api->cuThreadExchangeStreamCaptureMode(mode);
    }
}

int
dls_pool_get_event(const dls_cuda_api *api, CUcontext context, CUevent *event,
                   dls_error *err)
{
    unsigned long long id = id_of(api, context);
    *event = NULL;
    dls_lock_take(&lock);
    pool *p = find(context, id);
    if (p != NULL && p->count > 0) {
        *event = p->events[--p->count];
    }
    dls_lock_give(&lock);
    if (*event != NULL) {
        return DLS_OK;
    }
    CUstreamCaptureMode mode = CU_MODE_RELAXED;
    exchange_mode(api, &mode);
    int result = api->cuEventCreate(event, CU_DISABLE_TIMING);
    exchange_mode(api, &mode);
    return result == CU_OK ? DLS_OK : dls_cuda_fail(api, err, result, "cuEventCreate", -1);
}

void
dls_pool_put_event(const dls_cuda_api *api, CUcontext context, CUevent event, bool sound)
{
    unsigned long long id = id_of(api, context);
    bool kept = false, used = false;
    if (sound) {
        pool *fresh = NULL;
        dls_lock_take(&lock);
        bool absent = find(context, id) == NULL;
        dls_lock_give(&lock);
        if (absent) {
            fresh = dls_alloc(sizeof *fresh);
        }
        dls_lock_take(&lock);
        pool *p = find_or_add(context, id, fresh, &used);
        if (p != NULL && p->count < atomic_load(&cap)) {
            p->events[p->count++] = event;
            kept = true;
        }
        dls_lock_give(&lock);
        if (!used) {
            dls_free(fresh);
        }
    }
    if (!kept) {
        api->cuEventDestroy_v2(event);
    }
}

int
dls_pool_copy_stream(const dls_cuda_api *api, CUcontext context, uint64_t *stream,
                     dls_error *err)
{
    unsigned long long id = id_of(api, context);
    CUstream made = NULL;
    bool used;
    dls_lock_take(&lock);
    pool *p = find(context, id);
    CUstream found = p != NULL ? p->copy_stream : NULL;
    dls_lock_give(&lock);
    if (found == NULL) {
        CUstreamCaptureMode mode = CU_MODE_RELAXED;
        pool *fresh = dls_alloc(sizeof *fresh);
        if (fresh == NULL) {
            return dls_fail(err, DLS_ENOMEM, "no memory for a copy stream");
        }
        exchange_mode(api, &mode);
        int result = api->cuStreamCreate(&made, CU_NON_BLOCKING);
        exchange_mode(api, &mode);
        if (result != CU_OK) {
            dls_free(fresh);
            return dls_cuda_fail(api, err, result, "cuStreamCreate", -1);
        }
        dls_lock_take(&lock);
        p = find_or_add(context, id, fresh, &used);
        if (p->copy_stream == NULL) {
            p->copy_stream = made;
        }
        found = p->copy_stream; /* another thread's, if it was quicker: ours stays unused */
        dls_lock_give(&lock);
        if (!used) {
            dls_free(fresh);
        }
    }
    *stream = (uint64_t)(uintptr_t)found;
    return DLS_OK;
}
