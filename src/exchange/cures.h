/* What to do with an object that cannot be exported: texts for messages, found by what
 * the object and its type have (CURES in shim/cures.py).  Called where an error is
 * raised.  GIL held; attributes of the object are read, and what they raise is
 * cleared. */
#pragma once

#include <stdbool.h>

#include "python/py.h"
#include "python/state.h"

/* How an array is made of the object: ".to_dense()", "numpy.asarray(x)"; NULL: no way
 * is known.  No exception may be pending. */
const char *dls_cure_find(dls_state *state, PyObject *obj);

/* The same for an object whose export has no memory: how the arrays that it wraps are
 * reached, NULL where it is not known to wrap any. */
const char *dls_cure_find_wrapped(dls_state *state, PyObject *obj);

/* How the object is written where an array of NumPy is needed: "x" if it is one (or has
 * .astype), else "numpy.asarray(x)".  A pending exception stays. */
const char *dls_cure_array(PyObject *obj);

/* Replace the pending exception by BufferError "'pkg.Type' object: it cannot be
 * exported ...", as dls_refuse_from_pending does.  on_host: with the cure; off the host
 * the refusal may be about the device or the stream.  The RecursionError of a
 * __dlpack__ that exports its own object through dlshim is explained.  Always -1. */
int dls_refuse_export(dls_state *state, PyObject *obj, bool on_host);
