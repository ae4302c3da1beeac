/* The fast path of copy=True.  Allocates the copies.  Called by module/functions and
 * module/producer.  Tests: tests/core/test_readonly_and_copies.py,
 * tests/core/test_fast_path.py. */
#include "export/fast_copy.h"

#include <string.h>

#include "acquire/learned.h"
#include "core/alloc.h"
#include "core/copy.h"
#include "core/dtype.h"
#include "exchange/tensor_object.h"
#include "export/export.h"
#include "export/resolve_copy.h"

/* What was asked, and what came.  bytes: of the copy; 0: it is not for this path.  It
 * is filled in place: what was just written is not read again by wider moves, for which
 * a processor would have to wait. */
typedef struct {
    dls_hot hot;
    const dl_tensor *tensor;
    int64_t bytes;
    int64_t itemsize;
    bool contiguous;
} answer;

/* Its flags leave nothing to decide: the memory is only read here. */
static bool
has_plain_flags(dls_hot hot)
{
    const dl_managed_tensor_versioned *newer = hot.managed;
    return !(hot.form & DLS_FAST_VERSIONED)
           || (newer->version.major == DL_MAJOR
               && (newer->flags & ~(uint64_t)DL_FLAG_READ_ONLY) == 0);
}

/* Look at host memory with any strides.  What the scan refuses is refused by the full
 * record, in words. */
static void
look(answer *got)
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
ask(answer *got)
{
    bool versioned = got->hot.form & DLS_FAST_VERSIONED;
    dls_hot hot = dls_ask_learned(got->hot, versioned, false);
    got->hot.capsule = hot.capsule;
    got->hot.managed = hot.managed;
    got->bytes = 0;
    if (hot.managed != NULL && has_plain_flags(hot)) {
        got->tensor = dls_managed_tensor(hot.managed, versioned);
        look(got);
    }
}

/* What came was copied, or there is an exception of ours, which is kept. */
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

/* Nobody else holds what came, so other threads may run meanwhile. */
static int
fill(void *start, const answer *got)
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
    if (block == NULL || fill(start, got) != DLS_OK) {
        dls_free(block);
        return PyErr_NoMemory();
    }
    hold->base = block;
    hold->kind = DLS_HOLD_BLOCK;
    DLS_COUNT(copied);
    return start;
}

/* --- a Tensor ------------------------------------------------------------- */

static PyObject *
tensor_of_copy(const answer *got)
{
    bool versioned = got->hot.form & DLS_FAST_VERSIONED;
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
dls_fast_tensor_copy(dls_state *state, dls_plan *plan, PyObject *source, unsigned form)
{
    PyObject *tensor;
    answer got;
    got.hot = (dls_hot){.state = state, .source = source, .plan = plan, .form = form};
    ask(&got);
    if (got.bytes != 0) {
        tensor = tensor_of_copy(&got);
        drop(&got);
    }
    else {
        dls_outcome outcome = dls_outcome_of(got.hot);
        tensor = dls_export_tensor(state, plan, source, &outcome, 1);
    }
    dls_plan_drop(plan);
    return tensor;
}

/* --- a capsule ------------------------------------------------------------ */

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
                      unsigned form)
{
    answer got;
    got.hot = (dls_hot){
        .state = self->state, .source = self->source, .plan = self->plan, .form = form};
    ask(&got);
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
                             .versioned = form & DLS_FAST_WANTED,
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
