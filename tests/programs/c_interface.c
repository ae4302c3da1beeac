/* An extension as an author writes it with dlshim.h, whose every function tests call.
 * Compiled by tests/core/test_c_interface.py, against the limited API. */
#define PY_SSIZE_T_CLEAN
#include "dlshim.h"

#include <pthread.h>
#include <stdlib.h>

#define MAX_DTYPES 4

typedef struct {
    dlshim_request request;
    dlshim_dtype dtypes[MAX_DTYPES];
} wanted;

/* The member of the request that the name stands for; 0, or -1 with an exception. */
static int
set_member(wanted *want, const char *name, PyObject *value)
{
    dlshim_request *r = &want->request;
    if (strcmp(name, "name") == 0) {
        r->name = PyBytes_Check(value) ? PyBytes_AsString(value)
                                       : PyUnicode_AsUTF8AndSize(value, NULL);
        return r->name != NULL ? 0 : -1;
    }
    if (strcmp(name, "dtypes") == 0) {
        char *bytes;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(value, &bytes, &size) < 0) {
            return -1;
        }
        memcpy(want->dtypes, bytes, (size_t)size);
        r->dtypes = want->dtypes;
        r->dtype_count = (size_t)size / sizeof want->dtypes[0];
        return 0;
    }
    long long number = PyLong_AsLongLong(value);
#define MEMBER(member, type)              \
    if (strcmp(name, #member) == 0) {     \
        r->member = (type)number;         \
        return PyErr_Occurred() ? -1 : 0; \
    }
    MEMBER(size, size_t)
    MEMBER(dtype_count, size_t)
    MEMBER(ranks, uint64_t)
    MEMBER(device_type, int32_t)
    MEMBER(device_id, int32_t)
    MEMBER(stream.kind, int32_t)
    MEMBER(stream.handle, uint64_t)
    MEMBER(alignment, int64_t)
    MEMBER(contiguous, int32_t)
    MEMBER(writable, int32_t)
    MEMBER(copy, int32_t)
    MEMBER(detach, int32_t)
#undef MEMBER
    PyErr_Format(PyExc_TypeError, "no member %s", name);
    return -1;
}

static int
read_wanted(PyObject *dict, wanted *want)
{
    static const dlshim_request init = DLSHIM_REQUEST_INIT;
    PyObject *key, *value;
    Py_ssize_t at = 0;
    want->request = init;
    while (dict != NULL && PyDict_Next(dict, &at, &key, &value)) {
        const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
        if (name == NULL || set_member(want, name, value) < 0) {
            return -1;
        }
    }
    return 0;
}

static void
drop(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        dlshim_release(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    }
}

/* take(obj, **request): what dlshim_import gave, in a capsule. */
static PyObject *
take(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *obj;
    wanted want;
    struct DLManagedTensorVersioned *tensor = (struct DLManagedTensorVersioned *)self;
    if (!PyArg_ParseTuple(args, "O", &obj) || read_wanted(kwargs, &want) < 0) {
        return NULL;
    }
    if (dlshim_import(obj, kwargs != NULL ? &want.request : NULL, &tensor) < 0) {
        if (tensor != NULL) {
            Py_FatalError("a failed import left a tensor");
        }
        return NULL;
    }
    PyObject *capsule = PyCapsule_New(tensor, "dltensor_versioned", drop);
    if (capsule == NULL) {
        dlshim_release(tensor);
    }
    return capsule;
}

static PyObject *dims(const int64_t *values, int32_t n);

/* look(capsule of take): shape, strides and flags, as dlshim_look tells them. */
static PyObject *
look(PyObject *self, PyObject *capsule)
{
    struct DLManagedTensorVersioned *tensor =
        (struct DLManagedTensorVersioned *)PyCapsule_GetPointer(capsule, "dltensor_versioned");
    uint64_t flags = 0;
    (void)self;
    if (tensor == NULL) {
        return NULL;
    }
    dlshim_array array = dlshim_look(tensor, NULL);
    array = dlshim_look(tensor, &flags);
    if (array.strides == NULL) {
        Py_FatalError("an import has no strides");
    }
    return Py_BuildValue("(NNK)", dims(array.shape, array.ndim), dims(array.strides, array.ndim),
                         (unsigned long long)flags);
}

static PyObject *
dims(const int64_t *values, int32_t n)
{
    PyObject *tuple = PyTuple_New(n);
    for (int32_t i = 0; tuple != NULL && i < n; i++) {
        PyObject *value = PyLong_FromLongLong(values[i]);
        if (value == NULL || PyTuple_SetItem(tuple, i, value) < 0) {
            Py_DECREF(tuple);
            return NULL;
        }
    }
    return tuple;
}

/* lend(obj, **request): what dlshim_borrow said, and whether the object itself lent. */
static PyObject *
lend(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *obj;
    wanted want;
    dlshim_view view;
    (void)self;
    if (!PyArg_ParseTuple(args, "O", &obj) || read_wanted(kwargs, &want) < 0) {
        return NULL;
    }
    memset(&view, 255, sizeof view);
    if (dlshim_borrow(obj, kwargs != NULL ? &want.request : NULL, &view) < 0) {
        dlshim_borrow_end(&view);
        return NULL;
    }
    const dlshim_array *a = &view.array;
    int row_major = a->strides == NULL;
    PyObject *said = Py_BuildValue(
        "{sK sN sN s(ii) s(iii) sK sO}", "data",
        (unsigned long long)(uintptr_t)a->data + a->byte_offset, "shape",
        dims(a->shape, a->ndim), "strides",
        dims(row_major ? a->shape : a->strides, row_major ? 0 : a->ndim), "device",
        (int)a->device_type, (int)a->device_id, "dtype", a->dtype.code, a->dtype.bits,
        (int)a->dtype.lanes, "flags", (unsigned long long)view.flags, "lent",
        view.owner == NULL ? Py_True : Py_False);
    dlshim_borrow_end(&view);
    dlshim_borrow_end(&view);
    return said;
}

/* release(capsule, threads): on a thread that Python does not know, if threads. */
static void *
run_release(void *tensor)
{
    dlshim_release(tensor);
    return NULL;
}

static PyObject *
release(PyObject *self, PyObject *args)
{
    PyObject *capsule;
    int thread;
    pthread_t other;
    (void)self;
    if (!PyArg_ParseTuple(args, "Oi", &capsule, &thread)) {
        return NULL;
    }
    void *tensor = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (tensor == NULL || PyCapsule_SetName(capsule, "used_dltensor_versioned") < 0) {
        return NULL;
    }
    dlshim_release(NULL);
    Py_BEGIN_ALLOW_THREADS
    if (thread && pthread_create(&other, NULL, run_release, tensor) == 0) {
        pthread_join(other, NULL);
    }
    else {
        dlshim_release(tensor);
    }
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static const dlshim_stream *
read_stream(int kind, unsigned long long handle, dlshim_stream *stream)
{
    stream->kind = kind;
    stream->handle = handle;
    return kind == 0 && handle == 0 ? NULL : stream;
}

/* give(address, versioned, kind, handle): a Tensor of a managed tensor. */
static PyObject *
give(PyObject *self, PyObject *args)
{
    unsigned long long address, handle;
    int versioned, kind;
    dlshim_stream stream;
    (void)self;
    if (!PyArg_ParseTuple(args, "KiiK", &address, &versioned, &kind, &handle)) {
        return NULL;
    }
    void *tensor = (void *)(uintptr_t)address;
    const dlshim_stream *said = read_stream(kind, handle, &stream);
    return versioned ? dlshim_export(tensor, said) : dlshim_export_legacy(tensor, said);
}

/* --- plain memory ----------------------------------------------------------- */

static int deleted; /* calls of the deleter */

static void
delete_memory(void *memory)
{
    free(memory);
    __atomic_add_fetch(&deleted, 1, __ATOMIC_SEQ_CST);
}

/* One of an author who has forgotten to clear an exception of his own. */
static void
delete_and_raise(void *memory)
{
    PyGILState_STATE attached = PyGILState_Ensure();
    delete_memory(memory);
    PyErr_SetString(PyExc_OSError, "from the deleter");
    PyGILState_Release(attached);
}

/* array(shape, strides or None, flags, bits, (device), kind, handle, *, code, ndim,
 * data=0 for NULL, raises=1: its deleter does so): of int elements 0, 1, 2 ... */
static PyObject *
array(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *shape, *strides;
    unsigned long long flags, handle;
    int bits, device_type, device_id, kind, code = 0, ndim = 64, data = 1;
    int raises = 0;
    static char *names[] = {"", "",     "",     "",     "",       "",
                            "", "code", "ndim", "data", "raises", NULL};
    int64_t sizes[8] = {0}, steps[8] = {0};
    dlshim_stream stream;
    (void)self;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOKi(ii)iK|$iiii", names, &shape,
                                     &strides, &flags, &bits, &device_type, &device_id,
                                     &kind, &handle, &code, &ndim, &data, &raises)) {
        return NULL;
    }
    int32_t n = (int32_t)PyTuple_Size(shape);
    for (int32_t i = 0; i < n; i++) {
        sizes[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
        steps[i] = strides != Py_None ? PyLong_AsLongLong(PyTuple_GetItem(strides, i))
                                      : 0;
    }
    int32_t *memory = malloc(64 * sizeof *memory);
    for (int32_t i = 0; i < 64; i++) {
        memory[i] = i;
    }
    dlshim_array what = {.data = data ? memory : NULL,
                         .device_type = device_type,
                         .device_id = device_id,
                         .ndim = ndim < n ? ndim : n,
                         .dtype = {(uint8_t)code, (uint8_t)bits, 1},
                         .shape = sizes,
                         .strides = strides != Py_None ? steps : NULL};
    PyObject *tensor = dlshim_export_array(&what, flags, memory,
                                           raises ? delete_and_raise : delete_memory,
                                           read_stream(kind, handle, &stream));
    if (tensor == NULL) {
        free(memory); /* still ours */
    }
    return tensor;
}

/* null(function, raises): the function with NULL for what it takes, with or without an
 * exception of what gave that. */
static PyObject *
null(PyObject *self, PyObject *args)
{
    int function, raises;
    dlshim_view view;
    struct DLManagedTensorVersioned *tensor;
    (void)self;
    if (!PyArg_ParseTuple(args, "ii", &function, &raises)) {
        return NULL;
    }
    if (raises) {
        PyErr_SetString(PyExc_OSError, "no object");
    }
    PyObject *made = function == 2   ? dlshim_export_array(NULL, 0, NULL, NULL, NULL)
                     : function == 3 ? dlshim_export(NULL, NULL)
                     : function == 4 ? dlshim_export_legacy(NULL, NULL)
                                     : NULL;
    int code = function == 0   ? dlshim_import(NULL, NULL, &tensor)
               : function == 1 ? dlshim_borrow(NULL, NULL, &view)
                               : -1;
    if (code == 0) {
        Py_FatalError("NULL was taken for an object");
    }
    if (function == 1) {
        dlshim_borrow_end(&view);
    }
    return made;
}

/* format(code, bits, lanes): the literal of dlshim_format, None for NULL. */
static PyObject *
format(PyObject *self, PyObject *args)
{
    int code, bits, lanes;
    (void)self;
    if (!PyArg_ParseTuple(args, "iii", &code, &bits, &lanes)) {
        return NULL;
    }
    dlshim_dtype dtype = {(uint8_t)code, (uint8_t)bits, (uint16_t)lanes};
    return Py_BuildValue("z", dlshim_format(dtype));
}

static PyObject *
count_deleted(PyObject *self, PyObject *none)
{
    (void)self, (void)none;
    return PyLong_FromLong(__atomic_exchange_n(&deleted, 0, __ATOMIC_SEQ_CST));
}

static PyObject *
load(PyObject *self, PyObject *none)
{
    (void)self, (void)none;
    const dlshim_table *table = dlshim_load();
    return table != NULL ? Py_BuildValue("(II)", table->abi, table->size) : NULL;
}

#define KEYWORDS(f) (PyCFunction)(void (*)(void)) f, METH_VARARGS | METH_KEYWORDS
static PyMethodDef methods[] = {
    {"take", KEYWORDS(take), NULL},
    {"lend", KEYWORDS(lend), NULL},
    {"look", look, METH_O, NULL},
    {"format", format, METH_VARARGS, NULL},
    {"release", release, METH_VARARGS, NULL},
    {"give", give, METH_VARARGS, NULL},
    {"array", KEYWORDS(array), NULL},
    {"null", null, METH_VARARGS, NULL},
    {"deleted", count_deleted, METH_NOARGS, NULL},
    {"load", load, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "c_interface",
                                        .m_methods = methods};

PyMODINIT_FUNC
PyInit_c_interface(void)
{
    PyObject *module = PyModule_Create(&definition);
#ifdef Py_GIL_DISABLED
    if (module != NULL) {
        PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
    }
#endif
    return module;
}
