/* Errors and exceptions: refusals with an exception set, and functions for an exception
 * that is pending.  Errors of core and gpu become exceptions here only.  Called by
 * everything that uses Python; the GIL is held throughout.  A function named
 * dls_refuse* sets the exception and returns -1, so that callers write `return
 * dls_refuse(...)`; without memory for the text, MemoryError is set instead.
 *
 * Code that needs more facts about an error reads attributes, and never the text.
 * _about of a BufferError names the type of the object that it is about; _option_helps
 * is True where the text names an option of upgrade that helps; reason and _why of a
 * CopyRequiredError say why a copy is needed, as a word and as a text. */
#pragma once

#include <string.h>

#include "core/base.h"
#include "python/py.h"
#include "python/state.h"

/* Set the exception of code DLS_E* with "'pkg.Type' object: <text>" (obj NULL: the
 * text alone).  The format is PyErr_Format's: %s, %R, %zd, %d, %S.
 *
 * A text is the reason, in one line.  What to do about it, the cure, stands after it on
 * the last line: "it is read-only\n  pass x.copy()".  Who sees the first line alone
 * (logs, pytest's summary) has the whole reason.  Lines that a value or a message of
 * another library brings become one line.  A warning is one line, for Python
 * prints the line of the program below it: "it is read-only; pass x.copy()". */
int dls_refuse(dls_state *state, int code, PyObject *obj, const char *format, ...);

/* The words that join one cure more to a text, which may have a cure already. */
static inline const char *
dls_cure_joint(const char *text)
{
    return strchr(text, '\n') != NULL ? ", or " : "\n  ";
}

/* Set CopyRequiredError with "'pkg.Type' object: <text><rest>".  The text says why a
 * copy is needed, the rest names the cure; `reason` is the exception's attribute. */
int dls_refuse_copy(dls_state *state, PyObject *obj, const char *reason,
                    const char *rest, const char *format, ...);

/* Warn with the same text, in the name of the code that called the Python function that
 * called us.  0, or -1 with an exception: the user's filters make the warning an error.
 */
int dls_warn(dls_state *state, PyObject *category, PyObject *obj, const char *format,
             ...);

/* As dls_refuse, from an error that core or gpu reported. */
int dls_refuse_error(dls_state *state, PyObject *obj, const dls_error *err);

/* Replace the pending exception by BufferError "'pkg.Type' object: <text>: <its
 * message>" with the pending one as __cause__.  A cure in the text stays the last line,
 * and stands for the further lines of the message, which the cause has.
 * A fatal exception (dls_error_is_fatal) stays as it is (N2). */
int dls_refuse_from_pending(dls_state *state, PyObject *obj, const char *format, ...);

/* Set UnsupportedObjectError for an object without a way to its memory.  The error
 * holds the object until its text is read, and then made: code that tries an object,
 * and does something else where it is no array, reads no text.  authored:
 * dlshim.producer changed its class. */
void dls_refuse_unsupported(dls_state *state, PyObject *obj, bool authored);
/* The class UnsupportedObjectError of one import; NULL with an exception. */
PyObject *dls_unsupported_error_new(void);

/* Is this a BufferError of ours, whose message names an object of the same type? */
bool dls_error_names(const dls_state *state, PyObject *error, PyObject *obj);

/* The pending exception gets `cause` (stolen) as its __cause__; without a pending one,
 * `cause` itself is set. */
int dls_refuse_with_cause(PyObject *cause);

/* Is an exception pending that no probe may hide: MemoryError, RecursionError, or one
 * that is no Exception (KeyboardInterrupt)? */
bool dls_error_is_fatal(void);
/* A probe has raised.  0: the exception was cleared; -1: it is fatal and stays set. */
int dls_error_forget(void);
/* Forget the pending exception if it is a warning that is an error: a question that
 * nobody but dlshim puts changes nothing for those whose warnings are errors.  0, or -1
 * with another exception. */
int dls_error_forget_warning(void);

/* Drop a reference that may run foreign code (a capsule's destructor) while an
 * exception is pending: the exception is saved and restored, and an exception of the
 * code is reported (T9). */
void dls_drop_foreign(PyObject *obj);

/* Foreign code left an exception pending although it succeeded: report and clear it.
 * The report names no object.  Naming a capsule that is being freed would call its
 * destructor again, without end. */
void dls_error_report_pending(void);
static inline void
dls_error_report(void)
{
    if (PyErr_Occurred() != NULL) {
        dls_error_report_pending();
    }
}

/* Take the pending exception (normalised, with traceback) and clear it; NULL when
 * none is pending.  dls_error_restore sets it again and steals it; NULL: MemoryError,
 * because without memory CPython may lose an exception. */
PyObject *dls_error_take(void);
void dls_error_restore(PyObject *exception);

/* "pkg.Type" of an object, a new str; never fails with an exception other than
 * MemoryError. */
PyObject *dls_type_name(const dls_state *state, PyObject *obj);

/* __reduce__ of Producers: TypeError that names the type and the cure.  Without it,
 * pickle's protocols 0 and 1 write data that cannot be read.  Always NULL. */
PyObject *dls_refuse_pickle(PyObject *self, PyObject *ignored);
