/* How a thread stands to Python, and the Python half of dropping a hold (T10).
 * core/hold calls it through the table of functions that dls_attach_install hands over.
 * Tests: tests/core/test_lifetime.py, tests/core/test_threads.py. */
#include "python/attach.h"

#include <stdatomic.h>

#include "core/alloc.h"
#include "core/lock.h"
#include "python/errors.h"
#include "python/py.h"

/* Set by the last C-level hook of Py_Finalize.  From then on nothing foreign is called:
 * a deleter that ctypes made would be a segmentation fault. */
static atomic_bool python_ended;

/* dlshim was imported in an interpreter that is not the main one. */
static atomic_bool in_subinterpreter;

/* --- interpreters that have imported dlshim ------------------------------- */

/* The main interpreter, once it has imported dlshim.  NULL: not yet, or before CPython
 * 3.12, where all interpreters share one allocator and one GIL, so that objects may be
 * dropped in any of them. */
static DLS_ATOMIC(PyInterpreterState *) main_interpreter;

/* The numbers of the other interpreters that have imported dlshim: the last ones only.
 * An interpreter that is no longer listed is taken for one without dlshim, and its
 * objects go through the queue. */
#define INTERPRETERS 16
static DLS_ATOMIC(int64_t) others[INTERPRETERS];
static DLS_ATOMIC(unsigned) others_count;

static bool
is_other(PyInterpreterState *interpreter)
{
    int64_t number = PyInterpreterState_GetID(interpreter);
    unsigned count = others_count;
    count = count < INTERPRETERS ? count : INTERPRETERS;
    for (unsigned i = 0; i < count; i++) {
        if (others[i] == number) {
            return true;
        }
    }
    return false;
}

static inline bool
has_imported(PyThreadState *thread)
{
    if (main_interpreter == NULL) {
        return true;
    }
    PyInterpreterState *interpreter = PyThreadState_GetInterpreter(thread);
    return interpreter == main_interpreter || is_other(interpreter);
}

/* --- imports whose interpreter has ended ----------------------------------- */

/* Imports are numbered from 1 on.  Those before `first_living` are of a Python that has
 * ended since: a process may start it again. */
static atomic_uint last_import;
static atomic_uint first_living = 1;

/* Imports whose module has been freed in another interpreter than the main one, which
 * has probably ended: the last ones only.  `import` is 0 while a place is written, and
 * is read before and after the other.  Threads read it that hold no GIL. */
static struct {
    _Atomic uint32_t import;
    _Atomic int64_t interpreter;
} left[INTERPRETERS];
static atomic_uint left_count;

static DLS_ATOMIC(bool) watching_for_end; /* note_end will be called */

/* The last C-level hook of Py_Finalize.  CPython forgets the hooks that it has called.
 */
static void
note_python_end(void)
{
    watching_for_end = false;
    atomic_store_explicit(&first_living, atomic_load(&last_import) + 1,
                          memory_order_relaxed);
    atomic_store_explicit(&python_ended, true, memory_order_release);
}

void
dls_attach_leave(uint32_t import_number)
{
    int64_t number = PyInterpreterState_GetID(PyInterpreterState_Get());
    if (number == 0 || dls_python_version() < 0x030c) {
        return; /* before 3.12 all interpreters share one allocator */
    }
    DLS_IMPORT_BEGIN();
    unsigned count = atomic_load(&left_count), i = count % INTERPRETERS;
    atomic_store(&left[i].import, 0);
    atomic_store(&left[i].interpreter, number);
    atomic_store(&left[i].import, import_number >> DLS_HOLD_IMPORT_BIT);
    atomic_store(&left_count, count + 1);
    DLS_IMPORT_END();
}

/* Has the interpreter of this import ended?  thread: this one's state, NULL if it is
 * not attached. */
static bool
has_left(uint32_t import, PyThreadState *thread)
{
    if (import == 0) {
        return false;
    }
    if (import < atomic_load_explicit(&first_living, memory_order_relaxed)) {
        return true;
    }
    unsigned count = atomic_load_explicit(&left_count, memory_order_relaxed);
    for (unsigned i = 0; i < count && i < INTERPRETERS; i++) {
        bool there = atomic_load(&left[i].import) == import;
        int64_t interpreter = atomic_load(&left[i].interpreter);
        if (there && atomic_load(&left[i].import) == import) {
            PyInterpreterState *here = thread != NULL
                                           ? PyThreadState_GetInterpreter(thread)
                                           : NULL;
            return here == NULL || PyInterpreterState_GetID(here) != interpreter;
        }
    }
    return false;
}

/* --- holds that the main interpreter shall drop --------------------------- */

typedef struct queued {
    struct queued *next;
    dls_hold hold;
} queued;

static queued *queue;

/* A pending call: from CPython 3.12 on, only the main thread of the main interpreter
 * runs it. */
static int
drop_queued(void *DLS_UNUSED(ignored))
{
    dls_lock_take(DLS_LOCK_QUEUE);
    queued *list = queue, *next;
    queue = NULL;
    dls_lock_give(DLS_LOCK_QUEUE);
    for (; list != NULL; list = next) {
        next = list->next;
        dls_hold_drop(&list->hold, DLS_ATTACHED);
        dls_free(list);
    }
    return 0;
}

static void
queue_hold(const dls_hold *hold)
{
    queued *new = dls_alloc(sizeof *new);
    if (new == NULL) {
        return;
    }
    new->hold = *hold;
    dls_lock_take(DLS_LOCK_QUEUE);
    new->next = queue;
    queue = new;
    dls_lock_give(DLS_LOCK_QUEUE);
    /* If there is no room for the call, the call for a later hold drops this one too.
     */
    Py_AddPendingCall(drop_queued, NULL);
}

/* --- the attachment of a thread ------------------------------------------- */

/* dls_python_version(), without a call. */
static DLS_ATOMIC(int) version;

/* The state of this thread if it is attached now, else NULL.  From 3.12 on the current
 * thread state is a thread-local.  Before 3.12 it is the state of the thread that holds
 * the GIL, so it is compared with this thread's own; that comparison fails in
 * subinterpreters (see find_attachment).  On the finalising thread this still works
 * while capsule destructors run, although Py_IsInitialized() is 0 there already. */
static PyThreadState *
attached_thread(void)
{
    if (version >= 0x030d) {
        return dls_compat.PyThreadState_GetUnchecked();
    }
    PyThreadState *thread = dls_compat._PyThreadState_UncheckedGet();
    bool ours = thread != NULL
                && (version == 0x030c || thread == PyGILState_GetThisThreadState());
    return ours ? thread : NULL;
}

/* May a thread of a subinterpreter hold the GIL now?  Before 3.12 it looks like a
 * thread that does not, and attaching with the GIL held never ends.  Once there has
 * been a subinterpreter, PyGILState_Check() is always 1. */
static bool
may_hold_the_gil(void)
{
    return version < 0x030c
           && (atomic_load_explicit(&in_subinterpreter, memory_order_relaxed)
               || (dls_compat._PyThreadState_UncheckedGet() != NULL
                   && dls_compat.PyGILState_Check()));
}

static dls_attachment
find_attachment(uint32_t import_number)
{
    if (atomic_load_explicit(&python_ended, memory_order_acquire)) {
        return DLS_PYTHON_GONE;
    }
    PyThreadState *thread = attached_thread();
    if (has_left(import_number, thread)) {
        return DLS_PYTHON_GONE;
    }
    if (thread != NULL) {
        return !has_imported(thread)      ? DLS_ATTACHED_ELSEWHERE
               : PyErr_Occurred() == NULL ? DLS_ATTACHED_QUIET
                                          : DLS_ATTACHED;
    }
    if (may_hold_the_gil()) {
        return DLS_PYTHON_GONE; /* a leak is better than a wait without end */
    }
    return Py_IsInitialized() ? DLS_UNATTACHED : DLS_PYTHON_GONE;
}

static void
drop_and_report(void *py)
{
    Py_XDECREF((PyObject *)py);
    dls_error_report();
}

static int
attach(void)
{
    return (int)PyGILState_Ensure();
}

static void
detach(int token)
{
    PyGILState_Release((PyGILState_STATE)token);
}

static void *
let_go_of_python(void)
{
    return PyEval_SaveThread();
}

static void
take_back(void *token)
{
    PyEval_RestoreThread(token);
}

static bool
save_error(void *saved[3])
{
    if (PyErr_Occurred() == NULL) {
        return false;
    }
    PyErr_Fetch((PyObject **)&saved[0], (PyObject **)&saved[1], (PyObject **)&saved[2]);
    return true;
}

static void
restore_error(void *saved[3], bool pending)
{
    dls_error_report();
    if (pending) {
        PyErr_Restore(saved[0], saved[1], saved[2]);
    }
}

static int64_t
interpreter_number(void)
{
    return PyInterpreterState_GetID(PyInterpreterState_Get());
}

static void
drop_object(void *py)
{
    Py_DECREF((PyObject *)py);
}

static void
drop_buffer(void *buffer)
{
    dls_compat.PyBuffer_Release(buffer);
}

static const dls_python_ops ops = {
    .attachment = find_attachment,
    .drop_and_report = drop_and_report,
    .attach = attach,
    .detach = detach,
    .let_go = let_go_of_python,
    .take_back = take_back,
    .save_error = save_error,
    .restore_error = restore_error,
    .interpreter = interpreter_number,
    .queue = queue_hold,
    .drop_object = drop_object,
    .drop_buffer = drop_buffer,
};

bool
dls_attach_install(uint32_t *import_number)
{
    PyInterpreterState *here = PyInterpreterState_Get();
    int64_t number = PyInterpreterState_GetID(here);
    version = dls_python_version();
    DLS_IMPORT_BEGIN();
    atomic_store_explicit(&python_ended, false, memory_order_release);
    if (number != 0) {
        atomic_store_explicit(&in_subinterpreter, true, memory_order_relaxed);
    }
    if (version >= 0x030c) {
        if (number == 0) {
            main_interpreter = here;
        }
        else {
            others[others_count % INTERPRETERS] = number;
            others_count++; /* last: readers go by the count */
        }
    }
    dls_hold_set_python(&ops);
    *import_number = (atomic_fetch_add(&last_import, 1) + 1) << DLS_HOLD_IMPORT_BIT;
    DLS_IMPORT_END();
    if (!watching_for_end) {
        /* CPython has 32 places for such hooks.  If none is free, find_attachment
         * relies on Py_IsInitialized() alone. */
        watching_for_end = Py_AtExit(note_python_end) == 0;
    }
    return !atomic_load_explicit(&in_subinterpreter, memory_order_relaxed);
}
