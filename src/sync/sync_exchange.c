/* The sync of one exchange: finds the rule before the producer is called, and carries
 * out its task afterwards.
 *
 * Called by acquire/ for every protocol off the host, by export/ for Tensors, structs
 * and copies to a device, and by public/interfaces_out.c.  Reads stream objects, asks
 * libraries for their streams, and has sync_run or sycl do the work.  Tests:
 * tests/device (test_matrix.py, test_managed.py, test_copies.py),
 * tests/core/test_other_devices.py, tests/device/test_copies_to_devices.py. */
#include "sync/sync_exchange.h"

#include <assert.h>

#include "core/dtype.h"
#include "core/tensor.h"
#include "exchange/objects.h"
#include "gpu/device_copy.h"
#include "gpu/pointer.h"
#include "gpu/sync_rules.h"
#include "gpu/sync_run.h"
#include "python/errors.h"
#include "sync/stream_value.h"
#include "sync/sycl.h"
#include "types/library.h"

/* --- the consumer stream -------------------------------------------------- */

int
dls_consumer_stream_read(dls_state *state, const dls_request *request, dls_stream *out)
{
    dls_stream_memory *seen = request->streams.seen;
    if (seen == NULL || request->streams.consumer == NULL) {
        return dls_stream_read(state, request->streams.consumer, out);
    }
    if (seen->object != request->streams.consumer) {
        if (dls_stream_read(state, request->streams.consumer, &seen->read) < 0) {
            return -1;
        }
        seen->object = request->streams.consumer;
    }
    *out = seen->read;
    return 0;
}

/* Read S as a stream of this family.  0, or -1. */
static int
read_s(dls_state *state, const dls_request *request, dls_family family, dls_stream *out)
{
    int code = family == DLS_FAMILY_OTHER
                   ? dls_stream_read_opaque(state, request->streams.consumer, out)
                   : dls_consumer_stream_read(state, request, out);
    /* A wait that was not asked for is no reason to refuse (S25). */
    if (family == DLS_FAMILY_OTHER && request->streams.waits
        && out->value == DLS_VALUE_WAIT) {
        out->value = DLS_VALUE_NONE;
    }
    return code;
}

/* The only writer of the transfer, and of the members that follow from it. */
static void
set_transfer(dls_sync *sync, dls_transfer transfer)
{
    sync->transfer = transfer;
    sync->on_copy_stream = dls_transfer_is_on_copy_stream(transfer);
    sync->copies_oneapi = transfer == DLS_TRANSFER_TO_HOST
                          && sync->from.family == DLS_FAMILY_ONEAPI;
}

/* Is there a way for the host to wait for the library, and is it asked to (S8)? */
static bool
waits_by_library(const dls_sync *sync)
{
    const dls_sync_source *from = &sync->from;
    return sync->s.value != DLS_VALUE_MINUS_ONE && from->family == DLS_FAMILY_OTHER
           && dls_library_can_wait(from->plan->habits, from->device.device_type);
}

/* Put the stream that really reads the memory in the place of the consumer's value. */
static void
adapt_s(dls_sync *sync)
{
    const dls_request *request = sync->from.request;
    dl_device device = sync->from.device;
    dls_stream *s = &sync->s;
    if (sync->from.streams == DLS_FAMILY_CUDA && s->from_object
        && s->value == DLS_VALUE_ZERO) {
        *s = (dls_stream){DLS_VALUE_ONE, 1, true}; /* from an object, 0 means L (S1) */
    }
    /* The host has no stream, whatever torch passes along (S17). */
    /* mutant: host copies to a device */
    bool host_reads = sync->transfer == DLS_TRANSFER_AS_HOST
                      || sync->transfer == DLS_TRANSFER_TO_DEVICE
                      || (request->who.host_reads
                          && dls_device_is_host(device.device_type));
    if (host_reads && s->value != DLS_VALUE_MINUS_ONE) {
        *s = (dls_stream){.value = DLS_VALUE_NONE};
    }
    if (sync->transfer == DLS_TRANSFER_AS_CUDA && s->value == DLS_VALUE_NONE) {
        *s = (dls_stream){.value = DLS_VALUE_ONE, .handle = 1};
    }
    bool hidden = request->streams.hides_queue && s->value == DLS_VALUE_NONE
                  && sync->transfer == DLS_TRANSFER_HERE
                  && dls_library_copies_sycl(sync->from.state);
    if (sync->copies_oneapi) {
        *s = (dls_stream){.value = sync->is_empty ? DLS_VALUE_MINUS_ONE
                                                  : DLS_VALUE_HANDLE};
    }
    else if (sync->from.family == DLS_FAMILY_ONEAPI && hidden) {
        *s = (dls_stream){.value = DLS_VALUE_HANDLE};
    }
    else if (sync->on_copy_stream) {
        bool found = sync->copy.kind == DLS_COPY_ON;
        *s = (dls_stream){.value = found ? DLS_VALUE_HANDLE : DLS_VALUE_MINUS_ONE,
                          .handle = found ? sync->copy.stream : 0};
    }
}

/* Find dlshim's own stream for this device: 0, or -1 with sync->copy_error.  memory:
 * NULL while only the export will tell it. */
static int
find_own_stream(dls_sync *sync, dls_memory *memory, uint64_t *stream)
{
    dls_memory unknown = {.address = NULL};
    int code;
    memory = memory != NULL ? memory : &unknown;
    Py_BEGIN_ALLOW_THREADS
    code = dls_copy_stream(sync->from.device, memory, stream, &sync->place_is_unknown,
                           &sync->copy_error);
    Py_END_ALLOW_THREADS
    return code == DLS_OK ? 0 : -1;
}

/* Find the stream for copies from this device (S18).  Without success copy.kind stays
 * COPY_NONE, and copy_error says why. */
static void
find_copy_stream(dls_sync *sync, dls_memory *memory)
{
    uint64_t stream = 0;
    if (find_own_stream(sync, memory, &stream) == 0) {
        sync->copy = (dls_copy_place){DLS_COPY_ON, stream};
    }
}

/* --- before the call ------------------------------------------------------ */

/* -1, or None for a producer that refuses -1. */
static PyObject *
minus_one_for(dls_sync *sync)
{
    /* mutant: -1 that is refused */
    sync->none_for_minus_one = dls_plan_refuses_minus_one(sync->from.plan);
    if (sync->none_for_minus_one) {
        Py_RETURN_NONE;
    }
    return PyLong_FromLong(-1);
}

/* The object for `stream=`, a new reference; NULL with MemoryError. */
static PyObject *
passed_value(dls_sync *sync)
{
    PyObject *stream = sync->from.request->streams.consumer;
    assert(sync->argument != DLS_OMIT);
    if (sync->argument == DLS_PASS_NONE) {
        Py_RETURN_NONE;
    }
    if (sync->argument == DLS_PASS_OWN) {
        if (sync->own_queue != NULL) {
            return Py_NewRef(sync->own_queue);
        }
        return sync->own != 0 ? PyLong_FromUnsignedLongLong(sync->own)
                              : minus_one_for(sync);
    }
    if (sync->argument == DLS_PASS_MINUS_1) {
        return minus_one_for(sync);
    }
    if (sync->argument != DLS_PASS_S) {
        return PyLong_FromLong(sync->argument == DLS_PASS_1);
    }
    if (sync->from.family != DLS_FAMILY_OTHER
        && (sync->s.handle != 0 || sync->s.value == DLS_VALUE_ZERO)) {
        return PyLong_FromUnsignedLongLong(sync->s.handle);
    }
    /* A SyclQueue, or an object that only its producer understands: pass the object
     * itself. */
    Py_INCREF(stream);
    return stream;
}

/* Find the stream that PASS_OWN passes.  On oneAPI a queue; else a stream, and 0 if the
 * context is not known yet: then -1 is passed, see dls_sync_finish.  0, or -1. */
static int
find_own(dls_sync *sync, dls_memory *memory)
{
    const dls_sync_source *from = &sync->from;
    if (from->family == DLS_FAMILY_ONEAPI) {
        sync->own_queue = dls_sycl_copy_queue(from->state, from->source,
                                              from->device.device_id);
        return sync->own_queue != NULL ? 0 : -1;
    }
    if (!sync->is_empty) {
        find_own_stream(sync, memory, &sync->own);
    }
    return 0;
}

int
dls_sync_begin(const dls_sync_source *from, dls_memory *memory, dls_producer_kind kind,
               dls_sync *sync)
{
    assert(from->state != NULL && from->source != NULL && from->request != NULL);
    *sync = (dls_sync){
        .from = *from, .kind = kind, .is_empty = from->request->who.empty};
    if (from->request->want.has_device) {
        set_transfer(sync, dls_transfer_of(from->state, from->request, from->device));
    }
    if (read_s(from->state, from->request, from->family, &sync->s) < 0) {
        return -1;
    }
    if (sync->copies_oneapi) {
        sync->copy.kind = DLS_COPY_WAITED;
    }
    else if (sync->on_copy_stream && sync->is_empty) {
        sync->place_is_unknown = true; /* it was not looked for (S10) */
    }
    else if (sync->on_copy_stream) {
        find_copy_stream(sync, memory);
    }
    adapt_s(sync);
    if (waits_by_library(sync)) {
        kind = DLS_PRODUCER_WAITED; /* no stream is passed: dls_sync_finish waits */
    }
    dls_sync_rule rule = dls_sync_rule_find(from->family, kind, sync->s.value);
    if (rule.task == DLS_TASK_VALUE_ERROR || rule.task == DLS_TASK_TYPE_ERROR) {
        return dls_stream_raise_wrong(from->state, from->family, rule.task,
                                      from->request->streams.consumer);
    }
    sync->argument = rule.argument;
    if (rule.argument == DLS_OMIT) {
        return 0;
    }
    if (rule.argument == DLS_PASS_OWN && find_own(sync, memory) < 0) {
        return -1;
    }
    sync->passed = passed_value(sync);
    return sync->passed != NULL ? 0 : -1;
}

void
dls_sync_place(dls_sync *sync, dl_device device, dls_transfer transfer)
{
    bool elsewhere = device.device_type != sync->from.device.device_type
                     || device.device_id != sync->from.device.device_id;
    if (elsewhere) {
        dls_sync_source_place(&sync->from, device);
    }
    if (elsewhere || transfer != sync->transfer) {
        set_transfer(sync, transfer);
    }
}

void
dls_sync_end(dls_sync *sync)
{
    Py_CLEAR(sync->passed);
    Py_CLEAR(sync->queue);
    Py_CLEAR(sync->own_queue);
}

/* --- graph captures ------------------------------------------------------- */

bool
dls_sync_omits(const dls_sync *sync)
{
    /* mutant: omitted stream */
    return !sync->from.request->streams.said && sync->s.value == DLS_VALUE_NONE
           && sync->transfer == DLS_TRANSFER_HERE;
}

int
dls_sync_meets_capture(dls_sync *sync)
{
    bool replaced = sync->on_copy_stream
                    || (sync->argument == DLS_PASS_1 && sync->s.value != DLS_VALUE_ONE)
                    || sync->argument == DLS_PASS_0 || sync->argument == DLS_PASS_OWN
                    || sync->none_for_minus_one;
    return replaced ? dls_sync_sees_capture(sync) : 0;
}

int
dls_sync_sees_capture(dls_sync *sync)
{
    const dls_driver *driver = sync->from.driver;
    dls_family streams = sync->from.streams;
    bool captures, in_use;
    if (sync->is_empty || (streams != DLS_FAMILY_CUDA && streams != DLS_FAMILY_ROCM)) {
        return 0;
    }
    Py_BEGIN_ALLOW_THREADS
    in_use = driver->in_use();
    Py_END_ALLOW_THREADS
    if (!in_use) {
        return 0; /* nothing captures without a driver */
    }
    dls_producer_stream p = {.known = DLS_P_UNKNOWN};
    if (dls_producer_stream_ask(&sync->from, &p, &sync->queue) < 0) {
        return -1;
    }
    if (sync->s.value == DLS_VALUE_NONE && p.known == DLS_P_KNOWN
        && p.handle == driver->legacy) {
        return 0; /* P is the stream that it is passed (S10) */
    }
    if (p.known == DLS_P_UNKNOWN && sync->kind == DLS_PRODUCER_REFUSES_TWO
        && dls_sync_omits(sync)) {
        return 1; /* dlshim cannot tell whether torch's stream captures */
    }
    Py_BEGIN_ALLOW_THREADS
    captures = dls_sync_run_sees_capture(sync->from.device, p);
    Py_END_ALLOW_THREADS
    return captures;
}

int
dls_sync_raise_capture(dls_state *state, PyObject *source)
{
    return dls_refuse(state, DLS_EOPTION, source, "%s",
                      DLS_CAPTURE_REFUSAL DLS_CAPTURE_OPTIONS);
}

int
dls_sync_raise_no_minus_one(dls_state *state, PyObject *source)
{
    return dls_refuse(
        state, DLS_EOPTION, source,
        "a graph capture is running, and it refuses stream=-1: None in its place could "
        "break the capture\n"
        "  export outside the capture, or give the capturing stream as stream=");
}

/* --- after the call ------------------------------------------------------- */

/* Has it no elements?  A struct that lies about itself counts as empty: it is refused
 * later, before anybody reads the memory (T11). */
bool
dls_sync_is_empty(const dl_tensor *tensor)
{
    int64_t count;
    bool sane = tensor->ndim >= 0 && tensor->ndim <= DLS_NDIM_ABSURD
                && (tensor->ndim == 0 || tensor->shape != NULL);
    return !sane || dls_layout_count(tensor->ndim, tensor->shape, &count, NULL) < 0
           || count == 0;
}

/* Find the copy stream that was missing before the call.  There is one now if only the
 * memory's address tells the context (a program of the driver API).  0, or -1 with the
 * reason as the exception. */
static int
find_copy_stream_again(dls_sync *sync, dls_acquired *acquired)
{
    if (sync->place_is_unknown) {
        find_copy_stream(sync, dls_acquired_memory(acquired));
    }
    if (sync->copy.kind == DLS_COPY_NONE) {
        return dls_refuse_error(sync->from.state, sync->from.source, &sync->copy_error);
    }
    adapt_s(sync);
    return 0;
}

static dls_sync_job
make_job(const dls_sync *sync, dls_task task, dls_producer_stream p,
         dls_acquired *acquired)
{
    dls_family family = sync->from.family;
    bool rocm = sync->from.streams == DLS_FAMILY_ROCM;
    bool none = sync->s.value == DLS_VALUE_NONE || sync->s.value == DLS_VALUE_WAIT;
    return (dls_sync_job){
        .task = task,
        .p = p,
        .s = none && !rocm ? 1 : sync->s.handle,
        .has_s = sync->s.value != DLS_VALUE_WAIT
                 && (!none || family == DLS_FAMILY_CUDA || family == DLS_FAMILY_ROCM),
        .s_omitted = dls_sync_omits(sync) && !sync->from.request->who.supports_anything,
        .said_ready = dls_stream_is_minus_one(sync->from.request->streams.consumer),
        .policy = sync->from.request->streams.unknown,
        .device = sync->from.device,
        .memory = *dls_acquired_memory(acquired),
    };
}

/* The job was not carried out.  Names the options that help beside those that the
 * exchange was given.  Always -1. */
static int
refuse_job(dls_state *state, PyObject *source, const dls_sync_job *job,
           const dls_error *err)
{
    const char *option = dls_sync_cure_no_driver(job);
    if (err->code == DLS_ENODRIVER && option != NULL) {
        return dls_refuse(state, DLS_EOPTION, source,
                          "%s%sif the data are on the device, and ready, pass %s",
                          err->text, dls_cure_joint(err->text), option);
    }
    if (err->code == DLS_ECAPTURE && !job->said_ready) {
        return dls_refuse(state, DLS_EOPTION, source, "%s" DLS_CAPTURE_OPTIONS,
                          err->text);
    }
    return dls_refuse_error(state, source, err);
}

int
dls_sync_run_job(dls_state *state, PyObject *source, const dls_sync_job *job)
{
    dls_error err;
    int code;
    if (dls_sync_run_needs_driver(job)) {
        Py_BEGIN_ALLOW_THREADS /* mutant: GIL */
        code = dls_sync_run(job, &err);
        Py_END_ALLOW_THREADS /* mutant: GIL */
    }
    else {
        code = dls_sync_run(job, &err);
    }
    return code == DLS_OK ? 0 : refuse_job(state, source, job, &err);
}

/* Carry out the rule's task.  0, or -1. */
static int
do_task(dls_sync *sync, dls_task task, dls_producer_stream p, dls_acquired *acquired)
{
    const dls_sync_source *from = &sync->from;
    dls_family family = from->family;
    /* mutant: nothing to do */
    if (task == DLS_TASK_NOTHING) {
        return 0;
    }
    if (task == DLS_TASK_VALUE_ERROR || task == DLS_TASK_TYPE_ERROR) {
        return dls_stream_raise_wrong(from->state, family, task,
                                      from->request->streams.consumer);
    }
    bool about_l = task == DLS_TASK_EDGE_FROM_L || task == DLS_TASK_WAIT_L;
    if (task == DLS_TASK_WAIT_OWN) {
        p = sync->own_queue != NULL ? dls_producer_stream_of_object(sync->own_queue)
                                    : dls_producer_stream_of_handle(sync->own);
    }
    if (!about_l && dls_producer_stream_find(from, &p, &sync->queue) < 0) {
        return -1;
    }
    const dls_sync_job job = make_job(sync, task, p, acquired);
    if (family == DLS_FAMILY_ONEAPI) {
        acquired->queue_unknown = task == DLS_TASK_WAIT_IF_KNOWN
                                  && p.known == DLS_P_UNKNOWN
                                  && job.policy != DLS_UNKNOWN_SAME;
        return dls_sycl_queue_sync(from->state, from->source, &job,
                                   from->request->streams.consumer,
                                   acquired->generation == DLS_DESCRIBED);
    }
    return dls_sync_run_job(sync->from.state, sync->from.source, &job);
}

/* Refuse an event that dlshim cannot have waited for (S27).  A consumer that says -1
 * wants no wait.  0, or -1. */
static int
check_event(const dls_sync *sync, dls_producer_stream p)
{
    const dls_sync_source *from = &sync->from;
    if (p.known != DLS_P_EVENT || p.handle != 0
        || sync->s.value == DLS_VALUE_MINUS_ONE) {
        return 0;
    }
    bool has_events = from->streams == DLS_FAMILY_CUDA
                      || from->streams == DLS_FAMILY_ROCM;
    return dls_refuse(
        from->state, DLS_EOPTION, from->source, "%s",
        has_events
            ? "its sync_event points to no event, so nobody can wait for its work\n"
              "  synchronise its device, and pass stream=-1"
            : "it names an event of its device, and dlshim waits for events of CUDA "
              "and ROCm only\n"
              "  synchronise its device, and pass stream=-1");
}

/* Has nobody asked for an order of queues?  Torch hides its queue, and the wait of
 * to_capsule and of a copy are dlshim's own (S6, S25).  But a copy of what a queue may
 * still work on is read by nobody else in time: only a SYCL interface without a queue
 * tells, by dpctl's convention, that nothing is pending. */
static bool
asks_for_no_order(const dls_sync *sync, dls_generation generation)
{
    const dls_request *request = sync->from.request;
    PyObject *stream = request->streams.consumer;
    bool named = stream != NULL && stream != Py_None && !request->streams.waits
                 && !dls_stream_is_minus_one(stream);
    return sync->from.family == DLS_FAMILY_ONEAPI && !named
           && (generation == DLS_DESCRIBED || !sync->copies_oneapi);
}

/* The rule for a producer that turned out to be of this kind.  A producer that was not
 * passed our queue or stream has put no work into it.  It was not passed one if it
 * takes no stream, or if the array is empty (then -1 was passed). */
static dls_sync_rule
find_rule(dls_sync *sync, dls_producer_kind kind, dls_generation generation)
{
    dls_family family = sync->from.family;
    if (sync->copies_oneapi && sync->s.value == DLS_VALUE_MINUS_ONE) {
        sync->s.value = DLS_VALUE_HANDLE;
    }
    dls_value value = sync->s.value;
    bool as_none = (value == DLS_VALUE_HANDLE || value == DLS_VALUE_WAIT)
                   && kind == DLS_PRODUCER_OLD && asks_for_no_order(sync, generation);
    if (as_none) {
        value = DLS_VALUE_NONE; /* where P is not known, nobody has to be refused */
    }
    dls_sync_rule rule = dls_sync_rule_find(family, kind, value);
    /* mutant: no stream of our own */
    bool none = sync->own == 0 && sync->own_queue == NULL;
    return rule.task == DLS_TASK_WAIT_OWN && none
               ? dls_sync_rule_find(family, DLS_PRODUCER_OLD, sync->s.value)
               : rule;
}

/* 1: the host has waited for the library; 0: there is no way for that; -1. */
static int
wait_by_library(const dls_sync *sync)
{
    const dls_sync_source *from = &sync->from;
    if (!waits_by_library(sync)) {
        return 0;
    }
    int got = dls_library_wait(from->plan->habits, from->source, from->device);
    return got < 0 ? dls_refuse_from_pending(from->state, from->source,
                                             "waiting for its library's work failed")
                   : got;
}

static bool
lies_where_wanted(const dls_sync *sync)
{
    const dls_sync_source *from = &sync->from;
    return dls_transfer_of(from->state, from->request, from->device)
           == DLS_TRANSFER_HERE;
}

/* The label was wrong: the memory lies where it is wanted, and is not copied.  Its
 * producer was passed the copy stream, so S is read anew, and synced with (S26).  0, or
 * -1. */
static int
stay_here(dls_sync *sync, dls_producer_kind *kind)
{
    const dls_sync_source *from = &sync->from;
    set_transfer(sync, DLS_TRANSFER_HERE);
    sync->copy = (dls_copy_place){.kind = DLS_COPY_NONE};
    if (read_s(from->state, from->request, from->family, &sync->s) < 0) {
        return -1;
    }
    adapt_s(sync);
    *kind = *kind != DLS_PRODUCER_WAITED ? DLS_PRODUCER_OLD : *kind;
    return 0;
}

/* Note what a copy of the memory has to come after.  JAX has waited if it was passed
 * None. */
static void
note_source(const dls_sync *sync, dls_producer_kind kind, dls_producer_stream p,
            dls_acquired *acquired)
{
    bool waited = kind == DLS_PRODUCER_WAITED
                  || (kind == DLS_PRODUCER_NO_MINUS_ONE
                      && sync->argument == DLS_PASS_NONE);
    acquired->sync_device = sync->from.device;
    if (waited) {
        acquired->p.known = DLS_P_READY;
    }
    else if (p.object == NULL) { /* memory of a queue is copied there */
        acquired->p = p;         /* mutant: P of a copy */
    }
}

int
dls_sync_finish(dls_sync *sync, dls_producer_kind kind, dls_producer_stream p,
                dls_acquired *acquired)
{
    /* The tensor decides if label and tensor disagree about the device (N5). */
    if (!sync->from.request->want.has_assumed) {
        dls_sync_place(sync, acquired->tensor.device, sync->transfer);
    }
    /* mutant: empty array */
    if (dls_sync_is_empty(&acquired->tensor)) {
        acquired->copy = (dls_copy_place){.kind = DLS_COPY_NOTHING};
        return 0;
    }
    if (check_event(sync, p) < 0) {
        return -1;
    }
    note_source(sync, kind, p, acquired);
    bool copied = sync->on_copy_stream;
    if (copied && lies_where_wanted(sync)) {
        if (stay_here(sync, &kind) < 0) {
            return -1;
        }
    }
    else if (copied && sync->copy.kind == DLS_COPY_NONE) {
        if (find_copy_stream_again(sync, acquired) < 0) {
            return -1;
        }
        if (kind != DLS_PRODUCER_WAITED) {
            kind = DLS_PRODUCER_OLD; /* it was passed -1, so it has not synced */
        }
    }
    acquired->copy = sync->copy;
    int waited = wait_by_library(sync);
    if (waited != 0) {
        return waited < 0 ? -1 : 0;
    }
    dls_sync_rule rule = find_rule(sync, kind, acquired->generation);
    acquired->not_synced =
        sync->not_synced
        || (sync->from.family == DLS_FAMILY_ONEAPI && rule.task == DLS_TASK_NOTHING
            && sync->s.value == DLS_VALUE_NONE && rule.argument == DLS_PASS_NONE);
    return do_task(sync, rule.task, p, acquired);
}

int
dls_sync_acquired(const dls_sync_source *from, dls_producer_kind kind,
                  dls_producer_stream p, dls_acquired *acquired)
{
    dls_sync sync;
    dls_sync_source here = *from;
    dls_sync_source_place(&here, from->request->want.has_assumed
                                     ? from->request->want.assumed
                                     : acquired->tensor.device);
    if (dls_transfer_check(from->state, from->source, from->request, here.device) < 0) {
        return -1; /* before any sync */
    }
    if (dls_sync_is_empty(&acquired->tensor)
        && dls_transfer_is_on_copy_stream(
            dls_transfer_of(from->state, from->request, here.device))) {
        acquired->copy = (dls_copy_place){.kind = DLS_COPY_NOTHING};
        return 0;
    }
    int result = dls_sync_begin(&here, dls_acquired_memory(acquired), kind, &sync);
    if (result == 0) {
        result = dls_sync_finish(&sync, kind, p, acquired);
    }
    dls_sync_end(&sync);
    return result;
}

/* --- the stream that a Tensor remembers ----------------------------------- */

dls_producer_stream
dls_sync_ready_stream(dls_state *state, const dls_request *request, dl_device device)
{
    const dls_producer_stream ready = {.known = DLS_P_READY};
    dls_stream s;
    if (dls_device_is_host(device.device_type)) {
        return ready;
    }
    if (read_s(state, request, dls_family_of(device.device_type), &s) < 0) {
        PyErr_Clear();
        return (dls_producer_stream){.known = DLS_P_UNKNOWN};
    }
    switch (s.value) {
    case DLS_VALUE_NONE:
        if (device.device_type == dl_kDLCUDA || device.device_type == dl_kDLROCM) {
            return dls_producer_stream_of_handle(device.device_type == dl_kDLCUDA);
        }
        return ready; /* the host has waited for managed memory (S4) */
    case DLS_VALUE_WAIT:
        return ready;
    case DLS_VALUE_ZERO:
        /* An object's handle 0 is L: 1 on CUDA, 0 on ROCm (S1). */
        return dls_producer_stream_of_handle(s.from_object
                                             && device.device_type != dl_kDLROCM);
    case DLS_VALUE_ONE:
    case DLS_VALUE_TWO:
    case DLS_VALUE_HANDLE:
        if (device.device_type == dl_kDLOneAPI) {
            return ready; /* the host has waited (S6) */
        }
        return dls_producer_stream_of_handle(s.handle); /* mutant: stream of a Tensor */
    case DLS_VALUE_OBJECT:
        return dls_producer_stream_of_object(request->streams.consumer);
    default:
        return (dls_producer_stream){.known = DLS_P_UNKNOWN};
    }
}

/* The stream that an option names, or that a Tensor remembers. */
static dls_producer_stream
find_named_stream(const dls_exchange *x, dl_device device)
{
    dls_producer_stream p = {.known = DLS_P_UNKNOWN};
    if (x->request.streams.consumer != NULL && x->request.streams.consumer != Py_None) {
        return dls_sync_ready_stream(x->state, &x->request, device);
    }
    if (dls_plan_is_tensor(x->plan)) {
        return dls_tensor_ready_stream(dls_tensor_data(x->source));
    }
    const dls_sync_source from = dls_sync_source_of(x, device);
    if (dls_producer_stream_find(&from, &p, NULL) < 0) {
        PyErr_Clear(); /* the export has read the option without an error */
    }
    return p;
}

dls_producer_stream
dls_sync_stream_of_source(const dls_exchange *x, dl_device device)
{
    dls_producer_stream p = find_named_stream(x, device);
    void *stream;
    if (p.known == DLS_P_UNKNOWN
        && dls_producer_stream_of_table(x->plan, device, &stream)) {
        p.handle = (uint64_t)(uintptr_t)stream;
    }
    return (dls_producer_stream){.known = DLS_P_READY,
                                 .handle = p.object == NULL ? p.handle : 0};
}

/* --- copies to a device --------------------------------------------------- */

int
dls_copy_read_consumer(const dls_exchange *x, dl_device to, uint64_t *s)
{
    dls_stream read;
    dls_family family = dls_family_of(to.device_type);
    if (dls_consumer_stream_read(x->state, &x->request, &read) < 0) {
        return -1;
    }
    *s = dls_driver_of(to.device_type)->legacy;
    if (read.value == DLS_VALUE_NONE || read.value == DLS_VALUE_MINUS_ONE
        || (read.value == DLS_VALUE_ZERO && read.from_object)) {
        return 0;
    }
    dls_sync_rule rule = dls_sync_rule_find(family, DLS_PRODUCER_OLD, read.value);
    if (rule.task == DLS_TASK_VALUE_ERROR || rule.task == DLS_TASK_TYPE_ERROR) {
        return dls_stream_raise_wrong(x->state, family, rule.task,
                                      x->request.streams.consumer);
    }
    *s = read.handle;
    return 0;
}

/* A consumer that named no stream may have counted as working in the capture of P, and
 * then nothing was synced (S14).  A copy is no part of a capture.  0, or -1. */
static int
check_omitted(const dls_exchange *x, dl_device device, dls_producer_stream p)
{
    bool captures = x->acquired.not_synced;
    if (!captures) {
        Py_BEGIN_ALLOW_THREADS
        captures = dls_sync_run_sees_capture(device, p);
        Py_END_ALLOW_THREADS
    }
    return captures ? dls_sync_raise_capture(x->state, x->source) : 0;
}

int
dls_copy_sync(const dls_exchange *x, const dl_tensor *tensor, uint64_t copy_stream)
{
    const dls_sync_source from = dls_sync_source_of(x, tensor->device);
    bool minus_one = dls_stream_is_minus_one(x->request.streams.consumer);
    bool omitted = x->request.streams.consumer == NULL && !x->request.streams.said;
    dls_producer_stream p = x->acquired.p;
    if ((minus_one || omitted) && dls_producer_stream_find(&from, &p, NULL) < 0) {
        return -1;
    }
    if (omitted && check_omitted(x, tensor->device, p) < 0) {
        return -1;
    }
    if (!minus_one) {
        p = dls_sync_ready_stream(x->state, &x->request, tensor->device);
    }
    const dls_sync_job job = {
        .task = DLS_TASK_SYNC,
        .p = p,
        .s = copy_stream,
        .has_s = true,
        .said_ready = minus_one,
        .policy = x->request.streams.unknown,
        .device = tensor->device,
        .memory.address = (const char *)tensor->data + tensor->byte_offset,
    };
    return dls_sync_run_job(x->state, x->source, &job); /* mutant: work before a copy */
}

int
dls_copy_wait(dls_exchange *x)
{
    dl_device device = x->acquired.sync_device;
    if (device.device_type == 0
        || !dls_stream_is_minus_one(x->request.streams.consumer)) {
        return 0;
    }
    const dls_sync_source from = dls_sync_source_of(x, device);
    dls_producer_stream p = x->acquired.p;
    if (dls_producer_stream_find(&from, &p, NULL) < 0) {
        return -1;
    }
    const dls_sync_job job = {
        /* The host reads, as where None was said. */
        .task = dls_sync_rule_find(from.family, DLS_PRODUCER_OLD, DLS_VALUE_NONE).task,
        .p = p,
        .said_ready = true,
        .policy = x->request.streams.unknown,
        .device = device,
        .memory = *dls_acquired_memory(&x->acquired),
    };
    /* mutant: work before a copy by the host */
    return dls_sync_run_job(x->state, x->source, &job);
}
