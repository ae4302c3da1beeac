/* Acquire: ask the producer once, in the learned form or by negotiation (N1 to N8), and
 * fill x->acquired.  Called by export/.  GIL held; foreign code runs. */
#pragma once

#include "exchange/exchange.h"

/* Ask x->source in the learned form, or negotiate, and do the synchronisation that is
 * left to dlshim.  The outcome of the fast path (x->outcome) is used, so that no
 * producer is asked twice.  0 = x->acquired describes the memory; -1 = exception,
 * x->acquired is empty.  On the host a learned type is asked by exactly one call. */
int dls_acquire(dls_exchange *x);

/* The device that an export will say (N5), asking as little as can be.  1 = *device, 0
 * = only an export can tell, -1 = exception. */
int dls_acquire_device(const dls_exchange *x, dl_device *device);
