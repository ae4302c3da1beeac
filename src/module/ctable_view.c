/* The borrowed view of a Producer.  It is the source's own, or an export that was kept
 * and is still true, or else a full exchange is made and its struct is kept.  The first
 * two are hot.  Tests: tests/core/test_ctable.py. */
#include "module/ctable_out.h"

#include <assert.h>

#include "acquire/attempt.h"
#include "core/tensor.h"
#include "exchange/objects.h"
#include "export/export.h"
#include "export/fast_path.h"
#include "python/errors.h"

/* Is an export of host memory kept, which was made without options? */
static inline bool
has_host_view(const dls_producer *self)
{
    return self->borrowed != NULL && self->options == NULL
           && self->borrowed->managed->dl_tensor.device.device_type == dl_kDLCPU;
}

/* Will the source always describe the same memory as the kept export does?  Yes for
 * Tensors, for immutable objects, and for buffers that this export holds. */
static bool
stays_valid(const dls_producer *self)
{
    if (dls_plan_is_tensor(self->plan) || dls_plan_has(self->plan, DLS_LIB_IMMUTABLE)) {
        return true;
    }
    const dls_hold *hold = dls_export_own_hold(self->borrowed->managed, false);
    return hold != NULL && hold->kind == DLS_HOLD_BUFFER;
}

/* Give the new export back: an equal one is kept already. */
static inline void
drop_equal(dls_outcome *outcome)
{
    if (outcome->capsule != NULL) {
        Py_DECREF(outcome->capsule);
    }
    else {
        dls_managed_delete(outcome->managed, true);
    }
    dls_error_report();
}

/* Ask the source on the fast path.  The kept view that says the same, or NULL: then
 * *outcome is for the full exchange. */
static const dl_tensor *
find_equal_view(dls_producer *self, unsigned form, dls_outcome *outcome)
{
    const dl_tensor *now = dls_fast_look(self, form, outcome);
    if (now == NULL) {
        return NULL;
    }
    const dl_tensor *equal = dls_borrowed_find(self->borrowed, now);
    if (equal != NULL) {
        drop_equal(outcome);
    }
    return equal;
}

/* A full exchange, whose struct is kept. */
static int
make_view(dls_producer *self, dls_outcome *outcome, dl_tensor *out)
{
    const dl_tensor *kept = NULL;
    dl_managed_tensor *managed = dls_export_producer_struct(self, false, outcome);
    if (managed != NULL) {
        kept = dls_borrowed_keep(&self->borrowed, managed);
    }
    if (kept == NULL) {
        return -1;
    }
    *out = *kept;
    return 0;
}

/* The view is not the source's own. */
static int
borrow_kept(dls_producer *self, unsigned form, dl_tensor *out)
{
    dls_outcome outcome;
    if (has_host_view(self) && stays_valid(self)) {
        *out = self->borrowed->managed->dl_tensor;
        return 0;
    }
    const dl_tensor *equal = form != 0 ? find_equal_view(self, form, &outcome) : NULL;
    if (equal != NULL) {
        *out = *equal;
        return 0;
    }
    return make_view(self, form != 0 ? &outcome : NULL, out);
}

/* The source's C table failed (code is not 0), or its tensor needs a decision.  Ask
 * again: the full exchange decides, or says why not. */
static int
borrow_after_table(dls_producer *self, int code, dl_tensor *out)
{
    if (code == 0) {
        dls_error_report();
    }
    else if (dls_error_forget() < 0) {
        return -1;
    }
    return borrow_kept(self, dls_fast_form(self, false), out);
}

/* The view that the source's own C table gives, which lives as long as the source.
 * Members of self are read anew after each call: to keep them in registers over a call,
 * the function would have to save registers at its entrance. */
static inline int
borrow_from_table(dls_producer *self, dl_tensor *out)
{
    assert(self->plan->table != NULL);
    int code = self->plan->table->dltensor_from_py_object_no_sync(self->source, out);
    if (code != 0) {
        return borrow_after_table(self, code, out);
    }
    if (dls_plan_has(self->plan, DLS_LIB_LAZY_BITS)
        && dls_refuse_lazy_bits(self->state, self->plan, self->source, out->dtype)
               < 0) {
        return -1;
    }
    return dls_tensor_is_plain(out) ? 0 : borrow_after_table(self, 0, out);
}

int
dls_ctable_view(dls_producer *self, dl_tensor *out)
{
    if (dls_plan_is_tensor(self->plan) && has_host_view(self)) {
        *out = self->borrowed->managed->dl_tensor;
        return 0;
    }
    /* The first view is by a full exchange, which finds out whether a writable view may
     * be given (T8). */
    bool again = self->borrowed != NULL && dls_fast_is_bare(self);
    unsigned form = again ? dls_fast_form(self, false) : 0;
    if ((form & DLS_FAST_TABLE)
        && self->plan->table->dltensor_from_py_object_no_sync != NULL) {
        return borrow_from_table(self, out);
    }
    return borrow_kept(self, form, out);
}
