#include "exchange/borrowed_list.h"

#include <string.h>

#include "acquire/learned.h"
#include "core/alloc.h"
#include "core/tensor.h"
#include "export/fast_path.h"
#include "python/errors.h"
#include "sync/work_stream.h"

/* An equal export is looked for among so many: a source that never gives the same twice
 * must not cost more each time. */
#define LOOK_BACK 8

/* --- the list
 * -------------------------------------------------------------------------- */

static void
delete(dl_managed_tensor *managed)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    dls_managed_delete_attached(managed, false);
    dls_error_report();
    PyErr_Restore(type, value, trace);
}

void
dls_borrowed_drop(dls_borrowed *list)
{
    while (list != NULL) {
        dls_borrowed *next = list->next;
        delete(list->managed);
        dls_free(list);
        list = next;
    }
}

int
dls_borrowed_visit(const dls_borrowed *list, visitproc visit, void *arg)
{
    int stop = 0;
    for (; list != NULL && stop == 0; list = list->next) {
        const dls_hold *hold = dls_export_own_hold(list->managed, false);
        stop = hold != NULL ? dls_hold_visit(hold, visit, arg) : 0;
    }
    return stop;
}

static bool
same_dims(const int64_t *a, const int64_t *b, int32_t ndim)
{
    return a == b
           || (a != NULL && b != NULL && memcmp(a, b, sizeof *a * (size_t)ndim) == 0);
}

static bool
same_tensor(const dl_tensor *a, const dl_tensor *b)
{
    return a->data == b->data && a->byte_offset == b->byte_offset && a->ndim == b->ndim
           && a->device.device_type == b->device.device_type
           && a->device.device_id == b->device.device_id
           && a->dtype.code == b->dtype.code && a->dtype.bits == b->dtype.bits
           && a->dtype.lanes == b->dtype.lanes && same_dims(a->shape, b->shape, a->ndim)
           && same_dims(a->strides, b->strides, a->ndim);
}

/* What is kept already and equal, or NULL. */
static const dl_tensor *
find(const dls_producer *self, const dl_tensor *tensor)
{
    const dls_borrowed *kept = self->borrowed;
    for (int i = 0; kept != NULL && i < LOOK_BACK; i++, kept = kept->next) {
        if (same_tensor(&kept->managed->dl_tensor, tensor)) {
            return &kept->managed->dl_tensor;
        }
    }
    return NULL;
}

/* Keep a new export (stolen), or the equal one that is kept already.  NULL with
 * MemoryError. */
static const dl_tensor *
keep(dls_producer *self, dl_managed_tensor *managed)
{
    const dl_tensor *equal = find(self, &managed->dl_tensor);
    if (equal != NULL) {
        delete(managed);
        return equal;
    }
    dls_borrowed *kept = dls_alloc(sizeof *kept);
    if (kept == NULL) {
        delete(managed);
        PyErr_NoMemory();
        return NULL;
    }
    *kept = (dls_borrowed){.next = self->borrowed, .managed = managed};
    self->borrowed = kept;
    return &managed->dl_tensor;
}

/* --- borrowing
 * ---------------------------------------------------------------------------- */

/* Is there an export of host memory that may be looked at again, if it cannot have
 * changed? */
static inline bool
is_kept(const dls_producer *self)
{
    return self->borrowed != NULL && self->options == NULL
           && self->borrowed->managed->dl_tensor.device.device_type == dl_kDLCPU;
}

/* Memory that can never lie elsewhere, nor hold other values than the kept export
 * shows, of a source that has a plan (a tensor that was taken has none): immutable
 * objects, and buffers that are held. */
static bool
is_settled(const dls_producer *self)
{
    if (dls_plan_has(self->plan, DLS_LIB_IMMUTABLE)) {
        return true;
    }
    /* What this export holds, not what the type has learned since. */
    const dls_hold *hold = dls_export_own_hold(self->borrowed->managed, false);
    return hold != NULL && hold->kind == DLS_HOLD_BUFFER;
}

static inline void
drop_equal(dls_answer *answer)
{
    if (answer->capsule != NULL) {
        Py_DECREF(answer->capsule);
    }
    else {
        dls_managed_delete(answer->managed, true);
    }
    dls_error_report();
}

/* Does the source, asked on the express road, say what was lent before?  If not,
 * *answer is for the careful road. */
static const dl_tensor *
lend_again(dls_producer *self, unsigned road, dls_answer *answer)
{
    const dl_tensor *now = dls_express_look(self, road, answer);
    const dl_tensor *equal = now != NULL ? find(self, now) : NULL;
    if (equal != NULL) {
        drop_equal(answer);
    }
    return equal;
}

DLS_APART static int
borrow_anew(dls_producer *self, dls_answer *answer, dl_tensor *out)
{
    dl_managed_tensor *managed = dls_export_for_table((PyObject *)self, false, answer);
    const dl_tensor *kept = managed != NULL ? keep(self, managed) : NULL;
    if (kept == NULL) {
        return -1;
    }
    *out = *kept;
    return 0;
}

/* Not through a table. */
DLS_APART static int
borrow_again(dls_producer *self, unsigned road, dl_tensor *out)
{
    dls_answer answer;
    if (self->plan != NULL && is_kept(self) && is_settled(self)) {
        *out = self->borrowed->managed->dl_tensor;
        return 0;
    }
    const dl_tensor *equal = road != 0 ? lend_again(self, road, &answer) : NULL;
    if (equal != NULL) {
        *out = *equal;
        return 0;
    }
    return borrow_anew(self, road != 0 ? &answer : NULL, out);
}

/* What the table lent is not fit, or it failed, and the long way says why. */
DLS_COLD static int
borrow_after_table(dls_producer *self, int code, dl_tensor *out)
{
    if (code == 0) {
        dls_error_report();
    }
    else if (dls_error_forget() < 0) {
        return -1;
    }
    return borrow_again(self, dls_express_road(self->plan, self->source, false), out);
}

/* Straight from the source's own table, once an export of it was seen to be writable:
 * what it lends is the source's and lives as long.  All is read from self again after
 * each call (dls_express_through). */
static inline int
borrow_through(dls_producer *self, dl_tensor *out)
{
    int code = self->plan->table->dltensor_from_py_object_no_sync(self->source, out);
    if (DLS_RARE(code != 0)) {
        return borrow_after_table(self, code, out);
    }
    if (dls_plan_has(self->plan, DLS_LIB_LAZY_BITS)
        && dls_refuse_lazy_bits(self->state, self->plan, self->source, out->dtype)
               < 0) {
        return -1;
    }
    return dls_tensor_is_plain(out) ? 0 : borrow_after_table(self, 0, out);
}

DLS_FLAT int
dls_producer_borrow(dls_producer *self, dl_tensor *out)
{
    const dls_plan *plan = self->plan;
    if (plan == NULL && is_kept(self)) {
        *out = self->borrowed->managed->dl_tensor;
        return 0;
    }
    bool simple = self->borrowed != NULL && dls_express_bare(self);
    unsigned road = simple ? dls_express_road(plan, self->source, false) : 0;
    if ((road & DLS_EXPRESS_TABLE)
        && plan->table->dltensor_from_py_object_no_sync != NULL) {
        return borrow_through(self, out);
    }
    return borrow_again(self, road, out);
}
