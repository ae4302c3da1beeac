#include "acquire/attempt_host.h"

#include "acquire/ctable.h"
#include "acquire/from_capsule.h"
#include "acquire/negotiate.h"
#include "core/device.h"
#include "exchange/device_question.h"
#include "python/errors.h"
#include "sync/transfer.h"

/* Is __dlpack_device__ the only one that tells where an object lies? */
static bool
device_is_asked(const dls_plan *plan)
{
    return !plan->cpu_only && plan->where.get == NULL && plan->table == NULL
           && plan->has_device && plan->device_method == NULL;
}

/* Nothing about the library or the way needs a decision of its own. */
static uint8_t
express_road(const dls_climb *c, dls_rung rung, unsigned mask)
{
    uint32_t decides = DLS_LIB_SCALAR_IS_1D | DLS_LIB_IMMUTABLE | DLS_LIB_DOES_NOT_OWN
                       | (rung == DLS_RUNG_DLPACK ? DLS_LIB_LAZY_BITS : 0);
    if (rung > DLS_RUNG_DLPACK || (mask & ~DLS_ASK_VERSION) != 0 || c->plan->off_host
        || dls_plan_has(c->plan, decides)) {
        return 0;
    }
    return (uint8_t)(DLS_EXPRESS_OPEN | (rung == DLS_RUNG_TABLE ? DLS_EXPRESS_TABLE : 0)
                     | (mask != 0 ? DLS_EXPRESS_VERSION : 0)
                     | (c->loan->flavour == DLS_VERSIONED ? DLS_EXPRESS_VERSIONED : 0)
                     | (c->want->versioned ? DLS_EXPRESS_WANTED : 0)
                     | (c->plan->by_type ? DLS_EXPRESS_BY_TYPE : 0)
                     | (c->plan->method != NULL ? DLS_EXPRESS_DIRECT : 0)
                     | (device_is_asked(c->plan) ? DLS_EXPRESS_ASKED : 0));
}

static void
learn(dls_climb *c, dls_rung rung, unsigned mask)
{
    c->plan->met = true;
    if (rung > DLS_RUNG_DLPACK && dls_plan_offers(c->plan, DLS_RUNG_DLPACK)
        && dls_plan_has(c->plan, DLS_LIB_OLDER_AFTER_REFUSAL)) {
        return; /* __dlpack__ refused this array, not the call */
    }
    if (c->refused_other && !dls_plan_has(c->plan, DLS_LIB_LEARN_ANY_REFUSAL)) {
        return; /* serves this one exchange (N1) */
    }
    c->plan->ways[c->want->versioned] = (dls_way){
        .known = true,
        .rung = (uint8_t)rung,
        .mask = (uint8_t)mask,
        .versioned = c->loan->flavour == DLS_VERSIONED,
    };
    c->plan->express[c->want->versioned] = express_road(c, rung, mask);
}

typedef enum { RUNG_GOT, RUNG_NEXT, RUNG_STOP } rung_result;

/* After the last step failed: may another rung still serve? */
static rung_result
after_refusal(dls_climb *c, dls_pending_kind kind)
{
    bool placeholder = PyErr_ExceptionMatches(PyExc_NotImplementedError); /* N8 */
    bool about_call = PyErr_ExceptionMatches(PyExc_TypeError);
    if (kind == DLS_PENDING_FINAL) {
        return RUNG_STOP;
    }
    if (placeholder || about_call
        || dls_plan_has(c->plan, DLS_LIB_OLDER_AFTER_REFUSAL)) {
        dls_climb_keep(c);
        return RUNG_NEXT;
    }
    return RUNG_STOP;
}

static rung_result
climb_dlpack(dls_climb *c)
{
    bool legacy_first = !c->want->versioned
                        && dls_plan_has(c->plan, DLS_LIB_LEGACY_TRUTHFUL); /* N3 */
    const unsigned steps[] = {legacy_first ? 0 : DLS_ASK_VERSION,
                              legacy_first ? DLS_ASK_VERSION : 0, DLS_ASK_STREAM};
    for (int i = 0; i < 3; i++) {
        int got = dls_climb_way(c, DLS_RUNG_DLPACK, steps[i]);
        if (got > 0) {
            learn(c, DLS_RUNG_DLPACK, steps[i]);
            return RUNG_GOT;
        }
        dls_pending_kind kind = dls_pending_error();
        bool last = i == 2 || (i == 1 && !PyErr_ExceptionMatches(PyExc_TypeError));
        bool versioned_next = i == 0 && steps[1] == DLS_ASK_VERSION;
        if (last || kind == DLS_PENDING_FINAL
            || (kind == DLS_PENDING_BUFFER && !versioned_next)) {
            return after_refusal(c, kind);
        }
        dls_climb_keep(c);
    }
    return RUNG_STOP; /* not reached */
}

static rung_result
climb_rung(dls_climb *c, dls_rung rung)
{
    if (rung == DLS_RUNG_DLPACK) {
        return climb_dlpack(c);
    }
    int got = dls_climb_way(c, rung, 0);
    c->got_by = rung;
    if (got > 0) {
        learn(c, rung, 0);
        return RUNG_GOT;
    }
    if (got == 0) {
        return RUNG_NEXT;
    }
    if (c->settled) {
        return RUNG_STOP;
    }
    dls_pending_kind kind = dls_pending_error();
    /* The table is only the quick road: __dlpack__ decides what is refused.  Its
     * refusal of lazy bits is our own and final. */
    bool next = kind == DLS_PENDING_STEP
                || (kind == DLS_PENDING_BUFFER && rung == DLS_RUNG_TABLE
                    && !dls_plan_has(c->plan, DLS_LIB_LAZY_BITS));
    if (!next) {
        return RUNG_STOP;
    }
    dls_climb_keep(c);
    return RUNG_NEXT;
}

/* The pending error of `rung` (or, when none is, the kept one) becomes what the caller
 * sees. */
static void
raise_kept(dls_climb *c, int rung)
{
    if (PyErr_Occurred() == NULL) {
        if (c->kept == NULL) {
            dls_raise(c->state, DLS_EBUFFER, c->obj,
                      "it offers an array protocol but gave nothing through it");
            return;
        }
        dls_error_restore(c->kept);
        c->kept = NULL;
    }
    else if (c->kept != NULL && rung > DLS_RUNG_DLPACK
             && dls_pending_error() != DLS_PENDING_FINAL) {
        /* An older protocol may explain it better than __dlpack__: keep both.  Before,
         * only a quicker road or a keyword was tried; what __dlpack__ says in the end
         * stands. */
        dls_raise_with_cause(c->kept);
        c->kept = NULL;
    }
    dls_raise_from_pending(c->state, c->obj, "it cannot be exported");
}

static int
climb_host(dls_climb *c)
{
    int rung = 0;
    for (; rung < DLS_RUNG_COUNT; rung++) {
        /* A placeholder for __dlpack__ may stand beside a real function (N8). */
        bool maybe = rung == DLS_RUNG_FUNCTION
                     && dls_plan_offers(c->plan, DLS_RUNG_DLPACK);
        if (!maybe && !dls_plan_offers(c->plan, (dls_rung)rung)) {
            continue;
        }
        rung_result result = climb_rung(c, (dls_rung)rung);
        if (result == RUNG_GOT) {
            Py_CLEAR(c->kept);
            dls_library_gil_deleters(c->state); /* it may have been imported just now */
            return 0;
        }
        if (result == RUNG_STOP) {
            break;
        }
    }
    if (!c->settled) {
        raise_kept(c, rung);
    }
    return -1;
}

/* When must the device be known before the export (N5)?  1 = asked, *device tells; 0 =
 * taken for host memory. */
static int
device_before_export(dls_climb *c, dl_device *device)
{
    dls_plan *plan = c->plan;
    if (c->want->has_assumed) {
        *device = c->want->assumed;
        return 1;
    }
    if (plan->cpu_only || (plan->met && !plan->off_host && !c->want->ask_device)) {
        return 0;
    }
    int got = 0;
    if (plan->table != NULL) {
        got = dls_table_device(plan->table, c->obj, device);
    }
    if (got == 0 && plan->has_device) {
        got = dls_call_device(c->state, plan->device_method, c->obj, device);
    }
    return got;
}

static bool
loan_is_off_host(const dls_loan *loan)
{
    return !dls_device_is_host(loan->tensor.device.device_type);
}

/* Pinned memory is exported as host memory; what somebody knows to be pending in it is
 * ordered all the same (reference streams.md 6.5). */
DLS_COLD static int
order_pinned(dls_climb *c, dl_device device)
{
    dls_want want = *c->want;
    const dls_pending p = {.known = DLS_P_UNKNOWN};
    want.has_assumed = true;
    want.assumed = device;
    if (dls_order_owed(c->state, c->plan, c->obj, &want, DLS_PRODUCER_OLD, p, c->loan)
        == 0) {
        return 0;
    }
    dls_loan_drop(c->loan);
    return -1;
}

static bool
is_pinned(dl_device device)
{
    return device.device_type == dl_kDLCUDAHost || device.device_type == dl_kDLROCMHost;
}

/* Where only the export will tell the device, a stream object that has no handle to
 * give is refused before anybody is asked. */
static int
check_stream_object(const dls_climb *c)
{
    dls_stream s;
    bool is_object = c->want->stream != NULL && !PyLong_Check(c->want->stream);
    if (!is_object || c->plan->cpu_only) {
        return 0;
    }
    return dls_want_stream(c->state, c->want, &s);
}

static int
ask_with_climb(dls_climb *c)
{
    dl_device device;
    int known = device_before_export(c, &device);
    if (known < 0) {
        return -1;
    }
    if (known > 0 && !dls_device_is_host(device.device_type)) {
        return dls_climb_off_host(c, device);
    }
    if (known == 0 && check_stream_object(c) < 0) {
        return -1;
    }
    if (climb_host(c) < 0) {
        return -1;
    }
    if (c->ordered) {
        return 0;
    }
    if (loan_is_off_host(c->loan) && c->got_by == DLS_RUNG_FUNCTION) {
        return dls_climb_pay_function(c);
    }
    if (loan_is_off_host(c->loan)) {
        /* Asked without a stream: drop it untaken, ask properly (N5). */
        device = c->loan->tensor.device;
        dls_loan_drop(c->loan);
        dls_loan_init(c->loan);
        return dls_climb_off_host(c, device);
    }
    if (is_pinned(c->loan->tensor.device) || (known > 0 && is_pinned(device))) {
        return order_pinned(c, known > 0 && is_pinned(device) ? device
                                                              : c->loan->tensor.device);
    }
    return 0;
}

/* The learned way failed or led off the host: climb, without asking this way twice. */
DLS_COLD static int
learn_again(dls_state *state, dls_plan *plan, PyObject *obj, const dls_want *want,
            dls_loan *loan, const dls_way *failed)
{
    dls_climb c = {
        .state = state, .plan = plan, .obj = obj, .want = want, .loan = loan};
    if (failed != NULL) {
        c.failed = *failed;
        c.failure = dls_error_take();
    }
    int result = ask_with_climb(&c);
    Py_XDECREF(c.kept);
    Py_XDECREF(c.failure);
    return result;
}

/* 1, 0, -1 as from dls_climb_way. */
static int
read_answer(dls_climb *c, dls_answer *answer)
{
    if (answer->road & DLS_EXPRESS_TABLE) {
        dl_managed_tensor_versioned *managed = answer->managed;
        answer->managed = NULL;
        return dls_climb_table_gave(c, managed, true);
    }
    PyObject *capsule = answer->capsule;
    answer->capsule = NULL;
    if (capsule == NULL
        || dls_loan_from_capsule(c->state, c->plan->library, c->obj, capsule,
                                 answer->road & DLS_EXPRESS_VERSIONED ? DLS_VERSIONED
                                                                      : DLS_LEGACY,
                                 c->loan)
               < 0) {
        return -1;
    }
    return 1;
}

/* As dls_climb_way, for a way that has worked before. */
static int
ask_learned(dls_climb *c, dls_way way)
{
    bool plain = way.rung == DLS_RUNG_DLPACK
                 && !dls_plan_has(c->plan, DLS_LIB_LAZY_BITS | DLS_LIB_SCALAR_IS_1D);
    if (!plain) {
        return dls_climb_way(c, (dls_rung)way.rung, way.mask);
    }
    dls_answer answer = {.road = way.versioned ? DLS_EXPRESS_VERSIONED : 0};
    static const dls_call_values none;
    answer.capsule = dls_call_dlpack(c->state, c->obj, c->plan->by_type, way.mask,
                                     &none);
    return read_answer(c, &answer);
}

/* What the learned way gave, 1, 0 or -1 as from dls_climb_way: done, or climb. */
static int
after_learned(dls_climb *c, dls_way way, int got)
{
    if (got > 0 && !loan_is_off_host(c->loan)) {
        return 0;
    }
    if (got < 0) {
        return dls_pending_error() == DLS_PENDING_FINAL
                   ? -1
                   : learn_again(c->state, c->plan, c->obj, c->want, c->loan, &way);
    }
    dls_loan_drop(c->loan);
    dls_loan_init(c->loan);
    return learn_again(c->state, c->plan, c->obj, c->want, c->loan,
                       got == 0 ? &way : NULL);
}

DLS_COLD int
dls_source_answered(dls_state *state, dls_plan *plan, PyObject *obj,
                    const dls_want *want, dls_answer *answer, dls_loan *loan)
{
    dls_climb c = {
        .state = state, .plan = plan, .obj = obj, .want = want, .loan = loan};
    if (answer->raised != NULL) {
        dls_error_restore(answer->raised);
        answer->raised = NULL;
    }
    dls_way way = {
        .known = true,
        .rung = answer->road & DLS_EXPRESS_TABLE ? DLS_RUNG_TABLE : DLS_RUNG_DLPACK,
        .mask = answer->road & DLS_EXPRESS_VERSION ? DLS_ASK_VERSION : 0,
    };
    return after_learned(&c, way, read_answer(&c, answer));
}

int
dls_source_ask(dls_state *state, dls_plan *plan, PyObject *obj, const dls_want *want,
               dls_loan *loan)
{
    dls_way way = plan->ways[want->versioned];
    if (!way.known || !plan->met || plan->off_host || want->ask_device
        || want->has_assumed) {
        return learn_again(state, plan, obj, want, loan, NULL);
    }
    dls_climb c = {
        .state = state, .plan = plan, .obj = obj, .want = want, .loan = loan};
    return after_learned(&c, way, ask_learned(&c, way));
}

int
dls_source_device(dls_state *state, dls_plan *plan, PyObject *obj, dl_device *device)
{
    uint32_t elsewhere = 1u << DLS_RUNG_TABLE | 1u << DLS_RUNG_DLPACK
                         | 1u << DLS_RUNG_FUNCTION | 1u << DLS_RUNG_CUDA
                         | 1u << DLS_RUNG_SYCL;
    if (plan->cpu_only || !(plan->offers & elsewhere)) {
        *device = (dl_device){dl_kDLCPU, 0};
        return 1;
    }
    int got = 0;
    if (plan->table != NULL) {
        got = dls_table_device(plan->table, obj, device);
    }
    else if (plan->has_device) {
        got = dls_call_device(state, plan->device_method, obj, device);
        /* Pinned memory is said here and forgotten there: the tensor decides. */
        if (got > 0 && dls_device_is_host(device->device_type)
            && device->device_type != dl_kDLCPU) {
            got = 0;
        }
    }
    return got;
}
