/* Attempts off the host: the producer is passed the stream, and the synchronisation
 * that it leaves to us is done here (N4, N6).  Called by negotiate.c.
 * Tests: tests/device/test_matrix.py. */
#include "acquire/attempt.h"

#include "core/dtype.h"
#include "exchange/device_question.h"
#include "python/errors.h"
#include "sync/producer_stream.h"
#include "sync/stream_value.h"
#include "sync/sync_exchange.h"

static const dls_producer_stream unknown = {.known = DLS_P_UNKNOWN};

/* Does the producer take its memory for the host's, although assume_device names
 * another device?  Then it can order nothing, and NumPy refuses any stream.  1, 0, or
 * -1. */
static int
is_mistaken(dls_exchange *x)
{
    dl_device said;
    if (!x->request.want.has_assumed || !x->plan->has_device) {
        return 0;
    }
    int got = dls_device_ask(x->state, x->plan, x->source, &said);
    return got > 0 ? dls_device_is_host(said.device_type) : got;
}

/* Unless its error is final, a failed attempt counts as not offered, so that the next
 * protocol is tried.  The error is kept. */
static dls_attempt
step_over(dls_exchange *x, dls_attempt got)
{
    if (got != DLS_ATTEMPT_RAISED || dls_error_class() == DLS_ERROR_FINAL) {
        return got;
    }
    dls_error_keep(x);
    return DLS_ATTEMPT_NOT_OFFERED;
}

/* --- __dlpack__ ----------------------------------------------------------- */

static dls_attempt
call_once(dls_exchange *x, unsigned mask, const dls_call_values *values)
{
    PyObject *capsule = dls_call_dlpack(x->state, x->plan, x->source, mask, values);
    return dls_attempt_read_capsule(x, capsule, mask);
}

/* Call in the context of the memory's device.  A call with -1 needs no context, so no
 * driver is touched (S10).  torch refuses even such a call for a device that is not
 * current: it is then called again in the context. */
static dls_attempt
call_in_context(dls_exchange *x, unsigned mask, const dls_call_values *values,
                dls_sync *sync)
{
    dls_producer_context context = {.guard = NULL};
    bool minus_one = sync->s.value == DLS_VALUE_MINUS_ONE; /* S10 */
    int changed = minus_one ? 0 : dls_producer_context_enter(&sync->from, &context);
    if (changed < 0) {
        dls_producer_context_leave(&sync->from, &context);
        return DLS_ATTEMPT_RAISED;
    }
    dls_attempt got = call_once(x, mask, values);
    /* A refusal to move counts only if there is something to move. */
    bool to_move_nothing = sync->is_empty && (mask & DLS_ASK_DEVICE);
    if (got < 0 && minus_one && !to_move_nothing
        && PyErr_ExceptionMatches(PyExc_BufferError)) {
        PyObject *error = dls_error_take();
        changed = dls_producer_context_enter(&sync->from, &context);
        if (changed == 0) {
            dls_error_restore(error);
        }
        else {
            Py_DECREF(error);
            got = changed > 0 ? call_once(x, mask, values) : DLS_ATTEMPT_RAISED;
        }
    }
    if (changed != 0) {
        dls_producer_context_leave(&sync->from, &context);
    }
    return got;
}

/* The keywords to drop after a refusal (N2); for what is no TypeError, the stream is
 * among them unless it is None.  Where the value of the stream could be refused, None
 * was refused as well.
 * - TypeError: every keyword; one about the data: the stream.
 * - BufferError or RuntimeError after copy=True: copy alone.
 * - NotImplementedError, ValueError, OverflowError, AssertionError: max_version and
 *   copy=False, if the type never accepted them, copy=True, and the stream.
 * - RuntimeError alone: the stream.  JAX, and perhaps unknown libraries, say so that
 *   they cannot sync. */
static unsigned
refused_keywords(const dls_exchange *x, unsigned form, const dls_call_values *values,
                 dls_producer_kind kind, dls_refusal refusal)
{
    bool copy_true = x->request.want.copy == 1;
    unsigned taken = dls_plan_learned(x->plan).taken;
    /* What was taken may have been copy=False. */
    unsigned open = form & (copy_true ? ~taken | DLS_ASK_COPY : ~taken);
    unsigned stream = values->stream != Py_None ? form & DLS_ASK_STREAM : 0;
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
        return refusal == DLS_REFUSED_DATA ? stream : form;
    }
    /* dlshim copies if the producer does not. */
    if (copy_true && (form & DLS_ASK_COPY)
        && (PyErr_ExceptionMatches(PyExc_BufferError)
            || PyErr_ExceptionMatches(PyExc_RuntimeError))) {
        return DLS_ASK_COPY;
    }
    if (PyErr_ExceptionMatches(PyExc_NotImplementedError)
        || PyErr_ExceptionMatches(PyExc_ValueError)
        || PyErr_ExceptionMatches(PyExc_OverflowError)
        || PyErr_ExceptionMatches(PyExc_AssertionError)) {
        return stream | (open & (DLS_ASK_VERSION | DLS_ASK_COPY));
    }
    bool about_stream = (kind == DLS_PRODUCER_NO_MINUS_ONE
                         || kind == DLS_PRODUCER_UNKNOWN)
                        && PyErr_ExceptionMatches(PyExc_RuntimeError)
                        && !PyErr_ExceptionMatches(PyExc_RecursionError);
    return about_stream ? stream : 0;
}

/* --- a stream that is refused --------------------------------------------- */

/* Is a value of the stream passed, and may the pending error be about that value?  A
 * BufferError or RuntimeError is about the data or the sync. */
static bool
may_refuse_value(unsigned form, const dls_call_values *values)
{
    return (form & DLS_ASK_STREAM) && values->stream != Py_None
           && (PyErr_ExceptionMatches(PyExc_TypeError)
               || PyErr_ExceptionMatches(PyExc_OverflowError)
               || PyErr_ExceptionMatches(PyExc_ValueError));
}

/* May None be passed in the place of a value that was refused?  It asks for more than
 * -1: it could break a graph capture (S14).  0, or -1 with an exception. */
static int
check_none(dls_exchange *x, const dls_call_values *values, dls_sync *sync)
{
    bool minus_one = dls_stream_is_minus_one(values->stream);
    int captured = minus_one ? dls_sync_sees_capture(sync) : 0;
    /* mutant: None during a capture */
    if (captured > 0) {
        dls_sync_raise_no_minus_one(x->state, x->source);
        if (x->first_error != NULL) {
            dls_refuse_with_cause(x->first_error);
            x->first_error = NULL;
        }
    }
    return captured != 0 ? -1 : 0;
}

/* --- the call forms ------------------------------------------------------- */

/* The last call form was refused as well: the first real error says most (N2).  An
 * error that is about the data, is final, or leads to the next protocol stays as it
 * is. */
static dls_attempt
raise_first(dls_exchange *x)
{
    bool refusal = dls_error_class() == DLS_ERROR_STEP
                   || PyErr_ExceptionMatches(PyExc_OverflowError);
    if (refusal && x->first_error != NULL
        && !PyErr_ExceptionMatches(PyExc_NotImplementedError)
        && !PyErr_ExceptionMatches(PyExc_TypeError)) {
        dls_error_keep(x);
        dls_error_restore(x->first_error);
        x->first_error = NULL;
    }
    return DLS_ATTEMPT_RAISED;
}

#define STEPS 6

/* The call forms of __dlpack__ off the host, in the order in which they are tried: from
 * all keywords of `full` to none.  The list is gone through twice: first without the
 * keywords that were refused before, then with all that were taken before (N1). */
static unsigned
call_form(unsigned full, dls_learned learned, int i)
{
    const unsigned steps[STEPS] = {full,
                                   full & ~DLS_ASK_VERSION,
                                   full & (DLS_ASK_STREAM | DLS_ASK_VERSION),
                                   full & DLS_ASK_STREAM,
                                   full & DLS_ASK_VERSION,
                                   0};
    return i < STEPS ? steps[i] & ~(unsigned)learned.refused
                     : steps[i - STEPS] | (learned.taken & full);
}

/* The state of a walk through the call forms. */
typedef struct {
    dls_learned learned;
    unsigned tried;   /* the form before; ~0: none */
    unsigned done;    /* all that were tried: a bit for each form */
    unsigned refused; /* keywords that may be dropped */
    unsigned never;   /* keywords that no form shall have any more */
    bool learnable;   /* all that was refused is about the type, and not one object */
    bool of_value;    /* the value of the stream may have been refused */
    bool none;        /* the stream is None, because a value was refused */
} form_walk;

/* A form was refused, by the pending exception: note which keywords may be dropped.
 * False: none, and this is the end. */
static bool
note_refusal(const dls_exchange *x, form_walk *walk, const dls_call_values *values,
             dls_producer_kind kind)
{
    dls_refusal refusal = dls_refusal_of(x);
    bool type_error = PyErr_ExceptionMatches(PyExc_TypeError);
    unsigned now = refused_keywords(x, walk->tried, values, kind, refusal);
    bool of_stream = (now & DLS_ASK_STREAM) && values->stream != Py_None
                     && (!type_error || (walk->learned.taken & DLS_ASK_STREAM));
    bool of_object = refusal != DLS_REFUSED_KEYWORDS && (now & DLS_ASK_VERSION);
    bool of_type = type_error && !of_stream && !of_object;
    walk->of_value = may_refuse_value(walk->tried, values);
    walk->refused |= now;
    walk->learnable &= of_type || dls_plan_has(x->plan, DLS_LIB_LEARN_ANY_REFUSAL);
    /* Other objects, or other values of the stream, were taken. */
    walk->learned.taken &= ~now & 15u;
    if (of_stream) {
        walk->never = now == DLS_ASK_STREAM ? now : walk->never;
    }
    return now != 0;
}

/* A form was taken.  One that is known already teaches nothing.  A refused -1 is not
 * passed again (N6). */
static void
learn_taken(dls_exchange *x, const form_walk *walk, unsigned full,
            const dls_call_values *values)
{
    unsigned refused = full & ~walk->tried;
    if (walk->learned.taken != walk->tried || walk->learned.refused != refused) {
        dls_plan_learn_keywords(x->plan, walk->tried,
                                walk->learnable ? (int)refused : -1);
    }
    if (walk->none && (walk->tried & DLS_ASK_STREAM)
        && dls_stream_is_minus_one(values->stream)) {
        dls_plan_learn_no_minus_one(x->plan); /* mutant: learned of -1 */
    }
}

/* Walk through the call forms as long as keywords are refused.  Where a value of the
 * stream may have been refused, all forms with a stream are tried once more, with None,
 * before the keyword is dropped.  probes: nobody asked for the -1 that is passed, and
 * it may only find out whether the producer takes a stream.  GOT with *used: the
 * keywords that were taken, without the stream if its value was refused.  RAISED: the
 * last refusal is pending.  FINAL: another exception. */
static dls_attempt
try_forms(dls_exchange *x, unsigned full, const dls_call_values *values, dls_sync *sync,
          bool probes, unsigned *used)
{
    dls_call_values passed = *values;
    form_walk walk = {
        .learned = dls_plan_learned(x->plan), .tried = ~0u, .learnable = true};
    const unsigned kept = ~(unsigned)walk.learned.refused & 15u;
    const int first = walk.learned.refused != 0 ? 0 : STEPS;
    for (int i = first; i < 2 * STEPS; i++) {
        unsigned form = call_form(full, walk.learned, i);
        unsigned drops = full & ~form & kept & (DLS_ASK_STREAM | DLS_ASK_VERSION);
        if ((walk.done & 1u << form) || (form & walk.never)
            || (drops & ~walk.refused)) {
            continue;
        }
        if (walk.tried != ~0u) {
            dls_error_keep(x);
        }
        /* mutant: None after a refusal */
        if ((drops & DLS_ASK_STREAM) && walk.of_value && !walk.none && !probes) {
            if (check_none(x, values, sync) < 0) {
                return DLS_ATTEMPT_FINAL;
            }
            passed.stream = Py_None;
            walk = (form_walk){.learned = dls_plan_learned(x->plan),
                               .tried = ~0u,
                               .learnable = walk.learnable,
                               .none = true};
            i = first - 1;
            continue;
        }
        walk.tried = form;
        walk.done |= 1u << form;
        if (call_in_context(x, form, &passed, sync) == DLS_ATTEMPT_GOT) {
            learn_taken(x, &walk, full, values);
            *used = walk.none ? form & ~DLS_ASK_STREAM : form;
            return DLS_ATTEMPT_GOT;
        }
        if (!note_refusal(x, &walk, values, sync->kind)) {
            break;
        }
    }
    return raise_first(x);
}

/* Pass -1, which breaks nothing, because a graph capture is running that the call could
 * break.  0: torch does the same by itself if no stream is named (S14).  1: it is a
 * refusal unless the producer takes no stream; -1: the refusal, or an exception. */
static int
pass_minus_one(dls_exchange *x, dls_sync *sync)
{
    bool as_bare = dls_sync_omits(sync) && sync->kind == DLS_PRODUCER_REFUSES_TWO;
    if (sync->none_for_minus_one) {
        return dls_sync_raise_no_minus_one(x->state, x->source);
    }
    bool takes = (dls_plan_learned(x->plan).taken & DLS_ASK_STREAM)
                 || dls_plan_refuses_minus_one(x->plan);
    if (!as_bare && takes) {
        return dls_sync_raise_capture(x->state, x->source);
    }
    Py_XDECREF(sync->passed);
    sync->passed = PyLong_FromLong(-1);
    sync->not_synced = as_bare;
    return sync->passed == NULL ? -1 : !as_bare;
}

/* The keywords that are wanted, and their values.  copies: may copy= be among them? */
static unsigned
collect_keywords(const dls_exchange *x, const dls_sync *sync, bool copies,
                 dls_call_values *values)
{
    *values = (dls_call_values){.stream = sync->passed,
                                .copy = x->request.want.copy == 1 ? Py_True : Py_False};
    return DLS_ASK_VERSION | (sync->passed != NULL ? DLS_ASK_STREAM : 0)
           | (copies && x->request.want.copy >= 0 ? DLS_ASK_COPY : 0);
}

/* It was copied or moved as it was asked: torch flags no copy, and JAX calls its own
 * read-only (T8).  Other libraries' flags are believed.  A label that was assumed may
 * be that of memory which was there before. */
static void
note_private_copy(dls_exchange *x)
{
    dls_acquired *acquired = &x->acquired;
    if (!dls_plan_has(x->plan, DLS_LIB_COPIES_UNFLAGGED)
        || x->request.want.has_assumed) {
        return;
    }
    uint64_t flags = (acquired->flags & ~(uint64_t)DL_FLAG_READ_ONLY)
                     | DL_FLAG_IS_COPIED;
    acquired->altered |= flags != acquired->flags
                         && acquired->generation == DLS_VERSIONED;
    acquired->flags = flags;
}

/* The calls, between the beginning and the end of the synchronisation. */
static dls_attempt
call_in_place(dls_exchange *x, dls_sync *sync, bool captured)
{
    dls_call_values values;
    bool copied_here = sync->transfer != DLS_TRANSFER_HERE
                       && sync->transfer != DLS_TRANSFER_AS_CUDA;
    unsigned full = collect_keywords(x, sync, !copied_here, &values), used = 0;
    bool probes = captured || sync->not_synced; /* -1 was passed for a capture's sake */
    dls_attempt called = try_forms(x, full, &values, sync, probes, &used);
    if (called != DLS_ATTEMPT_GOT) {
        if (called == DLS_ATTEMPT_FINAL) {
            return called;
        }
        if (!PyErr_ExceptionMatches(PyExc_NotImplementedError)
            && !PyErr_ExceptionMatches(PyExc_TypeError)) {
            return DLS_ATTEMPT_RAISED;
        }
        dls_error_keep(x); /* a placeholder (N8), or no call that it takes */
        return DLS_ATTEMPT_NOT_OFFERED;
    }
    bool told = sync->passed != NULL && (used & DLS_ASK_STREAM);
    if (captured && told) {
        int code = dls_sync_raise_capture(x->state, x->source);
        return dls_attempt_end(x, code, DLS_ATTEMPT_FINAL);
    }
    dls_attempt got = dls_attempt_check_bits(x);
    if (got != DLS_ATTEMPT_GOT) {
        return got;
    }
    dls_producer_kind kind = told ? sync->kind : dls_kind_without_stream(x->plan);
    /* torch makes S wait first, and then starts its copy: so S is synced again. */
    if (kind == DLS_PRODUCER_REFUSES_TWO && x->request.want.copy == 1
        && (used & DLS_ASK_COPY)) {
        kind = DLS_PRODUCER_OLD;
    }
    x->acquired.copy_asked = (used & DLS_ASK_COPY) != 0;
    if (x->request.want.copy == 1 && x->acquired.copy_asked) {
        note_private_copy(x);
    }
    /* A copy that was asked for is still due if copy= had to be dropped (N4). */
    bool not_copied = x->request.want.copy == 1 && (full & ~used & DLS_ASK_COPY)
                      && !dls_transfer_can_allocate(sync->from.device.device_type);
    int code = not_copied ? dls_refuse(x->state, DLS_EBUFFER, x->source,
                                       "its producer cannot copy it, and dlshim makes "
                                       "no copies on such a device\n"
                                       "  pass a .copy() or .clone()")
                          : dls_sync_finish(sync, kind, unknown, &x->acquired);
    return code == 0 ? DLS_ATTEMPT_GOT : dls_attempt_end(x, code, DLS_ATTEMPT_FINAL);
}

/* __dlpack__ of memory that stays where it lies. */
static dls_attempt
attempt_dlpack(dls_exchange *x, dl_device device)
{
    dls_sync sync;
    int mistaken = is_mistaken(x);
    if (mistaken < 0) {
        return DLS_ATTEMPT_RAISED;
    }
    const dls_sync_source from = dls_sync_source_of(x, device);
    dls_producer_kind kind = mistaken ? DLS_PRODUCER_OLD
                                      : dls_producer_kind_of(x->plan, device);
    int captured = dls_sync_begin(&from, NULL, kind, &sync) < 0
                       ? -1
                       : dls_sync_meets_capture(&sync);
    if (captured > 0) {
        captured = pass_minus_one(x, &sync);
    }
    dls_attempt got = captured < 0 ? DLS_ATTEMPT_FINAL
                                   : call_in_place(x, &sync, captured > 0);
    dls_sync_end(&sync);
    return got;
}

/* --- moved by the producer ------------------------------------------------ */

static dls_attempt
call_to_move(dls_exchange *x, dls_sync *sync)
{
    dl_device want = x->request.want.device;
    dls_call_values values;
    unsigned mask = collect_keywords(x, sync, true, &values) | DLS_ASK_DEVICE;
    values.dl_device = Py_BuildValue("(ii)", (int)want.device_type,
                                     (int)want.device_id);
    if (values.dl_device == NULL) {
        return DLS_ATTEMPT_RAISED;
    }
    dls_attempt got = call_in_context(x, mask, &values, sync);
    Py_DECREF(values.dl_device);
    return got;
}

/* The wanted device is the one that the synchronisation is for, but its context is that
 * of the device where the memory lies.  Moving to the host waits, and takes no stream.
 */
static int
begin_move(dls_exchange *x, dl_device device, const dls_request *request,
           dls_sync *sync)
{
    dls_sync_source from = dls_sync_source_of(x, request->want.device);
    from.request = request;
    dls_producer_kind kind = dls_producer_kind_of(x->plan, device);
    if (dls_sync_begin(&from, NULL, kind, sync) < 0) {
        return -1;
    }
    bool to_host = request->want.device.device_type == dl_kDLCPU;
    dls_sync_place(sync, device, to_host ? DLS_TRANSFER_TO_HOST : sync->transfer);
    if (request->who.empty) {
        sync->s.value = DLS_VALUE_MINUS_ONE; /* no context is entered */
    }
    int captured = dls_sync_meets_capture(sync);
    return captured > 0 ? dls_sync_raise_capture(x->state, x->source) : captured;
}

/* Never believe that the keyword was obeyed: look at the answer (N7). */
static bool
has_moved(dl_device came, dl_device want)
{
    return came.device_type == want.device_type
           && (came.device_id == want.device_id || want.device_type == dl_kDLCPU);
}

static dls_attempt
move(dls_exchange *x, dls_sync *sync)
{
    dl_device want = x->request.want.device;
    dls_attempt got = step_over(x, call_to_move(x, sync));
    if (got == DLS_ATTEMPT_GOT && !has_moved(x->acquired.tensor.device, want)) {
        return dls_attempt_end(x, -1, DLS_ATTEMPT_NOT_OFFERED);
    }
    if (got == DLS_ATTEMPT_GOT) {
        x->acquired.copy_asked = true;
        note_private_copy(x);
    }
    got = got == DLS_ATTEMPT_GOT ? dls_attempt_check_bits(x) : got;
    if (got != DLS_ATTEMPT_GOT || want.device_type == dl_kDLCPU) {
        return got;
    }
    /* S is synced again after every move, as in call_in_place; JAX alone syncs the
     * memory that it has moved. */
    bool again = dls_transfer_can_allocate(want.device_type)
                 && sync->kind != DLS_PRODUCER_NO_MINUS_ONE;
    /* mutant: moved by the producer */
    int code = dls_sync_finish(sync, again ? DLS_PRODUCER_OLD : sync->kind, unknown,
                               &x->acquired);
    return dls_attempt_end(x, code, DLS_ATTEMPT_FINAL);
}

dls_attempt
dls_attempt_move(dls_exchange *x, dl_device device)
{
    dls_sync sync;
    dls_request request = x->request;
    if (request.want.device.device_type == dl_kDLCPU) {
        request.streams.consumer = NULL;
    }
    dls_attempt got = begin_move(x, device, &request, &sync) < 0 ? DLS_ATTEMPT_FINAL
                                                                 : move(x, &sync);
    dls_sync_end(&sync);
    return got;
}

/* --- the other protocols -------------------------------------------------- */

/* A C table takes no stream: it is asked if nothing has to be synchronised, and for
 * types that offer nothing else. */
static dls_attempt
attempt_table(dls_exchange *x, dls_transfer route)
{
    const dls_request *request = &x->request;
    if (!dls_plan_offers(x->plan, DLS_PROTOCOL_DLPACK)) {
        dls_attempt got = dls_attempt_table(x, false);
        return got == DLS_ATTEMPT_GOT ? dls_attempt_sync(x, DLS_PRODUCER_OLD, unknown)
                                      : got;
    }
    if (route != DLS_TRANSFER_HERE || request->want.copy == 1
        || !dls_stream_is_minus_one(request->streams.consumer)) {
        return DLS_ATTEMPT_NOT_OFFERED;
    }
    /* __dlpack__ decides about refusals, except for a library whose autograd dlshim
     * checks: that refusal came from us, and is final. */
    dls_attempt got = dls_attempt_table(x, true);
    return dls_plan_has(x->plan, DLS_LIB_AUTOGRAD) ? got : step_over(x, got);
}

/* A protocol of host memory: only where assume_device says that its label is wrong. */
static dls_attempt
attempt_host_protocol(dls_exchange *x, dls_protocol protocol)
{
    if (!x->request.want.has_assumed) {
        return DLS_ATTEMPT_NOT_OFFERED;
    }
    dls_attempt got = step_over(x, dls_attempt_on_host(x, protocol, 0));
    return got == DLS_ATTEMPT_GOT ? dls_attempt_sync(x, DLS_PRODUCER_OLD, unknown)
                                  : got;
}

dls_attempt
dls_attempt_off_host(dls_exchange *x, dls_protocol protocol, dl_device device)
{
    dls_attempt got;
    switch (protocol) {
    case DLS_PROTOCOL_TABLE:
        return attempt_table(x, dls_transfer_of(x->state, &x->request, device));
    case DLS_PROTOCOL_DLPACK:
        return attempt_dlpack(x, device);
    case DLS_PROTOCOL_FUNCTION:
        got = dls_attempt_ask(x, protocol, 0);
        return got == DLS_ATTEMPT_GOT ? dls_attempt_sync_unasked(x) : got;
    case DLS_PROTOCOL_CUDA:
    case DLS_PROTOCOL_SYCL:
    case DLS_PROTOCOL_ARROW_DEVICE_ARRAY:
    case DLS_PROTOCOL_ARROW_DEVICE_STREAM:
        return dls_attempt_ask(x, protocol, 0);
    default:
        return attempt_host_protocol(x, protocol);
    }
}
