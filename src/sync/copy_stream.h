/* The streams of a copy to a device (S19): what the consumer's is, and what the copy
 * has to come after.  GIL held; it is released around driver calls. */
#pragma once

#include "exchange/exchange.h"
#include "sync/producer_stream.h"

/* Read the consumer's stream as one of the device `to`.  *s is L where it names none.
 * 0, or -1 with TypeError or ValueError, because it is no stream of that device (S1).
 */
int dls_copy_read_consumer(const dls_exchange *x, dl_device to, uint64_t *s);

/* What came was synced with the consumer's stream, or, for -1, not at all: make the
 * copy stream come after it.  p: what is known of P where the consumer passed -1.  0,
 * or -1 with an exception. */
int dls_copy_sync(const dls_exchange *x, const dl_tensor *tensor, dls_producer_stream p,
                  uint64_t copy_stream);
