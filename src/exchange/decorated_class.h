/* Objects of decorated classes (dlshim.producer changed them), for export/export,
 * public/functions and authors/producer_class: which of the author's methods run, how
 * the author has the object export, and its inner array.  Called in an attached thread
 * (with a GIL it holds that); foreign code runs. */
#pragma once

#include "exchange/device_question.h"
#include "types/class_method.h"

/* --- what its author wrote ------------------------------------------------ */

/* The plan of an object that is asked by this method of ours, a __dlpack__: the method
 * keeps one for each type.  It asks the function that Python would call without ours:
 * the author's of this class, or of one after it in the MRO; or it names an inner
 * array.  A new count; NULL with an exception. */
dls_plan *dls_method_plan(dls_state *state, PyObject *method, PyObject *obj);
/* As dls_method_plan, by a __dlpack_device__ of ours.  If no method answers, the plan
 * is one of an export. */
dls_plan *dls_method_device_plan(dls_state *state, PyObject *method, PyObject *obj);

/* For a function of dlshim that asks an object of this plan itself, for an export
 * (exports) or for its device: if our method would be asked, *plan becomes the plan of
 * that method, so that it is one exchange.  0, or -1 with an exception, and *plan as it
 * was: also where the author's method is running for the object, and asks dlshim for
 * it. */
int dls_decorated_enter(dls_state *state, PyObject *obj, dls_plan **plan, bool exports);
/* state->device_asker: a METH_O function that answers the device question of an object
 * as our __dlpack_device__ does, but notes no question (N9).  None: only an export can
 * tell, or the author's method is running for the object, and asks. */
DLS_EXTERN PyObject *dls_device_asker(PyObject *module, PyObject *obj);

/* The refusal of an object that offers nothing but our methods. */
#define DLS_AUTHOR_OFFERS_NOTHING "its class offers nothing"

/* --- the device question (N9) --------------------------------------------- */

/* A thread has asked for the device of this object and may export it next.  The address
 * is only compared with. */
typedef struct {
    PyObject *object;
    unsigned long thread;
} dls_question;

/* The last question of each thread.  Where more threads have one than there is room
 * for, every export from then on counts as one after a question. */
#ifdef DLS_FREE_THREADED
enum { DLS_QUESTIONS = 1 };
#else
enum { DLS_QUESTIONS = 64 };
#endif
DLS_EXTERN DLS_PER_THREAD dls_question dls_questions[DLS_QUESTIONS];
DLS_EXTERN DLS_PER_THREAD unsigned dls_question_count;

/* Note that this thread asks our __dlpack_device__ of the object, and may export it
 * next. */
void dls_decorated_note_question(PyObject *obj);

/* An export begins: did this thread ask for the device before?  That uses the question
 * up. */
static inline bool
dls_decorated_was_asked(PyObject *obj)
{
    bool asked = dls_question_count > DLS_QUESTIONS;
    unsigned long me = dls_question_count != 0 ? dls_this_thread() : 0;
    for (unsigned i = 0; i < dls_question_count && !asked; i++) {
        if (dls_questions[i].object == obj && dls_questions[i].thread == me) {
            dls_questions[i] = dls_questions[--dls_question_count];
            asked = true;
        }
    }
    return asked;
}

/* --- its inner array ------------------------------------------------------ */

/* Raise BufferError because `inner` (NULL: there is none) could not be got or wrapped,
 * or is the object itself.  The error names the object and the attribute, with the
 * pending exception as its cause.  An exception of a Producer is about options, and
 * stays. */
void dls_inner_refuse(dls_state *state, PyObject *obj, const dls_plan *plan,
                      PyObject *inner);

/* A Tensor of an inner array that is a tuple (buffer, shape, dtype), which is stolen.
 * NULL with BufferError, for every list too. */
PyObject *dls_inner_described(dls_state *state, PyObject *obj, const dls_plan *plan,
                              PyObject *parts);

/* The inner array, a new reference; NULL with BufferError. */
static inline PyObject *
dls_inner_get(dls_state *state, PyObject *obj, const dls_plan *plan)
{
    PyObject *args[] = {NULL, obj};
    PyObject *inner = plan->inner_is_called
                          ? dls_compat.PyObject_VectorcallMethod(
                                plan->inner, &args[1], 1 | DLS_VECTORCALL_OFFSET, NULL)
                          : PyObject_GetAttr(obj, plan->inner);
    if (inner == NULL) {
        dls_inner_refuse(state, obj, plan, NULL);
    }
    else if (PyTuple_CheckExact(inner) || PyList_CheckExact(inner)) {
        return dls_inner_described(state, obj, plan, inner);
    }
    return inner;
}
