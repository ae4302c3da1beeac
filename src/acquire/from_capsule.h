/* From a producer's struct to the acquired, and from there to ownership (T1, T9, T10).
 * GIL held. */
#pragma once

#include "acquire/take.h"
#include "exchange/exchange.h"

/* Look into `capsule` (a new reference, stolen always) and describe it in x->acquired,
 * not yet taken.  likely: the generation that it probably has, which is looked for
 * first; DLS_OLDER: not known.  0, or -1 with BufferError and x->acquired as it was: no
 * capsule, a used one, a foreign name, or another major (that one is taken and its
 * deleter called, nothing else is read: T1). */
int dls_acquired_read_capsule(dls_exchange *x, PyObject *capsule,
                              dls_generation likely);

/* Describe a versioned struct of major 1; who owns it stays as it is. */
void dls_acquired_describe(dls_acquired *acquired,
                           dl_managed_tensor_versioned *managed);

/* Is a capsule that others hold too still unconsumed?  Foreign code may have consumed
 * it: after foreign code ran, nothing behind the capsule may be read before this was
 * called.  0, or -1 with BufferError. */
int dls_acquired_recheck(const dls_exchange *x);

/* Become the owner of what was acquired, if dlshim is not yet: x->acquired.hold then
 * has all that must be given back.  0, or -1 with an exception and x->acquired as it
 * was. */
int dls_acquired_take(dls_exchange *x);

/* May the producer's own capsule (or struct) go to the consumer, as far as its origin
 * is concerned (T3)? */
bool dls_acquired_may_hand_on(const dls_exchange *x);
