/* From a capsule to a loan, and from a loan to ownership (T1, T9, T10). */
#ifndef DLS_SOURCE_CAPSULE_IN_H
#define DLS_SOURCE_CAPSULE_IN_H

#include "exchange/acquired.h"
#include "exchange/library.h"
#include "python/state.h"

/* Look into `capsule` (a new reference, stolen always) and describe it in *loan, not
 * yet taken.  likely: the flavour it probably has, to look for first.  row: the library
 * it came from, NULL when unknown.  0, or -1 with BufferError: no capsule, a used one,
 * a foreign name, another major (that one is taken and its deleter called, nothing else
 * read: T1). source names the object in messages (NULL: the capsule itself). */
int dls_loan_from_capsule(dls_state *state, const dls_library *row, PyObject *source,
                          PyObject *capsule, dls_flavour likely, dls_loan *loan);

/* After foreign code ran: is a capsule that others hold too still unconsumed?  Until
 * then nothing behind it may be read.  0, or -1 with BufferError. */
int dls_loan_recheck(dls_state *state, PyObject *source, const dls_loan *loan);

/* Take the loan's capsule, if it still has one: rename, own, drop the reference.  The
 * hold then has the foreign struct and, unless the row says that the struct alone
 * does, a reference to source (NULL: none).  0, or -1 with an exception and the loan
 * unchanged. */
int dls_loan_take(dls_state *state, const dls_library *row, PyObject *source,
                  dls_loan *loan);

/* May the capsule (or tensor) go to the consumer as it is, its struct apart? */
bool dls_loan_may_hand_on(dls_state *state, const dls_library *row,
                          const dls_loan *loan);

#endif
