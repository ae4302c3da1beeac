/* Attempts off the host, where the stream is passed on.  Called by negotiate.c; results
 * as in acquire/attempt.h. */
#pragma once

#include "acquire/attempt.h"

/* Memory that lies on `device`, off the host: the stream is passed on, and what is then
 * left to synchronise is done (N4, N6). */
dls_attempt dls_attempt_off_host(dls_exchange *x, dls_protocol protocol,
                                 dl_device device);

/* The producer is asked to move the memory from `device` to the one that is wanted, for
 * it knows its pools and streams.  NOT_OFFERED: it cannot, or it did not (N7). */
dls_attempt dls_attempt_move(dls_exchange *x, dl_device device);
