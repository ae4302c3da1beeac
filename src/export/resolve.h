/* From what the source lent and what the consumer asked to what goes out: every rule of
 * design section 4 that concerns the data is decided here, once. */
#ifndef DLS_MODULE_SETTLE_H
#define DLS_MODULE_SETTLE_H

#include "core/tensor.h"
#include "request/request.h"

typedef struct {
    dls_delivery delivery; /* shape and strides still point into the loan */
    dls_scan scan;
    bool copied;        /* a host copy was made for this export ... */
    dls_hold made;      /* ... and this holds it (a share when the Producer keeps it) */
    bool needs_keeping; /* memory that the producer made for this export (T8) */
} dls_settled;

/* Flag bits that dlshim does not know change the meaning of the data (T7): 0, or -1
 * with BufferError. */
int dls_check_flags(dls_state *state, PyObject *source, const dls_loan *loan);

/* Decide and, where the request needs one, make the host copy.  0, or -1 with an
 * exception; the loan stays the caller's either way.  source names the object, plan is
 * its plan or NULL. */
int dls_settle(dls_state *state, PyObject *source, const dls_plan *plan,
               const dls_request *request, dls_loan *loan, dls_settled *out);

#endif
