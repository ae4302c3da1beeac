/* Negotiation: try all protocols that a type offers (N1 to N8).  GIL held; foreign code
 * runs. */
#pragma once

#include "exchange/exchange.h"

/* The memory is taken to lie on the host: no stream is passed.  0 = x->acquired
 * describes what came, which may lie elsewhere; -1 = exception, x->acquired is empty.
 */
int dls_negotiate_on_host(dls_exchange *x);

/* The memory lies on `device`: the stream is passed on, the memory is brought to the
 * wanted device if that can be done, and all synchronisation is done.  Results as
 * above. */
int dls_negotiate_off_host(dls_exchange *x, dl_device device);
