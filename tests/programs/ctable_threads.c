/* All five functions of a C table, from threads that Python did not start.
 *
 * Built and called by tests/core/test_ctable_threads.py.  The structs are declared here once
 * more, on purpose: this is a consumer, which has only the standard's word for them. */
#include <Python.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} tensor;

typedef struct managed {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct managed *);
    uint64_t flags;
    tensor dl;
} managed;

typedef void (*set_error)(void *, const char *, const char *);

typedef struct {
    uint32_t major, minor;
    void *prev;
    int (*allocate)(tensor *, managed **, void *, set_error);
    int (*owned)(void *, managed **);
    int (*to_object)(managed *, void **);
    int (*borrow)(void *, tensor *);
    int (*stream)(int32_t, int32_t, void **);
} table;

typedef struct {
    const table *api;
    PyObject *a, *b;
    int rounds;
    pthread_barrier_t *start;
    atomic_int *failures;
    char *text; /* 200 bytes, of the first failure */
} job;

static void
fail(job *j, const char *what)
{
    if (atomic_fetch_add(j->failures, 1) == 0) {
        snprintf(j->text, 200, "%s", what);
    }
}

static void
note(void *context, const char *kind, const char *message)
{
    (void)message;
    fail(context, kind);
}

static int
is_as_expected(const tensor *t)
{
    const float *x = (const float *)((const char *)t->data + t->byte_offset);
    return t->ndim == 2 && t->shape[0] == 2 && t->shape[1] == 3 && t->strides[0] == 3
           && t->strides[1] == 1 && t->bits == 32 && x[0] + 5 == x[5];
}

/* Kept by this thread after the lock is gone, and given back without it. */
static void
own_and_borrow(job *j)
{
    managed *owned = NULL;
    tensor borrowed[3];
    void *stream = &stream;
    PyGILState_STATE state = PyGILState_Ensure();
    if (j->api->owned(j->a, &owned) != 0 || j->api->borrow(j->a, &borrowed[0]) != 0
        || j->api->borrow(j->b, &borrowed[1]) != 0 || j->api->borrow(j->a, &borrowed[2]) != 0
        || j->api->stream(1, 0, &stream) != 0 || stream != NULL) {
        PyErr_Print();
        fail(j, "a function failed");
    }
    PyGILState_Release(state);
    if (owned == NULL) {
        return;
    }
    for (int i = 0; i < 3; i++) {
        if (!is_as_expected(&borrowed[i])) {
            fail(j, "what was borrowed has changed");
        }
    }
    if (!is_as_expected(&owned->dl)) {
        fail(j, "what is owned has changed");
    }
    owned->deleter(owned);
}

/* Made without the lock, filled, turned into an object, and dropped. */
static void
allocate_and_import(job *j)
{
    int64_t shape[2] = {2, 3};
    tensor wanted = {
        .device_type = 1, .ndim = 2, .code = 2, .bits = 32, .lanes = 1, .shape = shape};
    managed *made = NULL;
    void *object = NULL;
    if (j->api->allocate(&wanted, &made, j, note) != 0) {
        return;
    }
    float *x = made->dl.data;
    for (int i = 0; i < 6; i++) {
        x[i] = (float)i;
    }
    PyGILState_STATE state = PyGILState_Ensure();
    tensor borrowed;
    if (j->api->to_object(made, &object) != 0) {
        PyErr_Print();
        fail(j, "to_object failed");
    }
    else if (j->api->borrow(object, &borrowed) != 0 || !is_as_expected(&borrowed)) {
        fail(j, "the view of the new object is another");
    }
    Py_XDECREF((PyObject *)object);
    PyGILState_Release(state);
}

static void *
work(void *argument)
{
    job *j = argument;
    pthread_barrier_wait(j->start);
    for (int i = 0; i < j->rounds && atomic_load(j->failures) == 0; i++) {
        own_and_borrow(j);
        allocate_and_import(j);
    }
    return NULL;
}

/* --- one view is kept --------------------------------------------------------- */

static void *
borrow_often(void *argument)
{
    job *j = argument;
    tensor last;
    PyGILState_STATE state = PyGILState_Ensure();
    for (int i = 0; i < j->rounds; i++) {
        if (j->api->borrow(j->a, &last) != 0 || !is_as_expected(&last)) {
            PyErr_Print();
            fail(j, "a later view is wrong");
        }
    }
    PyGILState_Release(state);
    return NULL;
}

/* Borrow a view, and let another thread borrow from the same object `rounds` times
 * before it is read.  Called with the lock.  The number of failures. */
int
keep_while_others_borrow(const table *api, PyObject *a, int rounds)
{
    atomic_int failures = 0;
    char text[200];
    tensor kept;
    pthread_t other;
    job j = {.api = api, .a = a, .rounds = rounds, .failures = &failures, .text = text};
    if (api->borrow(a, &kept) != 0) {
        return -1;
    }
    Py_BEGIN_ALLOW_THREADS
    if (pthread_create(&other, NULL, borrow_often, &j) == 0) {
        pthread_join(other, NULL);
    }
    Py_END_ALLOW_THREADS
    return !is_as_expected(&kept) + atomic_load(&failures);
}

static const table *behind;

static int
owned_and_an_error(void *object, managed **out)
{
    int code = behind->owned(object, out);
    PyErr_SetString(PyExc_RuntimeError, "left behind");
    return code;
}

/* A table that succeeds with an exception set, over another one. */
const table *
careless(const table *api)
{
    static table made;
    behind = api;
    made = *api;
    made.owned = owned_and_an_error;
    made.borrow = NULL;
    return &made;
}

/* Own the one object of a list, drop it from there, and give it back while an exception is
 * pending, with or without the lock.  Is it still pending afterwards?  -1: it could not be
 * owned. */
int
give_back_while_pending(const table *api, PyObject *list, int with_lock)
{
    managed *owned = NULL;
    if (api->owned(PyList_GetItem(list, 0), &owned) != 0
        || PyList_SetSlice(list, 0, 1, NULL) != 0) {
        return -1;
    }
    PyErr_SetString(PyExc_KeyError, "pending");
    PyThreadState *thread = with_lock ? NULL : PyEval_SaveThread();
    owned->deleter(owned);
    if (thread != NULL) {
        PyEval_RestoreThread(thread);
    }
    int kept = PyErr_Occurred() != NULL && PyErr_ExceptionMatches(PyExc_KeyError);
    PyErr_Clear();
    return kept;
}

/* Pass an object to the functions that give a tensor; borrow may be NULL.  Do they return -1 with
 * an exception, and give nothing?  Called with the lock. */
int
refuses(const table *api, PyObject *object)
{
    managed *owned = NULL;
    tensor view = {.ndim = -1};
    int refused = 0;
    refused += api->owned(object, &owned) == -1 && PyErr_Occurred() != NULL && owned == NULL;
    PyErr_Clear();
    refused += api->borrow == NULL
               || (api->borrow(object, &view) == -1 && PyErr_Occurred() != NULL && view.ndim == -1);
    PyErr_Clear();
    if (owned != NULL) {
        owned->deleter(owned);
    }
    return refused == 2;
}

/* a and b are objects of the type with the table.  Called without the lock.  The number of
 * failures, and in text what the first was. */
int
hammer(const table *api, PyObject *a, PyObject *b, int threads, int rounds, char *text)
{
    pthread_t ids[32];
    pthread_barrier_t start;
    atomic_int failures = 0;
    job j = {api, a, b, rounds, &start, &failures, text};
    if (threads > 32 || pthread_barrier_init(&start, NULL, (unsigned)threads) != 0) {
        return -1;
    }
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&ids[i], NULL, work, &j) != 0) {
            return -1;
        }
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
    }
    pthread_barrier_destroy(&start);
    return failures;
}
