/* The Producer's object: the list of exports that it keeps for borrowers, the newest
 * first.  Tests: tests/core/test_ctable.py, tests/core/test_lifetime.py. */
#include "exchange/producer_object.h"

#include <assert.h>
#include <string.h>

#include "core/alloc.h"
#include "core/tensor.h"
#include "exchange/exchange.h"
#include "python/errors.h"

#define LOOK_BACK 8 /* how many are compared */

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

const dl_tensor *
dls_borrowed_find(const dls_borrowed *list, const dl_tensor *tensor)
{
    for (int i = 0; list != NULL && i < LOOK_BACK; i++, list = list->next) {
        if (same_tensor(&list->managed->dl_tensor, tensor)) {
            return &list->managed->dl_tensor;
        }
    }
    return NULL;
}

const dl_tensor *
dls_borrowed_keep(DLS_ATOMIC(dls_borrowed *) * list, dl_managed_tensor *managed)
{
    assert(managed != NULL);
    const dl_tensor *equal = dls_borrowed_find(*list, &managed->dl_tensor);
    dls_borrowed *kept = equal == NULL ? dls_alloc(sizeof *kept) : NULL;
    if (kept == NULL) {
        delete(managed);
        if (equal == NULL) {
            PyErr_NoMemory();
        }
        return equal;
    }
    *kept = (dls_borrowed){.next = *list, .managed = managed};
#ifdef DLS_FREE_THREADED
    /* What another thread adds meanwhile may be equal: then both are kept. */
    while (!atomic_compare_exchange_weak(list, &kept->next, kept)) {
    }
#else
    *list = kept;
#endif
    return &managed->dl_tensor;
}
