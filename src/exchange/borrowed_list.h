/* Exports that a Producer keeps for those who only borrow through its exchange table.
 */
#ifndef DLS_MODULE_BORROWED_H
#define DLS_MODULE_BORROWED_H

#include "abi/dlpack_abi.h"
#include "exchange/producer_object.h"

/* One export: what was lent points into it, so it lives as long as the Producer. */
typedef struct dls_borrowed {
    struct dls_borrowed *next;
    dl_managed_tensor *managed;
} dls_borrowed;

/* Describe the Producer's memory to a borrower: *out is valid as long as the Producer.
 * The borrower is told no flags, so it is served as a legacy consumer is (T8).  0, or
 * -1 with an exception. */
int dls_producer_borrow(dls_producer *self, dl_tensor *out);

void dls_borrowed_drop(dls_borrowed *list); /* attached; NULL allowed */
int dls_borrowed_visit(const dls_borrowed *list, visitproc visit, void *arg);

#endif
