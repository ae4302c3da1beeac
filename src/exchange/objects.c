/* The objects of our two types: the answer and the list of exports that a Producer
 * keeps, the newest first; a Tensor, made from an exchange, or on the fast path
 * with memory of the freelists.  Tests: tests/core/test_ctable.py,
 * tests/core/test_properties.py, tests/core/test_lifetime.py,
 * tests/core/test_freelists.py. */
#include "exchange/objects.h"

#include <assert.h>
#include <string.h>

#include "core/alloc.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "exchange/exchange.h"
#include "gpu/pointer.h"
#include "python/capsule.h"
#include "python/errors.h"

/* --- an answer that is kept for the next export ---------------------------- */

int
dls_producer_keep_answer(dls_producer *self, PyObject *capsule)
{
    dls_hold hold = {.py = capsule};
    dls_shared *shared = dls_shared_new(&hold);
    if (shared == NULL) {
        dls_drop_foreign(capsule);
        PyErr_NoMemory();
        return -1;
    }
    dls_producer_keep_share(self, shared);
    return 0;
}

/* Only an answer is a capsule: memory that is held never is. */
PyObject *
dls_producer_take_answer(dls_producer *self)
{
    PyObject *capsule = NULL;
    dls_shared *kept = dls_producer_swap_share(self, NULL);
    if (kept == NULL) {
        return NULL;
    }
    if (kept->hold.py != NULL && dls_capsule_check(kept->hold.py)) {
        capsule = kept->hold.py;
        kept->hold.py = NULL;
        dls_shared_drop(kept, DLS_ATTACHED);
    }
    else {
        dls_producer_keep_share(self, kept);
    }
    return capsule;
}

/* --- exports that are kept for borrowers ---------------------------------- */

/* Foreign code may run: the pending exception is saved meanwhile. */
static void
delete(dl_managed_tensor *managed)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    dls_managed_delete_attached(managed, false);
    dls_error_report();
    PyErr_Restore(type, value, trace);
}

void
dls_borrowed_drop(dls_borrowed *list)
{
    while (list != NULL) {
        dls_borrowed *next = list->next;
        delete(list->managed);
        dls_free(list);
        list = next;
    }
}

int
dls_borrowed_visit(const dls_borrowed *list, visitproc visit, void *arg)
{
    int stop = 0;
    for (; list != NULL && stop == 0; list = list->next) {
        const dls_hold *hold = dls_export_own_hold(list->managed, false);
        stop = hold != NULL ? dls_hold_visit(hold, visit, arg) : 0;
    }
    return stop;
}

static bool
same_dims(const int64_t *a, const int64_t *b, int32_t ndim)
{
    return a == b
           || (a != NULL && b != NULL && memcmp(a, b, sizeof *a * (size_t)ndim) == 0);
}

static bool
same_tensor(const dl_tensor *a, const dl_tensor *b)
{
    return a->data == b->data && a->byte_offset == b->byte_offset && a->ndim == b->ndim
           && a->device.device_type == b->device.device_type
           && a->device.device_id == b->device.device_id
           && a->dtype.code == b->dtype.code && a->dtype.bits == b->dtype.bits
           && a->dtype.lanes == b->dtype.lanes && same_dims(a->shape, b->shape, a->ndim)
           && same_dims(a->strides, b->strides, a->ndim);
}

/* The entry of the thread that equals `tensor`, put at the head; or NULL.  Under the
 * Producer's lock. */
static dls_borrowed *
find_equal(dls_producer *self, const dl_tensor *tensor, unsigned long thread)
{
    dls_borrowed *before = NULL, *at = self->borrowed;
    while (at != NULL
           && (at->thread != thread || !same_tensor(&at->managed->dl_tensor, tensor))) {
        before = at;
        at = at->next;
    }
    if (at != NULL && before != NULL) {
        before->next = at->next;
        at->next = self->borrowed;
        self->borrowed = at;
    }
    return at;
}

/* Take the thread's oldest entry out, if it has more than may stay; or NULL.  Under the
 * Producer's lock. */
static dls_borrowed *
take_oldest(dls_producer *self, unsigned long thread)
{
    dls_borrowed *before = NULL, *at = self->borrowed;
    int count = 0;
    for (; at != NULL; at = at->next) {
        count += at->thread == thread;
        if (count > DLS_BORROWED_ROOM && before != NULL) { /* it is not the first */
            before->next = at->next;
            at->next = NULL;
            break;
        }
        before = at;
    }
    return at;
}

bool
dls_borrowed_find(dls_producer *self, const dl_tensor *tensor, dl_tensor *out)
{
    const unsigned long thread = dls_this_thread();
    DLS_LOCK(self);
    const dls_borrowed *equal = find_equal(self, tensor, thread);
    if (equal != NULL) {
        *out = equal->managed->dl_tensor;
    }
    DLS_UNLOCK();
    return equal != NULL;
}

int
dls_borrowed_keep(dls_producer *self, dl_managed_tensor *managed, dl_tensor *out)
{
    assert(managed != NULL);
    if (dls_borrowed_find(self, &managed->dl_tensor, out)) {
        delete(managed);
        return 0;
    }
    dls_borrowed *made = dls_alloc(sizeof *made);
    if (made == NULL) {
        delete(managed);
        PyErr_NoMemory();
        return -1;
    }
    *made = (dls_borrowed){.managed = managed, .thread = dls_this_thread()};
    *out = managed->dl_tensor;
    DLS_LOCK(self);
    made->next = self->borrowed;
    self->borrowed = made;
    dls_borrowed *oldest = take_oldest(self, made->thread);
    DLS_UNLOCK();
    dls_borrowed_drop(oldest);
    return 0;
}

/* --- freelists ------------------------------------------------------------ */

#if defined(DLS_FREE_THREADED) || defined(__SANITIZE_ADDRESS__)
#define ROOM 0
#else
#define ROOM DLS_FREELIST_ROOM
#endif

dls_freelist dls_freelist_producers;
dls_freelist dls_freelist_tensors[DLS_FREELIST_NDIM + 1];

static DLS_ATOMIC(bool) watching; /* forget will be called */

static void
set_room(int room)
{
    if (ROOM == 0) {
        return; /* no list is ever read */
    }
    dls_freelist_producers = (dls_freelist){.room = room};
    for (int ndim = 0; ndim <= DLS_FREELIST_NDIM; ndim++) {
        dls_freelist_tensors[ndim] = (dls_freelist){.room = room};
    }
}

/* Called near the end of Py_Finalize: the memory is freed with the interpreter. */
static void
forget_freelists(void)
{
    watching = false;
    set_room(0);
}

void
dls_freelists_open(bool alone)
{
    if (!alone) {
        set_room(0); /* the memory in the lists is leaked: its interpreter owns it */
        return;
    }
    if (ROOM != 0 && !watching) {
        watching = Py_AtExit(forget_freelists) == 0;
        set_room(watching ? ROOM : 0);
    }
}

/* --- making one ----------------------------------------------------------- */

void
dls_tensor_set_version(dls_tensor *self, dls_generation generation, dl_version version)
{
    if (generation != DLS_VERSIONED) {
        version = generation == DLS_LEGACY ? (dl_version){0, 8}
                                           : (dl_version){DL_MAJOR, DL_MINOR};
    }
    self->major = (uint16_t)version.major;
    self->minor = (uint16_t)(version.minor < UINT16_MAX ? version.minor : UINT16_MAX);
    self->generation = (uint8_t)generation;
}

/* 0, or -1 with MemoryError. */
static int
set_ready(dls_tensor *self, dls_producer_stream p, PyObject *stream)
{
    if (p.known == DLS_P_READY && p.handle == 0 && stream == NULL) {
        return 0;
    }
    self->ready = dls_alloc(sizeof *self->ready);
    if (self->ready == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    Py_XINCREF(stream);
    *self->ready = (dls_ready){.p = p, .stream = stream, .thread = dls_thread_number()};
    return 0;
}

PyObject *
dls_tensor_new(dls_state *state, const dls_delivery *what, const dls_acquired *acquired,
               dls_producer_stream ready, PyObject *stream)
{
    dls_tensor *data = dls_tensor_new_plain(state, &what->tensor);
    if (data == NULL) {
        return NULL;
    }
    dls_tensor_write_dims(&what->tensor, what->canonical, data->dims);
    dls_tensor_set_version(data, acquired->generation, acquired->version);
    data->flags = (uint32_t)what->flags;
    data->readonly_stated = acquired->readonly_stated;
    if (set_ready(data, ready, stream) < 0) {
        Py_DECREF(DLS_OBJECT(data));
        return NULL;
    }
    PyObject_GC_Track(DLS_OBJECT(data));
    return DLS_OBJECT(data);
}

void
dls_tensor_set_hold(PyObject *self, dls_hold *hold)
{
    dls_tensor *data = dls_tensor_data(self);
    assert(dls_hold_is_empty(&data->hold));
    dls_hold_move(hold, &data->hold);
}

/* --- what is known of it -------------------------------------------------- */

int64_t
dls_tensor_count(const dls_tensor *self)
{
    int64_t count = 0;
    dls_layout_count(self->tensor.ndim, self->tensor.shape, &count, NULL);
    return count;
}

int64_t
dls_tensor_itemsize(const dls_tensor *self)
{
    return dls_dtype_itemsize(self->tensor.dtype, self->flags & DL_FLAG_SUBBYTE_PADDED);
}

void *
dls_tensor_address(const dls_tensor *self)
{
    const dl_tensor *t = &self->tensor;
    bool adds = dls_device_has_addresses(t->device.device_type) && t->data != NULL;
    return adds ? (char *)t->data + t->byte_offset : t->data;
}

PyObject *
dls_dims_tuple(const int64_t *dims, int32_t n, int64_t unit)
{
    PyObject *tuple = PyTuple_New(n);
    for (int32_t i = 0; tuple != NULL && i < n; i++) {
        int64_t value;
        /* Only strides of extents below 2 can overflow here, and they do not count. */
        bool fits = dls_mul(dims[i], unit, &value);
        PyObject *item = PyLong_FromLongLong(fits ? value : 0);
        if (item == NULL) {
            Py_CLEAR(tuple);
            break;
        }
        PyTuple_SetItem(tuple, i, item);
    }
    return tuple;
}

dls_producer_stream
dls_tensor_ready_stream(const dls_tensor *self)
{
    const dls_ready *ready = self->ready;
    if (ready == NULL) {
        return (dls_producer_stream){.known = DLS_P_READY};
    }
    const dls_producer_stream legacy = {
        .known = DLS_P_KNOWN,
        .handle = dls_driver_of(self->tensor.device.device_type)->legacy};
    DLS_LOCK(self);
    const dls_producer_stream p = ready->p;
    DLS_UNLOCK();
    bool foreign = p.known == DLS_P_KNOWN && p.handle == 2
                   && ready->thread != dls_thread_number();
    return foreign ? legacy : p; /* mutant: stream of another thread */
}

void
dls_tensor_set_ready(dls_tensor *self, dls_producer_stream p)
{
    if (self->ready != NULL && p.known == DLS_P_READY) {
        dls_free(self->ready);
        self->ready = NULL;
    }
    else if (self->ready != NULL) {
        self->ready->p = p;
    }
}

void
dls_tensor_set_ready_stream(dls_tensor *self, uint64_t handle)
{
    assert(self->ready != NULL);
    DLS_LOCK(self);
    self->ready->p = (dls_producer_stream){.known = DLS_P_KNOWN, .handle = handle};
    DLS_UNLOCK();
}

/* --- sharing its memory --------------------------------------------------- */

#ifdef DLS_FREE_THREADED
/* The hold stays as it is, because other threads may read it, but `shared` owns what it
 * names.  A share that came is shared again: shares of shares would be a chain. */
static dls_shared *
share_or_fail(dls_tensor *self)
{
    dls_hold hold = self->hold;
    dls_shared *shared = hold.kind == DLS_HOLD_SHARED ? hold.base : self->shared;
    if (shared == NULL) {
        dls_shared *made = dls_shared_new(&hold);
        if (made == NULL) {
            return NULL;
        }
        if (atomic_compare_exchange_strong(&self->shared, &shared, made)) {
            shared = made;
        }
        else {
            dls_free(made); /* another thread was quicker */
        }
    }
    return dls_shared_add(shared);
}
#else
static dls_shared *
share_or_fail(dls_tensor *self)
{
    if (self->hold.kind != DLS_HOLD_SHARED) {
        dls_shared *shared = dls_shared_new(&self->hold);
        if (shared == NULL) {
            return NULL;
        }
        self->hold = (dls_hold){.base = shared, .kind = DLS_HOLD_SHARED};
    }
    return dls_shared_add(self->hold.base);
}
#endif

/* Most Tensors are never exported, so the hold becomes a shared one at the first
 * export. */
dls_shared *
dls_tensor_share(dls_tensor *self)
{
    dls_shared *shared = share_or_fail(self);
    if (shared == NULL) {
        PyErr_NoMemory();
    }
    return shared;
}

int
dls_tensor_acquire(dls_tensor *self, dls_acquired *acquired)
{
    dls_shared *shared = dls_tensor_share(self);
    if (shared == NULL) {
        return -1;
    }
    acquired->tensor = self->tensor;
    /* Another consumer may get this memory too, so it was not copied for this one
     * (T8). */
    acquired->flags = self->flags & ~DL_FLAG_IS_COPIED;
    acquired->version = (dl_version){self->major, self->minor};
    acquired->generation = (dls_generation)self->generation;
    acquired->readonly_stated = self->readonly_stated;
    acquired->altered = true;
    acquired->hold = (dls_hold){.base = shared, .kind = DLS_HOLD_SHARED};
    return 0;
}
