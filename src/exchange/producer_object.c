/* What a Producer keeps from one export to the next.  Called by export/.
 * Tests: tests/core/test_readonly_and_copies.py. */
#include "exchange/producer_object.h"

void
dls_producer_keep(dls_producer *self, dls_exchange *x, bool made)
{
    if (!made && x->kept == NULL) {
        return;
    }
    dls_shared *before = self->kept;
    self->kept = x->kept;
    x->kept = NULL;
    dls_shared_drop(before, DLS_ATTACHED);
}
