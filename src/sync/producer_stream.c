/* Finds P: the user's option, the type's C table, the current stream of its library.
 *
 * Called by sync_exchange after (and, for captures, before) the producer is called, by
 * the C table's exports, and for a new Tensor on oneAPI.  Calls into the producer's
 * library. Tests: tests/device/test_matrix.py, tests/device/test_cuda_interface.py,
 * tests/core/test_torch_xpu.py.
 */
#include "sync/producer_stream.h"

#include <assert.h>

#include "core/dtype.h"
#include "gpu/pointer.h"
#include "gpu/sync_rules.h"
#include "python/errors.h"
#include "sync/stream_value.h"

/* --- the current device --------------------------------------------------- */

/* Has the memory a context of its device?  Pinned memory has none. */
static bool
has_context(const dls_sync_source *from)
{
    return from->family == DLS_FAMILY_CUDA || from->family == DLS_FAMILY_CUDA_MANAGED
           || from->family == DLS_FAMILY_ROCM;
}

/* Make the device current.  true: it was not, and leave_context must follow on the same
 * thread with the same *saved.  false: nothing was changed, because the device is
 * current already, its kind has no contexts, or no driver is mapped. */
static bool
enter_context(const dls_sync_source *from, dls_saved_device *saved)
{
    bool entered;
    if (!has_context(from)) {
        return false;
    }
    Py_BEGIN_ALLOW_THREADS
    entered = from->driver->enter_device(from->device.device_id, saved);
    Py_END_ALLOW_THREADS
    return entered;
}

/* Keeps a pending exception. */
static void
leave_context(const dls_sync_source *from, const dls_saved_device *saved)
{
    PyObject *error = dls_error_take();
    Py_BEGIN_ALLOW_THREADS
    from->driver->leave(saved);
    Py_END_ALLOW_THREADS
    if (error != NULL) {
        dls_error_restore(error);
    }
}

int
dls_producer_context_enter(const dls_sync_source *from, dls_producer_context *context)
{
    *context = (dls_producer_context){.guard = NULL};
    if (from->streams != DLS_FAMILY_CUDA && from->family != DLS_FAMILY_ROCM) {
        return 0;
    }
    context->driver = enter_context(from, &context->saved);
    if (from->request->want.has_assumed) {
        return context->driver; /* the library goes by the label that is wrong */
    }
    int got = dls_library_enter_device(from->state, from->plan->habits, from->source,
                                       from->device.device_id, &context->guard);
    if (got < 0 && dls_error_forget() < 0) {
        return -1;
    }
    return context->driver || got > 0;
}

/* The library's device last: it may set the driver's, which must then be the one that
 * was current before. */
void
dls_producer_context_leave(const dls_sync_source *from, dls_producer_context *context)
{
    if (context->driver) {
        leave_context(from, &context->saved);
    }
    if (context->guard != NULL) {
        dls_library_leave(from->state, context->guard);
        context->guard = NULL;
    }
}

/* --- the producer's stream ------------------------------------------------ */

dls_sync_source
dls_sync_source_of(const dls_exchange *x, dl_device device)
{
    dls_sync_source from = {.state = x->state,
                            .plan = x->plan,
                            .source = x->source,
                            .request = &x->request};
    dls_sync_source_place(&from, device);
    return from;
}

void
dls_sync_source_place(dls_sync_source *from, dl_device device)
{
    from->device = device;
    from->family = dls_family_of(device.device_type);
    from->streams = dls_family_of_streams(device.device_type);
    from->driver = dls_driver_of(device.device_type);
}

dls_producer_stream
dls_producer_stream_of_event(dl_device device, const void *event)
{
    if (event == NULL) {
        return (dls_producer_stream){.known = DLS_P_READY};
    }
    dls_family streams = dls_family_of_streams(device.device_type);
    dls_producer_stream p = {.known = DLS_P_EVENT};
    /* A cudaEvent_t and a hipEvent_t are pointers. */
    if (streams == DLS_FAMILY_CUDA || streams == DLS_FAMILY_ROCM) {
        p.handle = (uint64_t)(uintptr_t)*(void *const *)event;
    }
    return p;
}

/* --- the option producer_stream ------------------------------------------- */

/* Read P from the option.  A value is refused if the rules refuse it as the consumer's
 * stream S; an object's handle 0 is L on CUDA (S1).  On devices whose streams dlshim
 * does not know every value is a stream (S8).  0, or -1. */
static int
read_option(const dls_sync_source *from, PyObject *stream, dls_producer_stream *p)
{
    dls_state *state = from->state;
    dls_family family = from->streams;
    dls_stream named;
    int code = family == DLS_FAMILY_OTHER
                   ? dls_stream_read_opaque(state, stream, &named)
                   : dls_stream_read(state, stream, &named);
    if (code < 0) {
        return -1;
    }
    if (family == DLS_FAMILY_CUDA && named.from_object
        && named.value == DLS_VALUE_ZERO) {
        named = (dls_stream){DLS_VALUE_ONE, 1, true};
    }
    dls_task task = dls_sync_rule_find(family, DLS_PRODUCER_MODERN, named.value).task;
    if (task == DLS_TASK_VALUE_ERROR) {
        return dls_stream_raise_wrong(state, family, task, stream);
    }
    bool no_queue = family == DLS_FAMILY_ONEAPI && named.value == DLS_VALUE_HANDLE;
    if (no_queue) {
        task = DLS_TASK_TYPE_ERROR; /* dlshim cannot wait for an address */
    }
    if (task == DLS_TASK_TYPE_ERROR) {
        return dls_stream_raise_wrong(state, from->family, task, stream);
    }
    if (named.value == DLS_VALUE_MINUS_ONE) {
        *p = (dls_producer_stream){.known = DLS_P_READY};
    }
    else {
        *p = family == DLS_FAMILY_ONEAPI ? dls_producer_stream_of_object(stream)
                                         : dls_producer_stream_of_handle(named.handle);
    }
    return 0;
}

/* --- the C table and the library ------------------------------------------ */

/* The stream of a library that says `handle`, where 0 means L. */
static dls_producer_stream
stream_or_legacy(const dls_sync_source *from, uint64_t handle)
{
    return dls_producer_stream_of_handle(handle != 0 ? handle : from->driver->legacy);
}

/* Does the type's C table name a stream?  On oneAPI it gives a sycl::queue of C++, for
 * which Python cannot wait. */
static bool
has_work_stream(const dls_plan *plan, dl_device device)
{
    return device.device_type != dl_kDLOneAPI && plan->table != NULL
           && plan->table->current_work_stream != NULL
           && !dls_plan_has(plan, DLS_LIB_NO_WORK_STREAM);
}

bool
dls_producer_stream_of_table(const dls_plan *plan, dl_device device, void **stream)
{
    *stream = NULL;
    if (plan->table == NULL || plan->table->current_work_stream == NULL) {
        return false;
    }
    int code = plan->table->current_work_stream(device.device_type, device.device_id,
                                                stream);
    PyErr_Clear();
    return code == 0;
}

/* Ask the type's C table.  Where it fails, nothing was said. */
static void
ask_table(const dls_sync_source *from, dls_producer_stream *p)
{
    void *stream;
    if (has_work_stream(from->plan, from->device)
        && dls_producer_stream_of_table(from->plan, from->device, &stream)) {
        *p = stream_or_legacy(from, (uint64_t)(uintptr_t)stream);
    }
}

/* Ask the library for its current stream, with the memory's device current.  1 with a
 * new reference in *stream and the value read from it in *named, 0, or -1.  The caller
 * drops *stream in all cases. */
static int
ask_library_object(const dls_sync_source *from, PyObject **stream, dls_stream *named)
{
    dls_saved_device saved;
    bool entered = enter_context(from, &saved);
    int got = dls_library_stream(from->plan->habits, from->source, from->device,
                                 stream);
    if (entered) {
        leave_context(from, &saved);
    }
    bool unread = got > 0 && dls_stream_read(from->state, *stream, named) < 0;
    return unread ? -1 : got;
}

/* Ask the library.  Where it fails, nothing was said, unless the error is fatal. */
static int
ask_library(const dls_sync_source *from, dls_producer_stream *p, PyObject **queue)
{
    PyObject *stream = NULL;
    dls_stream named = {.value = DLS_VALUE_NONE};
    if (from->plan->library == NULL) {
        return 0;
    }
    int got = ask_library_object(from, &stream, &named);
    if (got < 0) {
        Py_XDECREF(stream);
        return dls_error_forget();
    }
    if (got > 0 && named.value == DLS_VALUE_OBJECT
        && from->family == DLS_FAMILY_ONEAPI) {
        *p = dls_producer_stream_of_object(stream);
        *queue = stream;
        return 0;
    }
    /* Some libraries say 0 also if no stream was chosen. */
    bool says = got > 0 && named.value != DLS_VALUE_OBJECT
                && named.value != DLS_VALUE_MINUS_ONE
                && (named.handle != 0
                    || !dls_plan_has(from->plan, DLS_LIB_ZERO_UNSAID));
    if (says) {
        *p = stream_or_legacy(from, named.handle);
    }
    Py_XDECREF(stream);
    return 0;
}

/* --- what others call ----------------------------------------------------- */

dls_producer_kind
dls_producer_kind_of(const dls_plan *plan, dl_device device)
{
    const uint64_t traits = plan->traits;
    if (traits & DLS_LIB_WAITS) {
        return DLS_PRODUCER_WAITED;
    }
    if (traits & DLS_LIB_IGNORES_STREAM) {
        return DLS_PRODUCER_IGNORES;
    }
    if (traits & DLS_LIB_NO_MINUS_ONE) {
        return DLS_PRODUCER_NO_MINUS_ONE;
    }
    if (traits & DLS_LIB_REFUSES_TWO) {
        return DLS_PRODUCER_REFUSES_TWO;
    }
    /* There is no other way to P than these two. */
    bool can_be_asked = has_work_stream(plan, device)
                        || dls_library_has_stream(plan->habits, device.device_type);
    return can_be_asked ? DLS_PRODUCER_MODERN : DLS_PRODUCER_UNKNOWN;
}

int
dls_producer_stream_ask(const dls_sync_source *from, dls_producer_stream *p,
                        PyObject **queue)
{
    assert(from->plan != NULL && *queue == NULL);
    ask_table(from, p);
    /* mutant: current stream of a library */
    return p->known == DLS_P_UNKNOWN ? ask_library(from, p, queue) : 0;
}

static int
find_stream(const dls_sync_source *from, dls_producer_stream *p, PyObject **queue)
{
    if (p->known != DLS_P_UNKNOWN) {
        return 0;
    }
    PyObject *named = from->request->streams.producer;
    /* mutant: producer_stream */
    if (named != NULL && named != Py_None) {
        return read_option(from, named, p);
    }
    /* No library keeps track of copies into pinned memory, and a current stream says
     * nothing about them (S5).  The streams of other devices are unknown (S8). */
    if (dls_plan_is_tensor(from->plan) || dls_device_is_host(from->device.device_type)
        || from->family == DLS_FAMILY_OTHER) {
        return 0;
    }
    return dls_producer_stream_ask(from, p, queue);
}

int
dls_producer_stream_find(const dls_sync_source *from, dls_producer_stream *p,
                         PyObject **queue)
{
    PyObject *dropped = NULL;
    int code = find_stream(from, p, queue != NULL ? queue : &dropped);
    if (queue == NULL && p->object != NULL) {
        *p = (dls_producer_stream){.known = DLS_P_UNKNOWN};
    }
    Py_XDECREF(dropped);
    return code;
}

int
dls_producer_stream_find_queue(const dls_sync_source *from, PyObject **queue)
{
    dls_producer_stream p = {.known = DLS_P_UNKNOWN};
    assert(from->plan != NULL && *queue == NULL);
    return ask_library(from, &p, queue);
}
