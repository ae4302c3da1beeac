/* A type of your own in C, whose objects go into every library.
 *
 *   FLAGS=$(python -c "import sys, sysconfig as s; print('-I' + s.get_path('include') \
 *       + ' -undefined dynamic_lookup' * (sys.platform == 'darwin'))")
 *   cc -std=c99 -O2 -shared -fPIC -DPy_LIMITED_API=0x030a0000 $FLAGS \
 *       -I$(python -m dlshim --include) own_type.c -o own_type.abi3.so
 */
#include <Python.h>
#include <dlshim.h>
#include <stdlib.h>

typedef struct {
    PyObject_HEAD
    int64_t length;
    double *data;
} ramp;

/* Ramp(n): 0, 1, 2 ... */
static PyObject *
ramp_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    long long n;
    char *keywords[] = {"n", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "L", keywords, &n)) {
        return NULL;
    }
    if (n < 0 || n > 1 << 24) {
        return PyErr_Format(PyExc_ValueError, "Ramp(): n is %lld, not 0 to %d", n, 1 << 24);
    }
    double *data = malloc((size_t)n * sizeof *data + 1);
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    ramp *self = data != NULL ? (ramp *)alloc(type, 0) : (ramp *)PyErr_NoMemory();
    if (self == NULL) {
        free(data);
        return NULL;
    }
    for (int64_t i = 0; i < n; i++) {
        data[i] = (double)i;
    }
    self->length = n;
    self->data = data;
    return (PyObject *)self;
}

static void
ramp_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free(((ramp *)self)->data);
    release(self);
    Py_DECREF((PyObject *)type);
}

/* The end of an export, on any thread, with or without the GIL. */
static void
drop(void *self)
{
    if (!Py_IsInitialized()) {
        return; /* a consumer may free it after Python's end, and the object went with Python */
    }
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF((PyObject *)self);
    PyGILState_Release(gil);
}

/* _array(): the memory as a dlshim.Tensor, which keeps the object alive. */
static PyObject *
ramp_array(PyObject *self, PyObject *none)
{
    ramp *own = (ramp *)self;
    dlshim_array array = {own->data, 1, 0, 1, {2, 64, 1}, &own->length, NULL, 0};
    (void)none;
    Py_INCREF(self);
    PyObject *tensor = dlshim_export_array(&array, 0, self, drop, NULL);
    if (tensor == NULL) {
        Py_DECREF(self); /* a failure takes nothing */
    }
    return tensor;
}

static PyMethodDef ramp_methods[] = {
    {"_array", ramp_array, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, (void *)ramp_new},
    {Py_tp_dealloc, (void *)ramp_dealloc},
    {Py_tp_methods, ramp_methods},
    {0, NULL},
};

static PyType_Spec spec = {"own_type.Ramp", sizeof(ramp), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

/* dlshim.producer puts on the type what consumers look for: __dlpack__, __dlpack_device__, and
 * the exchange table under its two names, __dlpack_c_exchange_api__ and the older
 * __c_dlpack_exchange_api__. */
static int
add_producer(PyObject *module, PyObject *type)
{
    PyObject *package = PyImport_ImportModule("dlshim");
    PyObject *function = package ? PyObject_GetAttrString(package, "producer") : NULL;
    PyObject *args = PyTuple_Pack(1, type);
    PyObject *kwargs = Py_BuildValue("{ss}", "inner", "_array");
    PyObject *same = function && args && kwargs ? PyObject_Call(function, args, kwargs) : NULL;
    int code = same ? PyModule_AddObjectRef(module, "Ramp", same) : -1;
    Py_XDECREF(same);
    Py_XDECREF(kwargs);
    Py_XDECREF(args);
    Py_XDECREF(function);
    Py_XDECREF(package);
    return code;
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "own_type", NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC
PyInit_own_type(void)
{
    PyObject *module = dlshim_load() != NULL ? PyModule_Create(&definition) : NULL;
    PyObject *type = module ? PyType_FromSpec(&spec) : NULL;
    if (module && (type == NULL || add_producer(module, type) < 0)) {
        Py_DECREF(module);
        module = NULL;
    }
    Py_XDECREF(type);
    return module;
}
