/* A small array type that exchanges memory by dlpack_producer.h alone.
 *
 *   INCLUDES=$(python -c "import sysconfig; print('-I' + sysconfig.get_path('include'))")
 *   cc -O2 -shared -fPIC $INCLUDES example.c -o example.so
 *
 *   import example; x = example.zeros((2, 3), "float64"); numpy.from_dlpack(x[:, ::-1]) */
#define PY_SSIZE_T_CLEAN
#include "dlpack_producer.h"

enum { MAX_NDIM = 8 };

typedef struct {
    PyObject_HEAD
    char *data;  /* element zero */
    void *block; /* ours to free; NULL: `base` has it */
    PyObject *base;
    int ndim, read_only;
    uint8_t code, bits;
    int64_t shape[MAX_NDIM], strides[MAX_NDIM]; /* in elements */
} Array;

static PyTypeObject *array_type;

static PyObject *
new_ref(PyObject *object)
{
    Py_INCREF(object);
    return object;
}

static int
array_describe(PyObject *self, dlpack_array *out)
{
    Array *a = (Array *)self;
    out->data = a->data;
    out->ndim = a->ndim;
    out->code = a->code;
    out->bits = a->bits;
    out->shape = a->shape;
    out->strides = a->strides;
    out->read_only = a->read_only;
    return 0;
}
DLPACK_PRODUCER(array, array_describe)

static Array *
array_new(void)
{
    Array *made = PyObject_New(Array, array_type);
    if (made != NULL) {
        memset((char *)made + offsetof(Array, data), 0, sizeof *made - offsetof(Array, data));
    }
    return made;
}

static void
array_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    free(((Array *)self)->block);
    Py_XDECREF(((Array *)self)->base);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* --- zeros(shape, dtype) ------------------------------------------------------------------------ */

static int
read_dtype(Array *a, const char *name)
{
    static const struct {
        const char *name;
        uint8_t code, bits;
    } rows[] = {{"bool", 6, 8},   {"int8", 0, 8},    {"int16", 0, 16},   {"int32", 0, 32},
                {"int64", 0, 64}, {"uint8", 1, 8},   {"uint16", 1, 16},  {"uint32", 1, 32},
                {"uint64", 1, 64}, {"float32", 2, 32}, {"float64", 2, 64}, {"complex64", 5, 64},
                {"complex128", 5, 128}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            a->code = rows[i].code;
            a->bits = rows[i].bits;
            return 0;
        }
    }
    PyErr_Format(PyExc_TypeError, "no dtype %s", name);
    return -1;
}

static int
read_shape(Array *a, PyObject *shape)
{
    PyObject *items = PyLong_Check(shape) ? PyTuple_Pack(1, shape) : PySequence_Tuple(shape);
    if (items == NULL) {
        return -1;
    }
    int64_t n = 1;
    int code = PyTuple_Size(items) <= MAX_NDIM ? 0 : -1;
    a->ndim = (int)PyTuple_Size(items);
    for (int i = a->ndim; code == 0 && i-- > 0;) {
        a->shape[i] = PyLong_AsLongLong(PyTuple_GetItem(items, i));
        a->strides[i] = n;
        code = a->shape[i] < 0 || (a->shape[i] > 0 && n > (1LL << 40) / a->shape[i]) ? -1 : 0;
        n *= a->shape[i] > 0 ? a->shape[i] : 1;
    }
    Py_DECREF(items);
    if (code < 0 && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "no such shape");
    }
    a->block = code == 0 ? calloc((size_t)n, a->bits / 8) : NULL;
    a->data = a->block;
    return code == 0 && a->block == NULL ? (PyErr_NoMemory(), -1) : code;
}

static PyObject *
zeros(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"shape", "dtype", "readonly", NULL};
    PyObject *shape;
    const char *dtype = "float64";
    int read_only = 0;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|sp", names, &shape, &dtype, &read_only)) {
        return NULL;
    }
    Array *a = array_new();
    if (a != NULL && (read_dtype(a, dtype) < 0 || read_shape(a, shape) < 0)) {
        Py_DECREF(a);
        return NULL;
    }
    if (a != NULL) {
        a->read_only = read_only;
    }
    return (PyObject *)a;
}

/* --- x[1, ::2] ------------------------------------------------------------------------------------ */

/* One axis of the view: 0, or -1 with IndexError. */
static int
take_axis(Array *view, const Array *a, int axis, PyObject *item)
{
    const int64_t size = a->bits / 8;
    Py_ssize_t start, stop, step;
    if (PySlice_Check(item)) {
        if (PySlice_Unpack(item, &start, &stop, &step) < 0) {
            return -1;
        }
        view->shape[view->ndim] = PySlice_AdjustIndices((Py_ssize_t)a->shape[axis], &start, &stop, step);
        view->strides[view->ndim] = a->strides[axis] * step;
        view->data += view->shape[view->ndim++] > 0 ? start * a->strides[axis] * size : 0;
        return 0;
    }
    int64_t at = PyLong_AsLongLong(item);
    at += at < 0 ? a->shape[axis] : 0;
    if (PyErr_Occurred() || at < 0 || at >= a->shape[axis]) {
        PyErr_SetString(PyExc_IndexError, "no such element");
        return -1;
    }
    view->data += at * a->strides[axis] * size;
    return 0;
}

static PyObject *
array_item(PyObject *self, PyObject *key)
{
    const Array *a = (Array *)self;
    PyObject *items = PyTuple_Check(key) ? new_ref(key) : PyTuple_Pack(1, key);
    Array *view = items != NULL ? array_new() : NULL;
    Py_ssize_t n = items != NULL ? PyTuple_Size(items) : 0;
    int code = view != NULL ? 0 : -1;
    if (code == 0 && n > a->ndim) {
        PyErr_SetString(PyExc_IndexError, "too many indices");
        code = -1;
    }
    if (view != NULL) {
        view->data = a->data;
        view->code = a->code;
        view->bits = a->bits;
        view->read_only = a->read_only;
        view->base = new_ref(self);
    }
    PyObject *whole = PySlice_New(NULL, NULL, NULL);
    for (int i = 0; code == 0 && i < a->ndim; i++) {
        code = take_axis(view, a, i, i < n ? PyTuple_GetItem(items, i) : whole);
    }
    Py_XDECREF(whole);
    Py_XDECREF(items);
    if (code < 0) {
        Py_XDECREF(view);
        return NULL;
    }
    return (PyObject *)view;
}

static PyObject *
array_turned(PyObject *self, void *closure)
{
    PyObject *key = PyTuple_New(0);
    Array *view = key != NULL ? (Array *)array_item(self, key) : NULL;
    (void)closure;
    Py_XDECREF(key);
    for (int i = 0; view != NULL && i < view->ndim; i++) {
        view->shape[i] = ((Array *)self)->shape[view->ndim - 1 - i];
        view->strides[i] = ((Array *)self)->strides[view->ndim - 1 - i];
    }
    return (PyObject *)view;
}

static PyObject *
array_shape(PyObject *self, void *closure)
{
    const Array *a = (Array *)self;
    PyObject *shape = PyTuple_New(a->ndim);
    (void)closure;
    for (int i = 0; shape != NULL && i < a->ndim; i++) {
        PyObject *extent = PyLong_FromLongLong(a->shape[i]);
        if (extent == NULL || PyTuple_SetItem(shape, i, extent) < 0) {
            Py_CLEAR(shape);
        }
    }
    return shape;
}

/* --- from_dlpack, and the C exchange API ------------------------------------------------------------ */

/* What was taken is given back when the last Array over it goes. */
static void
end_taken(PyObject *capsule)
{
    dlpack_versioned_ *taken = PyCapsule_GetPointer(capsule, "taken");
    if (taken->deleter != NULL) {
        taken->deleter(taken);
    }
}

/* An Array over a struct of DLPack 1.x, which it then owns. */
static PyObject *
array_from_capsule(PyObject *capsule)
{
    dlpack_versioned_ *given = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (given == NULL) {
        return NULL;
    }
    const dlpack_tensor_ *t = &given->tensor;
    if (given->major != 1 || t->ndim > MAX_NDIM || t->lanes != 1 || t->bits % 8 != 0 || t->device_type != 1) {
        PyErr_SetString(PyExc_BufferError, "an array of up to 8 dimensions in host memory was expected");
        return NULL;
    }
    Array *a = array_new();
    PyObject *kept = a != NULL ? PyCapsule_New(given, "taken", end_taken) : NULL;
    if (kept == NULL) {
        Py_XDECREF((PyObject *)a);
        return NULL;
    }
    a->base = kept;
    a->data = (char *)t->data + t->byte_offset;
    a->ndim = t->ndim;
    a->code = t->code;
    a->bits = t->bits;
    a->read_only = (int)(given->flags & DLPACK_READ_ONLY_);
    int64_t stride = 1;
    for (int i = t->ndim; i-- > 0;) {
        a->shape[i] = t->shape[i];
        a->strides[i] = t->strides != NULL ? t->strides[i] : stride;
        stride *= t->shape[i];
    }
    PyCapsule_SetName(capsule, "used_dltensor_versioned");
    return (PyObject *)a;
}
DLPACK_PRODUCER_TABLE(array, array_describe, array_from_capsule)

static PyMethodDef array_methods[] = {DLPACK_PRODUCER_METHODS(array), {NULL, NULL, 0, NULL}};
static PyGetSetDef array_getset[] = {{"T", array_turned, NULL, NULL, NULL},
                                     {"shape", array_shape, NULL, NULL, NULL},
                                     {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot slots[] = {{Py_tp_dealloc, array_free},
                              {Py_tp_methods, array_methods},
                              {Py_tp_getset, array_getset},
                              {Py_mp_subscript, array_item},
                              {0, NULL}};
static PyType_Spec spec = {"example.Array", sizeof(Array), 0, Py_TPFLAGS_DEFAULT, slots};

static PyMethodDef functions[] = {
    {"zeros", (PyCFunction)(void (*)(void))zeros, METH_VARARGS | METH_KEYWORDS, NULL},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "example", NULL, -1, functions,
                                        NULL, NULL, NULL, NULL};

PyMODINIT_FUNC
PyInit_example(void)
{
    PyObject *module = PyModule_Create(&definition);
    array_type = module != NULL ? (PyTypeObject *)PyType_FromSpec(&spec) : NULL;
    if (array_type == NULL || array_add_table(array_type) < 0
        || PyModule_AddObject(module, "Array", new_ref((PyObject *)array_type)) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
#ifdef Py_GIL_DISABLED
    PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
