/* Off the host: the producer is passed the stream, and what it leaves owed is done
 * here. */
#include "acquire/negotiate.h"

#include "acquire/ctable.h"
#include "acquire/learned.h"
#include "core/device.h"
#include "exchange/device_question.h"
#include "older_protocols/cuda_interface.h"
#include "older_protocols/sycl_interface.h"
#include "python/errors.h"
#include "sync/transfer.h"

static dls_producer_kind
kind_of(const dls_plan *plan)
{
    return dls_plan_has(plan, DLS_LIB_WAITS)            ? DLS_PRODUCER_WAITED
           : dls_plan_has(plan, DLS_LIB_IGNORES_STREAM) ? DLS_PRODUCER_IGNORES
           : dls_plan_has(plan, DLS_LIB_NO_MINUS_ONE)   ? DLS_PRODUCER_NO_MINUS_ONE
           : dls_plan_has(plan, DLS_LIB_REFUSES_TWO)    ? DLS_PRODUCER_REFUSES_TWO
                                                        : DLS_PRODUCER_MODERN;
}

/* assume_device for a producer that takes its memory for the host's: it can order
 * nothing, and NumPy refuses any stream.  1, 0, -1. */
static int
is_mistaken(dls_climb *c)
{
    dl_device said;
    if (!c->want->has_assumed || !c->plan->has_device) {
        return 0;
    }
    int got = dls_call_device(c->state, c->plan->device_method, c->obj, &said);
    return got > 0 ? dls_device_is_host(said.device_type) : got;
}

/* A producer that was passed no stream: it has waited, or it orders nothing. */
static dls_producer_kind
kind_unasked(const dls_plan *plan)
{
    return dls_plan_has(plan, DLS_LIB_WAITS) ? DLS_PRODUCER_WAITED : DLS_PRODUCER_OLD;
}

/* --- __dlpack__
 * ----------------------------------------------------------------------- */

static int
call_once(dls_climb *c, unsigned mask, const dls_call_values *values)
{
    return dls_climb_capsule(c, dls_call_dlpack(c->state, c->obj, c->plan->by_type,
                                                mask, values));
}

/* -1 touches no driver; but torch refuses even that for a device that is not current.
 */
static int
call_in_context(dls_climb *c, unsigned mask, const dls_call_values *values,
                dls_order *order)
{
    bool unordered = order->s.value == DLS_VALUE_MINUS_ONE;
    bool entered = !unordered && dls_order_enter(order);
    int got = call_once(c, mask, values);
    bool to_move_nothing = order->empty
                           && (mask & DLS_ASK_DEVICE); /* its refusal is no matter */
    if (got < 0 && unordered && !to_move_nothing
        && PyErr_ExceptionMatches(PyExc_BufferError)) {
        PyObject *error = dls_error_take();
        entered = dls_order_enter(order);
        if (entered) {
            Py_DECREF(error);
            got = call_once(c, mask, values);
        }
        else {
            dls_error_restore(error);
        }
    }
    if (entered) {
        dls_order_leave(order);
    }
    return got;
}

/* May a call with fewer keywords still do (N2)?  A refusal that is no TypeError is
 * about a value or the data, but for `stream` it is never taken for an unknown keyword.
 */
static bool
may_step_down(const dls_climb *c, unsigned mask, bool *learnable)
{
    bool type_error = PyErr_ExceptionMatches(PyExc_TypeError);
    bool keyword = type_error || PyErr_ExceptionMatches(PyExc_NotImplementedError)
                   || PyErr_ExceptionMatches(PyExc_ValueError)
                   || PyErr_ExceptionMatches(PyExc_AssertionError);
    *learnable &= type_error || dls_plan_has(c->plan, DLS_LIB_LEARN_ANY_REFUSAL);
    if (type_error) {
        return (mask & ~c->plan->taken)
               != 0; /* all were taken before: it is the data */
    }
    return keyword && (mask & (DLS_ASK_VERSION | DLS_ASK_COPY) & ~c->plan->taken) != 0;
}

/* From all keywords to none, as long as keywords are refused; what was dropped before
 * is not tried again (N1), what was taken before is not dropped.  1 with *used, -1: the
 * last refusal is pending. */
static int
call_steps(dls_climb *c, unsigned full, const dls_call_values *values, dls_order *order,
           unsigned *used)
{
    const unsigned steps[] = {full,
                              full & ~DLS_ASK_VERSION,
                              full & (DLS_ASK_STREAM | DLS_ASK_VERSION),
                              full & DLS_ASK_STREAM,
                              full & DLS_ASK_VERSION,
                              0};
    const unsigned refused = c->plan->refused, taken = c->plan->taken & full;
    unsigned tried = ~0u;
    bool learnable = true, typed = false;
    for (int pass = refused != 0 ? 0 : 1; pass < 2; pass++) {
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            unsigned mask = pass == 0 ? steps[i] & ~refused : steps[i] | taken;
            bool drops_stream = (full & ~mask & DLS_ASK_STREAM)
                                && !(refused & DLS_ASK_STREAM);
            if (mask == tried || (drops_stream && !typed)) {
                continue;
            }
            if (tried != ~0u) {
                dls_climb_keep(c);
            }
            tried = mask;
            int got = call_in_context(c, mask, values, order);
            if (got > 0) {
                c->plan->taken |= (uint8_t)mask;
                if (learnable) {
                    c->plan->refused = (uint8_t)(full & ~mask);
                }
                *used = mask;
                return 1;
            }
            typed |= PyErr_ExceptionMatches(PyExc_TypeError);
            if (!may_step_down(c, mask, &learnable)) {
                return -1;
            }
        }
    }
    return -1;
}

static int
check_lazy(dls_climb *c)
{
    return dls_plan_has(c->plan, DLS_LIB_LAZY_BITS) ? dls_climb_check_bits(c) : 1;
}

/* Do what is owed after the call.  1, or -1: that says it all, and the loan is dropped.
 */
static int
finish(dls_climb *c, const dls_want *want, dls_order *order, dls_producer_kind kind)
{
    const dls_pending p = {.known = DLS_P_UNKNOWN};
    if (dls_order_finish(c->state, c->plan, c->obj, want, order, kind, p, c->loan)
        == 0) {
        return 1;
    }
    dls_loan_drop(c->loan);
    c->settled = true;
    return -1;
}

/* What a dropped keyword asked for is still owed (N4). */
static int
refuse_copy_debt(dls_climb *c, unsigned owed)
{
    if (!(owed & DLS_ASK_COPY) || c->want->copy != 1) {
        return 1;
    }
    dls_loan_drop(c->loan);
    c->settled = true;
    dls_raise(
        c->state, DLS_EBUFFER, c->obj,
        "its producer cannot copy it, and dlshim allocates no device memory; pass "
        "a .copy() or .clone()");
    return -1;
}

/* A capture is running: a producer that is known to take streams is refused; of any
 * other it is found out with -1, which breaks nothing.  0, or -1. */
static int
pass_minus_one(dls_climb *c, dls_order *order)
{
    if (c->plan->taken & DLS_ASK_STREAM) {
        return dls_order_raise_capture(c->state, c->obj);
    }
    Py_XDECREF(order->passed);
    order->passed = PyLong_FromLong(-1);
    return order->passed != NULL ? 0 : -1;
}

/* What __dlpack__ makes of it where it lies.  1, 0: a placeholder or no call that it
 * takes, -1. */
static int
ask_dlpack(dls_climb *c, dl_device device)
{
    dls_order order;
    dls_call_values values = {NULL, NULL, NULL};
    unsigned full = DLS_ASK_VERSION, used = 0;
    int got = -1;
    int captured = -1, mistaken = is_mistaken(c);
    if (mistaken < 0) {
        return -1;
    }
    dls_producer_kind kind = mistaken ? DLS_PRODUCER_OLD : kind_of(c->plan);
    if (dls_order_begin(c->state, c->want, device, NULL, kind, &order) == 0) {
        captured = dls_order_meets_capture(c->state, c->plan, c->obj, &order);
    }
    if (captured > 0 && pass_minus_one(c, &order) < 0) {
        captured = -1;
    }
    if (captured < 0) {
        dls_order_end(&order);
        c->settled = true;
        return -1;
    }
    values.stream = order.passed;
    full |= order.passed != NULL ? DLS_ASK_STREAM : 0;
    bool copied_here = order.route == DLS_ROUTE_TO_HOST
                       || order.route == DLS_ROUTE_AS_HOST;
    if (c->want->copy >= 0 && !copied_here) {
        full |= DLS_ASK_COPY;
        values.copy = c->want->copy ? Py_True : Py_False;
    }
    got = call_steps(c, full, &values, &order, &used);
    if (got < 0
        && (PyErr_ExceptionMatches(PyExc_NotImplementedError)
            || PyErr_ExceptionMatches(PyExc_TypeError))) {
        dls_climb_keep(c); /* a placeholder (N8), or no call that it takes */
        got = 0;
    }
    if (got > 0 && captured > 0 && (used & DLS_ASK_STREAM)) {
        dls_loan_drop(c->loan);
        c->settled = true;
        got = dls_order_raise_capture(c->state, c->obj);
    }
    got = got > 0 ? check_lazy(c) : got;
    got = got > 0 ? refuse_copy_debt(c, full & ~used) : got;
    if (got > 0) {
        bool unasked = order.passed == NULL || !(used & DLS_ASK_STREAM);
        got = finish(c, c->want, &order, unasked ? kind_unasked(c->plan) : order.kind);
    }
    dls_order_end(&order);
    return got;
}

static int
call_to_move(dls_climb *c, dls_order *order)
{
    dl_device want = c->want->device;
    dls_call_values values = {.stream = order->passed};
    unsigned mask = DLS_ASK_VERSION | DLS_ASK_DEVICE;
    mask |= order->passed != NULL ? DLS_ASK_STREAM : 0;
    values.dl_device = Py_BuildValue("(ii)", (int)want.device_type,
                                     (int)want.device_id);
    if (values.dl_device == NULL) {
        return -1;
    }
    if (c->want->copy >= 0) {
        mask |= DLS_ASK_COPY;
        values.copy = c->want->copy ? Py_True : Py_False;
    }
    int got = call_in_context(c, mask, &values, order);
    Py_DECREF(values.dl_device);
    return got;
}

/* The producer is asked to move it, for it knows its pools and streams.  1: the memory
 * is on the wanted device; 0: it cannot, or it did not (N7: never believe); -1. */
static int
ask_to_move(dls_climb *c, dl_device device)
{
    dl_device want = c->want->device;
    bool to_host = want.device_type == dl_kDLCPU;
    dls_order order;
    dls_want there = *c->want;
    if (to_host) {
        there.stream =
            NULL; /* moving to the host is synchronous, and takes no stream */
    }
    if (dls_order_begin(c->state, &there, want, NULL, kind_of(c->plan), &order) < 0) {
        dls_order_end(&order);
        c->settled = true;
        return -1;
    }
    order.device = device; /* whose context is entered */
    if (to_host) {
        order.route = DLS_ROUTE_TO_HOST;
    }
    if (there.empty) {
        order.s.value = DLS_VALUE_MINUS_ONE; /* its context is not entered */
    }
    int captured = dls_order_meets_capture(c->state, c->plan, c->obj, &order);
    if (captured != 0) {
        dls_order_end(&order);
        c->settled = true;
        return captured < 0 ? -1 : dls_order_raise_capture(c->state, c->obj);
    }
    int got = call_to_move(c, &order);
    if (got < 0) {
        dls_order_end(&order);
        if (dls_pending_error() == DLS_PENDING_FINAL) {
            return -1;
        }
        dls_climb_keep(c);
        return 0;
    }
    dl_device came = c->loan->tensor.device;
    bool moved = came.device_type == want.device_type
                 && (came.device_id == want.device_id || want.device_type == dl_kDLCPU);
    if (!moved) {
        dls_order_end(&order);
        dls_loan_drop(c->loan);
        dls_loan_init(c->loan);
        return 0;
    }
    got = check_lazy(c);
    if (got > 0 && !to_host) {
        got = finish(c, &there, &order, order.kind);
    }
    dls_order_end(&order);
    return got;
}

/* --- the other rungs
 * ------------------------------------------------------------------- */

/* Order what came without a stream.  1, or -1 and the loan is dropped. */
static int
pay(dls_climb *c, dls_producer_kind kind, dls_pending p)
{
    if (dls_order_owed(c->state, c->plan, c->obj, c->want, kind, p, c->loan) < 0) {
        dls_loan_drop(c->loan);
        c->settled = true;
        return -1;
    }
    return 1;
}

DLS_COLD int
dls_climb_pay_function(dls_climb *c)
{
    const dls_pending p = {.known = DLS_P_UNKNOWN};
    dls_plan_leave_host(c->plan);
    c->plan->ways[0].known = c->plan->ways[1].known = false;
    return pay(c, kind_unasked(c->plan), p) > 0 ? 0 : -1;
}

DLS_COLD int
dls_climb_cuda_interface(dls_climb *c)
{
    dls_pending p = {.known = DLS_P_UNKNOWN};
    dls_plan_leave_host(c->plan);
    int got = dls_read_cuda_interface(c->state, c->obj, c->want, c->loan, &p);
    if (got > 0 && dls_plan_has(c->plan, DLS_LIB_IMMUTABLE)) {
        c->loan->flags |= DL_FLAG_READ_ONLY;
        c->loan->readonly_stated = false;
    }
    c->ordered = got > 0;
    return got > 0 ? pay(c, DLS_PRODUCER_OLD, p) : got;
}

DLS_COLD int
dls_climb_sycl_interface(dls_climb *c)
{
    PyObject *queue = NULL;
    dls_plan_leave_host(c->plan);
    int got = dls_read_sycl_interface(c->state, c->obj, c->want, c->loan, &queue);
    if (got > 0) {
        c->ordered = true;
        bool waited = dls_plan_has(c->plan, DLS_LIB_INTERFACE_WAITS);
        dls_pending p = {.known = queue != NULL ? DLS_P_KNOWN : DLS_P_UNKNOWN,
                         .handle = (uint64_t)(uintptr_t)queue,
                         .object = queue};
        got = pay(c, waited ? DLS_PRODUCER_WAITED : DLS_PRODUCER_OLD, p);
    }
    Py_XDECREF(queue);
    return got;
}

static int
ask_function(dls_climb *c)
{
    const dls_pending p = {.known = DLS_P_UNKNOWN};
    PyObject *capsule = NULL;
    int got = dls_library_capsule(c->state, c->plan->library, c->obj, &capsule);
    got = got > 0 ? dls_climb_capsule(c, capsule) : got;
    return got > 0 ? pay(c, kind_unasked(c->plan), p) : got;
}

/* A table knows no stream: it serves where nothing is owed, and types that have nothing
 * else. */
static int
ask_table(dls_climb *c, dls_route route)
{
    const dls_pending p = {.known = DLS_P_UNKNOWN};
    bool only = !dls_plan_offers(c->plan, DLS_RUNG_DLPACK);
    bool plain = route == DLS_ROUTE_HERE && c->want->copy != 1
                 && dls_stream_is_minus_one(c->want->stream);
    if (!only && !plain) {
        return 0;
    }
    int got = dls_climb_table(c, !only);
    if (got > 0) {
        return only ? pay(c, DLS_PRODUCER_OLD, p) : got;
    }
    /* Only the quick road: __dlpack__ decides what is refused, but for lazy bits. */
    bool final = only || dls_plan_has(c->plan, DLS_LIB_LAZY_BITS);
    if (got < 0 && !final && dls_pending_error() != DLS_PENDING_FINAL) {
        dls_climb_keep(c);
        got = 0;
    }
    return got;
}

/* A protocol of the host's memory, whose owner has been told to be mistaken. */
static int
ask_host_protocol(dls_climb *c, dls_rung rung)
{
    const dls_pending p = {.known = DLS_P_UNKNOWN};
    int got = c->want->has_assumed ? dls_climb_way(c, rung, 0) : 0;
    if (got < 0 && dls_pending_error() != DLS_PENDING_FINAL) {
        dls_climb_keep(c);
        return 0;
    }
    return got > 0 ? pay(c, DLS_PRODUCER_OLD, p) : got;
}

static int
ask_rung(dls_climb *c, dls_rung rung, dl_device device)
{
    switch (rung) {
    case DLS_RUNG_TABLE:
        return ask_table(c, dls_route_of(c->want, device));
    case DLS_RUNG_DLPACK:
        return ask_dlpack(c, device);
    case DLS_RUNG_FUNCTION:
        return ask_function(c);
    case DLS_RUNG_CUDA:
        return dls_climb_cuda_interface(c);
    case DLS_RUNG_SYCL:
        return dls_climb_sycl_interface(c);
    default:
        return ask_host_protocol(c, rung);
    }
}

/* --- all of it
 * ----------------------------------------------------------------------------- */

static int
ask_in_place(dls_climb *c, dl_device device)
{
    for (int rung = 0; rung < DLS_RUNG_COUNT; rung++) {
        bool maybe = rung == DLS_RUNG_FUNCTION
                     && dls_plan_offers(c->plan, DLS_RUNG_DLPACK);
        if (!maybe && !dls_plan_offers(c->plan, (dls_rung)rung)) {
            continue;
        }
        int got = ask_rung(c, (dls_rung)rung, device);
        if (got > 0) {
            return 0;
        }
        if (got < 0 && !c->settled) {
            dls_raise_from_pending(c->state, c->obj, "it cannot be exported");
        }
        if (got < 0) {
            return -1;
        }
    }
    return dls_climb_raise_nothing(c);
}

/* A want of its own, for a copy to the host. */
static int
climb_to_host(dls_climb *c, dl_device device)
{
    const dls_want *given = c->want;
    dls_want want = *given;
    int empty = dls_refuse_move(c->state, c->obj, given, device) < 0
                    ? -1
                    : dls_climb_says_empty(c);
    if (empty < 0) {
        return -1;
    }
    want.empty = empty;
    c->want = &want;
    int got = dls_plan_offers(c->plan, DLS_RUNG_DLPACK) ? ask_to_move(c, device) : 0;
    if (got == 0) {
        got = ask_in_place(c, device) < 0 ? -1 : 1;
    }
    c->want = given;
    return got > 0 ? 0 : -1;
}

DLS_COLD int
dls_climb_off_host(dls_climb *c, dl_device device)
{
    dls_plan_leave_host(c->plan);
    c->plan->ways[0].known = c->plan->ways[1].known = false;
    dls_route route = dls_route_of(c->want, device);
    if (route == DLS_ROUTE_TO_HOST) {
        return climb_to_host(c, device);
    }
    if (route == DLS_ROUTE_MOVE && dls_plan_offers(c->plan, DLS_RUNG_DLPACK)) {
        int got = ask_to_move(c, device);
        if (got != 0) {
            return got > 0 ? 0 : -1;
        }
    }
    if (route == DLS_ROUTE_MOVE) {
        PyObject *kept = c->kept;
        c->kept = NULL;
        return dls_raise_move(c->state, c->obj, c->want, device, kept);
    }
    return ask_in_place(c, device);
}
