/* What Python calls: making producers and wrappers, consuming, and the loops
 * over C tables. */
#include "floor.h"

/* Whether a probe looks is known to the compiler: those that do not pay nothing for it. */
#define KNOWN static inline __attribute__((always_inline))

static PyObject *make(PyObject *module, PyObject *args, PyTypeObject *type)
{
    int ndim = 2;
    if (!PyArg_ParseTuple(args, "|i", &ndim)) {
        return NULL;
    }
    return floor_make_producer(floor_state_of(module), type, ndim);
}

static PyObject *make_legacy(PyObject *module, PyObject *args)
{
    return make(module, args, floor_state_of(module)->legacy);
}

static PyObject *make_noargs(PyObject *module, PyObject *args)
{
    return make(module, args, floor_state_of(module)->noargs);
}

static PyObject *make_modern(PyObject *module, PyObject *args)
{
    return make(module, args, floor_state_of(module)->modern);
}

static PyObject *make_modernx(PyObject *module, PyObject *args)
{
    return make(module, args, floor_state_of(module)->modernx);
}

static PyObject *upgrade(PyObject *module, PyObject *source)
{
    return floor_upgrade(floor_state_of(module), source);
}

static PyObject *upgrade_untracked(PyObject *module, PyObject *source)
{
    return floor_upgrade_untracked(floor_state_of(module), source);
}

static PyObject *upgrade_table(PyObject *module, PyObject *source)
{
    return floor_upgrade_table(floor_state_of(module), source);
}

static PyObject *nothing(PyObject *module, PyObject *source)
{
    (void)module;
    (void)source;
    Py_RETURN_NONE;
}

/* Is a struct host memory in row-major order with an address, so that nothing of it would have
 * to be changed?  The least that can be looked at. */
static int is_plain(const dl_tensor *tensor)
{
    if (tensor->device.device_type != dl_kDLCPU || tensor->device.device_id != 0 ||
        tensor->byte_offset != 0 || tensor->data == NULL || tensor->strides == NULL) {
        return 0;
    }
    int64_t product = 1;
    for (int32_t i = tensor->ndim - 1; i >= 0; i--) {
        if (tensor->shape[i] <= 0 || tensor->strides[i] != product ||
            __builtin_mul_overflow(product, tensor->shape[i], &product)) {
            return 0;
        }
    }
    return 1;
}

/* Owning object: the least that a `from_dlpack` can return. */

static PyObject *refuse_look(void)
{
    PyErr_SetString(PyExc_BufferError, "the floor takes plain tensors only");
    return NULL;
}

KNOWN PyObject *own(PyObject *module, PyObject *source, bool by_table, bool look)
{
    floor_state *st = floor_state_of(module);
    const floor_plan *plan = floor_find_plan(st, source);
    if (plan == NULL) {
        return NULL;
    }
    floor_form form = by_table && plan->table != NULL ? FLOOR_TABLE : plan->method;
    dl_managed_tensor_versioned *managed = floor_own(st, plan, form, source);
    if (managed == NULL) {
        return NULL;
    }
    if (look && (PyErr_Occurred() != NULL || managed->version.major != DL_MAJOR ||
                 !is_plain(&managed->dl_tensor))) {
        managed->deleter(managed);
        return refuse_look();
    }
    floor_tensor *self = PyObject_New(floor_tensor, look ? st->checked_tensor : st->tensor);
    if (self == NULL) {
        managed->deleter(managed);
        return NULL;
    }
    self->managed = managed;
    return (PyObject *)self;
}

static PyObject *from_dlpack(PyObject *module, PyObject *source)
{
    return own(module, source, false, false);
}

static PyObject *from_dlpack_table(PyObject *module, PyObject *source)
{
    return own(module, source, true, false);
}

static PyObject *from_dlpack_looked(PyObject *module, PyObject *const *args, Py_ssize_t n,
                                    PyObject *kwnames)
{
    if (n != 1 || kwnames != NULL) {
        PyErr_SetString(PyExc_TypeError, "the floor takes one argument");
        return NULL;
    }
    return own(module, args[0], true, true);
}

static void tensor_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    dl_managed_tensor_versioned *managed = ((floor_tensor *)op)->managed;
    managed->deleter(managed);
    PyObject_Free(op);
    Py_DECREF(type);
}

/* The same with an exception that is pending kept out of the deleter's way, and one that the
 * deleter leaves behind reported. */
static void checked_dealloc(PyObject *op)
{
    PyObject *type, *value, *trace;
    bool pending = PyErr_Occurred() != NULL;
    if (pending) {
        PyErr_Fetch(&type, &value, &trace);
    }
    dl_managed_tensor_versioned *managed = ((floor_tensor *)op)->managed;
    managed->deleter(managed);
    if (PyErr_Occurred() != NULL) {
        PyErr_WriteUnraisable(NULL);
    }
    if (pending) {
        PyErr_Restore(type, value, trace);
    }
    PyTypeObject *kind = Py_TYPE(op);
    PyObject_Free(op);
    Py_DECREF(kind);
}

/* Bare consumers: ask, take, delete. */

static PyObject *end_versioned(PyObject *capsule)
{
    if (capsule == NULL) {
        return NULL;
    }
    dl_managed_tensor_versioned *managed =
        floor_take(capsule, DL_NAME_VERSIONED, DL_NAME_VERSIONED_USED);
    Py_DECREF(capsule);
    if (managed == NULL) {
        return NULL;
    }
    managed->deleter(managed);
    Py_RETURN_NONE;
}

static PyObject *end_legacy(PyObject *capsule)
{
    if (capsule == NULL) {
        return NULL;
    }
    dl_managed_tensor *managed = floor_take(capsule, DL_NAME_LEGACY, DL_NAME_LEGACY_USED);
    Py_DECREF(capsule);
    if (managed == NULL) {
        return NULL;
    }
    managed->deleter(managed);
    Py_RETURN_NONE;
}

static PyObject *consume_versioned(PyObject *module, PyObject *source)
{
    return end_versioned(floor_call_versioned(floor_state_of(module), source));
}

static PyObject *consume_legacy(PyObject *module, PyObject *source)
{
    return end_legacy(floor_call_bare(floor_state_of(module), source));
}

/* The consumer of today: ask for 1.x, meet a TypeError, ask again. */
static PyObject *consume_retry(PyObject *module, PyObject *source)
{
    floor_state *st = floor_state_of(module);
    PyObject *capsule = floor_call_versioned(st, source);
    if (capsule == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        return end_legacy(floor_call_bare(st, source));
    }
    return end_versioned(capsule);
}

/* The device question put to the source, its answer handed on unread. */
static PyObject *ask_device(PyObject *module, PyObject *source)
{
    floor_state *st = floor_state_of(module);
    PyObject *args[2] = {NULL, source};
    return st->vectorcall_method(st->name_dlpack_device, args + 1, 1 | FLOOR_OFFSET, NULL);
}

/* Loops over a type's C table: the call from Python is shared by all. */

static const dl_exchange_api *loop_table(PyObject *args, PyObject **source, Py_ssize_t *count)
{
    if (!PyArg_ParseTuple(args, "On", source, count)) {
        return NULL;
    }
    const dl_exchange_api *table = floor_table_of(Py_TYPE(*source));
    if (table == NULL) {
        PyErr_SetString(PyExc_TypeError, "the type has no C table");
    }
    return table;
}

KNOWN PyObject *take(PyObject *args, bool look)
{
    PyObject *source;
    Py_ssize_t count;
    const dl_exchange_api *table = loop_table(args, &source, &count);
    for (Py_ssize_t i = 0; table != NULL && i < count; i++) {
        dl_managed_tensor_versioned *managed = NULL;
        if (table->managed_tensor_from_py_object_no_sync(source, &managed) < 0) {
            return NULL;
        }
        if (look && !is_plain(&managed->dl_tensor)) {
            return refuse_look();
        }
        managed->deleter(managed);
    }
    return table != NULL ? PyLong_FromSsize_t(count) : NULL;
}

static PyObject *loop_owned(PyObject *module, PyObject *args)
{
    (void)module;
    return take(args, false);
}

static PyObject *loop_owned_looked(PyObject *module, PyObject *args)
{
    (void)module;
    return take(args, true);
}

KNOWN PyObject *borrow(PyObject *args, bool look)
{
    PyObject *source;
    Py_ssize_t count;
    const dl_exchange_api *table = loop_table(args, &source, &count);
    if (table != NULL && table->dltensor_from_py_object_no_sync == NULL) {
        PyErr_SetString(PyExc_TypeError, "the type's C table gives no borrowed view");
        return NULL;
    }
    for (Py_ssize_t i = 0; table != NULL && i < count; i++) {
        dl_tensor tensor;
        if (table->dltensor_from_py_object_no_sync(source, &tensor) < 0) {
            return NULL;
        }
        if (look && !is_plain(&tensor)) {
            return refuse_look();
        }
    }
    return table != NULL ? PyLong_FromSsize_t(count) : NULL;
}

static PyObject *loop_borrowed(PyObject *module, PyObject *args)
{
    (void)module;
    return borrow(args, false);
}

static PyObject *loop_borrowed_looked(PyObject *module, PyObject *args)
{
    (void)module;
    return borrow(args, true);
}

static PyMethodDef probe_methods[] = {
    {"legacy", make_legacy, METH_VARARGS, "legacy(ndim=2): `stream` only."},
    {"noargs", make_noargs, METH_VARARGS, "noargs(ndim=2): no argument at all."},
    {"modern", make_modern, METH_VARARGS, "modern(ndim=2): all keywords, both generations."},
    {"modernx", make_modernx, METH_VARARGS, "modernx(ndim=2): modern with a C table."},
    {"upgrade", upgrade, METH_O, "Wrapper with garbage collection, by `__dlpack__`."},
    {"upgrade_untracked", upgrade_untracked, METH_O, "The same without garbage collection."},
    {"upgrade_table", upgrade_table, METH_O, "Wrapper by the type's table where it has one."},
    {"nothing", nothing, METH_O, "A call that does nothing."},
    {"from_dlpack", from_dlpack, METH_O, "Owning object, by `__dlpack__`."},
    {"from_dlpack_table", from_dlpack_table, METH_O, "Owning object, by the type's table."},
    {"from_dlpack_looked", (PyCFunction)(void (*)(void))from_dlpack_looked,
     METH_FASTCALL | METH_KEYWORDS, "Looked at, and let go with care."},
    {"consume_versioned", consume_versioned, METH_O, "Ask for 1.x, take, delete."},
    {"consume_legacy", consume_legacy, METH_O, "Ask bare, take, delete."},
    {"consume_retry", consume_retry, METH_O, "Ask for 1.x, on TypeError ask bare."},
    {"loop_owned", loop_owned, METH_VARARGS, "loop_owned(x, n): n owned exports by the table."},
    {"loop_borrowed", loop_borrowed, METH_VARARGS, "loop_borrowed(x, n): n borrowed tensors."},
    {"loop_owned_looked", loop_owned_looked, METH_VARARGS, "Each looked at a little."},
    {"loop_borrowed_looked", loop_borrowed_looked, METH_VARARGS, "The same."},
    {"ask_device", ask_device, METH_O, "The source's own answer."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject *tensor_type(PyObject *module, const char *name, destructor dealloc)
{
    PyType_Slot slots[] = {{Py_tp_dealloc, (void *)dealloc}, {0, NULL}};
    return floor_add_type(module, name, sizeof(floor_tensor), 0, slots);
}

int floor_add_probes(PyObject *module)
{
    floor_state *st = floor_state_of(module);
    st->tensor = tensor_type(module, "dls_floor.Tensor", tensor_dealloc);
    st->checked_tensor = tensor_type(module, "dls_floor.CheckedTensor", checked_dealloc);
    if (st->tensor == NULL || st->checked_tensor == NULL) {
        return -1;
    }
    return PyModule_AddFunctions(module, probe_methods);
}
