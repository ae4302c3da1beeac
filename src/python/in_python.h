/* What dlshim does in Python: a module of shim/ is imported when it is first needed,
 * because no usual exchange needs one.  While the interpreter ends that may fail.  The
 * GIL is held, and no exception may be pending. */
#pragma once

#include "abi/dlpack_abi.h"
#include "python/state.h"

/* Call the function of that name in one of the modules with `self` and the arguments of
 * a METH_FASTCALL method.  NULL with an exception. */
PyObject *dls_in_python(dls_state *state, dls_python_module module, const char *name,
                        PyObject *self, PyObject *const *args, Py_ssize_t n,
                        PyObject *kwnames);

/* The same with arguments as Py_BuildValue makes them: a tuple. */
PyObject *dls_in_python_with(dls_state *state, dls_python_module module,
                             const char *name, const char *format, ...);

/* Import the module now: later another import of dlshim could have taken its name.  0,
 * or -1 with an exception. */
int dls_in_python_load(dls_state *state, dls_python_module module);

/* The dlshim.dtype, one object for each; NULL with an exception. */
PyObject *dls_dtype_object(dls_state *state, dl_dtype dtype);
