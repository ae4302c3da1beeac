/* The device question put to a Producer: what an export of it would say (N5).  GIL
 * held; foreign code runs. */
#pragma once

#include "exchange/producer_object.h"

/* With the options, and by an export where nothing less can tell.  0, or -1 with an
 * exception. */
int dls_device_answer(dls_state *state, PyObject *source, dls_plan *plan,
                      const dls_options *options, dl_device *device);

/* The short cut: where the source shows the answer, or its type has answered on the
 * host. 1 = it lies on device (1, 0), 0 = ask dls_device_answer, -1 = exception. */
int dls_device_is_known_host(dls_producer *self);
