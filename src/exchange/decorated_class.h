/* Objects of decorated classes (dlshim.producer changed them), for export/export,
 * module/functions and module/producer_class: which of the author's methods run, how
 * the author has the object export, and its inner array.  Called in an attached thread
 * (with a GIL it holds that); foreign code runs. */
#pragma once

#include <limits.h>

#include "exchange/device_question.h"
#include "types/plan.h"

/* Is the object's __dlpack__ the one that dlshim.producer puts on classes?  It may be
 * another one of a subclass, or of its own.  A pending exception stays. */
bool dls_object_has_our_method(const dls_state *state, PyObject *obj);

/* --- what its author wrote ------------------------------------------------ */

/* Find the plan of the author's methods, for a call of our method of the class
 * `entered`: of __dlpack_device__ if device, else of __dlpack__.  The next method is
 * the one that Python would call without ours: of this class, or of one after it in the
 * MRO.  &PyBaseObject_Type: the class is the first that has ours.  NULL: dlshim asks,
 * and passes over the methods that run.  If no method answers the device question, the
 * plan is one of an export.  A new count; NULL with an exception. */
dls_plan *dls_decorated_plan(dls_state *state, PyObject *obj,
                             const PyTypeObject *entered, bool device);

/* --- which calls run ------------------------------------------------------ */

/* The author's __dlpack__ may ask dlshim for the same object, by upgrade(self): then
 * the next method in the MRO is asked.  A call runs in a thread and, where greenlets
 * are used, in a greenlet: other ones may call the same method meanwhile. */

/* Stands in the place of a call's number. */
#define DLS_NO_CALL UINT_MAX

/* How many calls run.  Without the GIL each thread has a number of its own. */
DLS_EXTERN DLS_PER_THREAD unsigned dls_running;

/* Note a call of the methods of an author's plan; device: of the one that answers the
 * device question, if there is one.  Returns its number, for dls_running_end;
 * DLS_NO_CALL with an exception. */
unsigned dls_running_begin(dls_state *state, PyObject *obj, const dls_plan *plan,
                           bool device);
void dls_running_end(unsigned call); /* DLS_NO_CALL allowed */
/* In a forked child: the calls of threads that it does not have run no longer.  Its own
 * threads may get the idents of those.  Its address is taken in another file. */
DLS_EXTERN void dls_running_fork(void);

/* The refusal of an object that offers nothing but a method that runs. */
#define DLS_AUTHOR_OFFERS_NOTHING "its class offers nothing"

/* For a function of dlshim that asks an object of this plan itself, for an export or
 * for its device: if our method would be asked, *plan becomes the plan of the author's
 * methods, and a call of them runs until dls_running_end.  Returns the number of that
 * call, or DLS_NO_CALL.  *plan is NULL with an exception. */
unsigned dls_decorated_begin(dls_state *state, PyObject *obj, dls_plan **plan,
                             bool device);

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
    return inner;
}
