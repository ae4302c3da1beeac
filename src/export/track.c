/* Tells Python what was made, and notes the end of structs in deleters, which any
 * thread may run.  Called by export.c, by_value.c, module.c and test_hooks.c.  Tests:
 * tests/core/test_tracking.py. */
#include "export/track.h"

#include "acquire/learned.h"
#include "core/alloc.h"
#include "core/tensor.h"
#include "exchange/tensor_object.h"
#include "python/errors.h"
#include "python/state.h"

atomic_int dls_track_modules;

/* A struct that lives, in its manager_ctx, or one that has ended, in the list. */
typedef struct tracked {
    struct tracked *next;
    unsigned long long number;
    uint32_t home;     /* the import that was told (state.h) */
    void *manager_ctx; /* the struct's own */
    void (*deleter)(void);
} tracked;

static _Atomic(tracked *) ended;
static atomic_ullong last_number;

/* --- ends ----------------------------------------------------------------- */

static void
note_end(tracked *record)
{
    record->next = atomic_load(&ended);
    while (!atomic_compare_exchange_weak(&ended, &record->next, record)) {
    }
}

/* Give the struct its own members back, note its end, and delete it. */
#define DELETER(name, type)                                   \
    static void name(type *managed)                           \
    {                                                         \
        tracked *record = managed->manager_ctx;               \
        managed->manager_ctx = record->manager_ctx;           \
        managed->deleter = (void (*)(type *))record->deleter; \
        note_end(record);                                     \
        managed->deleter(managed);                            \
    }
DELETER(delete_versioned, dl_managed_tensor_versioned)
DELETER(delete_legacy, dl_managed_tensor)

/* What other modules want to know goes back into the list. */
PyObject *
dls_track_ended(const dls_state *state)
{
    PyObject *list = PyList_New(0);
    tracked *record = list != NULL ? atomic_exchange(&ended, NULL) : NULL, *next;
    for (; record != NULL; record = next) {
        next = record->next;
        if (record->home != state->home) {
            note_end(record);
            continue;
        }
        PyObject *number = PyLong_FromUnsignedLongLong(record->number);
        if (list != NULL && (number == NULL || PyList_Append(list, number) < 0)) {
            Py_CLEAR(list);
        }
        Py_XDECREF(number);
        dls_free(record);
    }
    return list;
}

/* --- beginnings ----------------------------------------------------------- */

void
dls_track_switch(dls_state *state, bool on)
{
    int modules;
    if (state->tracks != on) { /* shim/tracking.py holds a lock */
        state->tracks = on;
        atomic_fetch_add(&dls_track_modules, on ? 1 : -1);
    }
    do { /* another interpreter may switch meanwhile */
        modules = atomic_load(&dls_track_modules);
        dls_hand_on_allow(modules == 0);
    } while (atomic_load(&dls_track_modules) != modules);
}

/* That Python is being taken apart (AttributeError, ImportError) is no fault of the
 * export.  Anything else is a signal handler's, or there is no memory.  0, or -1 with
 * an exception. */
static int
tell_python(dls_state *state, PyObject *tensor, const char *kind,
            unsigned long long number, const dl_tensor *what)
{
    dls_scan scan;
    dls_error err;
    bool known = dls_tensor_scan(what, &scan, &err) >= 0;
    PyObject *told = dls_in_python_with(
        state, DLS_IN_TRACKING, "made", "(OsKLii)", tensor, kind, number,
        known ? (long long)(scan.count * scan.itemsize) : 0LL,
        (int)what->device.device_type, (int)what->device.device_id);
    if (told == NULL
        && !(PyErr_ExceptionMatches(PyExc_AttributeError)
             || PyErr_ExceptionMatches(PyExc_ImportError))) {
        return -1;
    }
    Py_XDECREF(told);
    dls_error_report();
    return 0;
}

int
dls_track_tensor(dls_state *state, PyObject *tensor)
{
    return state->tracks
               ? tell_python(state, tensor, "Tensor", atomic_fetch_add(&last_number, 1),
                             &dls_tensor_data(tensor)->tensor)
               : 0;
}

int
dls_track_struct(dls_state *state, void *managed, bool versioned)
{
    tracked *record = state->tracks ? dls_alloc(sizeof *record) : NULL;
    if (record == NULL) {
        return 0;
    }
    record->home = state->home;
    record->number = atomic_fetch_add(&last_number, 1);
    if (versioned) {
        dl_managed_tensor_versioned *newer = managed;
        record->manager_ctx = newer->manager_ctx;
        record->deleter = (void (*)(void))newer->deleter;
        newer->manager_ctx = record;
        newer->deleter = delete_versioned;
    }
    else {
        dl_managed_tensor *older = managed;
        record->manager_ctx = older->manager_ctx;
        record->deleter = (void (*)(void))older->deleter;
        older->manager_ctx = record;
        older->deleter = delete_legacy;
    }
    return tell_python(state, Py_None, versioned ? "versioned" : "legacy",
                       record->number, dls_managed_tensor(managed, versioned));
}
