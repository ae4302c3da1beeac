/* One call of __dlpack__ with exactly the keywords that are wanted.  GIL held. */
#pragma once

#include "exchange/exchange.h"

/* Values for the keywords of a mask; those that are not in it are not looked at. */
typedef struct {
    PyObject *stream;    /* borrowed; NULL: None */
    PyObject *dl_device; /* borrowed */
    PyObject *copy;      /* borrowed */
} dls_call_values;

/* source.__dlpack__(...) with the keywords of the mask (DLS_ASK_*).  A new reference to
 * whatever it returned, or NULL with what it raised. */
PyObject *dls_call_dlpack(dls_state *state, const dls_plan *plan, PyObject *source,
                          unsigned mask, const dls_call_values *values);

/* source.__dlpack__() without keywords, by the method that is found on the source. */
PyObject *dls_call_bare(const dls_plan *plan, PyObject *source);
/* source.__dlpack__(...) in a learned form (DLS_FAST_*): without keywords, or with
 * max_version alone.
 */
PyObject *dls_call_learned(dls_state *state, const dls_plan *plan, PyObject *source,
                           unsigned form);
