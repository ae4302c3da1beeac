/* The fast path.  Every entry point asks, takes and gives in one body, whose steps are
 * inline; the answer's generation is a constant in each half of it.  Tests:
 * tests/core/test_fast_path.py, tests/core/test_ctable.py,
 * tests/core/test_readonly_and_copies.py, tests/core/test_columns_learned.py. */
#include "export/fast_path.h"

#include <string.h>

#include "acquire/learned.h"
#include "core/alloc.h"
#include "core/copy.h"
#include "core/dtype.h"
#include "exchange/objects.h"
#include "export/export.h"
#include "export/resolve.h"
#include "protocols/protocols.h"

static inline dls_hot
hot_of(const dls_producer *self, dls_form form)
{
    return (dls_hot){
        .state = self->state, .source = self->source, .plan = self->plan, .form = form};
}

/* The record after the call, with an answer (stolen) that was kept. */
static inline dls_hot
hot_of_answer(const dls_producer *self, dls_form form, PyObject *capsule)
{
    dls_hot hot = hot_of(self, form);
    hot.capsule = capsule;
    hot.managed = dls_capsule_pointer(capsule, form & DLS_FORM_VERSIONED);
    return hot;
}

/* --- a capsule ------------------------------------------------------------ */

/* The consumer wants another generation than the answer's, or the answer has no
 * strides. A legacy consumer gets no flags, and the answer has none for it. */
DLS_INLINE PyObject *
translate_answer(dls_hot hot, bool answer, bool wanted)
{
    dls_hold *hold;
    void *made = dls_export_plain(dls_managed_tensor(hot.managed, answer), wanted,
                                  dls_managed_flags(hot.managed, answer), &hold);
    if (made == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *result = dls_capsule_new(made, wanted);
    if (result == NULL) {
        dls_managed_delete(made, wanted);
        return NULL;
    }
    if (dls_take(hot, answer, hold) < 0) {
        Py_DECREF(result);
        return NULL;
    }
    DLS_COUNT(translated);
    return result;
}

/* A consumer that asked for the device first may be one that does not heed READ_ONLY:
 * the full exchange looks (T8). */
static inline bool
is_readonly(const dl_managed_tensor_versioned *managed)
{
    return managed->flags & DL_FLAG_READ_ONLY;
}

/* A consumer that asked for the device first may be one that does not take strided
 * memory, and one that did not may lose scalars: the full exchange looks (N9). */
static inline bool
is_strided(dls_hot hot, bool answer)
{
    return !dls_tensor_is_in_rows(dls_managed_tensor(hot.managed, answer));
}

static inline bool
is_scalar(dls_hot hot, bool answer)
{
    return dls_managed_tensor(hot.managed, answer)->ndim == 0;
}

/* Is the plain answer as idle options want it: writable, in row-major order, and so
 * aligned? */
static inline bool
is_as_wanted(const dls_options *options, dls_hot hot, bool answer)
{
    const dl_tensor *tensor = dls_managed_tensor(hot.managed, answer);
    uintptr_t mask = dls_option_given(options, DLS_OPTION_align)
                         ? (uintptr_t)options->align - 1
                         : 0;
    return dls_managed_flags(hot.managed, answer) == 0 && dls_tensor_is_in_rows(tensor)
           && ((uintptr_t)tensor->data & mask) == 0;
}

/* The plain answer in a capsule of the wanted generation.  NULL with an exception. */
DLS_INLINE PyObject *
give_capsule(dls_hot hot, bool answer, bool wanted)
{
    PyObject *given;
    if (answer != wanted
        || !dls_tensor_has_strides(dls_managed_tensor(hot.managed, answer))) {
        given = translate_answer(hot, answer, wanted);
    }
    else {
        DLS_COUNT(handed_on);
        if (hot.capsule != NULL) {
            return hot.capsule;
        }
        given = dls_capsule_new(hot.managed, answer);
    }
    return given != NULL ? given : dls_hot_drop(hot);
}

/* hot: after the call; answer: the generation of the answer; idle: the Producer has
 * idle options, else it has none.  The last two are known to the compiler. */
DLS_INLINE PyObject *
capsule_of_answer(dls_producer *self, PyObject *const *args, PyObject *kwnames,
                  dls_hot hot, bool answer, bool idle)
{
    bool wanted = hot.form & DLS_FORM_WANTED;
    hot.source = self->source; /* the collector may have cleared the Producer */
    if (!dls_hot_is_plain(hot, answer, wanted, true)
        || (answer && wanted && self->asked != 0 && is_readonly(hot.managed))
        || (self->asked != 0
                ? dls_fast_looks_at_strides(wanted, kwnames) && is_strided(hot, answer)
                : !wanted && is_scalar(hot, answer))
        || (idle && !is_as_wanted(self->options, hot, answer))) {
        dls_outcome outcome = dls_outcome_of(hot);
        return dls_export_producer(self, args, 0, kwnames, &outcome);
    }
    if (self->asked != 0) {
        dls_question_use(&self->asked);
    }
    return give_capsule(hot, answer, wanted);
}

DLS_INLINE PyObject *
capsule_of(dls_producer *self, PyObject *const *args, PyObject *kwnames, dls_form form,
           bool answer, bool idle)
{
    dls_hot hot = dls_ask_learned(hot_of(self, form), answer, false);
    return capsule_of_answer(self, args, kwnames, hot, answer, idle);
}

PyObject *
dls_fast_capsule(dls_producer *self, PyObject *const *args, PyObject *kwnames,
                 dls_form form)
{
    return form & DLS_FORM_VERSIONED
               ? capsule_of(self, args, kwnames, form, true, false)
               : capsule_of(self, args, kwnames, form, false, false);
}

PyObject *
dls_fast_capsule_idle(dls_producer *self, PyObject *const *args, PyObject *kwnames,
                      dls_form form)
{
    return form & DLS_FORM_VERSIONED
               ? capsule_of(self, args, kwnames, form, true, true)
               : capsule_of(self, args, kwnames, form, false, true);
}

PyObject *
dls_fast_capsule_given(dls_producer *self, PyObject *const *args, PyObject *kwnames,
                       dls_form form, PyObject *given)
{
    dls_hot hot = hot_of_answer(self, form, given);
    return form & DLS_FORM_VERSIONED
               ? capsule_of_answer(self, args, kwnames, hot, true, false)
               : capsule_of_answer(self, args, kwnames, hot, false, false);
}

/* Is it known which layouts the code that asks takes (N9)? */
static bool
is_asked_by_known(dls_state *state, bool keywords)
{
    dls_layout layout;
    const char *package;
    return dls_library_layout(state, keywords, false, &layout, &package);
}

/* Code that is known to heed no flag (T8), or to take certain layouts alone, is for the
 * full exchange.  answer: known to the compiler. */
DLS_INLINE PyObject *
hidden_capsule_of(dls_hot hot, bool answer, dls_outcome *outcome)
{
    bool wanted = hot.form & DLS_FORM_WANTED;
    hot = dls_ask_learned(hot, answer, false);
    if (!dls_hot_is_plain(hot, answer, wanted, true)
        || (dls_managed_flags(hot.managed, answer) != 0
            && dls_library_asked_by(hot.state, DLS_ASKER_HEEDS_NOT) != NULL)
        || (is_strided(hot, answer) && is_asked_by_known(hot.state, wanted))) {
        *outcome = dls_outcome_of(hot);
        return NULL;
    }
    return give_capsule(hot, answer, wanted);
}

PyObject *
dls_fast_capsule_hidden(dls_state *state, dls_plan *plan, PyObject *source,
                        dls_form form, dls_outcome *outcome)
{
    dls_hot hot = {.state = state, .source = source, .plan = plan, .form = form};
    return form & DLS_FORM_VERSIONED ? hidden_capsule_of(hot, true, outcome)
                                     : hidden_capsule_of(hot, false, outcome);
}

/* A struct over a Tensor's memory, which owns a share of it.  NULL with MemoryError. */
DLS_INLINE void *
struct_of_tensor(dls_tensor *self, bool versioned)
{
    dls_hold *hold;
    void *made = dls_export_plain(&self->tensor, versioned, 0, &hold);
    if (made == NULL) {
        return PyErr_NoMemory();
    }
    dls_shared *shared = dls_tensor_share(self);
    if (shared == NULL) {
        dls_managed_delete(made, versioned);
        return NULL;
    }
    *hold = (dls_hold){.base = shared, .kind = DLS_HOLD_SHARED};
    DLS_COUNT(translated);
    return made;
}

PyObject *
dls_fast_capsule_of_tensor(dls_tensor *self, bool versioned)
{
    void *made = struct_of_tensor(self, versioned);
    if (made == NULL) {
        return NULL;
    }
    PyObject *capsule = dls_capsule_new(made, versioned);
    if (capsule == NULL) {
        dls_managed_delete(made, versioned);
        return NULL;
    }
    if (self->asked != 0) {
        dls_question_use(&self->asked);
    }
    return capsule;
}

/* --- a column ------------------------------------------------------------- */

/* Host memory with elements, in row-major order, and nothing to give back but its
 * array: its reader has checked all else. */
static bool
is_plain_column(const dls_column *column)
{
    const dls_acquired *acquired = &column->acquired;
    const dl_tensor *tensor = &acquired->tensor;
    bool plain = tensor->device.device_type == dl_kDLCPU && tensor->data != NULL
                 && tensor->strides == NULL && acquired->dims == acquired->few_dims
                 && column->array.release != NULL;
    for (int32_t i = 0; plain && i < tensor->ndim; i++) {
        plain = tensor->shape[i] > 0;
    }
    return plain;
}

/* The array lies in the block of the export, behind the dims.  NULL with an exception:
 * the array is released. */
static PyObject *
capsule_of_column(const dls_state *state, const dls_column *column)
{
    const dl_tensor *tensor = &column->acquired.tensor;
    dls_hold hold = {.kind = DLS_HOLD_ARROW_NEAR, .flags = state->import_number};
    arrow_array array = column->array;
    dls_export_block *block = dls_export_block_new(tensor, true, column->acquired.flags,
                                                   sizeof array);
    PyObject *capsule = block != NULL ? dls_capsule_new(&block->managed, true) : NULL;
    if (capsule == NULL) {
        hold.base = &array;
        dls_hold_drop(&hold, DLS_ATTACHED);
        if (block != NULL) {
            dls_managed_delete(&block->managed, true);
        }
        else {
            PyErr_NoMemory();
        }
        return NULL;
    }
    dls_tensor_write_dims(tensor, true, block->dims);
    hold.base = memcpy(block->dims + 2 * tensor->ndim, &array, sizeof array);
    block->hold = hold;
    DLS_COUNT(translated);
    return capsule;
}

/* A column, or an exception for 0 and below, goes on in the full record. */
static PyObject *
column_in_full(dls_producer *self, PyObject *const *args, PyObject *kwnames,
               dls_column *column, int got)
{
    if (got > 0 && column->array.release != NULL) {
        got = dls_read_hold_array(self->state, &column->array, &column->acquired) < 0
                  ? -1
                  : 1;
    }
    dls_outcome outcome = {.kind = got > 0 ? DLS_GOT : DLS_RAISED,
                           .form = dls_form_of(column->protocol, 0),
                           .error = got < 0 ? dls_error_take() : NULL,
                           .column = column};
    PyObject *capsule = dls_export_producer(self, args, 0, kwnames, &outcome);
    dls_acquired_drop(&column->acquired);
    return capsule;
}

PyObject *
dls_fast_column(dls_producer *self, PyObject *const *args, PyObject *kwnames,
                dls_form form)
{
    dls_request request;
    dls_column column;
    PyObject *source = Py_NewRef(self->source); /* as in capsule_of_answer */
    dls_request_init(&request, NULL);
    request.want.versioned = true;
    column.protocol = dls_form_protocol(form);
    int got = dls_read_column(self->state, source, self->plan, &request, &column);
    PyObject *capsule = got > 0 && is_plain_column(&column)
                            ? capsule_of_column(self->state, &column)
                            : column_in_full(self, args, kwnames, &column, got);
    Py_DECREF(source);
    return capsule;
}

/* --- a struct, for our C table -------------------------------------------- */

/* Go on in the full record, with the answer. */
static int
struct_in_full(dls_producer *self, dls_outcome outcome,
               dl_managed_tensor_versioned **out)
{
    *out = dls_export_producer_struct(self, true, &outcome);
    return *out != NULL ? 0 : -1;
}

DLS_INLINE int
struct_of_answer(dls_producer *self, dls_hot hot, bool answer,
                 dl_managed_tensor_versioned **out)
{
    hot.source = self->source; /* as in capsule_of_answer */
    bool plain = answer ? dls_hot_is_plain(hot, true, true, true)
                        : dls_hot_is_plain(hot, false, true, true);
    if (!plain) {
        return struct_in_full(self, dls_outcome_of(hot), out);
    }
    *out = dls_fast_struct_of(hot, answer);
    if (*out == NULL) {
        dls_hot_drop(hot);
        return -1;
    }
    return 0;
}

DLS_APART int
dls_fast_struct(dls_producer *self, dls_form form, dl_managed_tensor_versioned **out)
{
    bool answer = form & DLS_FORM_VERSIONED;
    dls_hot hot = dls_ask_method(hot_of(self, form), answer);
    return struct_of_answer(self, hot, answer, out);
}

DLS_APART int
dls_fast_struct_given(dls_producer *self, dls_form form, PyObject *given,
                      dl_managed_tensor_versioned **out)
{
    dls_hot hot = hot_of_answer(self, form, given);
    return struct_of_answer(self, hot, form & DLS_FORM_VERSIONED, out);
}

/* The consumer that looks at *out after a failure finds nothing to delete. */
static int
struct_after_table(dls_producer *self, dl_managed_tensor_versioned **out)
{
    dls_hot hot = {.form = dls_form_of(DLS_PROTOCOL_TABLE, DLS_FORM_VERSIONED),
                   .managed = *out};
    *out = NULL;
    if (hot.managed != NULL && PyErr_Occurred() != NULL) {
        hot.managed = dls_hot_drop(hot);
    }
    return struct_in_full(self, dls_outcome_of(hot), out);
}

/* Read all members from self again after each call: a value that is kept in a register
 * over a call must be saved at the entrance of this function. */
DLS_APART int
dls_fast_struct_of_table(dls_producer *self, dl_managed_tensor_versioned **out)
{
    *out = dls_ctable_call(self->plan->table, self->source);
    bool plain = *out != NULL && (*out)->version.major == DL_MAJOR
                 && (!dls_plan_has(self->plan, DLS_LIB_LAZY_BITS)
                     || dls_refuse_lazy_bits(self->state, self->plan, self->source,
                                             (*out)->dl_tensor.dtype)
                            == 0)
                 && dls_struct_is_plain(self->state, *out, true, true)
                 && dls_tensor_is_plain(&(*out)->dl_tensor);
    if (!plain) {
        return struct_after_table(self, out);
    }
    DLS_COUNT(handed_on);
    return 0;
}

DLS_APART int
dls_fast_struct_of_tensor(dls_tensor *self, dl_managed_tensor_versioned **out)
{
    *out = struct_of_tensor(self, true);
    return *out != NULL ? 0 : -1;
}

const dl_tensor *
dls_fast_look(dls_producer *self, dls_form form, dls_outcome *outcome)
{
    bool answer = form & DLS_FORM_VERSIONED;
    dls_hot hot = dls_ask_learned(hot_of(self, form), answer, true);
    if (!dls_hot_is_plain(hot, answer, false, false)) {
        *outcome = dls_outcome_of(hot);
        return NULL;
    }
    *outcome = (dls_outcome){.kind = DLS_PLAIN,
                             .form = form,
                             .capsule = hot.capsule,
                             .managed = hot.capsule == NULL ? hot.managed : NULL};
    return dls_managed_tensor(hot.managed, answer);
}

const dl_tensor *
dls_fast_answer(dls_producer *self, dls_form form, dls_outcome *outcome,
                uint64_t *flags)
{
    bool answer = form & DLS_FORM_VERSIONED;
    dls_hot hot = dls_ask_method(hot_of(self, form), answer);
    *outcome = dls_outcome_of(hot);
    if (!dls_hot_is_plain(hot, answer, true, true)) {
        return NULL;
    }
    *flags = dls_managed_flags(hot.managed, answer);
    return dls_managed_tensor(hot.managed, answer);
}

/* --- a Tensor, for from_dlpack -------------------------------------------- */

DLS_INLINE PyObject *
tensor_new(dls_hot hot, bool versioned)
{
    const dl_managed_tensor_versioned *newer = hot.managed;
    const dl_tensor *tensor = dls_managed_tensor(hot.managed, versioned);
    dls_tensor *self = dls_tensor_new_plain(hot.state, tensor);
    if (self == NULL) {
        return NULL;
    }
    dls_tensor_write_plain_dims(tensor, self->dims);
    self->readonly_stated = versioned;
    if (versioned) {
        self->flags = (uint32_t)newer->flags;
    }
    dls_tensor_set_version(self, versioned ? DLS_VERSIONED : DLS_LEGACY,
                           versioned ? newer->version : (dl_version){0, 0});
    if (dls_take(hot, versioned, &self->hold) < 0) {
        Py_DECREF(DLS_OBJECT(self));
        return NULL;
    }
    if (self->hold.py != NULL && hot.plan->can_cycle) {
        PyObject_GC_Track(DLS_OBJECT(self));
    }
    return DLS_OBJECT(self);
}

/* answer: known to the compiler; options: idle ones, or NULL.  The count of the plan is
 * used up here: the code that is called may empty the cache. */
DLS_INLINE PyObject *
tensor_of(dls_hot hot, bool answer, const dls_options *options)
{
    PyObject *tensor;
    hot = dls_ask_learned(hot, answer, false);
    if (!dls_hot_is_plain(hot, answer, true, true)
        || (options != NULL && !is_as_wanted(options, hot, answer))) {
        dls_outcome outcome = dls_outcome_of(hot);
        tensor = dls_export_tensor(hot.state, hot.plan, hot.source, options, &outcome,
                                   -1);
    }
    else {
        tensor = tensor_new(hot, answer);
        if (tensor == NULL) {
            dls_hot_drop(hot);
        }
    }
    dls_plan_drop(hot.plan);
    return tensor;
}

PyObject *
dls_fast_tensor(dls_state *state, dls_plan *plan, PyObject *source, dls_form form)
{
    dls_hot hot = {.state = state, .source = source, .plan = plan, .form = form};
    return form & DLS_FORM_VERSIONED ? tensor_of(hot, true, NULL)
                                     : tensor_of(hot, false, NULL);
}

PyObject *
dls_fast_tensor_idle(dls_state *state, dls_plan *plan, PyObject *source, dls_form form,
                     const dls_options *options)
{
    dls_hot hot = {.state = state, .source = source, .plan = plan, .form = form};
    return form & DLS_FORM_VERSIONED ? tensor_of(hot, true, options)
                                     : tensor_of(hot, false, options);
}

/* --- copy=True: the question and the memory ------------------------------- */

/* A question and its answer.  bytes: of the copy; 0: the answer is not for this path.
 * The struct is filled in place: a copy of it would read fresh writes by wider moves,
 * for which a processor would have to wait. */
typedef struct {
    dls_hot hot;
    const dl_tensor *tensor;
    int64_t bytes;
    int64_t itemsize;
    bool contiguous;
} answer;

/* The flags of the struct leave nothing to decide: the memory is only read here. */
static bool
has_plain_flags(dls_hot hot)
{
    const dl_managed_tensor_versioned *newer = hot.managed;
    return !(hot.form & DLS_FORM_VERSIONED)
           || (newer->version.major == DL_MAJOR
               && (newer->flags & ~(uint64_t)DL_FLAG_READ_ONLY) == 0);
}

/* Look at host memory with any strides.  A tensor that the scan refuses is refused by
 * the full record, in words. */
static void
look_at_answer(answer *got)
{
    const dl_tensor *tensor = got->tensor;
    dls_scan scan;
    dls_error err;
    if (tensor->device.device_type != dl_kDLCPU || tensor->device.device_id != 0
        || tensor->byte_offset != 0 || tensor->dtype.bits < 8
        || dls_dtype_bits(tensor->dtype) % 8 != 0
        || dls_tensor_scan(tensor, &scan, &err) < 0) {
        return;
    }
    got->bytes = scan.count * scan.itemsize;
    got->itemsize = scan.itemsize;
    got->contiguous = scan.contiguous;
}

static void
ask_for_answer(answer *got)
{
    bool versioned = got->hot.form & DLS_FORM_VERSIONED;
    dls_hot hot = dls_ask_learned(got->hot, versioned, false);
    got->hot.capsule = hot.capsule;
    got->hot.managed = hot.managed;
    got->bytes = 0;
    if (hot.managed != NULL && has_plain_flags(hot)) {
        got->tensor = dls_managed_tensor(hot.managed, versioned);
        look_at_answer(got);
    }
}

/* Drop the answer after it was copied, or after an exception of ours, which is kept. */
static void
drop(const answer *got)
{
    if (got->hot.capsule != NULL) {
        dls_drop_foreign(got->hot.capsule);
    }
    else {
        dls_hold hold = {.base = got->hot.managed, .kind = DLS_HOLD_VERSIONED};
        dls_hold_drop(&hold, DLS_ATTACHED);
    }
}

/* Only this call holds the answer, so other threads may run meanwhile. */
static int
fill_answer(void *start, const answer *got)
{
    int code = DLS_OK;
    PyThreadState *away = got->bytes >= DLS_COPY_WITHOUT_GIL ? PyEval_SaveThread()
                                                             : NULL;
    if (got->contiguous) {
        memcpy(start, got->tensor->data, (size_t)got->bytes);
    }
    else {
        code = dls_host_copy(start, got->tensor, got->itemsize);
    }
    if (away != NULL) {
        PyEval_RestoreThread(away);
    }
    return code;
}

/* A copy of the memory, from the result on, which *hold gets.  NULL: MemoryError. */
static void *
copy_memory(const answer *got, dls_hold *hold)
{
    void *start, *block = dls_alloc_aligned(got->bytes, DLS_ALIGNMENT, &start);
    if (block == NULL || fill_answer(start, got) != DLS_OK) {
        dls_free(block);
        return PyErr_NoMemory();
    }
    hold->base = block;
    hold->kind = DLS_HOLD_BLOCK;
    DLS_COUNT(copied);
    return start;
}

/* --- copy=True: a Tensor -------------------------------------------------- */

static PyObject *
tensor_of_copy(const answer *got)
{
    bool versioned = got->hot.form & DLS_FORM_VERSIONED;
    const dl_managed_tensor_versioned *newer = got->hot.managed;
    dls_hold hold = {0};
    void *start = copy_memory(got, &hold);
    if (start == NULL) {
        return NULL;
    }
    dls_tensor *self = dls_tensor_new_plain(got->hot.state, got->tensor);
    if (self == NULL) {
        dls_free(hold.base);
        return NULL;
    }
    self->tensor.data = start;
    dls_tensor_write_dims(got->tensor, true, self->dims);
    self->readonly_stated = versioned;
    self->flags = DL_FLAG_IS_COPIED;
    dls_tensor_set_version(self, versioned ? DLS_VERSIONED : DLS_LEGACY,
                           versioned ? newer->version : (dl_version){0, 0});
    dls_tensor_set_hold(DLS_OBJECT(self), &hold);
    return DLS_OBJECT(self);
}

PyObject *
dls_fast_tensor_copy(dls_state *state, dls_plan *plan, PyObject *source, dls_form form)
{
    PyObject *tensor;
    answer got;
    got.hot = (dls_hot){.state = state, .source = source, .plan = plan, .form = form};
    ask_for_answer(&got);
    if (got.bytes != 0) {
        tensor = tensor_of_copy(&got);
        drop(&got);
    }
    else {
        dls_outcome outcome = dls_outcome_of(got.hot);
        tensor = dls_export_tensor(state, plan, source, NULL, &outcome, 1);
    }
    dls_plan_drop(plan);
    return tensor;
}

/* --- copy=True: a capsule ------------------------------------------------- */

/* The copy is shared with the Producer, as in the full record (T8).  Steals *hold. */
static PyObject *
capsule_around(dls_producer *self, const dls_delivery *what, dls_hold *hold)
{
    bool versioned = what->versioned;
    dls_shared *shared = dls_shared_new(hold);
    if (shared == NULL) {
        dls_free(hold->base);
        return PyErr_NoMemory();
    }
    void *made = dls_export_new(what);
    PyObject *capsule = made != NULL ? dls_capsule_new(made, versioned)
                                     : PyErr_NoMemory();
    if (capsule == NULL) {
        if (made != NULL) {
            dls_managed_delete(made, versioned);
        }
        dls_shared_drop(shared, DLS_ATTACHED);
        return NULL;
    }
    *dls_export_own_hold(made, versioned) = (dls_hold){.base = shared,
                                                       .kind = DLS_HOLD_SHARED};
    dls_producer_keep_share(self, dls_shared_add(shared));
    DLS_COUNT(translated);
    return capsule;
}

PyObject *
dls_fast_capsule_copy(dls_producer *self, PyObject *const *args, PyObject *kwnames,
                      dls_form form)
{
    answer got;
    got.hot = (dls_hot){
        .state = self->state, .source = self->source, .plan = self->plan, .form = form};
    ask_for_answer(&got);
    got.hot.source = self->source; /* the collector may have cleared the Producer */
    if (got.bytes == 0) {
        dls_outcome outcome = dls_outcome_of(got.hot);
        return dls_export_producer(self, args, 0, kwnames, &outcome);
    }
    dls_hold hold = {0};
    PyObject *capsule = NULL;
    void *start = copy_memory(&got, &hold);
    if (start != NULL) {
        dls_delivery what = {.tensor = *got.tensor,
                             .flags = DL_FLAG_IS_COPIED,
                             .versioned = form & DLS_FORM_WANTED,
                             .canonical = true};
        what.tensor.data = start;
        capsule = capsule_around(self, &what, &hold);
    }
    if (capsule != NULL && self->asked != 0) {
        dls_question_use(&self->asked);
    }
    drop(&got);
    return capsule;
}
