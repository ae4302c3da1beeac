/* Export: the resolved tensor goes out, as a capsule, a struct or a Tensor (T3, T8 to
 * T10). Called by the fast path and by public/.  Tests: tests/core/test_handing_on.py,
 * tests/core/test_lifetime.py, tests/core/test_ways_out.py,
 * tests/core/test_tracking.py. */
#include "export/export.h"

#include "acquire/from_capsule.h"
#include "acquire/learned.h"
#include "acquire/negotiate.h"
#include "core/alloc.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "exchange/decorated_class.h"
#include "exchange/objects.h"
#include "export/resolve.h"
#include "gpu/sync_run.h"
#include "python/capsule.h"
#include "python/errors.h"
#include "python/state.h"
#include "sync/producer_stream.h"
#include "sync/stream_value.h"
#include "sync/sync_exchange.h"
#include "sync/work_stream.h"
#include "types/offers.h"
#include "types/plan_cache.h"

/* --- exports that dlshim.track() is told of ------------------------------- */

atomic_int dls_track_modules;

/* A struct that lives, in its manager_ctx, or one that has ended, in the list. */
typedef struct tracked {
    struct tracked *next;
    unsigned long long number;
    uint32_t import_number; /* the import that was told (state.h) */
    void *manager_ctx;      /* the struct's own */
    void (*deleter)(void);
} tracked;

static _Atomic(tracked *) ended;
static atomic_ullong last_number;

/* --- the end of such an export -------------------------------------------- */

static void
note_export_end(tracked *record)
{
    record->next = atomic_load(&ended);
    while (!atomic_compare_exchange_weak(&ended, &record->next, record)) {
    }
}

/* Give the struct its own members back, note its end, and delete it. */
#define DELETER(name, type)                                   \
    static void name(type *managed)                           \
    {                                                         \
        tracked *record = managed->manager_ctx;               \
        managed->manager_ctx = record->manager_ctx;           \
        managed->deleter = (void (*)(type *))record->deleter; \
        note_export_end(record);                              \
        managed->deleter(managed);                            \
    }
DELETER(delete_versioned, dl_managed_tensor_versioned)
DELETER(delete_legacy, dl_managed_tensor)

/* Records of other modules go back into the list. */
PyObject *
dls_track_ended(const dls_state *state)
{
    PyObject *list = PyList_New(0);
    tracked *record = list != NULL ? atomic_exchange(&ended, NULL) : NULL, *next;
    for (; record != NULL; record = next) {
        next = record->next;
        if (record->import_number != state->import_number) {
            note_export_end(record);
            continue;
        }
        PyObject *number = PyLong_FromUnsignedLongLong(record->number);
        if (list != NULL && (number == NULL || PyList_Append(list, number) < 0)) {
            Py_CLEAR(list);
        }
        Py_XDECREF(number);
        dls_free(record);
    }
    return list;
}

/* --- the beginning of such an export -------------------------------------- */

void
dls_track_switch(dls_state *state, bool on)
{
    int modules;
    if (state->tracks != on) { /* shim/tracking.py holds a lock */
        state->tracks = on;
        atomic_fetch_add(&dls_track_modules, on ? 1 : -1);
    }
    do { /* another interpreter may switch meanwhile */
        modules = atomic_load(&dls_track_modules);
        dls_hand_on_allow(modules == 0);
    } while (atomic_load(&dls_track_modules) != modules);
}

/* Tell shim/tracking.py of a new export.  An AttributeError or ImportError is cleared:
 * Python is being taken apart, which is no fault of the export.  Any other exception is
 * a signal handler's, or there is no memory.  0, or -1 with an exception. */
static int
tell_python(dls_state *state, PyObject *tensor, const char *kind,
            unsigned long long number, const dl_tensor *what)
{
    dls_scan scan;
    dls_error err;
    bool known = dls_tensor_scan(what, &scan, &err) >= 0;
    const dls_member record[] = {
        {"tensor", Py_NewRef(tensor)},
        {"kind", PyUnicode_FromString(kind)},
        {"number", PyLong_FromUnsignedLongLong(number)},
        {"nbytes", PyLong_FromLongLong(known ? scan.count * scan.itemsize : 0)},
        {"device", Py_BuildValue("(ii)", (int)what->device.device_type,
                                 (int)what->device.device_id)}};
    PyObject *told = dls_in_python_record(state, DLS_IN_TRACKING, "made", record,
                                          sizeof record / sizeof *record);
    if (told == NULL
        && !(PyErr_ExceptionMatches(PyExc_AttributeError)
             || PyErr_ExceptionMatches(PyExc_ImportError))) {
        return -1;
    }
    Py_XDECREF(told);
    dls_error_report();
    return 0;
}

int
dls_track_tensor(dls_state *state, PyObject *tensor)
{
    return state->tracks
               ? tell_python(state, tensor, "Tensor", atomic_fetch_add(&last_number, 1),
                             &dls_tensor_data(tensor)->tensor)
               : 0;
}

/* A struct of ours was made.  Its deleter is replaced by one that notes its end. */
static int
track_struct(dls_state *state, void *managed, bool versioned)
{
    tracked *record = state->tracks ? dls_alloc(sizeof *record) : NULL;
    if (record == NULL) {
        return 0;
    }
    record->import_number = state->import_number;
    record->number = atomic_fetch_add(&last_number, 1);
    if (versioned) {
        dl_managed_tensor_versioned *newer = managed;
        record->manager_ctx = newer->manager_ctx;
        record->deleter = (void (*)(void))newer->deleter;
        newer->manager_ctx = record;
        newer->deleter = delete_versioned;
    }
    else {
        dl_managed_tensor *older = managed;
        record->manager_ctx = older->manager_ctx;
        record->deleter = (void (*)(void))older->deleter;
        older->manager_ctx = record;
        older->deleter = delete_legacy;
    }
    return tell_python(state, Py_None, versioned ? "versioned" : "legacy",
                       record->number, dls_managed_tensor(managed, versioned));
}

/* --- begin and end -------------------------------------------------------- */

void
dls_exchange_begin(dls_exchange *x, dls_state *state, PyObject *source, dls_plan *plan,
                   const dls_options *options, const dls_outcome *outcome)
{
    x->state = state;
    x->source = Py_NewRef(source);
    x->plan = dls_plan_share(plan);
    x->outcome = outcome != NULL ? *outcome : (dls_outcome){.kind = DLS_NOT_LEARNED};
    dls_acquired_init(&x->acquired);
    x->synced = false;
    x->refused_otherwise = false;
    x->learned_failed = false;
    x->first_error = NULL;
    x->tried = 0;
    x->tried_error = NULL;
    x->copied = false;
    x->resolved = false;
    x->keeps = false;
    x->kept = NULL;
    dls_request_init(&x->request, options);
}

/* Clear the things that one run has gathered, and that the next must not see. */
static void
clear_run(dls_exchange *x)
{
    dls_acquired_drop(&x->acquired);
    Py_CLEAR(x->first_error);
    Py_CLEAR(x->tried_error);
    x->tried = 0;
    x->learned_failed = false;
    x->refused_otherwise = false;
    x->synced = false;
    x->request.who.empty = false;
}

void
dls_exchange_end(dls_exchange *x)
{
    if (x->outcome.kind != DLS_NOT_LEARNED) {
        dls_outcome_drop(&x->outcome);
    }
    clear_run(x);
    assert(dls_acquired_is_empty(&x->acquired));
    if (x->kept != NULL) {
        dls_shared_drop(x->kept, DLS_ATTACHED);
    }
    Py_DECREF(x->source);
    dls_plan_drop(x->plan);
}

/* --- the source ----------------------------------------------------------- */

/* Source and plan (stolen) take the place of those that the exchange began with. */
static void
replace_source(dls_exchange *x, PyObject *source, dls_plan *plan)
{
    PyObject *before = x->source;
    dls_plan *plan_before = x->plan;
    x->source = source;
    x->plan = plan;
    Py_DECREF(before);
    dls_plan_drop(plan_before);
}

/* detach="auto": is there nothing to detach?  1, 0, or -1. */
static int
is_detached(const dls_exchange *x)
{
    if (x->request.options->detach != DLS_DETACH_AUTO
        || !dls_plan_has(x->plan, DLS_LIB_AUTOGRAD)) {
        return 0;
    }
    int grad = dls_requires_grad(x->state, x->plan, x->source);
    return grad < 0 ? -1 : !grad;
}

/* detach=: the detached object is the source from here on. */
static int
detach_source(dls_exchange *x)
{
    PyObject *method = NULL;
    int got = is_detached(x);
    if (got != 0) {
        return got < 0 ? dls_refuse_from_pending(x->state, x->source, "detach= failed")
                       : 0;
    }
    got = dls_get_optional(x->source, x->state->names.detach, &method);
    if (got == 0 && x->request.options->detach == DLS_DETACH_AUTO) {
        return 0;
    }
    if (got == 0) {
        dls_refuse(x->state, DLS_EBUFFER, x->source,
                   "detach=True, but it has no .detach()\n"
                   "  pass detach=\"auto\", or drop the option");
    }
    if (got <= 0) {
        return -1;
    }
    PyObject *detached = PyObject_CallFunctionObjArgs(method, NULL);
    Py_DECREF(method);
    dls_plan *plan = detached != NULL ? dls_plan_find(x->state, detached) : NULL;
    if (plan == NULL) {
        Py_XDECREF(detached);
        return dls_refuse_from_pending(x->state, x->source, "detach= failed");
    }
    replace_source(x, detached, plan);
    return 0;
}

/* With copy=True an object whose conjugate or negative bit is set was refused, because
 * its memory holds other values.  Its own methods put the values into new memory, which
 * is the copy (T12).  They run in the library's own order of work, so not where the
 * user has named another stream.  True: the exchange is to be run again.  False: the
 * exception that is pending stays, or is a new one. */
static bool
resolve_source(dls_exchange *x)
{
    PyObject *stream = x->request.streams.producer;
    PyObject *resolved = NULL;
    if (x->request.want.copy != 1 || !dls_plan_has(x->plan, DLS_LIB_LAZY_BITS)
        || (stream != NULL && stream != Py_None && !dls_stream_is_minus_one(stream))
        || !PyErr_ExceptionMatches(PyExc_BufferError)) {
        return false;
    }
    PyObject *error = dls_error_take();
    int got = dls_resolve_lazy_bits(x->state, x->plan, x->source, &resolved);
    if (got == 0) {
        dls_error_restore(error);
        return false;
    }
    Py_XDECREF(error);
    dls_plan *plan = got > 0 ? dls_plan_find(x->state, resolved) : NULL;
    if (plan == NULL) {
        Py_XDECREF(resolved);
        dls_refuse_from_pending(x->state, x->source, "copy=True failed");
        return false;
    }
    replace_source(x, resolved, plan);
    x->request.want.copy = -1;
    x->resolved = true;
    return true;
}

/* A Producer that the garbage collector has cleared has None as its source. */
static int
meet_anew(dls_exchange *x)
{
    if (x->source == Py_None) {
        return dls_refuse(x->state, DLS_EBUFFER, x->source,
                          "the Producer has been cleared with its garbage");
    }
    /* The plan of a proxy's type may be of another object by now, so the object itself
     * is looked at. */
    dls_plan *plan = x->plan->on_instance ? dls_plan_new(x->state, x->source)
                                          : dls_plan_find(x->state, x->source);
    if (plan == NULL) {
        return dls_refuse_from_pending(x->state, x->source,
                                       x->plan->on_instance ? "it cannot be exported"
                                                            : "its type has changed");
    }
    replace_source(x, Py_NewRef(x->source), plan);
    return 0;
}

static bool
wants_detach(const dls_exchange *x)
{
    const dls_options *options = x->request.options;
    return options != NULL && dls_option_given(options, DLS_OPTION_detach)
           && options->detach != DLS_DETACH_NO && !dls_plan_is_tensor(x->plan)
           && (!x->request.want.detaches || dls_plan_has(x->plan, DLS_LIB_AUTOGRAD));
}

int
dls_exchange_ask_author(dls_exchange *x, bool device)
{
    return dls_decorated_enter(x->state, x->source, &x->plan, !device) == 0
               ? 0
               : dls_refuse_from_pending(x->state, x->source,
                                         DLS_AUTHOR_OFFERS_NOTHING);
}

int
dls_exchange_prepare(dls_exchange *x)
{
    if ((Py_TYPE(x->source) != x->plan->type && meet_anew(x) < 0)
        || (wants_detach(x) && detach_source(x) < 0)) {
        return -1;
    }
    return dls_exchange_ask_author(x, false); /* of what was detached */
}

/* --- what the export holds ------------------------------------------------ */

/* *guarded: the guard for on_release="guard".  It stays NULL if the option is not
 * given, and if the consumer's work cannot outlive the export (host memory, no
 * elements).  0, or -1 with an exception. */
static int
make_guard(const dls_exchange *x, const dls_resolved *resolved, dls_guarded **guarded)
{
    dls_error err;
    if (!x->request.want.guards) {
        return 0;
    }
    dl_device device = resolved->delivery.tensor.device;
    bool cuda = device.device_type == dl_kDLCUDA
                || device.device_type == dl_kDLCUDAManaged
                || x->acquired.tensor.device.device_type == dl_kDLCUDAManaged;
    if (resolved->scan.count == 0
        || (!cuda && dls_device_is_host(device.device_type))) {
        return 0;
    }
    if (!cuda) {
        return dls_refuse(
            x->state, DLS_EBUFFER, x->source,
            "on_release=\"guard\" is kept for CUDA memory only, not on device (%d, "
            "%d)\n"
            "  keep the array until the consumer's work is done, and drop the option",
            (int)device.device_type, (int)device.device_id);
    }
    dls_sync_job what = {.device = device,
                         .memory.address = resolved->delivery.tensor.data};
    dls_guarded_flush();
    int code;
    Py_BEGIN_ALLOW_THREADS
    code = dls_sync_run_can_guard(&what, &err);
    Py_END_ALLOW_THREADS
    if (code == DLS_ENODRIVER) {
        return dls_refuse(x->state, DLS_EOPTION, x->source,
                          "on_release=\"guard\": %s%sdrop the option", err.text,
                          dls_cure_joint(err.text));
    }
    if (code != DLS_OK) {
        return dls_refuse_error(x->state, x->source, &err);
    }
    *guarded = dls_guarded_new(&what, dls_sync_run_guard);
    if (*guarded == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

/* The new memory of this export is shared with the Producer, which keeps it until its
 * next export: mpi4py 3.1 to 4.0 drops the capsule at once and reads on (T8). */
static void
share_with_producer(dls_exchange *x, dls_shared *shared, dls_hold *hold)
{
    dls_shared *before = x->kept;
    dls_hold_move(hold, &shared->hold);
    x->kept = dls_shared_add(shared);
    *hold = (dls_hold){.base = shared, .kind = DLS_HOLD_SHARED};
    dls_shared_drop(before, DLS_ATTACHED);
}

/* Fill the hold of the new export with the copy, or with the acquired memory, which is
 * taken now as the last step that can fail (T9).  0, or -1 with an exception and
 * nothing changed. */
static int
take_hold(dls_exchange *x, dls_resolved *resolved, dls_hold *hold)
{
    dls_shared *shared = NULL;
    dls_guarded *guarded = NULL;
    if (!resolved->copied && make_guard(x, resolved, &guarded) < 0) {
        return -1;
    }
    *hold = (dls_hold){0};
    if (resolved->needs_keeping) {
        shared = dls_shared_new(hold); /* filled below */
        if (shared == NULL) {
            PyErr_NoMemory();
        }
    }
    if ((resolved->needs_keeping && shared == NULL)
        || (!resolved->copied && dls_acquired_take(x) < 0)) {
        dls_free(guarded);
        dls_shared_drop(shared, DLS_ATTACHED);
        return -1;
    }
    dls_hold_move(resolved->copied ? &resolved->made : &x->acquired.hold, hold);
    if (shared != NULL) {
        share_with_producer(x, shared, hold);
    }
    if (guarded != NULL) {
        dls_hold_move(hold, &guarded->hold);
        *hold = (dls_hold){.base = guarded, .kind = DLS_HOLD_GUARDED};
    }
    return 0;
}

/* --- a capsule or a struct ------------------------------------------------ */

/* Does the producer's own struct say all that the consumer shall see (T3)? */
static bool
can_hand_on(const dls_exchange *x, const dls_resolved *resolved)
{
    bool versioned = resolved->delivery.versioned;
    const dls_acquired *acquired = &x->acquired;
    if (resolved->copied || resolved->needs_keeping || x->request.want.guards
        || acquired->generation != (dls_generation)versioned
        || !dls_acquired_may_hand_on(x) || !dls_fast_is_open()) {
        return false;
    }
    return !dls_tensor_needs_change(acquired->managed, acquired->flags, &resolved->scan,
                                    &resolved->delivery);
}

/* The producer's own capsule, or a capsule around the struct that its C table gave. */
static PyObject *
hand_on_capsule(dls_acquired *acquired, bool versioned)
{
    PyObject *capsule = acquired->capsule != NULL
                            ? acquired->capsule
                            : dls_capsule_new(acquired->managed, versioned);
    if (capsule != NULL) {
        acquired->capsule = NULL;
        acquired->hold = (dls_hold){0};
    }
    return capsule;
}

/* The producer's own struct, out of its capsule if it came in one. */
static void *
hand_on_struct(dls_acquired *acquired, bool versioned)
{
    PyObject *capsule = acquired->capsule;
    if (capsule != NULL) {
        if (dls_capsule_take(capsule, versioned) < 0) {
            return NULL;
        }
        acquired->capsule = NULL;
        dls_drop_foreign(capsule);
    }
    acquired->hold = (dls_hold){0};
    return acquired->managed;
}

static void *
hand_on(dls_exchange *x, dls_export_kind kind)
{
    bool versioned = x->request.want.versioned;
    void *given = kind == DLS_EXPORT_CAPSULE ? hand_on_capsule(&x->acquired, versioned)
                                             : hand_on_struct(&x->acquired, versioned);
    if (given != NULL) {
        DLS_COUNT(handed_on);
    }
    return given;
}

/* A struct of ours, which describes the resolved tensor. */
static void *
translate(dls_exchange *x, dls_resolved *resolved, dls_export_kind kind)
{
    bool versioned = resolved->delivery.versioned;
    dls_hold hold;
    void *managed = dls_export_new(&resolved->delivery);
    if (managed == NULL) {
        return PyErr_NoMemory();
    }
    bool wraps = kind == DLS_EXPORT_CAPSULE;
    PyObject *capsule = wraps ? dls_capsule_new(managed, versioned) : NULL;
    bool made = (!wraps || capsule != NULL) && take_hold(x, resolved, &hold) == 0;
    if (made) {
        dls_hold_move(&hold, dls_export_own_hold(managed, versioned));
        DLS_COUNT(translated);
        made = !dls_track_wants(managed)
               || track_struct(x->state, managed, versioned) == 0;
    }
    if (!made && capsule != NULL) {
        dls_drop_foreign(capsule); /* and the struct with it */
    }
    else if (!made) {
        dls_managed_delete(managed, versioned);
    }
    if (!made) {
        return NULL;
    }
    return wraps ? (void *)capsule : managed;
}

/* --- a Tensor ------------------------------------------------------------- */

/* On which stream a Tensor's data are ready.  *stream: a new reference to its object,
 * or NULL.  0, or -1. */
static int
find_ready(const dls_exchange *x, const dls_resolved *resolved,
           dls_producer_stream *ready, PyObject **stream)
{
    dl_device device = resolved->delivery.tensor.device;
    PyObject *given = x->request.streams.consumer;
    bool is_object = given != NULL && !PyLong_Check(given) && !PyUnicode_Check(given);
    *stream = is_object ? given : NULL;
    Py_XINCREF(*stream);
    *ready = (dls_producer_stream){.known = DLS_P_READY};
    if (resolved->scan.count != 0) {
        *ready = dls_sync_ready_stream(x->state, &x->request, device);
    }
    if (ready->known == DLS_P_READY && !resolved->copied
        && !dls_device_is_host(device.device_type)
        && !dls_work_stream_is_synced(device.device_type)) {
        *ready = dls_sync_stream_of_source(x, device);
    }
    if (x->acquired.queue_unknown && !resolved->copied) {
        *ready = (dls_producer_stream){.known = DLS_P_UNKNOWN};
    }
    if (resolved->copied || !x->acquired.not_synced || dls_plan_is_tensor(x->plan)) {
        return 0;
    }
    /* The array's own stream may still work on it: consumers of the Tensor wait for it.
     */
    const dls_sync_source from = dls_sync_source_of(x, device);
    if (device.device_type != dl_kDLOneAPI) {
        *ready = (dls_producer_stream){.known = DLS_P_UNKNOWN};
        return dls_producer_stream_find(&from, ready, NULL);
    }
    if (dls_producer_stream_find_queue(&from, stream) < 0) {
        return -1;
    }
    if (*stream != NULL) {
        *ready = dls_producer_stream_of_object(*stream);
    }
    return 0;
}

static PyObject *
make_tensor(dls_exchange *x, dls_resolved *resolved)
{
    dls_producer_stream ready;
    PyObject *stream;
    dls_hold hold;
    if (find_ready(x, resolved, &ready, &stream) < 0) {
        return NULL;
    }
    PyObject *tensor = dls_tensor_new(x->state, &resolved->delivery, &x->acquired,
                                      ready, stream);
    Py_XDECREF(stream);
    if (tensor != NULL && (x->request.options != NULL || dls_plan_is_tensor(x->plan))) {
        dls_tensor_data(tensor)->readonly = dls_resolve_readonly_word(x);
    }
    if (tensor != NULL && take_hold(x, resolved, &hold) < 0) {
        Py_CLEAR(tensor);
    }
    if (tensor != NULL) {
        dls_tensor_set_hold(tensor, &hold);
    }
    if (dls_track_wants(tensor) && dls_track_tensor(x->state, tensor) < 0) {
        Py_CLEAR(tensor);
    }
    return tensor;
}

/* --- the exchange --------------------------------------------------------- */

static void *
run_once(dls_exchange *x, dls_export_kind kind)
{
    dls_resolved resolved = {0};
    void *given = NULL;
    int code = dls_acquire(x);
    if (code == 0 && x->resolved) {
        x->acquired.flags |= DL_FLAG_IS_COPIED;
        x->acquired.altered = true;
    }
    if (code == 0 && dls_resolve(x, &resolved) == 0) {
        assert(dls_exchange_check(x));
        x->copied = resolved.copied;
        given = kind == DLS_EXPORT_TENSOR   ? (void *)make_tensor(x, &resolved)
                : can_hand_on(x, &resolved) ? hand_on(x, kind)
                                            : translate(x, &resolved, kind);
    }
    if (!dls_hold_is_empty(&resolved.made)) {
        dls_hold_drop(&resolved.made, DLS_ATTACHED);
    }
    return given;
}

/* Add to the request what follows from the options and from the kind of export. */
static int
complete_request(dls_exchange *x, dls_export_kind kind)
{
    dls_request *request = &x->request;
    if (kind == DLS_EXPORT_TENSOR) {
        request->want.versioned = true;
        request->who.host_reads = true; /* a Tensor shows pinned memory to the host */
        request->who.supports_anything = true;
    }
    if (request->options != NULL
        && dls_request_options(x->state, x->source, request) < 0) {
        return -1;
    }
    if (request->want.has_device) {
        dls_transfer_name_device(request);
    }
    request->who.host_reads |= request->want.copy == 1;
    /* Asked only where the answer is needed (N5): any stream, any device. */
    request->who.ask_device |= request->streams.consumer != NULL
                               || request->want.has_device;
    if (request->streams.waits) {
        request->streams.consumer = x->state->names.wait;
    }
    return 0;
}

/* A type that has lost the __dlpack__ that its plan calls is met anew, once. */
void *
dls_exchange_run(dls_exchange *x, dls_export_kind kind)
{
    if (complete_request(x, kind) < 0) {
        return NULL;
    }
    bool prepared = x->outcome.kind == DLS_NOT_LEARNED
                    && (Py_TYPE(x->source) != x->plan->type || x->plan->is_decorated
                        || wants_detach(x));
    if (prepared && dls_exchange_prepare(x) < 0) {
        return NULL;
    }
    void *given = run_once(x, kind);
    if (given == NULL && resolve_source(x)) {
        clear_run(x);
        return run_once(x, kind);
    }
    bool lost = given == NULL && !prepared && !dls_plan_is_tensor(x->plan)
                && (PyErr_ExceptionMatches(PyExc_AttributeError)
                    || PyErr_ExceptionMatches(PyExc_BufferError))
                && dls_plan_retire(x->state, x->plan, x->source);
    if (!lost) {
        return given;
    }
    clear_run(x);
    return dls_exchange_prepare(x) == 0 ? run_once(x, kind) : NULL;
}

/* --- entrances ------------------------------------------------------------ */

PyObject *
dls_export_producer(dls_producer *self, PyObject *const *args, Py_ssize_t n,
                    PyObject *kwnames, dls_outcome *outcome)
{
    dls_exchange x;
    PyObject *capsule = NULL;
    dls_exchange_begin(&x, self->state, self->source, self->plan, self->options,
                       outcome);
    x.keeps = true;
    if (dls_request_parse(x.state, args, n, kwnames, &self->asked, &x.request) == 0) {
        capsule = dls_exchange_run(&x, DLS_EXPORT_CAPSULE);
        dls_producer_keep(self, &x, capsule != NULL);
    }
    dls_exchange_end(&x);
    return capsule;
}

PyObject *
dls_export_tensor(dls_state *state, dls_plan *plan, PyObject *source,
                  const dls_options *options, dls_outcome *outcome, int8_t copy)
{
    dls_exchange x;
    dls_exchange_begin(&x, state, source, plan, options, outcome);
    x.request.want.copy = copy;
    x.request.who.keeps_word = options != NULL;
    PyObject *tensor = dls_exchange_run(&x, DLS_EXPORT_TENSOR);
    dls_exchange_end(&x);
    return tensor;
}

/* A capsule says nothing of its stream, and assume_device may change its label: the
 * checks of resolve alone are made (T1, T6, T11). */
static PyObject *
take_capsule(dls_exchange *x)
{
    dls_resolved resolved = {0};
    if (dls_acquired_read_capsule(x, Py_NewRef(x->source), DLS_DESCRIBED) < 0
        || dls_resolve_checks(x, &resolved) < 0) {
        return NULL;
    }
    /* The Tensor has the capsule's own strides: a later export may keep them
     * (order="K").
     */
    resolved.delivery.canonical &= x->acquired.tensor.strides == NULL;
    const dls_producer_stream p = {.known = resolved.scan.count == 0 ? DLS_P_READY
                                                                     : DLS_P_UNKNOWN};
    PyObject *tensor = dls_tensor_new(x->state, &resolved.delivery, &x->acquired, p,
                                      NULL);
    if (tensor != NULL && dls_acquired_take(x) < 0) {
        Py_CLEAR(tensor);
    }
    if (tensor != NULL) {
        dls_export_unwrap(x->acquired.managed, x->acquired.generation == DLS_VERSIONED,
                          &x->acquired.hold);
        dls_tensor_set_hold(tensor, &x->acquired.hold);
    }
    if (dls_track_wants(tensor) && dls_track_tensor(x->state, tensor) < 0) {
        Py_CLEAR(tensor);
    }
    return tensor;
}

PyObject *
dls_tensor_from_capsule(dls_state *state, PyObject *capsule)
{
    dls_exchange x;
    dls_library_gil_deleters(state);
    dls_exchange_begin(&x, state, capsule, state->tensor_plan, NULL, NULL);
    PyObject *tensor = take_capsule(&x);
    dls_exchange_end(&x);
    return tensor;
}
