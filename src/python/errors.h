/* The only place where core's errors become Python exceptions. */
#ifndef DLS_PYTHON_RAISE_H
#define DLS_PYTHON_RAISE_H

#include "core/error.h"
#include "python/py.h"
#include "python/state.h"

/* Set the exception of code DLS_E* with "'pkg.Type' object: <text>" (obj NULL: the
 * text alone).  Always returns NULL.  The format is PyErr_Format's: %s, %R, %zd,
 * %d, %S. */
DLS_COLD PyObject *dls_raise(dls_state *state, int code, PyObject *obj,
                             const char *format, ...);

/* The same from an error that core reported.  Always -1. */
DLS_COLD int dls_raise_error(dls_state *state, PyObject *obj, const dls_error *err);

/* Replace the pending exception by BufferError "'pkg.Type' object: <text>: <its
 * message>" with the pending one as __cause__; MemoryError and what is no Exception
 * (KeyboardInterrupt ...) stay as they are (N2).  Always NULL. */
DLS_COLD PyObject *dls_raise_from_pending(dls_state *state, PyObject *obj,
                                          const char *text);

/* Is an exception pending that no probe may hide: MemoryError, RecursionError, or what
 * is no Exception (KeyboardInterrupt)? */
bool dls_error_is_fatal(void);
/* A probe has raised: 0, and nothing is pending any more; -1 when that exception is
 * fatal, and stays. */
int dls_error_forget(void);

/* The pending exception gets `cause` (stolen) as its __cause__. */
void dls_raise_with_cause(PyObject *cause);

/* Drop a reference that may run foreign code (a capsule's destructor) while an
 * exception is pending: it is saved and restored, what the code raises is reported
 * (T9). */
void dls_drop_foreign(PyObject *obj);

/* What foreign code left pending on a road that succeeded is reported, and cleared.  No
 * object is named: of a dying capsule, that would call its destructor again, without
 * end. */
static inline void
dls_error_report(void)
{
    if (PyErr_Occurred() != NULL) {
        PyErr_WriteUnraisable(NULL);
    }
}

/* Take the pending exception (normalised, with traceback) and clear it; NULL when
 * none is pending.  dls_error_restore sets it again and steals it. */
DLS_COLD PyObject *dls_error_take(void);
void dls_error_restore(PyObject *exception);

/* "pkg.Type" of an object, a new str; never fails with an exception other than
 * MemoryError. */
PyObject *dls_type_name(PyObject *obj);

#endif
