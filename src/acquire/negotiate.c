/* The whole negotiation: which protocols and call forms are tried, in which order, what
 * an error means, and what is learned.  Called by export/.  Tests:
 * tests/core/test_negotiation.py, tests/core/test_devices.py,
 * tests/device/test_matrix.py.
 *
 *   if the library's buffer is cheaper than its __dlpack__, and the object gives one:
 *       done (no form is learned: the next object may refuse it)
 *   if a form was learned for the type, and nothing must be known before (N1, N5):
 *       ask in that form; if host memory came: done
 *   device = the device question, if it must be put (N5)
 *   for protocol in those that the type offers (N2):
 *       1. C table                   where nothing has to be synchronised
 *       2. __dlpack__, on the host   (max_version=), (), (stream=None)
 *                                    (a truthful legacy answer first: see N3)
 *                      off the host  (stream=, max_version=, copy=); fewer and fewer
 *       3. capsule function          of its library
 *       4. __cuda_array_interface__, 5. __sycl_usm_array_interface__,
 *       6. __array_struct__, 7. __array_interface__, 8. .to_numpy() of pandas,
 *       9. Arrow's four methods, 10. the buffer protocol
 *       if memory came:              learn the form; stop
 *       if the error is final:       raise it
 *       else:                        keep the first that deserves it; next protocol
 *   if the memory lies off the host, and was asked for without a stream:
 *       drop it untaken, and try all protocols again with the stream (N5)
 *   if nothing came:                 raise the error that was kept */
#include "acquire/negotiate.h"

#include <assert.h>

#include "acquire/attempt.h"
#include "core/dtype.h"
#include "exchange/device_question.h"
#include "exchange/objects.h"
#include "python/errors.h"
#include "sync/sync_exchange.h"
#include "sync/transfer.h"
#include "types/library.h"
#include "types/offers.h"
#include "types/plan_cache.h"

/* --- what is learned ------------------------------------------------------ */

/* Is __dlpack_device__ the only way to learn where an object lies? */
static bool
device_is_asked(const dls_plan *plan)
{
    return !plan->cpu_only && plan->where.get == NULL && plan->table == NULL
           && plan->has_device && plan->device_method == NULL;
}

/* May the fast path use a form that worked?  Not where the library or the form needs a
 * decision: a legacy answer cannot say that the memory of an immutable type is
 * read-only.  Our methods on a decorated class are not asked by dlshim: the author's
 * are. */
static bool
is_fast(const dls_plan *plan, dls_protocol protocol, unsigned mask, bool versioned)
{
    uint64_t decides = DLS_LIB_SCALAR_IS_1D | DLS_LIB_DOES_NOT_OWN | DLS_LIB_ASKED_FIRST
                       | DLS_LIB_BUFFER_FIRST | (versioned ? 0 : DLS_LIB_IMMUTABLE)
                       | (protocol == DLS_PROTOCOL_DLPACK ? DLS_LIB_LAZY_BITS : 0);
    return protocol <= DLS_PROTOCOL_DLPACK && (mask & ~DLS_ASK_VERSION) == 0
           && !dls_plan_has(plan, decides) && !plan->is_decorated;
}

/* The attempt succeeded on the host: learn its form, which is then the first to be
 * asked from now on.  In three cases the form serves this exchange only (N1): the
 * learned form failed for this object; __dlpack__ refused this array (and not the
 * call), and an older protocol gave it; or an attempt before this one raised what is
 * not about the signature. */
static void
learn(dls_exchange *x, dls_protocol protocol, unsigned mask)
{
    bool after_refusal = protocol > DLS_PROTOCOL_DLPACK
                         && dls_plan_offers(x->plan, DLS_PROTOCOL_DLPACK)
                         && dls_plan_has(x->plan, DLS_LIB_OLDER_AFTER_REFUSAL);
    /* Another object of the type may offer a form that can say more (N3). */
    bool of_one = x->plan->on_instance
                  && (protocol != DLS_PROTOCOL_DLPACK || !(mask & DLS_ASK_VERSION));
    bool by_chance = x->learned_failed || of_one
                     || (x->refused_otherwise
                         && !dls_plan_has(x->plan, DLS_LIB_LEARN_ANY_REFUSAL));
    bool versioned = x->acquired.generation == DLS_VERSIONED;
    unsigned bits = mask | (after_refusal || by_chance ? 0 : DLS_FORM_KNOWN)
                    | (x->request.want.versioned ? DLS_FORM_WANTED : 0)
                    | (versioned ? DLS_FORM_VERSIONED : 0);
    bool off_host = dls_plan_learned(x->plan).off_host;
    if (is_fast(x->plan, protocol, mask, versioned)) {
        bits |= (off_host ? DLS_FORM_FAST_ON_HOST : DLS_FORM_FAST)
                | (x->plan->method != NULL ? DLS_FORM_DIRECT : 0)
                | (!off_host && device_is_asked(x->plan) ? DLS_FORM_ASKS_DEVICE : 0);
    }
    dls_plan_learn_form(x->plan, dls_form_of(protocol, bits));
}

/* --- one protocol --------------------------------------------------------- */

/* After attempt i of __dlpack__ on the host failed: may the next form still do?  A
 * BufferError is about the data, unless it refuses the legacy generation and the
 * versioned one is next; so may be a TypeError (dls_refusal_of). */
static bool
may_try_form(int i, bool legacy_first, dls_refusal refusal)
{
    dls_error_kind kind = dls_error_class();
    bool last = i == 2 || (i == 1 && !PyErr_ExceptionMatches(PyExc_TypeError));
    bool of_data = refusal == DLS_REFUSED_DATA && (i > 0 || !legacy_first);
    return !last && !of_data
           && (kind == DLS_ERROR_STEP
               || (kind == DLS_ERROR_BUFFER && i == 0 && legacy_first));
}

/* __dlpack__ on the host, in up to three forms. */
static dls_attempt
try_dlpack(dls_exchange *x)
{
    bool legacy_first = !x->request.want.versioned
                        && dls_plan_has(x->plan, DLS_LIB_LEGACY_TRUTHFUL); /* N3 */
    const unsigned forms[] = {legacy_first ? 0 : DLS_ASK_VERSION,
                              legacy_first ? DLS_ASK_VERSION : 0, DLS_ASK_STREAM};
    for (int i = 0;; i++) {
        dls_attempt got = dls_attempt_on_host(x, DLS_PROTOCOL_DLPACK, forms[i]);
        if (got == DLS_ATTEMPT_GOT) {
            learn(x, DLS_PROTOCOL_DLPACK, forms[i]);
        }
        dls_refusal refusal = got == DLS_ATTEMPT_RAISED ? dls_refusal_of(x)
                                                        : DLS_REFUSED_KEYWORDS;
        if (got != DLS_ATTEMPT_RAISED || !may_try_form(i, legacy_first, refusal)) {
            return got;
        }
        x->refused_otherwise |= refusal != DLS_REFUSED_KEYWORDS
                                && (forms[i] & DLS_ASK_VERSION);
        dls_error_keep(x);
    }
}

/* One protocol on the host.  A capsule function takes no stream: the device memory that
 * it gives is synced although the producer was passed no stream, and the function is
 * not called again. */
static dls_attempt
try_on_host(dls_exchange *x, dls_protocol protocol)
{
    if (protocol == DLS_PROTOCOL_DLPACK) {
        return try_dlpack(x);
    }
    dls_attempt got = dls_attempt_on_host(x, protocol, 0);
    if (got != DLS_ATTEMPT_GOT) {
        return got;
    }
    learn(x, protocol, 0);
    if (protocol != DLS_PROTOCOL_FUNCTION
        || dls_device_is_host(x->acquired.tensor.device.device_type)) {
        return got;
    }
    dls_plan_leave_host(x->plan);
    x->synced = true;
    return dls_attempt_sync_unasked(x);
}

/* A protocol raised: may another one still serve (N2)?  A warning that is an error is
 * about this question, and the next one is another.  All else is decided on the host:
 * __dlpack__ decides about refusals, so a BufferError of the C table is not final.  It
 * is final for a library whose autograd dlshim checks, because then it came from us. */
static bool
may_try_next(const dls_exchange *x, dls_protocol protocol, bool on_host)
{
    dls_error_kind kind = dls_error_class();
    if (!on_host || PyErr_ExceptionMatches(PyExc_Warning)) {
        return PyErr_ExceptionMatches(PyExc_Warning);
    }
    if (protocol == DLS_PROTOCOL_DLPACK) {
        return kind != DLS_ERROR_FINAL
               && (PyErr_ExceptionMatches(PyExc_NotImplementedError)
                   || PyErr_ExceptionMatches(PyExc_TypeError)
                   || dls_plan_has(x->plan, DLS_LIB_OLDER_AFTER_REFUSAL));
    }
    if (dls_protocol_is_arrow(protocol)
        && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        return true;
    }
    return kind == DLS_ERROR_STEP
           || (kind == DLS_ERROR_BUFFER && protocol == DLS_PROTOCOL_TABLE
               && !dls_plan_has(x->plan, DLS_LIB_AUTOGRAD));
}

/* --- what the caller sees ------------------------------------------------- */

/* The pending error of a protocol.  On the host, an older protocol may explain it
 * better than __dlpack__ did: both are kept.  The last error of __dlpack__ stands
 * alone.  Always -1. */
static int
raise_refusal(dls_exchange *x, dls_protocol protocol, bool on_host)
{
    if (on_host && x->first_error != NULL && protocol > DLS_PROTOCOL_DLPACK
        && dls_error_class() != DLS_ERROR_FINAL) {
        dls_refuse_with_cause(x->first_error);
        x->first_error = NULL;
    }
    return dls_refuse_export(x->state, x->source, on_host);
}

/* No protocol gave the memory.  Always -1. */
static int
raise_nothing(dls_exchange *x, bool on_host)
{
    if (x->first_error == NULL) {
        return dls_refuse(
            x->state, DLS_EBUFFER, x->source,
            on_host ? "it offers an array protocol but gave nothing through it"
                    : "its memory is on a device, and none of its protocols gives that "
                      "away");
    }
    dls_error_restore(x->first_error);
    x->first_error = NULL;
    return dls_refuse_export(x->state, x->source, on_host);
}

/* --- all protocols -------------------------------------------------------- */

/* Try all protocols in order.  device: where the memory lies, NULL: on the host.
 * 0, or -1 with an exception. */
static int
negotiate(dls_exchange *x, const dl_device *device)
{
    const uint32_t tried = dls_plan_tried(x->plan);
    for (int i = 0; i < DLS_PROTOCOL_TENSOR; i++) {
        dls_protocol protocol = (dls_protocol)i;
        if (!(tried >> i & 1)) {
            continue;
        }
        dls_attempt got = device != NULL ? dls_attempt_off_host(x, protocol, *device)
                                         : try_on_host(x, protocol);
        if (got == DLS_ATTEMPT_GOT) {
            return 0;
        }
        if (got == DLS_ATTEMPT_FINAL) {
            return -1;
        }
        if (got == DLS_ATTEMPT_RAISED) {
            if (!may_try_next(x, protocol, device == NULL)) {
                return raise_refusal(x, protocol, device == NULL);
            }
            dls_error_keep(x);
        }
    }
    return raise_nothing(x, device == NULL);
}

/* Does the object say that it has no elements?  Then no driver is needed to move them.
 * A wrong `.shape` is noticed when the tensor arrives.  0, or -1 with an exception. */
static int
find_empty(dls_exchange *x)
{
    PyObject *shape = NULL;
    int got = dls_get_optional(x->source, x->state->names.shape, &shape);
    Py_ssize_t n = got > 0 && PyTuple_Check(shape) ? PyTuple_Size(shape) : 0;
    x->request.who.empty = false;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *extent = PyTuple_GetItem(shape, i);
        x->request.who.empty |= PyLong_Check(extent) && !PyObject_IsTrue(extent);
    }
    Py_XDECREF(shape);
    return got < 0 ? dls_error_forget() : 0;
}

/* Bring the memory to another device, or to the host: the producer is asked to move it,
 * if it has __dlpack__.  If the producer does not move the memory, dlshim copies it: to
 * the host, or to a device of the same kind. */
static int
negotiate_transfer(dls_exchange *x, dl_device device, bool copies)
{
    dls_request *request = &x->request;
    /* A label that may name another device decides nothing yet (S26). */
    bool doubtful = request->want.device.device_type == device.device_type
                    && dls_plan_has(x->plan, DLS_LIB_LABEL_CHECKED);
    if (copies
        && ((!doubtful && dls_transfer_check(x->state, x->source, request, device) < 0)
            || find_empty(x) < 0)) {
        return -1;
    }
    dls_attempt got = dls_plan_offers(x->plan, DLS_PROTOCOL_DLPACK)
                          ? dls_attempt_move(x, device)
                          : DLS_ATTEMPT_NOT_OFFERED;
    if (got != DLS_ATTEMPT_NOT_OFFERED) {
        return got == DLS_ATTEMPT_GOT ? 0 : -1;
    }
    if (copies) {
        return negotiate(x, &device);
    }
    PyObject *cause = x->first_error;
    x->first_error = NULL;
    return dls_transfer_raise(x->state, x->source, request, device, cause);
}

/* The memory is taken to lie on the host: no stream is passed.  0 = x->acquired
 * describes the answer, whose memory may lie elsewhere; -1 = exception, x->acquired is
 * empty. */
static int
negotiate_on_host(dls_exchange *x)
{
    if (negotiate(x, NULL) < 0) {
        return -1;
    }
    if (x->acquired.generation != DLS_DESCRIBED) {
        /* The error of an attempt before explains nothing any more. */
        Py_CLEAR(x->first_error);
    }
    dls_library_gil_deleters(x->state); /* it may have been imported just now */
    return 0;
}

/* The type is met anew where its class has another C table by now: off the host that
 * table says on which stream the data are (S11, S21).  A class that dlshim.producer
 * changed shows ours.  0, or -1 with an exception. */
static int
meet_replaced_table(dls_exchange *x)
{
    dls_plan *plan = x->plan;
    if (plan->on_instance || plan->type != Py_TYPE(x->source)
        || !dls_plan_table_is_replaced(x->state, plan, x->source)) {
        return 0;
    }
    dls_plan_forget(x->state, plan);
    x->plan = dls_plan_find(x->state, x->source);
    if (x->plan == NULL) {
        x->plan = plan;
        return -1;
    }
    dls_plan_drop(plan);
    return 0;
}

/* A device was named, and the memory lies on another one: bring it there, if that can
 * be done. */
static int
negotiate_to_wanted(dls_exchange *x, dl_device device)
{
    dls_transfer route = dls_transfer_of(x->state, &x->request, device);
    if (route == DLS_TRANSFER_MOVE || dls_transfer_is_on_copy_stream(route)) {
        return negotiate_transfer(x, device, route != DLS_TRANSFER_MOVE);
    }
    if (route == DLS_TRANSFER_TO_DEVICE
        && dls_transfer_check(x->state, x->source, &x->request, device) < 0) {
        return -1;
    }
    return negotiate(x, &device);
}

/* The memory lies on `device`: the stream is passed on, the memory is brought to the
 * wanted device if that can be done, and all synchronisation is done.  Results as
 * above. */
static int
negotiate_off_host(dls_exchange *x, dl_device device)
{
    if (meet_replaced_table(x) < 0) {
        return -1;
    }
    dls_plan_leave_host(x->plan);
    return x->request.want.has_device ? negotiate_to_wanted(x, device)
                                      : negotiate(x, &device);
}

/* --- where the memory lies ------------------------------------------------ */

/* Ask for the device before the export, where it must be known (N5).  1 = *device; 0 =
 * nothing was asked or could tell, and the memory is taken to lie on the host; -1 =
 * exception. */
static int
device_before_export(const dls_exchange *x, dls_learned learned, dl_device *device)
{
    const dls_plan *plan = x->plan;
    if (x->request.want.has_assumed) {
        *device = x->request.want.assumed;
        return 1;
    }
    if (plan->cpu_only
        || (learned.met && !learned.off_host && !x->request.who.ask_device)) {
        return 0;
    }
    int got = plan->table != NULL ? dls_ctable_device(plan, x->source, device) : 0;
    return got == 0 && plan->has_device
               ? dls_device_ask(x->state, plan, x->source, device)
               : got;
}

static bool
is_pinned(dl_device device)
{
    return dls_device_is_host(device.device_type) && device.device_type != dl_kDLCPU;
}

/* Pinned memory is exported as host memory.  Work on it that is known to be unfinished
 * is waited for all the same. */
static int
sync_pinned(dls_exchange *x, dl_device device)
{
    const dls_producer_stream p = {.known = DLS_P_UNKNOWN};
    dls_request request = x->request;
    request.want.has_assumed = true;
    request.want.assumed = device;
    dls_sync_source from = dls_sync_source_of(x, device);
    from.request = &request;
    int code = dls_sync_acquired(&from, DLS_PRODUCER_OLD, p, &x->acquired);
    return dls_attempt_end(x, code, DLS_ATTEMPT_FINAL) == DLS_ATTEMPT_GOT ? 0 : -1;
}

/* If only the export will tell the device, a stream object without a handle is refused
 * before the producer is asked. */
static int
check_stream_object(const dls_exchange *x)
{
    dls_stream s;
    PyObject *stream = x->request.streams.consumer;
    return stream != NULL && !PyLong_Check(stream) && !x->plan->cpu_only
               ? dls_consumer_stream_read(x->state, &x->request, &s)
               : 0;
}

/* An attempt on the host has succeeded.  Memory that lies elsewhere was asked for
 * without a stream: it is dropped untaken and asked for again (N5).  said: what the
 * device question told, or NULL. */
static int
check_device(dls_exchange *x, const dl_device *said)
{
    dl_device came = x->acquired.tensor.device;
    if (x->synced) {
        return 0;
    }
    if (!dls_device_is_host(came.device_type)) {
        dls_acquired_drop(&x->acquired);
        return negotiate_off_host(x, came);
    }
    dl_device pinned = said != NULL && is_pinned(*said) ? *said : came;
    return is_pinned(pinned) ? sync_pinned(x, pinned) : 0;
}

static int after_learned(dls_exchange *x, dls_form form, dls_attempt got);

/* Acquire: in this form, or from the beginning (0), as if nothing were learned. */
static int
acquire_by(dls_exchange *x, dls_learned learned, dls_form form)
{
    dl_device device;
    int known = device_before_export(x, learned, &device);
    if (known < 0) {
        return -1;
    }
    if (known > 0 && !dls_device_is_host(device.device_type)) {
        return negotiate_off_host(x, device);
    }
    if (known == 0 && check_stream_object(x) < 0) {
        return -1;
    }
    /* The form was learned on the host.  If the type was also seen off the host, only
     * an object that says where it lies is known to answer in it. */
    if (form == 0 || (known == 0 && learned.off_host)) {
        return negotiate_on_host(x) < 0 ? -1
                                        : check_device(x, known > 0 ? &device : NULL);
    }
    dls_attempt got = dls_attempt_on_host(x, dls_form_protocol(form),
                                          form & DLS_FORM_KEYWORDS);
    return got == DLS_ATTEMPT_GOT && known > 0 ? check_device(x, &device)
                                               : after_learned(x, form, got);
}

/* --- acquire -------------------------------------------------------------- */

/* Read the fast path's answer.  The outcome is empty afterwards. */
static dls_attempt
read_outcome(dls_exchange *x)
{
    dls_outcome outcome = x->outcome;
    x->outcome = (dls_outcome){.kind = DLS_NOT_LEARNED};
    if (outcome.error != NULL) {
        dls_error_restore(outcome.error);
    }
    if (dls_protocol_is_arrow(dls_form_protocol(outcome.form))) {
        return outcome.kind == DLS_GOT ? dls_attempt_read_column(x, outcome.column)
               : outcome.error != NULL ? DLS_ATTEMPT_RAISED
                                       : DLS_ATTEMPT_NOT_OFFERED;
    }
    if (dls_form_protocol(outcome.form) == DLS_PROTOCOL_TABLE) {
        return dls_attempt_read_table(x, outcome.managed, true);
    }
    unsigned likely = outcome.form & DLS_FORM_VERSIONED ? DLS_ASK_VERSION : 0;
    return dls_attempt_read_capsule(x, outcome.capsule, likely);
}

/* A Tensor shares its memory, and names the stream that its data are on. */
static int
acquire_tensor(dls_exchange *x)
{
    dls_tensor *tensor = dls_tensor_data(x->source);
    if (dls_tensor_acquire(tensor, &x->acquired) < 0) {
        return -1;
    }
    if (x->acquired.tensor.device.device_type == dl_kDLCPU
        && !x->request.want.has_assumed) {
        return 0;
    }
    dls_attempt got = dls_attempt_sync(x, DLS_PRODUCER_OLD,
                                       dls_tensor_ready_stream(tensor));
    return got == DLS_ATTEMPT_GOT ? 0 : -1;
}

/* The learned form was asked: this is the end, or all protocols are negotiated, and
 * that form is not asked twice. */
static int
after_learned(dls_exchange *x, dls_form form, dls_attempt got)
{
    bool came = got == DLS_ATTEMPT_GOT;
    if (came
        && (x->synced || dls_device_is_host(x->acquired.tensor.device.device_type))) {
        return 0;
    }
    if (got == DLS_ATTEMPT_FINAL) {
        return -1;
    }
    if (got == DLS_ATTEMPT_RAISED && dls_error_class() == DLS_ERROR_FINAL) {
        return dls_refuse_export(x->state, x->source, true);
    }
    if (came) {
        dls_acquired_drop(&x->acquired);
    }
    else {
        x->tried = form | DLS_FORM_KNOWN;
        x->tried_error = dls_error_take();
        x->learned_failed = true;
    }
    return acquire_by(x, dls_plan_learned(x->plan), 0); /* the call may have taught */
}

/* Read the buffer before anything else is asked (dls_plan_reads_buffer_first).  A
 * refused buffer says nothing: __dlpack__ gives the memory, or the error that is shown.
 */
static dls_attempt
try_buffer_first(dls_exchange *x)
{
    if (check_stream_object(x) < 0) {
        return DLS_ATTEMPT_FINAL;
    }
    dls_attempt got = dls_attempt_ask(x, DLS_PROTOCOL_BUFFER, 0);
    if (got == DLS_ATTEMPT_GOT) {
        dls_plan_learn_form(x->plan, 0);
    }
    return got != DLS_ATTEMPT_RAISED ? got
           : dls_error_forget() < 0  ? DLS_ATTEMPT_FINAL
                                     : DLS_ATTEMPT_NOT_OFFERED;
}

int
dls_acquire(dls_exchange *x)
{
    assert(dls_exchange_check(x) && dls_acquired_is_empty(&x->acquired));
    if (dls_plan_is_tensor(x->plan)) {
        return acquire_tensor(x);
    }
    if (dls_plan_has(x->plan, DLS_LIB_ASKED_FIRST)
        && dls_refuse_object(x->state, x->plan, x->source) < 0) {
        return -1;
    }
    if (x->outcome.kind != DLS_NOT_LEARNED) {
        const dls_form form = x->outcome.form;
        return after_learned(x, form, read_outcome(x));
    }
    const dls_request *request = &x->request;
    dls_attempt first = !request->want.has_assumed
                                && dls_plan_reads_buffer_first(x->plan)
                            ? try_buffer_first(x)
                            : DLS_ATTEMPT_NOT_OFFERED;
    if (first != DLS_ATTEMPT_NOT_OFFERED) {
        return first == DLS_ATTEMPT_GOT ? 0 : -1;
    }
    const dls_learned learned = dls_plan_learned(x->plan);
    const dls_form form = learned.forms[request->want.versioned];
    bool serves = (form & DLS_FORM_KNOWN) && learned.met && !request->want.has_assumed;
    return acquire_by(x, learned, serves ? form : 0);
}

int
dls_acquire_device(const dls_exchange *x, dl_device *device)
{
    const dls_plan *plan = x->plan;
    if (plan->cpu_only || !(plan->offers & DLS_PROTOCOLS_OFF_HOST)) {
        *device = (dl_device){dl_kDLCPU, 0};
        return 1;
    }
    if (plan->table != NULL) {
        return dls_ctable_device(plan, x->source, device);
    }
    int got = plan->has_device ? dls_device_ask(x->state, plan, x->source, device) : 0;
    /* Only the device question says that memory is pinned; the tensor, which decides,
     * does not.  A label that is checked, is checked on the tensor. */
    bool checked = dls_plan_has(plan, DLS_LIB_LABEL_CHECKED);
    bool asks_tensor = got > 0
                       && (is_pinned(*device)
                           || (checked && !dls_device_is_host(device->device_type)));
    return asks_tensor ? 0 : got;
}
