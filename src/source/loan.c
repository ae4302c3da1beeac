#include "source/loan.h"

void
dls_loan_init(dls_loan *loan)
{
    loan->tensor = (dl_tensor){0};
    loan->flags = 0;
    loan->version = (dl_version){0, 0};
    loan->flavour = DLS_OLDER;
    loan->readonly_stated = false;
    loan->altered = false;
    loan->managed = NULL;
    loan->capsule = NULL;
    loan->hold = (dls_hold){0};
}

void
dls_loan_drop(dls_loan *loan)
{
    if (loan->capsule != NULL) {
        /* A foreign destructor must not meet the pending exception (T9). */
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        PyObject *capsule = loan->capsule;
        loan->capsule = NULL;
        Py_DECREF(capsule);
        if (PyErr_Occurred() != NULL) {
            PyErr_WriteUnraisable(NULL);
        }
        PyErr_Restore(type, value, trace);
    }
    if (!dls_hold_is_empty(&loan->hold)) {
        dls_hold_drop_attached(&loan->hold);
    }
}
