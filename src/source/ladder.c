#include "source/ladder.h"

#include "core/device.h"
#include "python/raise.h"
#include "source/call.h"
#include "source/capsule_in.h"
#include "source/order.h"
#include "source/refusal.h"
#include "source/table.h"

/* One climb: what is asked, and the first error that deserves to be shown. */
typedef struct {
    dls_state *state;
    dls_plan *plan;
    PyObject *obj;
    const dls_want *want;
    dls_loan *loan;
    PyObject *kept;      /* strong: the error to show if nothing works */
    dls_way failed;      /* known: this way was tried already and raised ... */
    PyObject *failure;   /* ... this (strong), it is not asked again */
    bool refused_other;  /* a step was refused with something else than TypeError */
} climb;

typedef enum {
    PENDING_STEP,   /* advance to fewer keywords or to the next rung (N2) */
    PENDING_BUFFER, /* BufferError: the data, not the keywords */
    PENDING_FINAL   /* not ours to hide */
} pending_kind;

static pending_kind
pending_error(void)
{
    if (PyErr_ExceptionMatches(PyExc_BufferError)) {
        return PENDING_BUFFER;
    }
    if (PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_ValueError)
        || PyErr_ExceptionMatches(PyExc_RuntimeError)
        || PyErr_ExceptionMatches(PyExc_AssertionError)) {
        return PENDING_STEP;
    }
    return PENDING_FINAL;
}

/* Take the pending error away; the first that is no keyword TypeError is kept. */
static void
keep_error(climb *c)
{
    bool type_error = PyErr_ExceptionMatches(PyExc_TypeError);
    PyObject *error = dls_error_take();
    if (error == NULL) {
        return;
    }
    if (!type_error) {
        c->refused_other = true;
    }
    bool weak = c->kept == NULL
                || PyErr_GivenExceptionMatches(c->kept, PyExc_TypeError)
                || PyErr_GivenExceptionMatches(c->kept, PyExc_NotImplementedError);
    if (weak) {
        Py_XDECREF(c->kept);
        c->kept = error;
    }
    else {
        Py_DECREF(error);
    }
}

static void
learn(climb *c, dls_rung rung, unsigned mask)
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
}

/* TensorFlow gives scalars as shape (1,): the object's own ndim decides. */
static int
mend_scalar(climb *c)
{
    dls_loan *loan = c->loan;
    if (loan->tensor.ndim != 1 || loan->tensor.shape == NULL || loan->tensor.shape[0] != 1) {
        return 0;
    }
    PyObject *ndim = NULL;
    int got = dls_get_optional(c->obj, c->state->names.ndim, &ndim);
    if (got <= 0) {
        return got;
    }
    if (PyLong_Check(ndim) && PyLong_AsLong(ndim) == 0) {
        loan->tensor.ndim = 0;
        loan->altered = true;
    }
    Py_DECREF(ndim);
    PyErr_Clear();
    return 0;
}

static int
accept_capsule(climb *c, PyObject *capsule)
{
    if (capsule == NULL
        || dls_loan_from_capsule(c->state, c->plan->library, c->obj, capsule, DLS_OLDER,
                                 c->loan)
               < 0) {
        return -1;
    }
    if (dls_plan_has(c->plan, DLS_LIB_SCALAR_IS_1D) && mend_scalar(c) < 0) {
        dls_loan_drop(c->loan);
        return -1;
    }
    return 1;
}

/* The struct is there, but does it hold what the tensor shows? */
static int
check_bits(climb *c)
{
    if (dls_refuse_lazy_bits(c->state, c->obj, c->loan->tensor.dtype) < 0) {
        dls_loan_drop(c->loan);
        return -1;
    }
    return 1;
}

/* torch refuses the conjugate bit itself, without naming the cure: put ours in front. */
static int
explain_bits(climb *c)
{
    const dl_dtype any = {dl_kDLComplex, 64, 1};
    PyObject *error = dls_error_take();
    if (dls_refuse_lazy_bits(c->state, c->obj, any) < 0) {
        dls_raise_with_cause(error);
    }
    else {
        dls_error_restore(error);
    }
    return -1;
}

/* --- one way ----------------------------------------------------------------- */

static int
ask_table(climb *c)
{
    bool lazy = dls_plan_has(c->plan, DLS_LIB_LAZY_BITS);
    if (lazy && dls_refuse_autograd(c->state, c->obj) < 0) {
        return -1;
    }
    bool owed = !dls_stream_is_minus_one(c->want->stream);
    int got = dls_table_ask(c->plan->table, c->obj, owed, c->loan);
    return got > 0 && lazy ? check_bits(c) : got;
}

static int
ask_dlpack(climb *c, unsigned mask)
{
    bool lazy = dls_plan_has(c->plan, DLS_LIB_LAZY_BITS);
    if (lazy && dls_refuse_autograd(c->state, c->obj) < 0) {
        return -1;
    }
    /* Host producers are never passed anything but None (N6). */
    dls_call_values values = {NULL, NULL, NULL};
    int got = accept_capsule(c, dls_call_dlpack(c->state, c->obj, c->plan->by_type, mask,
                                               &values));
    if (lazy) {
        return got > 0 ? check_bits(c) : explain_bits(c);
    }
    return got;
}

/* Memory behind an older protocol; an immutable type's is marked, but not stated (T8). */
static int
ask_reader(climb *c, dls_reader reader)
{
    int got = reader(c->state, c->obj, c->loan);
    if (got > 0 && dls_plan_has(c->plan, DLS_LIB_IMMUTABLE)) {
        c->loan->flags |= DL_FLAG_READ_ONLY;
        c->loan->readonly_stated = false;
    }
    return got;
}

static int
ask_function(climb *c)
{
    PyObject *capsule = NULL;
    int got = dls_library_capsule(c->state, c->plan->library, c->obj, &capsule);
    return got > 0 ? accept_capsule(c, capsule) : got;
}

/* 1 = got it, 0 = not offered after all, -1 = exception. */
DLS_APART static int
ask_way(climb *c, dls_rung rung, unsigned mask)
{
    if (c->failed.known && c->failed.rung == rung && c->failed.mask == mask) {
        dls_error_restore(c->failure);
        c->failure = NULL;
        c->failed.known = false;
        return -1;
    }
    switch (rung) {
    case DLS_RUNG_TABLE:
        return ask_table(c);
    case DLS_RUNG_DLPACK:
        return ask_dlpack(c, mask);
    case DLS_RUNG_FUNCTION:
        return ask_function(c);
    case DLS_RUNG_STRUCT:
        return ask_reader(c, dls_read_array_struct);
    case DLS_RUNG_INTERFACE:
        return ask_reader(c, dls_read_array_interface);
    case DLS_RUNG_BUFFER:
        return ask_reader(c, dls_read_buffer);
    default:
        return 0; /* CUDA and SYCL interfaces: with the device roads */
    }
}

/* --- the __dlpack__ rung: fewer and fewer keywords ------------------------------ */

typedef enum { RUNG_GOT, RUNG_NEXT, RUNG_STOP } rung_result;

/* After the last step failed: may another rung still serve? */
static rung_result
after_refusal(climb *c, pending_kind kind)
{
    bool placeholder = PyErr_ExceptionMatches(PyExc_NotImplementedError); /* N8 */
    bool about_call = PyErr_ExceptionMatches(PyExc_TypeError);
    if (kind == PENDING_FINAL) {
        return RUNG_STOP;
    }
    if (placeholder || about_call || dls_plan_has(c->plan, DLS_LIB_OLDER_AFTER_REFUSAL)) {
        keep_error(c);
        return RUNG_NEXT;
    }
    return RUNG_STOP;
}

static rung_result
climb_dlpack(climb *c)
{
    bool legacy_first = !c->want->versioned
                        && dls_plan_has(c->plan, DLS_LIB_LEGACY_TRUTHFUL); /* N3 */
    const unsigned steps[] = {legacy_first ? 0 : DLS_ASK_VERSION,
                              legacy_first ? DLS_ASK_VERSION : 0, DLS_ASK_STREAM};
    for (int i = 0; i < 3; i++) {
        int got = ask_way(c, DLS_RUNG_DLPACK, steps[i]);
        if (got > 0) {
            learn(c, DLS_RUNG_DLPACK, steps[i]);
            return RUNG_GOT;
        }
        pending_kind kind = pending_error();
        bool last = i == 2 || (i == 1 && !PyErr_ExceptionMatches(PyExc_TypeError));
        bool versioned_next = i == 0 && steps[1] == DLS_ASK_VERSION;
        if (last || kind == PENDING_FINAL || (kind == PENDING_BUFFER && !versioned_next)) {
            return after_refusal(c, kind);
        }
        keep_error(c);
    }
    return RUNG_STOP; /* not reached */
}

static rung_result
climb_rung(climb *c, dls_rung rung)
{
    if (rung == DLS_RUNG_DLPACK) {
        return climb_dlpack(c);
    }
    int got = ask_way(c, rung, 0);
    if (got > 0) {
        learn(c, rung, 0);
        return RUNG_GOT;
    }
    if (got == 0) {
        return RUNG_NEXT;
    }
    pending_kind kind = pending_error();
    /* The table is only the quick road: __dlpack__ decides what is refused.  Its refusal
     * of lazy bits is our own and final. */
    bool next = kind == PENDING_STEP || (kind == PENDING_BUFFER && rung == DLS_RUNG_TABLE
                                         && !dls_plan_has(c->plan, DLS_LIB_LAZY_BITS));
    if (!next) {
        return RUNG_STOP;
    }
    keep_error(c);
    return RUNG_NEXT;
}

/* The pending error (or, when none is, the kept one) becomes what the caller sees. */
static void
raise_kept(climb *c)
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
    else if (c->kept != NULL && pending_error() != PENDING_FINAL) {
        /* An older protocol explained it better than __dlpack__: keep both. */
        dls_raise_with_cause(c->kept);
        c->kept = NULL;
        if (pending_error() == PENDING_BUFFER) {
            return;
        }
    }
    dls_raise_from_pending(c->state, c->obj, "it cannot be exported");
}

static int
climb_host(climb *c)
{
    for (int rung = 0; rung < DLS_RUNG_COUNT; rung++) {
        /* A placeholder for __dlpack__ may stand beside a real function (N8). */
        bool maybe = rung == DLS_RUNG_FUNCTION && dls_plan_offers(c->plan, DLS_RUNG_DLPACK);
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
    raise_kept(c);
    return -1;
}

/* --- off the host: forward everything, owe nothing -------------------------------- */

static PyObject *
device_pair(dl_device device)
{
    return Py_BuildValue("(ii)", (int)device.device_type, (int)device.device_id);
}

/* What a dropped keyword asked for is still owed (N4); paying comes with the device
 * roads. */
static int
refuse_debt(climb *c, unsigned owed)
{
    const char *what = NULL;
    if (owed & DLS_ASK_DEVICE) {
        what = "its producer cannot move it to the wanted device; move it with the "
               "library's own function first (for example .cpu())";
    }
    else if ((owed & DLS_ASK_COPY) && c->want->copy == 1) {
        what = "its producer cannot copy it, and dlshim allocates no device memory; pass "
               "a .copy() or .clone()";
    }
    else if ((owed & DLS_ASK_STREAM) && !dls_stream_is_minus_one(c->want->stream)) {
        what = "its producer takes no stream, so its pending work cannot be ordered; "
               "synchronise it and pass stream=-1";
    }
    if (what == NULL) {
        return 0;
    }
    dls_loan_drop(c->loan);
    dls_raise(c->state, DLS_EBUFFER, c->obj, "%s", what);
    return -1;
}

static int
climb_device(climb *c, dl_device device)
{
    dls_call_values values = {NULL, NULL, NULL};
    unsigned full = DLS_ASK_VERSION | DLS_ASK_STREAM;
    int result = -1;
    /* Managed memory is read where it lies: nobody is asked to move it. */
    bool aliased = device.device_type == dl_kDLCUDAManaged
                   && c->want->device.device_type == dl_kDLCPU;
    if (c->want->has_device && !aliased
        && (c->want->device.device_type != device.device_type
            || c->want->device.device_id != device.device_id)) {
        full |= DLS_ASK_DEVICE;
        values.dl_device = device_pair(c->want->device);
        if (values.dl_device == NULL) {
            return -1;
        }
    }
    if (c->want->copy >= 0) {
        full |= DLS_ASK_COPY;
        values.copy = c->want->copy ? Py_True : Py_False;
    }
    if (!(full & DLS_ASK_DEVICE)) {
        values.stream = dls_stream_for_producer(c->state, device, c->want->stream,
                                                dls_plan_has(c->plan, DLS_LIB_NO_MINUS_ONE));
    }
    else {
        Py_INCREF(Py_None); /* moving to the host is synchronous (rule 13) */
        values.stream = Py_None;
    }
    const unsigned steps[] = {full, full & ~DLS_ASK_VERSION, DLS_ASK_STREAM, 0};
    for (int i = 0; values.stream != NULL && i < 4; i++) {
        if (i > 0 && steps[i] == steps[i - 1]) {
            continue;
        }
        int got = accept_capsule(c, dls_call_dlpack(c->state, c->obj, c->plan->by_type,
                                                    steps[i], &values));
        if (got > 0) {
            bool lazy = dls_plan_has(c->plan, DLS_LIB_LAZY_BITS);
            result = lazy && check_bits(c) < 0 ? -1 : refuse_debt(c, full & ~steps[i]);
            break;
        }
        if (i == 3 || !PyErr_ExceptionMatches(PyExc_TypeError)) {
            dls_raise_from_pending(c->state, c->obj, "it cannot be exported");
            break;
        }
        keep_error(c);
    }
    Py_XDECREF(values.stream);
    Py_XDECREF(values.dl_device);
    return result;
}

/* --- the way in -------------------------------------------------------------------- */

/* When must the device be known before the export (N5)?  1 = asked, *device tells; 0 =
 * taken for host memory. */
static int
device_before_export(climb *c, dl_device *device)
{
    dls_plan *plan = c->plan;
    bool needed = !plan->met || plan->off_host || c->want->ask_device;
    if (!needed || dls_plan_has(plan, DLS_LIB_CPU_ONLY)) {
        return 0;
    }
    int got = 0;
    if (plan->table != NULL) {
        got = dls_table_device(plan->table, c->obj, device);
    }
    if (got == 0 && plan->has_device) {
        got = dls_call_device(c->state, c->obj, device);
    }
    return got;
}

static bool
loan_is_off_host(const dls_loan *loan)
{
    return !dls_device_is_host(loan->tensor.device.device_type);
}

static int
raise_table(climb *c)
{
    dls_raise_from_pending(c->state, c->obj, "it cannot be exported");
    return -1;
}

static int
ask_off_host(climb *c, dl_device device)
{
    c->plan->off_host = true;
    c->plan->ways[0].known = c->plan->ways[1].known = false;
    bool moves = c->want->has_device || c->want->copy >= 0;
    if (dls_plan_offers(c->plan, DLS_RUNG_TABLE) && !moves) {
        int got = ask_table(c);
        if (got != 0) {
            return got > 0 ? 0 : raise_table(c);
        }
    }
    if (!dls_plan_offers(c->plan, DLS_RUNG_DLPACK)) {
        dls_raise(c->state, DLS_EBUFFER, c->obj,
                  "its memory is on a device, and only __dlpack__ with a stream can order "
                  "work there; synchronise it and pass stream=-1, or its capsule");
        return -1;
    }
    return climb_device(c, device);
}

static int
ask_with_climb(climb *c)
{
    dl_device device;
    int known = device_before_export(c, &device);
    if (known < 0) {
        return -1;
    }
    if (known > 0 && !dls_device_is_host(device.device_type)) {
        return ask_off_host(c, device);
    }
    if (climb_host(c) < 0) {
        return -1;
    }
    if (loan_is_off_host(c->loan)) {
        /* Asked without a stream: drop it untaken, ask properly (N5). */
        device = c->loan->tensor.device;
        dls_loan_drop(c->loan);
        dls_loan_init(c->loan);
        return ask_off_host(c, device);
    }
    return 0;
}

/* The learned way failed or led off the host: climb, without asking this way twice. */
DLS_COLD static int
learn_again(dls_state *state, dls_plan *plan, PyObject *obj, const dls_want *want,
            dls_loan *loan, const dls_way *failed)
{
    climb c = {.state = state, .plan = plan, .obj = obj, .want = want, .loan = loan};
    if (failed != NULL) {
        c.failed = *failed;
        c.failure = dls_error_take();
    }
    int result = ask_with_climb(&c);
    Py_XDECREF(c.kept);
    Py_XDECREF(c.failure);
    return result;
}

/* As ask_way, for a way that has worked before. */
static int
ask_learned(climb *c, dls_way way)
{
    bool plain = way.rung == DLS_RUNG_DLPACK
                 && !dls_plan_has(c->plan, DLS_LIB_LAZY_BITS | DLS_LIB_SCALAR_IS_1D);
    if (!plain) {
        return ask_way(c, (dls_rung)way.rung, way.mask);
    }
    static const dls_call_values none;
    PyObject *capsule = dls_call_dlpack(c->state, c->obj, c->plan->by_type, way.mask, &none);
    if (capsule == NULL
        || dls_loan_from_capsule(c->state, c->plan->library, c->obj, capsule,
                                 (dls_flavour)way.versioned, c->loan)
               < 0) {
        return -1;
    }
    return 1;
}

int
dls_source_ask(dls_state *state, dls_plan *plan, PyObject *obj, const dls_want *want,
               dls_loan *loan)
{
    dls_way way = plan->ways[want->versioned];
    if (!way.known || !plan->met || plan->off_host || want->ask_device) {
        return learn_again(state, plan, obj, want, loan, NULL);
    }
    climb c = {.state = state, .plan = plan, .obj = obj, .want = want, .loan = loan};
    int got = ask_learned(&c, way);
    if (got > 0 && !loan_is_off_host(loan)) {
        return 0;
    }
    if (got < 0) {
        return pending_error() == PENDING_FINAL
                   ? -1
                   : learn_again(state, plan, obj, want, loan, &way);
    }
    dls_loan_drop(loan);
    dls_loan_init(loan);
    return learn_again(state, plan, obj, want, loan, NULL);
}

int
dls_source_device(dls_state *state, dls_plan *plan, PyObject *obj, dl_device *device)
{
    uint32_t elsewhere = 1u << DLS_RUNG_TABLE | 1u << DLS_RUNG_DLPACK
                         | 1u << DLS_RUNG_FUNCTION | 1u << DLS_RUNG_CUDA
                         | 1u << DLS_RUNG_SYCL;
    if (dls_plan_has(plan, DLS_LIB_CPU_ONLY) || !(plan->offers & elsewhere)) {
        *device = (dl_device){dl_kDLCPU, 0};
        return 1;
    }
    int got = 0;
    if (plan->table != NULL) {
        got = dls_table_device(plan->table, obj, device);
    }
    else if (plan->has_device) {
        got = dls_call_device(state, obj, device);
        /* Pinned memory is said here and forgotten there: the tensor decides. */
        if (got > 0 && dls_device_is_host(device->device_type)
            && device->device_type != dl_kDLCPU) {
            got = 0;
        }
    }
    return got;
}
