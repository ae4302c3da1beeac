/* The Python type of example.rs, which has the memory. */
#define PY_SSIZE_T_CLEAN
#include "dlpack_producer.h"

enum { MAX_NDIM = 16 };

typedef struct Image Image; /* Rust's */
extern Image *image_new(const int64_t *shape, int32_t ndim, int frozen);
extern void image_release(void *image);
extern void image_describe(const Image *image, dlpack_array *array);

typedef struct {
    PyObject_HEAD
    Image *image;
} Object;

static PyTypeObject *object_type;

static int
describe(PyObject *self, dlpack_array *array)
{
    image_describe(((Object *)self)->image, array);
    return 0;
}
DLPACK_PRODUCER(image, describe)

static void
object_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    image_release(((Object *)self)->image);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* The extents into `to`: how many, or -1 with an exception. */
static int
read_shape(PyObject *shape, int64_t *to)
{
    const Py_ssize_t n = PySequence_Size(shape);
    for (Py_ssize_t i = 0; i < n && i < MAX_NDIM; i++) {
        PyObject *item = PySequence_GetItem(shape, i);
        to[i] = item != NULL ? PyLong_AsLongLong(item) : -1;
        Py_XDECREF(item);
        if (to[i] < 0) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_ValueError, "an extent is negative");
            }
            return -1;
        }
    }
    if (n > MAX_NDIM) {
        PyErr_SetString(PyExc_ValueError, "an image has up to 16 dimensions");
        return -1;
    }
    return (int)n;
}

/* zeros(shape, dtype="float32", readonly=False) */
static PyObject *
zeros(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"shape", "dtype", "readonly", NULL};
    PyObject *shape;
    const char *dtype = "float32";
    int frozen = 0;
    int64_t extents[MAX_NDIM];
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|sp", names, &shape, &dtype, &frozen)) {
        return NULL;
    }
    if (strcmp(dtype, "float32") != 0) {
        PyErr_Format(PyExc_TypeError, "no dtype %s", dtype);
        return NULL;
    }
    const int ndim = read_shape(shape, extents);
    if (ndim < 0) {
        return NULL;
    }
    Image *image = image_new(extents, ndim, frozen);
    if (image == NULL) {
        return PyErr_NoMemory();
    }
    Object *made = PyObject_New(Object, object_type);
    if (made == NULL) {
        image_release(image);
        return NULL;
    }
    made->image = image;
    return (PyObject *)made;
}

static PyMethodDef methods[] = {DLPACK_PRODUCER_METHODS(image), {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_dealloc, object_free}, {Py_tp_methods, methods}, {0, NULL}};
static PyType_Spec spec = {"example_rust.Image", sizeof(Object), 0, Py_TPFLAGS_DEFAULT, slots};

static PyMethodDef functions[] = {
    {"zeros", (PyCFunction)(void (*)(void))zeros, METH_VARARGS | METH_KEYWORDS, NULL},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "example_rust", NULL, -1, functions,
                                        NULL, NULL, NULL, NULL};

PyMODINIT_FUNC
PyInit_example_rust(void)
{
    PyObject *module = PyModule_Create(&definition);
    object_type = module != NULL ? (PyTypeObject *)PyType_FromSpec(&spec) : NULL;
    if (object_type == NULL) {
        Py_XDECREF(module);
        return NULL;
    }
#ifdef Py_GIL_DISABLED
    PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
