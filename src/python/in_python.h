/* What dlshim does in Python: shim/arrays.py, imported when it is first needed, because
 * no exchange needs it.  Called by request/ and module/.  The GIL is held. */
#pragma once

#include "abi/dlpack_abi.h"
#include "python/state.h"

/* Call the function of that name with `self` and the arguments of a METH_FASTCALL
 * method.  NULL with an exception. */
PyObject *dls_in_python(dls_state *state, const char *name, PyObject *self,
                        PyObject *const *args, Py_ssize_t n, PyObject *kwnames);

/* The dlshim.dtype, one object for each; NULL with an exception. */
PyObject *dls_dtype_object(dls_state *state, dl_dtype dtype);
