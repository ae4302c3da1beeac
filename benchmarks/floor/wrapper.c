/* The wrapper: what `upgrade` gives, without a check; translating, taking, and asking the source, each
 * the shortest way there is. */
#include "floor.h"

typedef struct {
    PyObject ob_base;
    floor_state *state;
    const floor_plan *plan;
    PyObject *source;
    floor_form form;
    dl_managed_tensor_versioned *kept; /* by the first borrow; NULL before */
} floor_wrapper;

/* ---- translation ---- */

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

void *floor_get(size_t size)
{
    void *memory = malloc(size);
    if (memory == NULL) {
        Py_FatalError("the floor has no memory");
    }
    return memory;
}

static dl_managed_tensor_versioned *to_versioned(dl_managed_tensor *inner)
{
    versioned_export *made = floor_get(sizeof *made + dims_size(&inner->dl_tensor));
    made->managed.version = (dl_version){1, 3};
    made->managed.manager_ctx = inner;
    made->managed.deleter = versioned_delete;
    made->managed.flags = 0;
    copy_dims(&made->managed.dl_tensor, &inner->dl_tensor, made->dims);
    return &made->managed;
}

static dl_managed_tensor *to_legacy(dl_managed_tensor_versioned *inner)
{
    legacy_export *made = floor_get(sizeof *made + dims_size(&inner->dl_tensor));
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
    return PyCapsule_New(managed, DL_NAME_VERSIONED, versioned_destruct);
}

PyObject *floor_capsule_legacy(dl_managed_tensor *managed)
{
    return PyCapsule_New(managed, DL_NAME_LEGACY, legacy_destruct);
}

static void *take(PyObject *capsule, const char *name, const char *used)
{
    void *managed = PyCapsule_GetPointer(capsule, name);
    if (managed != NULL && PyCapsule_SetName(capsule, used) < 0) {
        return NULL;
    }
    return managed;
}

static PyObject *call_bare(floor_state *st, PyObject *source)
{
    PyObject *args[2] = {NULL, source};
    return st->vectorcall_method(st->name_dlpack, args + 1, 1 | FLOOR_OFFSET, NULL);
}

static PyObject *call_versioned(floor_state *st, PyObject *source)
{
    PyObject *args[3] = {NULL, source, st->version};
    return st->vectorcall_method(st->name_dlpack, args + 1, 1 | FLOOR_OFFSET, st->keywords);
}

static int check_grad(floor_state *st, PyObject *source)
{
    PyObject *answer = PyObject_GetAttr(source, st->name_requires_grad);
    Py_XDECREF(answer);
    if (answer != NULL && answer != Py_False) {
        PyErr_SetString(PyExc_BufferError, "the tensor requires grad");
    }
    return answer == Py_False ? 0 : -1;
}

static dl_managed_tensor_versioned *own_by_table(floor_state *st, const floor_plan *plan,
                                                 PyObject *source)
{
    dl_managed_tensor_versioned *managed = NULL;
    if ((plan->asks_grad && check_grad(st, source) < 0) ||
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
    PyObject *capsule = legacy ? call_bare(st, source) : call_versioned(st, source);
    if (capsule == NULL) {
        return NULL;
    }
    dl_managed_tensor_versioned *managed = NULL;
    if (legacy) {
        dl_managed_tensor *inner = take(capsule, DL_NAME_LEGACY, DL_NAME_LEGACY_USED);
        managed = inner != NULL ? to_versioned(inner) : NULL;
    } else {
        managed = take(capsule, DL_NAME_VERSIONED, DL_NAME_VERSIONED_USED);
    }
    Py_DECREF(capsule);
    return managed;
}

/* ---- plans: one a type, learned at the first meeting; wrappers point at them ---- */

const dl_exchange_api *floor_table_of(PyTypeObject *type)
{
    PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
    if (capsule == NULL) {
        PyErr_Clear();
        return NULL;
    }
    const dl_exchange_api *table = PyCapsule_GetPointer(capsule, DL_NAME_EXCHANGE_API);
    if (table == NULL) {
        PyErr_Clear();
    }
    Py_DECREF(capsule);
    return table;
}

/* Asks for a versioned capsule; a TypeError says that the type is legacy. */
static int learn_method(floor_state *st, PyObject *source, floor_plan *plan)
{
    PyObject *capsule = call_versioned(st, source);
    plan->method = FLOOR_VERSIONED;
    if (capsule == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError)) {
            return -1;
        }
        PyErr_Clear();
        plan->method = FLOOR_LEGACY;
        return 0;
    }
    if (!PyCapsule_IsValid(capsule, DL_NAME_VERSIONED)) {
        plan->method = FLOOR_LEGACY;
    }
    Py_DECREF(capsule);
    return 0;
}

static int learn(floor_state *st, PyObject *source, floor_plan *plan)
{
    PyTypeObject *type = Py_TYPE(source);
    if (learn_method(st, source, plan) < 0) {
        return -1;
    }
    plan->table = floor_table_of(type);
    if (plan->table != NULL) {
        PyObject *word = PyObject_GetAttr((PyObject *)type, st->name_requires_grad);
        plan->asks_grad = word != NULL;
        Py_XDECREF(word);
        PyErr_Clear();
    }
    Py_INCREF(type);
    plan->type = type;
    return 0;
}

const floor_plan *floor_find_plan(floor_state *st, PyObject *source)
{
    PyTypeObject *type = Py_TYPE(source);
    for (size_t slot = (uintptr_t)type >> 4;; slot++) {
        floor_plan *plan = &st->plans[slot % FLOOR_PLANS];
        if (plan->type == type) {
            return plan;
        }
        if (plan->type == NULL) {
            return learn(st, source, plan) < 0 ? NULL : plan;
        }
    }
}

/* ---- the C table ---- */

static int table_stream(int32_t device_type, int32_t device_id, void **out)
{
    (void)device_type;
    (void)device_id;
    *out = NULL;
    return 0;
}

static int table_allocate(dl_tensor *prototype, dl_managed_tensor_versioned **out, void *context,
                          void (*set_error)(void *, const char *, const char *))
{
    (void)prototype;
    (void)out;
    set_error(context, "BufferError", "the floor allocates nothing");
    return -1;
}

static int table_object(dl_managed_tensor_versioned *tensor, void **out)
{
    (void)tensor;
    (void)out;
    PyErr_SetString(PyExc_BufferError, "the floor takes nothing");
    return -1;
}

int floor_set_table(PyTypeObject *type, dl_exchange_api *table)
{
    table->header.version = (dl_version){1, 3};
    table->managed_tensor_allocator = table_allocate;
    table->managed_tensor_to_py_object_no_sync = table_object;
    table->current_work_stream = table_stream;
    PyObject *capsule = PyCapsule_New(table, DL_NAME_EXCHANGE_API, NULL);
    if (capsule == NULL) {
        return -1;
    }
    int result =
        PyObject_SetAttrString((PyObject *)type, "__dlpack_c_exchange_api__", capsule);
    Py_DECREF(capsule);
    return result;
}

static int wrapper_owned(void *object, dl_managed_tensor_versioned **out)
{
    floor_wrapper *self = object;
    if (self->form == FLOOR_TABLE) { /* kernels take parameters: no question about grad */
        return self->plan->table->managed_tensor_from_py_object_no_sync(self->source, out);
    }
    *out = floor_own(self->state, self->plan, self->form, self->source);
    return *out != NULL ? 0 : -1;
}

static int wrapper_borrow(void *object, dl_tensor *out)
{
    floor_wrapper *self = object;
    if (self->form == FLOOR_TABLE && self->plan->table->dltensor_from_py_object_no_sync != NULL) {
        return self->plan->table->dltensor_from_py_object_no_sync(self->source, out);
    }
    if (self->kept == NULL) {
        self->kept = floor_own(self->state, self->plan, self->form, self->source);
        if (self->kept == NULL) {
            return -1;
        }
    }
    *out = self->kept->dl_tensor;
    return 0;
}

static dl_exchange_api wrapper_table = {
    .managed_tensor_from_py_object_no_sync = wrapper_owned,
    .dltensor_from_py_object_no_sync = wrapper_borrow,
};

/* ---- the object ---- */

bool floor_wants_versioned(PyObject *max_version)
{
    return max_version != Py_None && PyLong_AsLong(PyTuple_GetItem(max_version, 0)) >= 1;
}

static bool wants_versioned(floor_state *st, PyObject *const *values, PyObject *kwnames)
{
    Py_ssize_t count = kwnames != NULL ? PyTuple_Size(kwnames) : 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (PyTuple_GetItem(kwnames, i) == st->word_max_version) {
            return floor_wants_versioned(values[i]);
        }
    }
    return false;
}

static PyObject *export_legacy(floor_wrapper *self)
{
    if (self->form == FLOOR_LEGACY) {
        return call_bare(self->state, self->source);
    }
    dl_managed_tensor_versioned *inner =
        floor_own(self->state, self->plan, self->form, self->source);
    return inner != NULL ? floor_capsule_legacy(to_legacy(inner)) : NULL;
}

static PyObject *export_versioned(floor_wrapper *self)
{
    if (self->form == FLOOR_VERSIONED) {
        return call_versioned(self->state, self->source);
    }
    dl_managed_tensor_versioned *made =
        floor_own(self->state, self->plan, self->form, self->source);
    return made != NULL ? floor_capsule_versioned(made) : NULL;
}

static PyObject *wrapper_dlpack(PyObject *op, PyObject *const *args, Py_ssize_t nargs,
                                PyObject *kwnames)
{
    floor_wrapper *self = (floor_wrapper *)op;
    bool versioned = wants_versioned(self->state, args + nargs, kwnames);
    return versioned ? export_versioned(self) : export_legacy(self);
}

static PyObject *wrapper_device(PyObject *op, PyObject *unused)
{
    (void)unused;
    PyObject *device = ((floor_wrapper *)op)->state->cpu_device;
    Py_INCREF(device);
    return device;
}

static void wrapper_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    floor_wrapper *self = (floor_wrapper *)op;
    PyObject_GC_UnTrack(op);
    if (self->kept != NULL) {
        self->kept->deleter(self->kept);
    }
    Py_DECREF(self->source);
    PyObject_GC_Del(op);
    Py_DECREF(type);
}

static int wrapper_traverse(PyObject *op, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(op));
    Py_VISIT(((floor_wrapper *)op)->source);
    return 0;
}

PyObject *floor_upgrade(floor_state *st, PyObject *source, bool by_table)
{
    const floor_plan *plan = floor_find_plan(st, source);
    floor_wrapper *self = plan != NULL ? PyObject_GC_New(floor_wrapper, st->wrapper) : NULL;
    if (self != NULL) {
        Py_INCREF(source);
        self->state = st;
        self->plan = plan;
        self->source = source;
        self->form = by_table && plan->table != NULL ? FLOOR_TABLE : plan->method;
        self->kept = NULL;
        PyObject_GC_Track(self);
    }
    return (PyObject *)self;
}

static PyMethodDef wrapper_methods[] = {
    {"__dlpack__", FLOOR_METHOD(wrapper_dlpack), METH_FASTCALL | METH_KEYWORDS, NULL},
    {"__dlpack_device__", wrapper_device, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int floor_add_wrapper(PyObject *module, floor_state *st)
{
    PyType_Slot slots[] = {
        {Py_tp_dealloc, (void *)wrapper_dealloc},
        {Py_tp_traverse, (void *)wrapper_traverse},
        {Py_tp_methods, wrapper_methods},
        {0, NULL},
    };
    st->wrapper = floor_add_type(module, "dls_floor.Wrapper", sizeof(floor_wrapper),
                                 Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots);
    return st->wrapper != NULL ? floor_set_table(st->wrapper, &wrapper_table) : -1;
}
