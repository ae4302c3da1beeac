/* The fast path of copy=True.  Allocates the copies.  Called by module/functions and
 * module/producer.  Tests: tests/core/test_readonly_and_copies.py,
 * tests/core/test_fast_path.py. */
#include "export/fast_copy.h"

#include <string.h>

#include "acquire/learned.h"
#include "core/alloc.h"
#include "core/copy.h"
#include "core/counters.h"
#include "core/dtype.h"
#include "exchange/tensor_object.h"
#include "export/export.h"

/* In bytes.  From here on the full record lets other threads run meanwhile. */
#define SMALL 65536

/* What was asked, and what came.  bytes: of the copy; 0: it is not for this path. */
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
        || dls_tensor_scan(tensor, &scan, &err) < 0
        || scan.count * scan.itemsize >= SMALL) {
        return;
    }
    got->bytes = scan.count * scan.itemsize;
    got->itemsize = scan.itemsize;
    got->contiguous = scan.contiguous;
}

static answer
ask(dls_hot hot)
{
    bool versioned = hot.form & DLS_FAST_VERSIONED;
    answer got = {.hot = dls_ask_learned(hot, versioned, false)};
    if (got.hot.managed != NULL && has_plain_flags(got.hot)) {
        got.tensor = dls_managed_tensor(got.hot.managed, versioned);
        look(&got);
    }
    return got;
}

/* The same tensor over a copy of its memory, which *hold gets; its strides are to be
 * row-major.  0, or -1 with MemoryError. */
static int
copy_memory(const answer *got, dl_tensor *copy, dls_hold *hold)
{
    void *start, *block = dls_alloc_aligned(got->bytes, DLS_ALIGNMENT, &start);
    int code = block != NULL ? DLS_OK : DLS_ENOMEM;
    if (code == DLS_OK && got->contiguous) {
        memcpy(start, got->tensor->data, (size_t)got->bytes);
    }
    else if (code == DLS_OK) {
        code = dls_host_copy(start, got->tensor, got->itemsize);
    }
    if (code != DLS_OK) {
        dls_free(block);
        PyErr_NoMemory();
        return -1;
    }
    *copy = *got->tensor;
    copy->data = start;
    *hold = (dls_hold){.base = block, .kind = DLS_HOLD_BLOCK};
    DLS_COUNT(copied);
    return 0;
}

/* --- a Tensor ------------------------------------------------------------- */

static PyObject *
tensor_of_copy(const answer *got)
{
    dls_hot hot = got->hot;
    bool versioned = hot.form & DLS_FAST_VERSIONED;
    const dl_managed_tensor_versioned *newer = hot.managed;
    dl_tensor copy;
    dls_hold hold;
    if (copy_memory(got, &copy, &hold) < 0) {
        return dls_hot_drop(hot);
    }
    dls_tensor *self = dls_tensor_new_plain(hot.state, &copy);
    if (self == NULL) {
        dls_free(hold.base);
        return dls_hot_drop(hot);
    }
    dls_tensor_write_dims(&copy, true, self->dims);
    self->readonly_stated = versioned;
    self->flags = DL_FLAG_IS_COPIED;
    dls_tensor_set_version(self, versioned ? DLS_VERSIONED : DLS_LEGACY,
                           versioned ? newer->version : (dl_version){0, 0});
    dls_tensor_set_hold((PyObject *)self, &hold);
    dls_hot_drop(hot);
    return (PyObject *)self;
}

PyObject *
dls_fast_tensor_copy(dls_state *state, dls_plan *plan, PyObject *source, unsigned form)
{
    PyObject *tensor;
    answer got = ask(
        (dls_hot){.state = state, .source = source, .plan = plan, .form = form});
    if (got.bytes != 0) {
        tensor = tensor_of_copy(&got);
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
    answer got = ask((dls_hot){.state = self->state,
                               .source = self->source,
                               .plan = self->plan,
                               .form = form});
    got.hot.source = self->source; /* the collector may have cleared the Producer */
    if (got.bytes == 0) {
        dls_outcome outcome = dls_outcome_of(got.hot);
        return dls_export_producer(self, args, 0, kwnames, &outcome);
    }
    dls_delivery what = {.flags = DL_FLAG_IS_COPIED,
                         .versioned = form & DLS_FAST_WANTED,
                         .canonical = true};
    dls_hold hold;
    PyObject *capsule = NULL;
    if (copy_memory(&got, &what.tensor, &hold) == 0) {
        capsule = capsule_around(self, &what, &hold);
    }
    if (capsule != NULL && self->asked != 0) {
        dls_question_use(&self->asked);
    }
    dls_hot_drop(got.hot);
    return capsule;
}
