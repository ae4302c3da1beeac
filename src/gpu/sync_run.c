/* Carries a sync out: finds the contexts of P and S, asks them about captures, and
 * makes the edge or the wait that the action says.  Called by src/sync, by the CUDA
 * interface of a Tensor, and at guarded releases.  Touches the driver's table and the
 * pool of events; no Python.  Tests: tests/device/test_matrix.py,
 * tests/device/test_managed.py, tests/device/test_release.py,
 * tests/device/test_sync_threads.py, tests/device/test_failures.py. */
#include "gpu/sync_run.h"

#include <assert.h>
#include <stdatomic.h>

#include "core/alloc.h"
#include "core/lock.h"
#include "gpu/pointer.h"
#include "gpu/sync_rules.h"

/* --- events and streams that are kept ------------------------------------- */

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
find_pool(const dls_place *place, uint64_t id)
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
    pool *p = find_pool(place, id);
    dls_lock_give(DLS_LOCK_POOL);
    pool *fresh = p == NULL ? dls_alloc(sizeof *fresh) : NULL;
    if (fresh == NULL) {
        return p;
    }
    dls_lock_take(DLS_LOCK_POOL);
    p = find_pool(place, id); /* another thread may have been quicker */
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
    pool *p = find_pool(place, id);
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

/* --- syncs ---------------------------------------------------------------- */

/* The state of one sync in progress. */
typedef struct {
    const dls_driver *driver;
    const dls_sync_job *job;
    uint64_t p;        /* the stream, or the event */
    dls_memory memory; /* the job's */
    dls_place place_p; /* of P, or of the memory where P has no handle of its own */
    dls_place place_s;
    dls_error *err;
} sync_run;

/* --- refusals ------------------------------------------------------------- */

static int
refuse_action(dls_action action, const dls_sync_job *job, dls_error *err)
{
    switch (action) {
    case DLS_ACTION_REFUSE_CAPTURE:
        return dls_fail(err, DLS_ECAPTURE, "%s", DLS_CAPTURE_REFUSAL);
    case DLS_ACTION_REFUSE_UNKNOWN:
        return dls_fail(err, DLS_EOPTION,
                        "the producer's stream is not known, and "
                        "unknown_stream=\"error\" was asked for\n"
                        "  give producer_stream=, or pass %s",
                        dls_sync_cure(job));
    default:
        return dls_fail(err, DLS_EOPTION,
                        "it cannot be synchronised on this device, whose streams "
                        "dlshim does not know\n"
                        "  wait for its work and pass %s",
                        dls_sync_cure(job));
    }
}

/* The driver's result as an error.  DLS_OK for GPU_OK. */
static int
check_call(const sync_run *run, int result, dls_call call)
{
    return dls_gpu_check(&run->place_p, result, call, run->job->device.device_id,
                         run->err);
}

/* --- facts ---------------------------------------------------------------- */

/* S must be asked, and made to wait, with its own context current (S15). */
static bool
is_s_elsewhere(const sync_run *run)
{
    return run->place_s.context != run->place_p.context;
}

/* Does S capture?  DLS_OK, or a code. */
static int
ask_s(const sync_run *run, dls_sync_facts *facts)
{
    dls_saved_device saved;
    bool elsewhere = is_s_elsewhere(run);
    if (elsewhere && run->driver->enter(&run->place_s, &saved, run->err) != DLS_OK) {
        return run->err->code;
    }
    /* mutant: capture of S */
    facts->s_captures = dls_gpu_captures(&run->place_s, run->job->s);
    if (elsewhere) {
        run->driver->leave(&saved);
    }
    return DLS_OK;
}

/* Ask the driver for the facts that decide about this task's action.  The facts may
 * turn one action into another, so the action is looked up again after the first two.
 * place_p is current.  DLS_OK, or a code. */
static int
ask_facts(const sync_run *run, dls_sync_facts *facts)
{
    const dls_sync_job *job = run->job;
    bool host_reads = job->device.device_type == dl_kDLCUDAManaged
                      && (job->task == DLS_TASK_WAIT || job->task == DLS_TASK_WAIT_L
                          || job->task == DLS_TASK_WAIT_OWN);
    facts->can_record_device = run->place_p.records_device;
    facts->host_must_be_alone = host_reads && run->driver->host_must_be_alone != NULL
                                && run->driver->host_must_be_alone(
                                    job->device.device_id);
    dls_action action = dls_sync_action_find(job, facts);
    bool of_event = action == DLS_ACTION_EVENT_EDGE || action == DLS_ACTION_WAIT_EVENT;
    bool of_device = action == DLS_ACTION_DEVICE_EDGE
                     || action == DLS_ACTION_WAIT_DEVICE || of_event;
    bool of_p = action == DLS_ACTION_EDGE || action == DLS_ACTION_WAIT_STREAM;
    bool to_s = job->has_s && action != DLS_ACTION_WAIT_STREAM
                && action != DLS_ACTION_WAIT_EVENT;
    if (to_s && ask_s(run, facts) != DLS_OK) {
        return run->err->code;
    }
    facts->p_captures = of_p && dls_gpu_captures(&run->place_p, run->p);
    facts->device_captures = of_device
                             && dls_gpu_captures(&run->place_p, run->driver->legacy);
    facts->one_capture = facts->s_captures && facts->p_captures
                         && dls_gpu_one_capture(&run->place_p, run->p, job->s);
    return DLS_OK;
}

/* --- actions -------------------------------------------------------------- */

/* S waits for the event.  DLS_OK, or a code. */
static int
wait_event(const sync_run *run, void *event)
{
    dls_saved_device saved;
    bool elsewhere = is_s_elsewhere(run);
    if (elsewhere && run->driver->enter(&run->place_s, &saved, run->err) != DLS_OK) {
        return run->err->code;
    }
    /* mutant: wait of S */
    int result = run->place_s.api->stream_wait(dls_gpu_stream(run->job->s), event, 0);
    if (elsewhere) {
        run->driver->leave(&saved);
    }
    return check_call(run, result, DLS_CALL_WAIT);
}

/* The host waits for all work of the place, which is current.  DLS_OK, or a code. */
static int
wait_for_place(const sync_run *run)
{
    /* mutant: wait for the device */
    return check_call(run, run->place_p.api->device_sync(), DLS_CALL_SYNC_DEVICE);
}

/* Record an event after the work in P, or after all work of the place, and make S wait
 * for it.  place_p is current.  DLS_OK, or a code. */
static int
make_edge(const sync_run *run, bool whole_device)
{
    void *event;
    int code = dls_pool_get_event(&run->place_p, &event, run->err);
    if (code != DLS_OK) {
        return code;
    }
    /* mutant: record */
    int result = whole_device
                     ? run->driver->record_device(&run->place_p, event)
                     : run->place_p.api->event_record(event, dls_gpu_stream(run->p));
    if (whole_device && result != GPU_OK && !dls_gpu_is_capture_error(result)) {
        /* The host waits instead: slower, and just as safe. */
        dls_pool_put_event(&run->place_p, event, false);
        return wait_for_place(run);
    }
    code = check_call(run, result,
                      whole_device ? DLS_CALL_RECORD_DEVICE : DLS_CALL_RECORD);
    /* mutant: wait for the event */
    if (code == DLS_OK) {
        code = wait_event(run, event);
    }
    /* mutant: event given back */
    dls_pool_put_event(&run->place_p, event, code == DLS_OK);
    return code;
}

static int
do_whole_device(const sync_run *run, dls_action action)
{
    if (action == DLS_ACTION_DEVICE_EDGE) {
        return make_edge(run, true); /* mutant: edge of the device */
    }
    return wait_for_place(run);
}

/* Do the same action in a second place, because work may be unfinished there if the
 * owner of the memory is only guessed (S15). */
static int
do_other_place(const sync_run *run, dls_action action)
{
    sync_run other = *run;
    dls_saved_device saved;
    if (run->driver->find_other == NULL
        || !run->driver->find_other(&run->place_p, run->job->device.device_id,
                                    &other.memory, &other.place_p)) {
        return DLS_OK;
    }
    if (run->driver->enter(&other.place_p, &saved, run->err) != DLS_OK) {
        return run->err->code;
    }
    int code = dls_gpu_captures(&other.place_p, run->driver->legacy)
                   ? refuse_action(DLS_ACTION_REFUSE_CAPTURE, run->job, run->err)
                   : do_whole_device(&other, action);
    run->driver->leave(&saved);
    return code;
}

/* place_p is current.  DLS_OK, or a code. */
static int
do_action(const sync_run *run, dls_action action)
{
    int code;
    switch (action) {
    case DLS_ACTION_NOTHING:
        return DLS_OK;
    case DLS_ACTION_EDGE:
        return make_edge(run, false); /* mutant: edge of P */
    case DLS_ACTION_EVENT_EDGE:
        return wait_event(run, dls_gpu_stream(run->p)); /* mutant: edge of an event */
    case DLS_ACTION_WAIT_EVENT:
        /* mutant: wait for an event */
        return check_call(run, run->place_p.api->event_sync(dls_gpu_stream(run->p)),
                          DLS_CALL_SYNC_EVENT);
    case DLS_ACTION_WAIT_STREAM:
        /* mutant: wait for P */
        return check_call(run, run->place_p.api->stream_sync(dls_gpu_stream(run->p)),
                          DLS_CALL_SYNC);
    case DLS_ACTION_DEVICE_EDGE:
    case DLS_ACTION_WAIT_DEVICE:
        code = do_whole_device(run, action);
        return code == DLS_OK ? do_other_place(run, action) : code;
    default:
        return refuse_action(action, run->job, run->err);
    }
}

/* --- one sync ------------------------------------------------------------- */

/* Find both places.  The handles up to 2 are default streams: they mean "of the current
 * context", or device.  place_s differs from place_p only for an S that is such a
 * stream while `p` is not: S is then that of the memory's context.  Any other stream
 * can be asked and made to wait whatever is current.  DLS_OK, or a code. */
static int
find_places(sync_run *run, uint64_t p)
{
    const dls_sync_job *job = run->job;
    int id = job->device.device_id;
    int code = run->driver->find(p, id, &run->memory, &run->place_p, run->err);
    run->place_s = run->place_p;
    bool own = job->has_s && job->s <= 2 && p > 2; /* mutant: context of S */
    if (code == DLS_OK && own) {
        code = run->driver->find(job->s, id, &run->memory, &run->place_s, run->err);
    }
    return code;
}

static dls_action
action_without_driver(const dls_sync_job *job)
{
    const dls_sync_facts none = {0};
    return dls_sync_action_find(job, &none);
}

bool
dls_sync_run_needs_driver(const dls_sync_job *job)
{
    dls_action action = action_without_driver(job);
    return action >= DLS_ACTION_EDGE && action <= DLS_ACTION_WAIT_DEVICE;
}

int
dls_sync_run(const dls_sync_job *job, dls_error *err)
{
    assert(err != NULL && job->task <= DLS_TASK_REFUSE);
    if (!dls_sync_run_needs_driver(job)) {
        dls_action action = action_without_driver(job);
        return action == DLS_ACTION_NOTHING ? DLS_OK : refuse_action(action, job, err);
    }
    dls_producer_stream p = dls_sync_job_producer_stream(job);
    sync_run run = {.driver = dls_driver_of(job->device.device_type),
                    .job = job,
                    .p = p.handle,
                    .memory = job->memory,
                    .err = err};
    /* An unknown P is looked for where the memory lies, as L is.  An event may be
     * waited for anywhere. */
    int code = find_places(&run,
                           p.known == DLS_P_KNOWN ? p.handle : run.driver->legacy);
    dls_saved_device saved;
    if (code == DLS_OK) {
        /* mutant: context entered */
        code = run.driver->enter(&run.place_p, &saved, err);
    }
    if (code != DLS_OK) {
        return code;
    }
    dls_sync_facts facts = {0};
    code = ask_facts(&run, &facts);
    if (code == DLS_OK) {
        code = do_action(&run, dls_sync_action_find(job, &facts));
    }
    run.driver->leave(&saved); /* mutant: context left */
    return code;
}

bool
dls_sync_run_sees_capture(dl_device device, dls_producer_stream p)
{
    const dls_driver *driver = dls_driver_of(device.device_type);
    dls_memory unknown = {.address = NULL};
    dls_place place;
    dls_error err;
    dls_saved_device saved;
    if (!driver->in_use()
        || driver->find(driver->legacy, device.device_id, &unknown, &place, &err)
               != DLS_OK
        || driver->enter(&place, &saved, &err) != DLS_OK) {
        return false;
    }
    bool captures = dls_gpu_captures(&place, driver->legacy)
                    || (p.known == DLS_P_KNOWN && dls_gpu_captures(&place, p.handle));
    driver->leave(&saved);
    return captures;
}

/* --- guarded release ------------------------------------------------------ */

int
dls_sync_run_can_guard(dls_sync_job *job, dls_error *err)
{
    const dls_driver *driver = dls_driver_of(job->device.device_type);
    dls_place place;
    int code = driver->find(driver->legacy, job->device.device_id, &job->memory, &place,
                            err);
    if (code == DLS_OK && !place.records_device) {
        code = dls_fail(
            err, DLS_EBUFFER,
            "on_release=\"guard\" needs a CUDA driver of 12.5 or later\n"
            "  keep the array until its streams have passed, and drop the option");
    }
    if (code == DLS_OK) {
        job->place_api = place.api;
        job->place_context = place.context;
        job->place_id = driver->identity(&place);
    }
    return code;
}

/* Make all later work of the place wait for all the work that it has been given so far.
 * The place is current.  0, or the driver's code. */
static int
fence(const dls_place *place)
{
    void *event;
    dls_error err;
    int result = -1;
    if (dls_pool_get_event(place, &event, &err) == DLS_OK) {
        result = place->driver->record_device(place, event); /* mutant: guard records */
        if (result == GPU_OK) {
            result = place->driver->wait_device(place, event); /* mutant: guard waits */
        }
        dls_pool_put_event(place, event, result == 0);
    }
    if (result != 0 && !dls_gpu_is_capture_error(result)) {
        /* The host waits instead: slower, and just as safe. */
        result = place->api->device_sync();
    }
    return result;
}

bool
dls_sync_run_guard(const dls_sync_job *job)
{
    const dls_driver *driver = dls_driver_of(job->device.device_type);
    const dls_place place = {
        .driver = driver, .api = job->place_api, .context = job->place_context};
    dls_error err;
    dls_saved_device saved;
    if (!driver->in_use() || driver->identity(&place) != job->place_id
        || driver->enter(&place, &saved, &err) != DLS_OK) {
        return true;
    }
    bool captures = dls_gpu_captures(&place, driver->legacy)
                    || dls_gpu_is_capture_error(fence(&place));
    driver->leave(&saved);
    return !captures;
}
