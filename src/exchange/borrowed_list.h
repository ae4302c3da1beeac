/* The exports that a Producer keeps for consumers that only borrow a view through its
 * C table.  Called by module/ctable_view and module/producer.  The GIL is held; without
 * a GIL any thread may read the list and add to it. */
#pragma once

#include "abi/dlpack_abi.h"
#include "core/lock.h"
#include "python/py.h"

/* One export.  Views point into it, so it lives as long as the Producer. */
typedef struct dls_borrowed {
    struct dls_borrowed *next;
    dl_managed_tensor *managed;
} dls_borrowed;

/* The kept export that equals `tensor`, borrowed, or NULL.  Only the newest few are
 * compared, so that a source which never gives the same twice does not get slower. */
const dl_tensor *dls_borrowed_find(const dls_borrowed *list, const dl_tensor *tensor);

/* Add a new export (stolen, on failure too), unless an equal one is kept already.  The
 * tensor in the list, borrowed; NULL with MemoryError. */
const dl_tensor *dls_borrowed_keep(DLS_ATOMIC(dls_borrowed *) * list,
                                   dl_managed_tensor *managed);

/* NULL, the empty list, is allowed. */
void dls_borrowed_drop(dls_borrowed *list);
int dls_borrowed_visit(const dls_borrowed *list, visitproc visit, void *arg);
