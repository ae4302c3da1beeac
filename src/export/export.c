#include <stdatomic.h>

#include "acquire/from_capsule.h"
#include "core/alloc.h"
#include "core/counters.h"
#include "core/device.h"
#include "export/resolve.h"
#include "module/test_hooks.h"
#include "python/capsule.h"
#include "python/errors.h"
#include "sync/producer_stream.h"
#include "sync/sync_exchange.h"
#include "sync/transfer.h"

atomic_bool dls_hand_on_allowed = true;

static const dls_library *
row_of(const dls_plan *plan)
{
    return plan != NULL ? plan->library : NULL;
}

/* --- asking ---------------------------------------------------------------------- */

/* Without a plan the source is a Tensor, but for a Producer that the collector cleared.
 */
static bool
is_tensor(dls_state *state, PyObject *source)
{
    if (Py_IS_TYPE(source, state->tensor_type)) {
        return true;
    }
    dls_raise(state, DLS_EBUFFER, source,
              "the Producer has been cleared with its garbage");
    return false;
}

/* A Tensor knows on which stream its data are. */
DLS_COLD static int
order_tensor(dls_state *state, PyObject *source, const dls_request *request,
             dls_loan *loan)
{
    dls_pending p = dls_tensor_pending(dls_tensor_data(source));
    if (dls_order_owed(state, NULL, source, &request->want, DLS_PRODUCER_OLD, p, loan)
        == 0) {
        return 0;
    }
    dls_loan_drop(loan);
    return -1;
}

/* Fill *loan from a Tensor (plan NULL) or a foreign object. */
static int
ask_source(dls_state *state, PyObject *source, dls_plan *plan, dls_request *request,
           dls_loan *loan)
{
    if (request->answer != NULL) {
        dls_answer *answer = request->answer;
        request->answer = NULL;
        return dls_source_answered(state, plan, source, &request->want, answer, loan);
    }
    if (plan == NULL) {
        if (!is_tensor(state, source)) {
            return -1;
        }
        if (dls_tensor_lend(dls_tensor_data(source), loan) < 0) {
            return -1;
        }
        bool host = loan->tensor.device.device_type == dl_kDLCPU
                    && !request->want.has_assumed;
        return host ? 0 : order_tensor(state, source, request, loan);
    }
    return dls_source_ask(state, plan, source, &request->want, loan);
}

/* detach=True: the detached object is the source from here on. */
static int
detach_source(dls_state *state, PyObject **source, dls_plan **plan)
{
    PyObject *method = NULL;
    int got = dls_get_optional(*source, state->names.detach, &method);
    if (got <= 0) {
        if (got == 0) {
            dls_raise(state, DLS_EBUFFER, *source,
                      "detach=True, but it has no .detach(); drop the option");
        }
        return -1;
    }
    PyObject *detached = PyObject_CallFunctionObjArgs(method, NULL);
    Py_DECREF(method);
    dls_plan *new_plan = detached != NULL ? dls_plan_find(state, detached) : NULL;
    if (new_plan == NULL) {
        Py_XDECREF(detached);
        dls_raise_from_pending(state, *source, "detach=True failed");
        return -1;
    }
    Py_DECREF(*source);
    dls_plan_drop(*plan);
    *source = detached;
    *plan = new_plan;
    return 0;
}

/* --- handing over ------------------------------------------------------------------
 */

static bool
wants_guard(const dls_request *request)
{
    return dls_option_given(request->options, DLS_OPTION_on_release)
           && request->options->on_release == DLS_RELEASE_GUARD;
}

/* T3's question, put to the source's struct. */
static bool
goes_as_it_is(dls_state *state, const dls_plan *plan, const dls_request *request,
              const dls_loan *loan, const dls_settled *s)
{
    bool versioned = s->delivery.versioned;
    if (s->copied || s->needs_keeping || wants_guard(request)
        || loan->flavour != (dls_flavour)versioned
        || !dls_loan_may_hand_on(state, row_of(plan), loan)
        || !atomic_load_explicit(&dls_hand_on_allowed, memory_order_relaxed)) {
        return false;
    }
    void *managed = loan->managed;
    bool has_deleter;
    const dl_tensor *tensor;
    if (versioned) {
        has_deleter = ((dl_managed_tensor_versioned *)managed)->deleter != NULL;
        tensor = &((dl_managed_tensor_versioned *)managed)->dl_tensor;
    }
    else {
        has_deleter = ((dl_managed_tensor *)managed)->deleter != NULL;
        tensor = &((dl_managed_tensor *)managed)->dl_tensor;
    }
    return !dls_tensor_needs_change(tensor, loan->flags, has_deleter, &s->scan,
                                    &s->delivery);
}

/* The producer's own capsule, or a capsule around the tensor that its table gave. */
static PyObject *
hand_on(dls_loan *loan, bool versioned)
{
    PyObject *capsule = loan->capsule;
    if (capsule != NULL) {
        loan->capsule = NULL;
    }
    else {
        capsule = dls_capsule_new(loan->hold.base, versioned);
        if (capsule == NULL) {
            return NULL;
        }
        loan->hold = (dls_hold){0};
    }
    DLS_COUNT(handed_on);
    return capsule;
}

/* An export holds the struct and, unless the library is known to do it right, the
 * object (T10). */
static void
hold_source(const dls_plan *plan, PyObject *source, dls_hold *hold)
{
    bool foreign = hold->kind == DLS_HOLD_LEGACY || hold->kind == DLS_HOLD_VERSIONED;
    if (foreign && hold->py == NULL && plan != NULL
        && !dls_plan_has(plan, DLS_LIB_OWNS)) {
        Py_INCREF(source);
        hold->py = source;
    }
}

/* *guarded: what on_release="guard" needs; NULL where the consumer's work cannot
 * outlive the export (host memory, nothing there).  0, or -1. */
DLS_COLD static int
make_guard(dls_state *state, PyObject *source, const dls_loan *loan,
           const dls_settled *s, dls_guarded **guarded)
{
    dls_error err;
    dl_device device = s->delivery.tensor.device;
    bool cuda = device.device_type == dl_kDLCUDA
                || device.device_type == dl_kDLCUDAManaged
                || loan->tensor.device.device_type == dl_kDLCUDAManaged;
    if (s->scan.count == 0 || (!cuda && dls_device_is_host(device.device_type))) {
        return 0;
    }
    if (!cuda) {
        dls_raise(
            state, DLS_EBUFFER, source,
            "on_release=\"guard\" is kept for CUDA memory only, not on device (%d, "
            "%d); "
            "keep the array until the consumer's work is done, and drop the option",
            (int)device.device_type, (int)device.device_id);
        return -1;
    }
    dls_ordering what = {.device = device, .address = s->delivery.tensor.data};
    dls_guarded_flush();
    int code;
    Py_BEGIN_ALLOW_THREADS
    code = dls_handoff_can_guard(&what, &err);
    Py_END_ALLOW_THREADS
    if (code != DLS_OK) {
        return dls_raise_error(state, source, &err);
    }
    *guarded = dls_guarded_new(&what, dls_handoff_guard);
    if (*guarded == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static int
guard_release(dls_state *state, PyObject *source, const dls_request *request,
              const dls_loan *loan, const dls_settled *s, dls_guarded **guarded)
{
    return wants_guard(request) ? make_guard(state, source, loan, s, guarded) : 0;
}

/* What the new struct shall hold: the copy, or what the source lent. */
static int
take_hold(dls_state *state, PyObject *source, dls_plan *plan,
          const dls_request *request, dls_loan *loan, dls_settled *s, dls_hold *hold)
{
    if (s->copied) {
        *hold = s->made;
        s->made = (dls_hold){0};
        return 0;
    }
    dls_hold shared_hold = {0};
    dls_shared *shared = NULL;
    dls_guarded *guarded = NULL;
    if (guard_release(state, source, request, loan, s, &guarded) < 0) {
        return -1;
    }
    if (s->needs_keeping) {
        shared = dls_shared_new(&shared_hold); /* filled below, when nothing can fail */
        if (shared == NULL) {
            dls_free(guarded);
            PyErr_NoMemory();
            return -1;
        }
    }
    if (dls_loan_take(state, row_of(plan), source, loan) < 0) {
        dls_free(guarded);
        dls_shared_drop_attached(shared);
        return -1;
    }
    hold_source(plan, source, &loan->hold);
    *hold = loan->hold;
    loan->hold = (dls_hold){0};
    if (shared != NULL) {
        dls_shared *before = *request->kept;
        shared->hold = *hold;
        *request->kept = dls_shared_add(shared);
        *hold = (dls_hold){.base = shared, .kind = DLS_HOLD_SHARED};
        dls_shared_drop_attached(before);
    }
    if (guarded != NULL) {
        guarded->hold = *hold;
        *hold = (dls_hold){.base = guarded, .kind = DLS_HOLD_GUARDED};
    }
    return 0;
}

static PyObject *
translate(dls_state *state, PyObject *source, dls_plan *plan,
          const dls_request *request, dls_loan *loan, dls_settled *s)
{
    bool versioned = s->delivery.versioned;
    dls_hold hold;
    void *managed = dls_export_new(&s->delivery);
    if (managed == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *capsule = dls_capsule_new(managed, versioned);
    if (capsule == NULL) {
        dls_managed_delete(managed, versioned);
        return NULL;
    }
    /* Renaming the source's capsule is the last step that can fail (T9). */
    if (take_hold(state, source, plan, request, loan, s, &hold) < 0) {
        Py_DECREF(capsule);
        return NULL;
    }
    dls_export_hold(managed, versioned, &hold);
    DLS_COUNT(translated);
    return capsule;
}

static PyObject *
serve_capsule(dls_state *state, PyObject *source, dls_plan *plan, dls_request *request)
{
    dls_loan loan;
    dls_settled settled;
    PyObject *capsule = NULL;
    dls_loan_init(&loan);
    settled.made = (dls_hold){0};
    if (ask_source(state, source, plan, request, &loan) < 0) {
        return NULL;
    }
    if (dls_settle(state, source, plan, request, &loan, &settled) == 0) {
        capsule = goes_as_it_is(state, plan, request, &loan, &settled)
                      ? hand_on(&loan, request->want.versioned)
                      : translate(state, source, plan, request, &loan, &settled);
    }
    if (!dls_hold_is_empty(&settled.made)) {
        dls_hold_drop_attached(&settled.made);
    }
    dls_loan_drop(&loan);
    return capsule;
}

/* On which stream a Tensor's data are ready.  *stream: a new reference to its object,
 * or NULL.  0, or -1. */
static int
find_ready(dls_state *state, PyObject *source, const dls_plan *plan,
           const dls_request *request, const dls_loan *loan, const dls_settled *s,
           dls_pending *ready, PyObject **stream)
{
    dl_device device = s->delivery.tensor.device;
    PyObject *given = request->want.stream;
    *stream = given != NULL && !PyLong_Check(given) ? given : NULL;
    Py_XINCREF(*stream);
    *ready = (dls_pending){.known = DLS_P_READY};
    if (s->scan.count != 0) {
        *ready = dls_order_ready(state, &request->want, device);
    }
    if (!loan->unordered || plan == NULL || device.device_type != dl_kDLOneAPI) {
        return 0;
    }
    /* The array's own queue may still work on it: whoever asks the Tensor waits for
     * that. */
    if (dls_pending_queue(state, plan, source, device, stream) < 0) {
        return -1;
    }
    if (*stream != NULL) {
        *ready = dls_pending_object(*stream);
    }
    return 0;
}

static PyObject *
serve_tensor(dls_state *state, PyObject *source, dls_plan *plan, dls_request *request)
{
    dls_loan loan;
    dls_settled settled;
    dls_hold hold = {0};
    PyObject *tensor = NULL;
    dls_loan_init(&loan);
    settled.made = (dls_hold){0};
    if (ask_source(state, source, plan, request, &loan) < 0) {
        return NULL;
    }
    if (dls_settle(state, source, plan, request, &loan, &settled) == 0) {
        dls_pending ready;
        PyObject *stream;
        if (find_ready(state, source, plan, request, &loan, &settled, &ready, &stream)
            == 0) {
            tensor = dls_tensor_new(state, &settled.delivery.tensor,
                                    settled.delivery.canonical, &loan,
                                    settled.delivery.flags, ready, stream);
            Py_XDECREF(stream);
        }
    }
    if (tensor != NULL) {
        /* Taking is the last step that can fail (T9). */
        if (take_hold(state, source, plan, request, &loan, &settled, &hold) < 0) {
            Py_CLEAR(tensor);
        }
        else {
            dls_tensor_hold(tensor, &hold);
        }
    }
    if (!dls_hold_is_empty(&settled.made)) {
        dls_hold_drop_attached(&settled.made);
    }
    dls_loan_drop(&loan);
    return tensor;
}

typedef PyObject *(*server)(dls_state *, PyObject *, dls_plan *, dls_request *);

/* The plan must still be that of the object's type (N1), and detach=True swaps both. */
DLS_COLD static PyObject *
serve_mended(dls_state *state, PyObject *source, dls_plan *plan, dls_request *request,
             server serve)
{
    PyObject *result = NULL;
    Py_INCREF(source);
    if (plan != NULL && Py_TYPE(source) != plan->type) {
        plan = dls_plan_find(state, source);
        if (plan == NULL) {
            dls_raise_from_pending(state, source, "its type has changed");
            Py_DECREF(source);
            return NULL;
        }
    }
    else if (plan != NULL) {
        dls_plan_share(plan);
    }
    bool detach = plan != NULL && dls_option_given(request->options, DLS_OPTION_detach)
                  && request->options->detach;
    if (!detach || detach_source(state, &source, &plan) == 0) {
        result = serve(state, source, plan, request);
    }
    Py_DECREF(source);
    dls_plan_drop(plan);
    return result;
}

static PyObject *
serve_with(dls_state *state, PyObject *source, dls_plan *plan, dls_request *request,
           server serve)
{
    if (request->options != NULL && dls_request_options(state, source, request) < 0) {
        return NULL;
    }
    request->want.host_reads |= request->want.copy == 1;
    /* Asked only where the answer is needed (N5): any stream, any device. */
    request->want.ask_device |= request->want.stream != NULL
                                || request->want.has_device;
    bool usual = plan == NULL || request->answer != NULL
                 || Py_TYPE(source) == plan->type;
    if (usual && !dls_option_given(request->options, DLS_OPTION_detach)) {
        PyObject *result = serve(state, source, plan, request);
        bool lost = result == NULL && plan != NULL
                    && PyErr_ExceptionMatches(PyExc_AttributeError)
                    && dls_plan_retire(state, plan, source);
        if (!lost) {
            return result;
        }
    }
    return serve_mended(state, source, plan, request, serve);
}

PyObject *
dls_serve_capsule(dls_state *state, PyObject *source, dls_plan *plan,
                  dls_request *request)
{
    return serve_with(state, source, plan, request, serve_capsule);
}

PyObject *
dls_serve_tensor(dls_state *state, PyObject *source, dls_plan *plan,
                 dls_request *request)
{
    request->want.versioned = true;
    request->want.host_reads = true; /* a Tensor shows pinned memory to the host */
    request->bears_anything = true;
    return serve_with(state, source, plan, request, serve_tensor);
}

/* --- the device question -------------------------------------------------------------
 */

/* Only the struct tells: export once, without ordering, and drop it. */
static int
device_by_export(dls_state *state, PyObject *source, const dls_options *options,
                 dl_device *device)
{
    int result = -1;
    dls_plan *plan = NULL;
    dls_loan loan;
    dls_request request;
    dls_request_init(&request, NULL);
    dls_loan_init(&loan);
    Py_INCREF(source);
    plan = dls_plan_find(state, source);
    bool detach = dls_option_given(options, DLS_OPTION_detach) && options->detach;
    if (plan == NULL || (detach && detach_source(state, &source, &plan) < 0)) {
        goto done;
    }
    request.want.versioned = true;
    request.want.stream = PyLong_FromLong(-1);
    if (request.want.stream == NULL) {
        goto done;
    }
    result = ask_source(state, source, plan, &request, &loan);
    if (result == 0) {
        *device = loan.tensor.device;
        dls_loan_drop(&loan);
    }
    Py_DECREF(request.want.stream);
done:
    Py_DECREF(source);
    dls_plan_drop(plan);
    return result;
}

/* What the option makes of the source's device. */
static void
device_after_options(const dls_options *options, dl_device *device)
{
    if (dls_option_given(options, DLS_OPTION_device)) {
        bool aliased = options->device.device_type == dl_kDLCPU
                       && dls_device_is_host(device->device_type);
        *device = aliased && device->device_type == dl_kDLCPU ? *device
                                                              : options->device;
    }
}

int
dls_serve_device(dls_state *state, PyObject *source, dls_plan *plan,
                 const dls_options *options, dl_device *device)
{
    int got = 1;
    bool detach = dls_option_given(options, DLS_OPTION_detach) && options->detach;
    if (plan == NULL && !is_tensor(state, source)) {
        return -1;
    }
    if (dls_option_given(options, DLS_OPTION_assume_device)) {
        *device =
            options->assume_device; /* whatever the source would say: it is not asked */
    }
    else if (plan == NULL) {
        *device = dls_tensor_data(source)->tensor.device;
    }
    else if (detach || Py_TYPE(source) != plan->type) {
        got = 0;
    }
    else {
        got = dls_source_device(state, plan, source, device);
    }
    if (got < 0) {
        return -1;
    }
    if (got == 0 && device_by_export(state, source, options, device) < 0) {
        return -1;
    }
    device_after_options(options, device);
    return 0;
}
