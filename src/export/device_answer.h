/* The device question put to a Producer: the device that an export of it would name
 * (N5).  GIL held; foreign code runs. */
#pragma once

#include "exchange/objects.h"
#include "types/offers.h"

/* With the options, and by an export where nothing less can tell.  0, or -1 with an
 * exception. */
int dls_device_answer(dls_state *state, PyObject *source, dls_plan *plan,
                      const dls_options *options, dl_device *device);

/* Is an answer the device (1, 0)?  got: as of dls_device_ask. */
static inline int
dls_device_is_host_answer(int got, dl_device device)
{
    return got > 0 ? device.device_type == dl_kDLCPU && device.device_id == 0 : got;
}

/* For a source that does not show its device, and whose type has answered on the host.
 */
int dls_device_of_host_type(dls_state *state, const dls_plan *plan, PyObject *source);

/* The short cut: where the source shows the answer, or its type has answered on the
 * host.  1 = it lies on device (1, 0), 0 = ask dls_device_answer, -1 = exception. */
DLS_INLINE int
dls_device_is_known_host(dls_producer *self)
{
    dl_device device = {0, 0};
    dls_plan *plan = self->plan;
    if (self->options != NULL || Py_TYPE(self->source) != plan->type) {
        return 0;
    }
    const dls_learned learned = dls_plan_learned(plan);
    if ((learned.forms[0] | learned.forms[1]) & DLS_FORM_ASKS_DEVICE) {
        int got = dls_device_ask(self->state, plan, self->source, &device);
        return dls_device_is_host_answer(got, device);
    }
    int shown = dls_host_is_known(plan, self->source);
    /* A method of ours leads to the author's, which the full answer finds. */
    bool answered = learned.met && !learned.off_host && !plan->is_decorated;
    return shown != 0 || !answered
               ? shown
               : dls_device_of_host_type(self->state, plan, self->source);
}
