/* C producers of each generation.  Their memory is counted with an atomic, so their deleters need no
 * GIL; their structs point at the block's dimensions. */
#include <stdatomic.h>

#include "floor.h"

/* The memory of one array and the dimensions that all its exports share. */
typedef struct {
    atomic_long holders;
    dl_device device;
    int32_t ndim;
    int64_t shape[FLOOR_MAX_NDIM];
    int64_t strides[FLOOR_MAX_NDIM];
    float data[64];
} floor_block;

typedef struct {
    PyObject ob_base;
    floor_state *state;
    floor_block *block;
    PyObject *device; /* the pair that it answers */
} floor_producer;

static void block_drop(floor_block *block)
{
    if (atomic_fetch_sub_explicit(&block->holders, 1, memory_order_acq_rel) == 1) {
        free(block);
    }
}

static floor_block *block_new(int ndim, int device_type)
{
    floor_block *block = floor_get(sizeof *block);
    atomic_init(&block->holders, 1);
    block->device = (dl_device){device_type, 0};
    block->ndim = ndim;
    int64_t stride = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        block->shape[i] = i >= ndim - 2 ? 8 : 1;
        block->strides[i] = stride;
        stride *= block->shape[i];
    }
    for (int i = 0; i < 64; i++) {
        block->data[i] = (float)i;
    }
    return block;
}

static void legacy_delete(dl_managed_tensor *self)
{
    block_drop(self->manager_ctx);
    free(self);
}

static void versioned_delete(dl_managed_tensor_versioned *self)
{
    block_drop(self->manager_ctx);
    free(self);
}

static void fill(dl_tensor *tensor, floor_block *block)
{
    tensor->data = block->data;
    tensor->device = block->device;
    tensor->ndim = block->ndim;
    tensor->dtype = (dl_dtype){dl_kDLFloat, 32, 1};
    tensor->shape = block->shape;
    tensor->strides = block->strides;
    tensor->byte_offset = 0;
}

static dl_managed_tensor *export_legacy(floor_block *block)
{
    dl_managed_tensor *managed = floor_get(sizeof *managed);
    fill(&managed->dl_tensor, block);
    managed->manager_ctx = block;
    managed->deleter = legacy_delete;
    atomic_fetch_add_explicit(&block->holders, 1, memory_order_relaxed);
    return managed;
}

static dl_managed_tensor_versioned *export_versioned(floor_block *block)
{
    dl_managed_tensor_versioned *managed = floor_get(sizeof *managed);
    managed->version = (dl_version){1, 3};
    managed->manager_ctx = block;
    managed->deleter = versioned_delete;
    managed->flags = 0;
    fill(&managed->dl_tensor, block);
    atomic_fetch_add_explicit(&block->holders, 1, memory_order_relaxed);
    return managed;
}

static PyObject *refuse_keyword(PyObject *word)
{
    return PyErr_Format(PyExc_TypeError, "__dlpack__() got an unexpected keyword argument '%U'",
                        word);
}

/* Before array API 2023.12: `stream` and nothing else. */
static PyObject *legacy_dlpack(PyObject *op, PyObject *const *args, Py_ssize_t nargs,
                               PyObject *kwnames)
{
    floor_producer *self = (floor_producer *)op;
    Py_ssize_t count = kwnames != NULL ? PyTuple_Size(kwnames) : 0;
    (void)args;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (PyTuple_GetItem(kwnames, i) != self->state->word_stream) {
            return refuse_keyword(PyTuple_GetItem(kwnames, i));
        }
    }
    if (nargs + count > 1) {
        PyErr_SetString(PyExc_TypeError, "__dlpack__() takes at most 1 argument");
        return NULL;
    }
    return floor_capsule_legacy(export_legacy(self->block));
}

static PyObject *noargs_dlpack(PyObject *op, PyObject *unused)
{
    (void)unused;
    return floor_capsule_legacy(export_legacy(((floor_producer *)op)->block));
}

/* Every keyword of 2023.12; dl_device and copy are taken and ignored. */
static PyObject *modern_dlpack(PyObject *op, PyObject *const *args, Py_ssize_t nargs,
                               PyObject *kwnames)
{
    floor_producer *self = (floor_producer *)op;
    floor_state *st = self->state;
    PyObject *max_version = Py_None;
    Py_ssize_t count = kwnames != NULL ? PyTuple_Size(kwnames) : 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *word = PyTuple_GetItem(kwnames, i);
        if (word == st->word_max_version) {
            max_version = args[nargs + i];
        } else if (word != st->word_stream && word != st->word_dl_device &&
                   word != st->word_copy) {
            return refuse_keyword(word);
        }
    }
    return floor_wants_versioned(max_version)
               ? floor_capsule_versioned(export_versioned(self->block))
               : floor_capsule_legacy(export_legacy(self->block));
}

static PyObject *producer_device(PyObject *op, PyObject *unused)
{
    (void)unused;
    PyObject *device = ((floor_producer *)op)->device;
    Py_INCREF(device);
    return device;
}

static void producer_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    block_drop(((floor_producer *)op)->block);
    Py_DECREF(((floor_producer *)op)->device);
    PyObject_Free(op);
    Py_DECREF(type);
}

/* Legacy(ndim=2, device_type=1) and so on.  The memory is the host's, whatever the label says: nobody
 * reads it.  What dlshim learns of a type off the host counts for all its objects, so LegacyDevice and
 * ModernDevice are types of their own. */
static PyObject *producer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    int ndim = 2, device_type = dl_kDLCPU;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "|ii", &ndim, &device_type)) {
        return NULL;
    }
    if (ndim < 0 || ndim > FLOOR_MAX_NDIM) {
        PyErr_SetString(PyExc_ValueError, "ndim must be 0 to 32");
        return NULL;
    }
    floor_producer *self = PyObject_New(floor_producer, type);
    if (self != NULL) {
        self->state = PyType_GetModuleState(type);
        self->block = block_new(ndim, device_type);
        self->device = device_type == dl_kDLCPU ? Py_NewRef(self->state->cpu_device)
                                                : Py_BuildValue("(ii)", device_type, 0);
    }
    return (PyObject *)self;
}

/* The C table of `ModernX`. */

static int table_owned(void *object, dl_managed_tensor_versioned **out)
{
    *out = export_versioned(((floor_producer *)object)->block);
    return 0;
}

static int table_borrow(void *object, dl_tensor *out)
{
    fill(out, ((floor_producer *)object)->block);
    return 0;
}

static dl_exchange_api producer_table = {
    .managed_tensor_from_py_object_no_sync = table_owned,
    .dltensor_from_py_object_no_sync = table_borrow,
};

#define DEVICE_METHOD {"__dlpack_device__", producer_device, METH_NOARGS, NULL}
#define END {NULL, NULL, 0, NULL}

static PyMethodDef legacy_methods[] = {
    {"__dlpack__", FLOOR_METHOD(legacy_dlpack), METH_FASTCALL | METH_KEYWORDS, NULL},
    DEVICE_METHOD,
    END,
};
static PyMethodDef noargs_methods[] = {
    {"__dlpack__", noargs_dlpack, METH_NOARGS, NULL},
    DEVICE_METHOD,
    END,
};
static PyMethodDef modern_methods[] = {
    {"__dlpack__", FLOOR_METHOD(modern_dlpack), METH_FASTCALL | METH_KEYWORDS, NULL},
    DEVICE_METHOD,
    END,
};

static PyTypeObject *add_type(PyObject *module, const char *name, PyMethodDef *methods)
{
    PyType_Slot slots[] = {
        {Py_tp_new, (void *)producer_new},
        {Py_tp_dealloc, (void *)producer_dealloc},
        {Py_tp_methods, methods},
        {0, NULL},
    };
    return floor_add_type(module, name, sizeof(floor_producer), 0, slots);
}

int floor_add_producers(PyObject *module)
{
    PyTypeObject *modernx;
    return add_type(module, "dls_floor.Legacy", legacy_methods) != NULL &&
                   add_type(module, "dls_floor.NoArgs", noargs_methods) != NULL &&
                   add_type(module, "dls_floor.Modern", modern_methods) != NULL &&
                   add_type(module, "dls_floor.LegacyDevice", legacy_methods) != NULL &&
                   add_type(module, "dls_floor.ModernDevice", modern_methods) != NULL &&
                   (modernx = add_type(module, "dls_floor.ModernX", modern_methods)) != NULL
               ? floor_set_table(modernx, &producer_table)
               : -1;
}
