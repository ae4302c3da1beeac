/* The express road: an exchange that leaves nothing to decide (design section 9).
 *
 * A source is asked in the way that has worked for its type; if it answers with host
 * memory that could not be described better (dls_tensor_is_plain), that is handed on,
 * translated or taken in one body.  All else goes the careful road (module/serve), with
 * the answer in its request, so that nobody is called twice.  Both give the same;
 * without handing-on (the test hook) this one is closed. */
#ifndef DLS_MODULE_EXPRESS_H
#define DLS_MODULE_EXPRESS_H

#include <stdatomic.h>

#include "core/tensor.h"
#include "exchange/producer_object.h"
#include "module/test_hooks.h"
#include "request/request.h"

/* Is there nothing of its own that an export of this Producer has to look at? */
static inline bool
dls_express_bare(const dls_producer *self)
{
    return ((uintptr_t)self->options | (uintptr_t)self->kept) == 0;
}

/* DLS_EXPRESS_* for objects of the plan's own type, 0: closed. */
static inline unsigned
dls_express_road_of(const dls_plan *plan, bool versioned)
{
    return atomic_load_explicit(&dls_hand_on_allowed, memory_order_relaxed)
               ? plan->express[versioned]
               : 0;
}

/* The same for this source.  plan may be NULL. */
static inline unsigned
dls_express_road(const dls_plan *plan, PyObject *source, bool versioned)
{
    return DLS_RARE(plan == NULL || Py_TYPE(source) != plan->type)
               ? 0
               : dls_express_road_of(plan, versioned);
}

/* Drop an answer that nobody used; a pending exception is kept. */
void dls_express_drop(dls_answer *answer);

/* __dlpack__ of a Producer without options that keeps nothing, asked without positional
 * arguments in a usual way (dls_request_is_usual). */
PyObject *dls_express_export(dls_producer *self, PyObject *const *args,
                             PyObject *kwnames, unsigned road);

/* The device question, where the source shows the answer, or its type has answered on
 * the host.  1 = it lies on device (1, 0), 0 = ask carefully, -1 = exception. */
int dls_express_device(dls_producer *self);

/* An owned struct for the consumer of our exchange table, of a Producer like that, by
 * its source's own table: what comes is what goes.  False: *out and a pending exception
 * are what there is; go the careful road with the answer that dls_express_not_through
 * makes of them. */
bool dls_express_through(dls_producer *self, dl_managed_tensor_versioned **out);
void dls_express_not_through(dl_managed_tensor_versioned *managed, dls_answer *answer);

/* The same by __dlpack__.  0 = *out, 1 = as above, with *answer made, -1 = exception.
 */
int dls_express_owned(dls_producer *self, unsigned road,
                      dl_managed_tensor_versioned **out, dls_answer *answer);

/* What the source of a Producer like that says now, for one who is told no flags: owned
 * by *answer.  NULL: not fit, go the careful road with *answer. */
const dl_tensor *dls_express_look(dls_producer *self, unsigned road,
                                  dls_answer *answer);

/* from_dlpack without keywords. */
PyObject *dls_express_tensor(dls_state *state, dls_plan *plan, PyObject *source,
                             unsigned road);

/* Is it a Tensor that can be exported as it stands: plain host memory without flags? */
static inline bool
dls_express_simple(const dls_tensor *self)
{
    return self->flags == 0 && self->ready == NULL && dls_tensor_is_plain(&self->tensor)
           && atomic_load_explicit(&dls_hand_on_allowed, memory_order_relaxed);
}

/* __dlpack__ of such a Tensor, asked in a usual way. */
PyObject *dls_express_again(dls_tensor *self, bool versioned);

#endif
