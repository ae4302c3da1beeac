/* Attempts on the host, where no stream is passed.  Called by negotiate.c and
 * acquire.c; results as in acquire/attempt.h. */
#ifndef DLS_ACQUIRE_ATTEMPT_HOST_H
#define DLS_ACQUIRE_ATTEMPT_HOST_H

#include "acquire/attempt.h"

/* On the host.  mask: DLS_ASK_* for the protocol DLPACK.  The form that x->tried names
 * is not asked again: its error is raised once more. */
dls_attempt dls_attempt_on_host(dls_exchange *x, dls_protocol protocol, unsigned mask);

#endif
