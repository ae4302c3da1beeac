#include "exchange/acquired.h"

#include "python/errors.h"

void
dls_loan_init(dls_loan *loan)
{
    loan->tensor = (dl_tensor){0};
    loan->flags = 0;
    loan->version = (dl_version){0, 0};
    loan->flavour = DLS_OLDER;
    loan->readonly_stated = false;
    loan->shared = false;
    loan->altered = false;
    loan->unordered = false;
    loan->copy_stream = 0;
    loan->managed = NULL;
    loan->capsule = NULL;
    loan->hold = (dls_hold){0};
}

void
dls_loan_drop(dls_loan *loan)
{
    if (loan->capsule != NULL) {
        PyObject *capsule = loan->capsule;
        loan->capsule = NULL;
        dls_drop_foreign(capsule);
    }
    if (!dls_hold_is_empty(&loan->hold)) {
        dls_hold_drop_attached(&loan->hold);
    }
}
