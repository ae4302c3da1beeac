/* Modules of shim/ do what is rare: each is imported when it is first needed, because
 * no usual exchange needs one.  While the interpreter ends that may fail.  The GIL is
 * held, and no exception may be pending. */
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

/* Use this object for the module, if none is used yet: its name may be that of another
 * import of dlshim. */
void dls_in_python_give(dls_state *state, dls_python_module module, PyObject *object);

/* The dlshim.dtype, one object for each; NULL with an exception. */
PyObject *dls_dtype_object(dls_state *state, dl_dtype dtype);
