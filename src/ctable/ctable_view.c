/* The borrowed view of a Producer.  It is the source's own, or an export that was kept
 * and is still true, or else a full exchange is made and its struct is kept (T13).  The
 * first two are hot.  Tests: tests/core/test_ctable.py. */
#include "ctable/ctable_out.h"

#include <assert.h>

#include "acquire/attempt.h"
#include "core/tensor.h"
#include "exchange/objects.h"
#include "export/export.h"
#include "export/fast_path.h"
#include "python/errors.h"

/* Will the source always describe the same memory as this export of it?  Yes for
 * Tensors, for immutable objects, and for a source whose own buffer the export holds:
 * not for one that has a buffer made. */
static inline bool
stays_valid(const dls_producer *self, bool lasting, dl_managed_tensor *managed)
{
    const dls_hold *hold = lasting ? NULL : dls_export_own_hold(managed, false);
    return lasting
           || (hold != NULL && hold->kind == DLS_HOLD_BUFFER
               && ((const dls_buffer *)hold->base)->obj == self->source);
}

/* *out: the newest kept export, if it is of host memory, was made without options, and
 * stays valid.  It serves all threads: while there is one, no other is added.  lasting:
 * every export of this source stays valid. */
static inline bool
find_lasting_view(dls_producer *self, bool lasting, dl_tensor *out)
{
    bool found = false;
    if (self->borrowed == NULL || self->options != NULL) {
        return false;
    }
    DLS_LOCK(self);
    dl_managed_tensor *newest = self->borrowed->managed;
    if (newest->dl_tensor.device.device_type == dl_kDLCPU
        && stays_valid(self, lasting, newest)) {
        *out = newest->dl_tensor;
        found = true;
    }
    DLS_UNLOCK();
    return found;
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

/* Ask the source on the fast path.  True: *out is the kept view that says the same;
 * false: *outcome is for the full exchange. */
static bool
find_equal_view(dls_producer *self, dls_form form, dls_outcome *outcome, dl_tensor *out)
{
    const dl_tensor *now = dls_fast_look(self, form, outcome);
    bool found = now != NULL && dls_borrowed_find(self, now, out);
    if (found) {
        drop_equal(outcome);
    }
    return found;
}

/* The view is not the source's own. */
static int
borrow_kept(dls_producer *self, dls_form form, dl_tensor *out)
{
    dls_outcome outcome;
    if (find_lasting_view(self, dls_plan_has(self->plan, DLS_LIB_IMMUTABLE), out)
        || ((form & DLS_FORM_FAST) && find_equal_view(self, form, &outcome, out))) {
        return 0;
    }
    dl_managed_tensor *managed = dls_export_producer_struct(
        self, false, form & DLS_FORM_FAST ? &outcome : NULL);
    return managed != NULL ? dls_borrowed_keep(self, managed, out) : -1;
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
    if (dls_plan_is_tensor(self->plan) && find_lasting_view(self, true, out)) {
        return 0;
    }
    /* The first view is by a full exchange, which finds out whether a writable view may
     * be given (T8). */
    bool again = self->borrowed != NULL && dls_fast_is_bare(self);
    dls_form form = again ? dls_fast_form(self, false) : 0;
    if ((form & DLS_FORM_FAST) && dls_form_protocol(form) == DLS_PROTOCOL_TABLE
        && self->plan->table->dltensor_from_py_object_no_sync != NULL) {
        return borrow_from_table(self, out);
    }
    return borrow_kept(self, form, out);
}
