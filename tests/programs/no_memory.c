/* Makes allocations of Python fail, and makes arrays without any Python code, so that a
 * failure is an extension's own.  Compiled by tests/core/test_c_interface_failures.py,
 * against the full API: the limited API has no allocators. */
#include "dlshim.h"

#include <stdbool.h>
#include <stdlib.h>

#include "abi/dlpack_abi.h"

/* --- allocations that fail -------------------------------------------------- */

enum { DOMAINS = 3 }; /* PYMEM_DOMAIN_RAW, _MEM and _OBJ */
static PyMemAllocatorEx real[DOMAINS];
static long count, first, last;
static bool hooked;

static bool
fails(void)
{
    long n = count++;
    return n >= first && n < last;
}

static void *
failing_malloc(void *context, size_t size)
{
    PyMemAllocatorEx *to = context;
    return fails() ? NULL : to->malloc(to->ctx, size);
}

static void *
failing_calloc(void *context, size_t n, size_t size)
{
    PyMemAllocatorEx *to = context;
    return fails() ? NULL : to->calloc(to->ctx, n, size);
}

static void *
failing_realloc(void *context, void *memory, size_t size)
{
    PyMemAllocatorEx *to = context;
    return fails() ? NULL : to->realloc(to->ctx, memory, size);
}

static void
passing_free(void *context, void *memory)
{
    PyMemAllocatorEx *to = context;
    to->free(to->ctx, memory);
}

/* fail(first, last): the allocations from number first on, up to last. */
static PyObject *
fail(PyObject *self, PyObject *args)
{
    (void)self;
    if (!PyArg_ParseTuple(args, "ll", &first, &last)) {
        return NULL;
    }
    for (int domain = 0; domain < DOMAINS && !hooked; domain++) {
        PyMemAllocatorEx hook = {&real[domain], failing_malloc, failing_calloc,
                                 failing_realloc, passing_free};
        PyMem_GetAllocator((PyMemAllocatorDomain)domain, &real[domain]);
        PyMem_SetAllocator((PyMemAllocatorDomain)domain, &hook);
    }
    hooked = true;
    count = 0;
    Py_RETURN_NONE;
}

/* stop(): how many allocations there were. */
static PyObject *
stop(PyObject *self, PyObject *none)
{
    (void)self, (void)none;
    long counted = count;
    for (int domain = 0; domain < DOMAINS && hooked; domain++) {
        PyMem_SetAllocator((PyMemAllocatorDomain)domain, &real[domain]);
    }
    hooked = false;
    return PyLong_FromLong(counted);
}

/* --- arrays ------------------------------------------------------------------- */

static long made, deleted;

/* One export: 2 x 3 floats, a struct around them, and whether it was deleted. */
typedef struct {
    float before, elements[6]; /* the array begins 4 bytes behind an aligned address */
    int64_t dims[4];
    bool gone;
    union {
        dl_managed_tensor legacy;
        dl_managed_tensor_versioned versioned;
    } managed;
} block;

static void
end(block *b)
{
    if (b->gone) {
        Py_FatalError("a deleter ran twice");
    }
    b->gone = true; /* the memory stays, so that a second call is seen */
    deleted++;
}

static void
delete_legacy(dl_managed_tensor *managed)
{
    end(managed->manager_ctx);
}

static void
delete_versioned(dl_managed_tensor_versioned *managed)
{
    end(managed->manager_ctx);
}

typedef struct {
    PyObject_HEAD
    int device, readonly;
} source;

static void *
new_managed(const source *self, bool versioned)
{
    block *b = calloc(1, sizeof *b);
    const dl_tensor tensor = {.data = b->elements,
                              .device = {self->device, 0},
                              .ndim = 2,
                              .dtype = {2, 32, 1},
                              .shape = b->dims,
                              .strides = b->dims + 2};
    b->dims[0] = 2;
    b->dims[1] = b->dims[2] = 3;
    b->dims[3] = 1;
    made++;
    if (!versioned) {
        b->managed.legacy = (dl_managed_tensor){tensor, b, delete_legacy};
        return &b->managed.legacy;
    }
    b->managed.versioned = (dl_managed_tensor_versioned){
        {1, 0}, b, delete_versioned, self->readonly ? 1 : 0, tensor};
    return &b->managed.versioned;
}

static void
drop_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        dl_managed_tensor *managed = PyCapsule_GetPointer(capsule, "dltensor");
        managed->deleter(managed);
    }
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        dl_managed_tensor_versioned *managed = PyCapsule_GetPointer(
            capsule, "dltensor_versioned");
        managed->deleter(managed);
    }
}

static PyObject *
capsule_of(source *self, bool versioned)
{
    const char *name = versioned ? "dltensor_versioned" : "dltensor";
    void *managed = new_managed(self, versioned);
    PyObject *capsule = PyCapsule_New(managed, name, drop_capsule);
    if (capsule == NULL) {
        versioned ? delete_versioned(managed) : delete_legacy(managed);
    }
    return capsule;
}

static PyObject *
dlpack_legacy(PyObject *self, PyObject *args)
{
    PyObject *stream = NULL;
    return PyArg_ParseTuple(args, "|O", &stream) ? capsule_of((source *)self, false)
                                                 : NULL;
}

static PyObject *
dlpack_versioned(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = NULL, *version = NULL, *device = NULL, *copy = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO", names, &stream, &version,
                                     &device, &copy)) {
        return NULL;
    }
    return capsule_of((source *)self, version != NULL && version != Py_None);
}

static PyObject *
dlpack_device(PyObject *self, PyObject *none)
{
    (void)none;
    return Py_BuildValue("(ii)", ((source *)self)->device, 0);
}

static int
table_export(void *object, dl_managed_tensor_versioned **out)
{
    *out = new_managed(object, true);
    return 0;
}

static const dl_exchange_api table = {
    .header = {.version = {1, 3}},
    .managed_tensor_from_py_object_no_sync = table_export,
};

/* Source(device, readonly): one of the types below. */
static PyObject *
source_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    int device, readonly;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "ii", &device, &readonly)) {
        return NULL;
    }
    source *self = (source *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->device = device;
        self->readonly = readonly;
    }
    return (PyObject *)self;
}

#define DEVICE {"__dlpack_device__", dlpack_device, METH_NOARGS, NULL}
static PyMethodDef legacy_methods[] = {
    {"__dlpack__", dlpack_legacy, METH_VARARGS, NULL}, DEVICE, {NULL, NULL, 0, NULL}};
static PyMethodDef versioned_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))dlpack_versioned,
     METH_VARARGS | METH_KEYWORDS, NULL},
    DEVICE,
    {NULL, NULL, 0, NULL}};

static PyObject *
new_type(const char *name, PyMethodDef *methods)
{
    PyType_Slot slots[] = {
        {Py_tp_new, source_new}, {Py_tp_methods, methods}, {0, NULL}};
    PyType_Spec spec = {name, sizeof(source), 0, Py_TPFLAGS_DEFAULT, slots};
    return PyType_FromSpec(&spec);
}

/* capsule(versioned): a raw one. */
static PyObject *
capsule(PyObject *self, PyObject *versioned)
{
    source plain = {.device = 1};
    (void)self;
    return capsule_of(&plain, PyObject_IsTrue(versioned) == 1);
}

/* give(give of c_interface, versioned, kind): a struct is given to dlshim_export, and
 * deleted here if that has failed. */
static PyObject *
give(PyObject *self, PyObject *args)
{
    source plain = {.device = 1};
    PyObject *function;
    int versioned, kind;
    (void)self;
    if (!PyArg_ParseTuple(args, "Oii", &function, &versioned, &kind)) {
        return NULL;
    }
    void *managed = new_managed(&plain, versioned);
    PyObject *tensor = PyObject_CallFunction(function, "KiiK",
                                             (unsigned long long)(uintptr_t)managed,
                                             versioned, kind, 0ull);
    if (tensor == NULL) {
        versioned ? delete_versioned(managed) : delete_legacy(managed);
    }
    return tensor;
}

/* alive(): exports that were made and not deleted. */
static PyObject *
alive(PyObject *self, PyObject *none)
{
    (void)self, (void)none;
    return PyLong_FromLong(made - deleted);
}

static PyMethodDef methods[] = {
    {"fail", fail, METH_VARARGS, NULL},  {"stop", stop, METH_NOARGS, NULL},
    {"capsule", capsule, METH_O, NULL},  {"give", give, METH_VARARGS, NULL},
    {"alive", alive, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "no_memory",
                                        .m_methods = methods};

PyMODINIT_FUNC
PyInit_no_memory(void)
{
    PyObject *module = PyModule_Create(&definition);
    PyObject *api = PyCapsule_New((void *)(uintptr_t)&table, "dlpack_exchange_api",
                                  NULL);
    PyObject *types[] = {new_type("no_memory.Legacy", legacy_methods),
                         new_type("no_memory.Versioned", versioned_methods),
                         new_type("no_memory.Table", versioned_methods)};
    PyObject_SetAttrString(types[2], "__dlpack_c_exchange_api__", api);
    for (int i = 0; i < 3; i++) {
        PyModule_AddType(module, (PyTypeObject *)types[i]);
    }
    return PyErr_Occurred() == NULL ? module : NULL;
}
