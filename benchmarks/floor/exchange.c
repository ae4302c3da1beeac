/* Translating, taking, and asking the source: each the shortest way there is. */
#include "floor.h"

/* Our struct with the dimensions behind it, one malloc; `inner` goes with it. */
typedef struct {
    dl_managed_tensor_versioned managed;
    int64_t dims[];
} versioned_export;

typedef struct {
    dl_managed_tensor managed;
    int64_t dims[];
} legacy_export;

static void copy_dims(dl_tensor *to, const dl_tensor *from, int64_t *dims)
{
    int32_t ndim = from->ndim;
    *to = *from;
    for (int32_t i = 0; i < ndim; i++) {
        dims[i] = from->shape[i];
        dims[ndim + i] = from->strides[i];
    }
    to->shape = dims;
    to->strides = dims + ndim;
}

static size_t dims_size(const dl_tensor *tensor)
{
    return 2 * (size_t)tensor->ndim * sizeof(int64_t);
}

static void versioned_delete(dl_managed_tensor_versioned *self)
{
    dl_managed_tensor *inner = self->manager_ctx;
    inner->deleter(inner);
    free(self);
}

static void legacy_delete(dl_managed_tensor *self)
{
    dl_managed_tensor_versioned *inner = self->manager_ctx;
    inner->deleter(inner);
    free(self);
}

dl_managed_tensor_versioned *floor_to_versioned(dl_managed_tensor *inner)
{
    versioned_export *made = malloc(sizeof *made + dims_size(&inner->dl_tensor));
    if (made == NULL) {
        inner->deleter(inner);
        PyErr_NoMemory();
        return NULL;
    }
    made->managed.version = (dl_version){1, 3};
    made->managed.manager_ctx = inner;
    made->managed.deleter = versioned_delete;
    made->managed.flags = 0;
    copy_dims(&made->managed.dl_tensor, &inner->dl_tensor, made->dims);
    return &made->managed;
}

dl_managed_tensor *floor_to_legacy(dl_managed_tensor_versioned *inner)
{
    legacy_export *made = malloc(sizeof *made + dims_size(&inner->dl_tensor));
    if (made == NULL) {
        inner->deleter(inner);
        PyErr_NoMemory();
        return NULL;
    }
    made->managed.manager_ctx = inner;
    made->managed.deleter = legacy_delete;
    copy_dims(&made->managed.dl_tensor, &inner->dl_tensor, made->dims);
    return &made->managed;
}

static void versioned_destruct(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, DL_NAME_VERSIONED)) {
        dl_managed_tensor_versioned *managed = PyCapsule_GetPointer(capsule, DL_NAME_VERSIONED);
        managed->deleter(managed);
    }
}

static void legacy_destruct(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, DL_NAME_LEGACY)) {
        dl_managed_tensor *managed = PyCapsule_GetPointer(capsule, DL_NAME_LEGACY);
        managed->deleter(managed);
    }
}

PyObject *floor_capsule_versioned(dl_managed_tensor_versioned *managed)
{
    PyObject *capsule = PyCapsule_New(managed, DL_NAME_VERSIONED, versioned_destruct);
    if (capsule == NULL) {
        managed->deleter(managed);
    }
    return capsule;
}

PyObject *floor_capsule_legacy(dl_managed_tensor *managed)
{
    PyObject *capsule = PyCapsule_New(managed, DL_NAME_LEGACY, legacy_destruct);
    if (capsule == NULL) {
        managed->deleter(managed);
    }
    return capsule;
}

void *floor_take(PyObject *capsule, const char *name, const char *used)
{
    void *managed = PyCapsule_GetPointer(capsule, name);
    if (managed != NULL && PyCapsule_SetName(capsule, used) < 0) {
        return NULL;
    }
    return managed;
}

PyObject *floor_call_bare(floor_state *st, PyObject *source)
{
    PyObject *args[2] = {NULL, source};
    return st->vectorcall_method(st->name_dlpack, args + 1, 1 | FLOOR_OFFSET, NULL);
}

PyObject *floor_call_versioned(floor_state *st, PyObject *source)
{
    PyObject *args[3] = {NULL, source, st->version};
    return st->vectorcall_method(st->name_dlpack, args + 1, 1 | FLOOR_OFFSET, st->keywords);
}

int floor_check_grad(floor_state *st, const floor_plan *plan, PyObject *source)
{
    if (!plan->asks_grad) {
        return 0;
    }
    PyObject *answer = PyObject_GetAttr(source, st->name_requires_grad);
    if (answer == NULL) {
        return -1;
    }
    Py_DECREF(answer);
    if (answer != Py_False) {
        PyErr_SetString(PyExc_BufferError, "the tensor requires grad");
        return -1;
    }
    return 0;
}

static dl_managed_tensor_versioned *own_by_table(floor_state *st, const floor_plan *plan,
                                                 PyObject *source)
{
    dl_managed_tensor_versioned *managed = NULL;
    if (floor_check_grad(st, plan, source) < 0 ||
        plan->table->managed_tensor_from_py_object_no_sync(source, &managed) < 0) {
        return NULL;
    }
    return managed;
}

dl_managed_tensor_versioned *floor_own(floor_state *st, const floor_plan *plan, floor_form form,
                                       PyObject *source)
{
    if (form == FLOOR_TABLE) {
        return own_by_table(st, plan, source);
    }
    bool legacy = form == FLOOR_LEGACY;
    PyObject *capsule = legacy ? floor_call_bare(st, source) : floor_call_versioned(st, source);
    if (capsule == NULL) {
        return NULL;
    }
    dl_managed_tensor_versioned *managed = NULL;
    if (legacy) {
        dl_managed_tensor *inner = floor_take(capsule, DL_NAME_LEGACY, DL_NAME_LEGACY_USED);
        managed = inner != NULL ? floor_to_versioned(inner) : NULL;
    } else {
        managed = floor_take(capsule, DL_NAME_VERSIONED, DL_NAME_VERSIONED_USED);
    }
    Py_DECREF(capsule);
    return managed;
}
