#include "export/fast_path.h"

#include "acquire/ctable.h"
#include "acquire/learned.h"
#include "core/counters.h"
#include "core/tensor.h"
#include "exchange/device_question.h"
#include "exchange/on_host.h"
#include "python/capsule.h"
#include "python/errors.h"

/* --- what was asked for
 * ----------------------------------------------------------------- */

/* For the careful road: foreign code may run there before it is looked at, so an
 * exception must not stay pending. */
DLS_COLD static dls_answer
answer_of(unsigned road, PyObject *capsule, void *managed)
{
    dls_answer answer = {.road = road, .capsule = capsule};
    if (capsule == NULL) {
        answer.managed = managed;
        answer.raised = managed == NULL ? dls_error_take() : NULL;
    }
    return answer;
}

DLS_COLD void
dls_express_drop(dls_answer *answer)
{
    dls_loan loan;
    dls_loan_init(&loan);
    loan.capsule = answer->capsule;
    if (answer->managed != NULL) {
        loan.hold = (dls_hold){.base = answer->managed, .kind = DLS_HOLD_VERSIONED};
    }
    dls_loan_drop(&loan);
    if (answer->raised != NULL) {
        dls_drop_foreign(answer->raised);
    }
}

/* Give up after an exception, which is kept. */
DLS_COLD static void *
drop_answer(PyObject *capsule, void *managed)
{
    dls_answer answer = {.capsule = capsule,
                         .managed = capsule == NULL ? managed : NULL};
    dls_express_drop(&answer);
    return NULL;
}

/* --- asking -------------------------------------------------------------------------
 */

/* Nobody else may hold the capsule: they could consume it. */
static inline void *
ask_method(dls_state *state, const dls_plan *plan, PyObject *source, unsigned road,
           bool got, PyObject **capsule)
{
    const unsigned special = DLS_EXPRESS_VERSION | DLS_EXPRESS_BY_TYPE
                             | DLS_EXPRESS_DIRECT;
    bool old = !(DLS_KNOWN(got) && got) && !(road & special); /* most old producers */
    *capsule = old ? dls_call_bare(state, source)
                   : dls_call_express(state, plan, source, road);
    return *capsule != NULL && Py_REFCNT(*capsule) == 1
               ? dls_capsule_pointer(*capsule, got)
               : NULL;
}

/* What is refused here stands for a refusal of the table's. */
static dl_managed_tensor_versioned *
ask_table(dls_state *state, dls_plan *plan, PyObject *source, bool kernel_asks)
{
    bool lazy = dls_plan_has(plan, DLS_LIB_LAZY_BITS);
    if (lazy && !kernel_asks && dls_refuse_autograd(state, plan, source) < 0) {
        return NULL;
    }
    dl_managed_tensor_versioned *managed = dls_table_call(plan->table, source);
    if (lazy && managed != NULL && managed->version.major == DL_MAJOR
        && dls_refuse_lazy_bits(state, plan, source, managed->dl_tensor.dtype) < 0) {
        return drop_answer(NULL, managed);
    }
    return managed;
}

/* Is it as good for the consumer as it is, but for its flavour?  Who is told of flags
 * may get READ_ONLY, who is not, none. */
static inline bool
is_fit_versioned(const dl_managed_tensor_versioned *managed, bool to_versioned)
{
    uint64_t bearable = to_versioned ? DL_FLAG_READ_ONLY : 0;
    return managed->version.major == DL_MAJOR && (managed->flags & ~bearable) == 0
           && (!to_versioned || managed->deleter != NULL)
           && dls_tensor_is_plain(&managed->dl_tensor);
}

static inline bool
is_fit_legacy(const dls_state *state, const dl_managed_tensor *managed,
              bool to_versioned)
{
    return (to_versioned || (managed->deleter != NULL && state->legacy_hold == 0))
           && dls_tensor_is_plain(&managed->dl_tensor);
}

/* In the one way that has worked for the type: a capsule, or no capsule and a struct.
 */
static inline void *
ask(dls_state *state, dls_plan *plan, PyObject *source, unsigned road, bool got,
    bool kernel_asks, PyObject **capsule)
{
    *capsule = NULL;
    return got && (road & DLS_EXPRESS_TABLE)
               ? ask_table(state, plan, source, kernel_asks)
               : ask_method(state, plan, source, road, got, capsule);
}

static inline bool
is_fit(const dls_state *state, const void *managed, bool versioned, bool to_versioned)
{
    return managed != NULL
           && (versioned ? is_fit_versioned(managed, to_versioned)
                         : is_fit_legacy(state, managed, to_versioned));
}

/* --- giving -------------------------------------------------------------------------
 */

/* Become the owner (T9, T10).  0, or -1 with an exception and nothing changed. */
static int
take(dls_state *state, dls_plan *plan, PyObject *source, PyObject *capsule,
     void *managed, bool versioned, dls_hold *hold)
{
    if (capsule != NULL && dls_capsule_take(capsule, versioned) < 0) {
        return -1;
    }
    hold->base = managed;
    hold->kind = versioned ? DLS_HOLD_VERSIONED : DLS_HOLD_LEGACY;
    hold->flags = versioned ? 0 : state->legacy_hold;
    hold->py = NULL;
    if (!dls_plan_has(plan, DLS_LIB_OWNS)) {
        Py_INCREF(source);
        hold->py = source;
    }
    if (capsule != NULL) {
        Py_DECREF(capsule);
        dls_error_report();
        DLS_COUNT(taken);
    }
    return 0;
}

static PyObject *
translate(dls_state *state, dls_plan *plan, PyObject *source, PyObject *capsule,
          void *managed, bool to_versioned)
{
    const dl_tensor *tensor =
        to_versioned ? &((dl_managed_tensor *)managed)->dl_tensor
                     : &((dl_managed_tensor_versioned *)managed)->dl_tensor;
    dls_hold *hold;
    void *made = dls_export_plain(tensor, to_versioned, &hold);
    if (made == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *result = dls_capsule_new(made, to_versioned);
    if (result == NULL) {
        dls_managed_delete(made, to_versioned);
        return NULL;
    }
    if (take(state, plan, source, capsule, managed, !to_versioned, hold) < 0) {
        Py_DECREF(result);
        return NULL;
    }
    DLS_COUNT(translated);
    return result;
}

/* got: the flavour that the road answers, known to the compiler. */
static inline PyObject *
export_of(dls_producer *self, PyObject *const *args, PyObject *kwnames, unsigned road,
          bool got)
{
    PyObject *capsule, *given;
    bool versioned = road & DLS_EXPRESS_WANTED;
    void *managed = ask(self->state, self->plan, self->source, road, got, false,
                        &capsule);
    if (!is_fit(self->state, managed, got, versioned)) {
        dls_answer answer = answer_of(road, capsule, managed);
        return dls_producer_ask(self, args, 0, kwnames, &answer);
    }
    if (DLS_RARE(self->asked != 0)) {
        dls_use_question(&self->asked);
    }
    if (got != versioned) {
        given = translate(self->state, self->plan, self->source, capsule, managed,
                          !got);
    }
    else {
        DLS_COUNT(handed_on);
        if (capsule != NULL) {
            return capsule;
        }
        given = dls_capsule_new(managed, got);
    }
    return given != NULL ? given : drop_answer(capsule, managed);
}

DLS_FLAT PyObject *
dls_express_export(dls_producer *self, PyObject *const *args, PyObject *kwnames,
                   unsigned road)
{
    return road & DLS_EXPRESS_VERSIONED ? export_of(self, args, kwnames, road, true)
                                        : export_of(self, args, kwnames, road, false);
}

DLS_FLAT PyObject *
dls_express_again(dls_tensor *self, bool versioned)
{
    dls_hold *hold;
    void *made = dls_export_plain(&self->tensor, versioned, &hold);
    if (made == NULL) {
        return PyErr_NoMemory();
    }
    dls_shared *shared = dls_tensor_share(self);
    if (shared == NULL) {
        dls_managed_delete(made, versioned);
        return NULL;
    }
    *hold = (dls_hold){.base = shared, .kind = DLS_HOLD_SHARED};
    PyObject *capsule = dls_capsule_new(made, versioned);
    if (capsule == NULL) {
        dls_managed_delete(made, versioned);
        return NULL;
    }
    if (DLS_RARE(self->asked != 0)) {
        dls_use_question(&self->asked);
    }
    DLS_COUNT(translated);
    return capsule;
}

static inline int
is_host(int got, dl_device device)
{
    return got > 0 ? device.device_type == dl_kDLCPU && device.device_id == 0 : got;
}

/* Where the source does not show it, and its type has answered on the host. */
DLS_APART static int
device_of_host_type(dls_state *state, const dls_plan *plan, PyObject *source)
{
    dl_device device = {0, 0};
    int got = 0;
    if (plan->table != NULL) {
        got = dls_table_device(plan->table, source, &device);
    }
    else if (plan->has_device) {
        got = dls_call_device(state, plan->device_method, source, &device);
    }
    return is_host(got, device);
}

int
dls_express_device(dls_producer *self)
{
    dl_device device;
    dls_plan *plan = self->plan;
    if (DLS_RARE(self->options != NULL || plan == NULL
                 || Py_TYPE(self->source) != plan->type)) {
        return 0;
    }
    unsigned open = plan->express[0] | plan->express[1];
    if (open & DLS_EXPRESS_ASKED) {
        int got = dls_call_device(self->state, NULL, self->source, &device);
        return is_host(got, device);
    }
    int shown = dls_known_on_host(plan, self->source);
    return shown != 0 || open == 0
               ? shown
               : device_of_host_type(self->state, plan, self->source);
}

/* --- our exchange table
 * ----------------------------------------------------------------- */

/* The consumer of a table is given a struct, and no capsule. */
static dl_managed_tensor_versioned *
unpack(dls_producer *self, PyObject *capsule, void *managed, bool versioned)
{
    if (versioned) {
        if (dls_capsule_take(capsule, true) < 0) {
            return NULL;
        }
        DLS_COUNT(handed_on);
        Py_DECREF(capsule);
        dls_error_report();
        return managed;
    }
    dls_hold *hold;
    dl_managed_tensor_versioned *made =
        dls_export_plain(&((dl_managed_tensor *)managed)->dl_tensor, true, &hold);
    if (made == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (take(self->state, self->plan, self->source, capsule, managed, false, hold)
        < 0) {
        dls_managed_delete(made, true);
        return NULL;
    }
    DLS_COUNT(translated);
    return made;
}

/* After each call all is read from self again: what is kept in registers over a call is
 * paid for at the door. */
bool
dls_express_through(dls_producer *self, dl_managed_tensor_versioned **out)
{
    *out = dls_table_call(self->plan->table, self->source);
    bool good = *out != NULL && (*out)->version.major == DL_MAJOR
                && (!dls_plan_has(self->plan, DLS_LIB_LAZY_BITS)
                    || dls_refuse_lazy_bits(self->state, self->plan, self->source,
                                            (*out)->dl_tensor.dtype)
                           == 0)
                && is_fit_versioned(*out, true);
    if (good) {
        DLS_COUNT(handed_on);
    }
    return good;
}

DLS_COLD void
dls_express_not_through(dl_managed_tensor_versioned *managed, dls_answer *answer)
{
    if (managed != NULL && PyErr_Occurred() != NULL) {
        managed = drop_answer(NULL, managed);
    }
    *answer = answer_of(DLS_EXPRESS_TABLE | DLS_EXPRESS_VERSIONED, NULL, managed);
}

DLS_FLAT int
dls_express_owned(dls_producer *self, unsigned road, dl_managed_tensor_versioned **out,
                  dls_answer *answer)
{
    PyObject *capsule;
    bool got = road & DLS_EXPRESS_VERSIONED;
    void *managed = ask_method(self->state, self->plan, self->source, road, got,
                               &capsule);
    if (!is_fit(self->state, managed, got, true)) {
        *answer = answer_of(road, capsule, managed);
        return 1;
    }
    *out = unpack(self, capsule, managed, got);
    if (*out == NULL) {
        drop_answer(capsule, managed);
        return -1;
    }
    return 0;
}

DLS_FLAT const dl_tensor *
dls_express_look(dls_producer *self, unsigned road, dls_answer *answer)
{
    PyObject *capsule;
    bool got = road & DLS_EXPRESS_VERSIONED;
    void *managed = ask(self->state, self->plan, self->source, road, got, true,
                        &capsule);
    if (!is_fit(self->state, managed, got, false)) {
        *answer = answer_of(road, capsule, managed);
        return NULL;
    }
    *answer = (dls_answer){road, capsule, capsule == NULL ? managed : NULL, NULL};
    return got ? &((dl_managed_tensor_versioned *)managed)->dl_tensor
               : &((dl_managed_tensor *)managed)->dl_tensor;
}

/* --- from_dlpack
 * ----------------------------------------------------------------------- */

DLS_COLD static PyObject *
tensor_carefully(dls_state *state, dls_plan *plan, PyObject *source, dls_answer *answer)
{
    dls_request request;
    dls_request_init(&request, NULL);
    request.answer = answer;
    return dls_serve_tensor(state, source, plan, &request);
}

static PyObject *
make_tensor(dls_state *state, dls_plan *plan, PyObject *source, PyObject *capsule,
            void *managed, bool versioned)
{
    const dl_managed_tensor *legacy = managed;
    const dl_managed_tensor_versioned *newer = managed;
    const dl_tensor *tensor = versioned ? &newer->dl_tensor : &legacy->dl_tensor;
    dls_tensor *self = dls_tensor_bare(state, tensor);
    if (self == NULL) {
        return NULL;
    }
    dls_copy_dims(tensor, self->dims, self->dims + tensor->ndim);
    self->readonly_stated = versioned;
    if (versioned) {
        self->flags = (uint32_t)newer->flags;
    }
    dls_tensor_stamp(self, versioned ? DLS_VERSIONED : DLS_LEGACY,
                     versioned ? newer->version : (dl_version){0, 0});
    if (take(state, plan, source, capsule, managed, versioned, &self->hold) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    if (self->hold.py != NULL && plan->can_cycle) {
        PyObject_GC_Track((PyObject *)self);
    }
    return (PyObject *)self;
}

/* got and road's TABLE: known to the compiler. */
static inline PyObject *
tensor_of(dls_state *state, dls_plan *plan, PyObject *source, unsigned road, bool got)
{
    PyObject *capsule, *tensor;
    dls_plan_share(plan); /* what is called may empty the cache */
    void *managed = ask(state, plan, source, road, got, false, &capsule);
    if (!is_fit(state, managed, got, true)) {
        dls_answer answer = answer_of(road, capsule, managed);
        tensor = tensor_carefully(state, plan, source, &answer);
    }
    else {
        tensor = make_tensor(state, plan, source, capsule, managed, got);
        if (tensor == NULL) {
            drop_answer(capsule, managed);
        }
    }
    dls_plan_drop(plan);
    return tensor;
}

DLS_FLAT PyObject *
dls_express_tensor(dls_state *state, dls_plan *plan, PyObject *source, unsigned road)
{
    if (road & DLS_EXPRESS_TABLE) {
        return tensor_of(state, plan, source, DLS_EXPRESS_TABLE | DLS_EXPRESS_VERSIONED,
                         true);
    }
    road &= ~DLS_EXPRESS_TABLE;
    return road & DLS_EXPRESS_VERSIONED ? tensor_of(state, plan, source, road, true)
                                        : tensor_of(state, plan, source, road, false);
}
