#include "python/attach.h"

#include <stdatomic.h>

#include "python/errors.h"

/* Set by the last C-level hook of Py_Finalize: from then on nothing foreign is
 * called (a ctypes deleter there is a segfault). */
static atomic_bool python_ended;

/* dlshim was imported in an interpreter that is not the main one. */
static atomic_bool in_subinterpreter;

static void
note_end(void)
{
    atomic_store_explicit(&python_ended, true, memory_order_release);
}

/* Attached now?  From 3.12 on the current thread state is a thread-local; before, it is
 * that of whichever thread holds the GIL, so it must also be this thread's own.  Both
 * stay true on the finalising thread, where Py_IsInitialized() is already 0 while
 * capsule destructors still run. */
static bool
attached_by_thread_local(void)
{
    return dls_late.PyThreadState_GetUnchecked() != NULL;
}

static bool
attached_by_private_thread_local(void)
{
    return dls_late._PyThreadState_UncheckedGet() != NULL;
}

static bool
attached_by_gil_holder(void)
{
    /* (a thread of a subinterpreter: see guard_where) */
    PyThreadState *holder = dls_late._PyThreadState_UncheckedGet();
    return holder != NULL && holder == PyGILState_GetThisThreadState();
}

/* Chosen at import by the interpreter's version. */
static bool (*is_attached)(void) = attached_by_gil_holder;

static dls_python_where
guard_where(void)
{
    if (atomic_load_explicit(&python_ended, memory_order_acquire)) {
        return DLS_PYTHON_GONE;
    }
    if (is_attached()) {
        return PyErr_Occurred() == NULL ? DLS_PYTHON_QUIET : DLS_PYTHON_HELD;
    }
    if (atomic_load_explicit(&in_subinterpreter, memory_order_relaxed)
        && dls_python_version() < 0x030c) {
        /* The GIL's holder cannot be told from this thread there, and attaching with
         * the GIL held never ends: leak rather than hang. */
        return DLS_PYTHON_GONE;
    }
    return Py_IsInitialized() ? DLS_PYTHON_ALIVE : DLS_PYTHON_GONE;
}

static void
guard_settle(void *py)
{
    Py_XDECREF((PyObject *)py);
    dls_error_report();
}

static int
guard_attach(void)
{
    return (int)PyGILState_Ensure();
}

static void
guard_detach(int token)
{
    PyGILState_Release((PyGILState_STATE)token);
}

static void *
guard_let_go(void)
{
    return PyEval_SaveThread();
}

static void
guard_take_back(void *token)
{
    PyEval_RestoreThread(token);
}

static bool
guard_save_error(void *saved[3])
{
    if (PyErr_Occurred() == NULL) {
        return false;
    }
    PyErr_Fetch((PyObject **)&saved[0], (PyObject **)&saved[1], (PyObject **)&saved[2]);
    return true;
}

static void
guard_restore_error(void *saved[3], bool pending)
{
    dls_error_report();
    if (pending) {
        PyErr_Restore(saved[0], saved[1], saved[2]);
    }
}

static int64_t
guard_interpreter(void)
{
    return PyInterpreterState_GetID(PyInterpreterState_Get());
}

static void
guard_drop_object(void *py)
{
    Py_DECREF((PyObject *)py);
}

static void
guard_drop_from_afar(void *py)
{
    void *saved[3]; /* the thread may have let go with an exception pending */
    PyGILState_STATE token = PyGILState_Ensure();
    bool pending = guard_save_error(saved);
    guard_settle(py);
    if (pending) {
        guard_restore_error(saved, true);
    }
    PyGILState_Release(token);
}

static void
guard_drop_buffer(void *buffer)
{
    dls_late.PyBuffer_Release(buffer);
}

static const dls_python_ops ops = {
    .where = guard_where,
    .settle = guard_settle,
    .attach = guard_attach,
    .detach = guard_detach,
    .let_go = guard_let_go,
    .take_back = guard_take_back,
    .save_error = guard_save_error,
    .restore_error = guard_restore_error,
    .interpreter = guard_interpreter,
    .drop_from_afar = guard_drop_from_afar,
    .drop_object = guard_drop_object,
    .drop_buffer = guard_drop_buffer,
};

bool
dls_guard_is_alone(void)
{
    return !atomic_load_explicit(&in_subinterpreter, memory_order_relaxed);
}

void
dls_guard_install(void)
{
    static bool watching;
    int version = dls_python_version();
    is_attached = version >= 0x030d   ? attached_by_thread_local
                  : version == 0x030c ? attached_by_private_thread_local
                                      : attached_by_gil_holder;
    atomic_store_explicit(&python_ended, false, memory_order_release);
    if (guard_interpreter() != 0) {
        atomic_store_explicit(&in_subinterpreter, true, memory_order_relaxed);
    }
    dls_owner_set_python(&ops);
    if (!watching) {
        /* When all 32 places are taken, Py_IsInitialized() has to do. */
        watching = Py_AtExit(note_end) == 0;
    }
}
