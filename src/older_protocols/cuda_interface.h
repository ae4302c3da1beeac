/* __cuda_array_interface__ v0 to v3 as a way in (reference streams.md 3). */
#ifndef DLS_SOURCE_CUDA_INTERFACE_H
#define DLS_SOURCE_CUDA_INTERFACE_H

#include "acquire/attempt_host.h"
#include "core/sync_words.h"

/* As the other readers (exchange/acquired.h), with the device and *p: what the dict
 * says of the stream with the pending work (READY: "no synchronisation needed",
 * UNKNOWN: it makes no statement).  The dict and its data are read once, on this
 * thread; the loan holds the provider and the dict.  The device is want->assumed, else
 * the one that the driver names for the pointer; for empty arrays the object's own
 * word, else the current device, else 0.  The forbidden stream 0 is an error only if it
 * would count: UNKNOWN where `want` asks for no order or names the producer's stream.
 */
int dls_read_cuda_interface(dls_state *state, PyObject *obj, const dls_want *want,
                            dls_loan *loan, dls_pending *p);

#endif
