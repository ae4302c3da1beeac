/* The fast path: an exchange that leaves nothing to decide, in one body.
 *
 * The producer is asked in the form that has worked for its type.  If it answers with
 * host memory that could not be described better (dls_tensor_is_plain), that is handed
 * on, translated or taken at once.  Everything else leaves the fast path with the
 * outcome in the full record (export/export.h), so that no producer is asked twice.
 * Both give the same. GIL held. */
#pragma once

#include "acquire/from_capsule.h"
#include "acquire/learned.h"
#include "core/tensor.h"
#include "exchange/objects.h"
#include "request/options.h"
#include "types/offers.h"

/* Does this Producer have nothing of its own that an export has to look at? */
static inline bool
dls_fast_is_bare(const dls_producer *self)
{
    return ((uintptr_t)self->options | (uintptr_t)self->kept) == 0;
}

/* The form for the source of this Producer, whose type may have changed
 * (dls_fast_form_of). */
static inline dls_form
dls_fast_form(const dls_producer *self, bool wanted)
{
    return Py_TYPE(self->source) == self->plan->type
               ? dls_fast_form_of(self->plan, wanted)
               : 0;
}

/* The form for an object, also of a type that was seen off the host, if the object
 * shows by an attribute that it lies on the host (N5).  1 = *form is FAST, 0, or -1
 * with the exception of the attribute. */
static inline int
dls_fast_form_shown(const dls_plan *plan, PyObject *source, bool wanted, dls_form *form)
{
    *form = Py_TYPE(source) == plan->type ? dls_fast_form_of(plan, wanted) : 0;
    if ((*form & (DLS_FORM_FAST | DLS_FORM_FAST_ON_HOST)) != DLS_FORM_FAST_ON_HOST) {
        return (*form & DLS_FORM_FAST) != 0;
    }
    int host = dls_host_is_known(plan, source);
    *form |= host > 0 ? DLS_FORM_FAST : 0;
    return host;
}

/* May a consumer that asked for the device, and now asks so, be known not to take
 * strided memory (shim/habits.py)?  torch, which passes max_version alone, is not. */
static inline bool
dls_fast_looks_at_strides(bool wanted, PyObject *kwnames)
{
    return !wanted || PyTuple_Size(kwnames) > 1;
}

/* Has it options which change nothing where the memory is as they want it? */
static inline bool
dls_fast_is_idle(const dls_producer *self)
{
    return self->options != NULL && self->options->idle && self->kept == NULL;
}

/* __dlpack__ of a bare Producer, asked without positional arguments in a usual way
 * (dls_request_read_usual). */
PyObject *dls_fast_capsule(dls_producer *self, PyObject *const *args, PyObject *kwnames,
                           dls_form form);
/* As dls_fast_capsule, of a Producer with idle options. */
PyObject *dls_fast_capsule_idle(dls_producer *self, PyObject *const *args,
                                PyObject *kwnames, dls_form form);

/* to_capsule without options: nobody knows who will take the capsule.  NULL with an
 * exception; or it needs a decision, and *outcome, which was DLS_NOT_LEARNED, is for
 * the full exchange. */
PyObject *dls_fast_capsule_hidden(dls_state *state, dls_plan *plan, PyObject *source,
                                  dls_form form, dls_outcome *outcome);

/* The form in which the columns of this source's type were read; 0: they must be
 * read in full.  A consumer that asked for the device first may be one that does not
 * heed READ_ONLY, and all columns are read-only (T8). */
static inline dls_form
dls_fast_column_form(const dls_producer *self)
{
    const dls_plan *plan = self->plan;
    const dls_learned learned = dls_plan_learned(plan);
    const dls_form form = learned.forms[true];
    bool open = (form & DLS_FORM_KNOWN)
                && dls_protocol_is_arrow(dls_form_protocol(form)) && learned.met
                && !learned.off_host && self->asked == 0 && !plan->is_decorated
                && Py_TYPE(self->source) == plan->type
                && !dls_plan_has(plan, DLS_LIB_ASKED_FIRST | DLS_LIB_BUFFER_FIRST)
                && dls_fast_is_open();
    return open ? form : 0;
}

/* __dlpack__ of a bare Producer of a column, asked in the usual way for a versioned
 * capsule: it is read in that form, and goes out without a record if nothing is left to
 * decide. */
PyObject *dls_fast_column(dls_producer *self, PyObject *const *args, PyObject *kwnames,
                          dls_form form);

/* from_dlpack without keywords, of an object whose type has this plan (a count,
 * stolen).
 */
DLS_EXTERN PyObject *dls_fast_tensor(dls_state *state, dls_plan *plan, PyObject *source,
                                     dls_form form);
/* As dls_fast_tensor, with idle options (borrowed), whose word of readonly= says
 * nothing of such memory. */
PyObject *dls_fast_tensor_idle(dls_state *state, dls_plan *plan, PyObject *source,
                               dls_form form, const dls_options *options);

/* Is it a Tensor that can be exported as it stands: plain host memory without flags? */
static inline bool
dls_fast_is_simple(const dls_tensor *self)
{
    return self->flags == 0 && self->ready == NULL && dls_tensor_is_plain(&self->tensor)
           && dls_fast_is_open();
}

/* __dlpack__ of such a Tensor, asked in a usual way. */
PyObject *dls_fast_capsule_of_tensor(dls_tensor *self, bool versioned);

/* For the consumer of our C table: an owned struct of a bare Producer.  0 = *out, or -1
 * with an exception.  The first asks the source's own C table, and hands its struct
 * on. */
int dls_fast_struct_of_table(dls_producer *self, dl_managed_tensor_versioned **out);
int dls_fast_struct(dls_producer *self, dls_form form,
                    dl_managed_tensor_versioned **out);
/* As dls_fast_struct, of a simple Tensor. */
int dls_fast_struct_of_tensor(dls_tensor *self, dl_managed_tensor_versioned **out);

/* For the borrower of a view, which is told no flags: the current tensor of a bare
 * Producer's source, owned by *outcome.  NULL: it needs a decision, with *outcome. */
const dl_tensor *dls_fast_look(dls_producer *self, dls_form form, dls_outcome *outcome);

/* --- an answer that is looked at before the consumer asks (K12) ------------ */

/* Is the answer in this form a capsule, which a Producer may keep? */
static inline bool
dls_fast_gives_capsule(dls_form form)
{
    return (form & DLS_FORM_FAST) && dls_form_protocol(form) == DLS_PROTOCOL_DLPACK;
}

/* Ask the source of a bare Producer in such a form.  The plain answer, whose capsule
 * *outcome owns; NULL: it needs a decision, with *outcome. */
const dl_tensor *dls_fast_answer(dls_producer *self, dls_form form,
                                 dls_outcome *outcome, uint64_t *flags);

/* As dls_fast_capsule and dls_fast_struct, of that capsule (stolen). */
PyObject *dls_fast_capsule_given(dls_producer *self, PyObject *const *args,
                                 PyObject *kwnames, dls_form form, PyObject *given);
int dls_fast_struct_given(dls_producer *self, dls_form form, PyObject *given,
                          dl_managed_tensor_versioned **out);

/* The struct of a plain answer in a capsule, for callers that want no capsule: owned by
 * the caller.  NULL with an exception, and hot is still to be dropped. */
DLS_INLINE dl_managed_tensor_versioned *
dls_fast_struct_of(dls_hot hot, bool answer)
{
    if (answer && dls_tensor_has_strides(dls_managed_tensor(hot.managed, true))) {
        if (dls_capsule_take(hot.capsule, true) < 0) {
            return NULL;
        }
        DLS_COUNT(handed_on);
        Py_DECREF(hot.capsule);
        dls_error_report();
        return hot.managed;
    }
    dls_hold *hold;
    void *made = dls_export_plain(dls_managed_tensor(hot.managed, answer), true,
                                  dls_managed_flags(hot.managed, answer), &hold);
    if (made == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (dls_take(hot, answer, hold) < 0) {
        dls_managed_delete(made, true);
        return NULL;
    }
    DLS_COUNT(translated);
    return made;
}

/* --- copy=True ------------------------------------------------------------ */
/* Host memory that leaves nothing to decide is copied in one body; other threads run
 * during a large copy. */

/* from_dlpack(source, copy=True).  A count of the plan is stolen. */
DLS_EXTERN PyObject *dls_fast_tensor_copy(dls_state *state, dls_plan *plan,
                                          PyObject *source, dls_form form);

/* __dlpack__ of a Producer without options, asked for a copy and a generation alone.
 */
PyObject *dls_fast_capsule_copy(dls_producer *self, PyObject *const *args,
                                PyObject *kwnames, dls_form form);
