/* Memory of C++ that several owners share, exported by dlpack_producer.h alone.
 *
 *   INCLUDES=$(python -c "import sysconfig; print('-I' + sysconfig.get_path('include'))")
 *   c++ -std=c++11 -O2 -shared -fPIC $INCLUDES example.cpp -o example_cpp.so
 *
 *   import example_cpp; x = example_cpp.zeros((2, 3)); numpy.from_dlpack(x)
 *
 * An export holds a std::shared_ptr of its own instead of the Python object, so that the deleter ends
 * it on any thread without the GIL, also after Python's end. */
#define PY_SSIZE_T_CLEAN
#include "dlpack_producer.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace {

struct Image {
    std::vector<std::int64_t> shape;
    std::vector<float> pixels;
    bool fixed;
};
using Shared = std::shared_ptr<Image>;

struct Object {
    PyObject_HEAD
    Shared *image;
};

void
release(void *context)
{
    delete static_cast<Shared *>(context);
}

int
describe(PyObject *self, dlpack_array *array)
{
    const Shared &image = *reinterpret_cast<Object *>(self)->image;
    array->context = new (std::nothrow) Shared(image);
    if (array->context == nullptr) {
        PyErr_NoMemory();
        return -1;
    }
    array->release = release;
    array->data = image->pixels.data();
    array->ndim = static_cast<std::int32_t>(image->shape.size());
    array->code = 2; /* float */
    array->bits = 32;
    array->shape = image->shape.data();
    array->read_only = image->fixed;
    return 0;
}
DLPACK_PRODUCER(image, describe)

void
object_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    release(reinterpret_cast<Object *>(self)->image);
    PyObject_Free(self);
    Py_DECREF(type);
}

PyMethodDef methods[] = {DLPACK_PRODUCER_METHODS(image), {nullptr, nullptr, 0, nullptr}};
PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(object_free)},
                       {Py_tp_methods, methods},
                       {0, nullptr}};
PyType_Spec spec = {"example_cpp.Image", sizeof(Object), 0, Py_TPFLAGS_DEFAULT, slots};
PyTypeObject *object_type;

/* Reads the shape into *image and makes its pixels; may throw.  0, or -1 with an exception. */
int
fill(PyObject *shape, Image *image)
{
    const Py_ssize_t n = PySequence_Size(shape);
    std::size_t count = 1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(shape, i);
        const Py_ssize_t extent = item != nullptr ? PyNumber_AsSsize_t(item, PyExc_OverflowError) : -1;
        Py_XDECREF(item);
        if (PyErr_Occurred()) {
            return -1;
        }
        if (extent < 0 || (extent > 0 && count > (std::size_t(1) << 40) / std::size_t(extent))) {
            PyErr_SetString(PyExc_ValueError, "no such shape");
            return -1;
        }
        image->shape.push_back(extent);
        count *= std::size_t(extent);
    }
    image->pixels.resize(count);
    return n < 0 ? -1 : 0;
}

/* zeros(shape, dtype="float32", readonly=False) */
PyObject *
zeros(PyObject *, PyObject *args, PyObject *kwargs)
{
    static const char *names[] = {"shape", "dtype", "readonly", nullptr};
    PyObject *shape;
    const char *dtype = "float32";
    int fixed = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|sp", const_cast<char **>(names), &shape, &dtype,
                                     &fixed)) {
        return nullptr;
    }
    if (std::strcmp(dtype, "float32") != 0) {
        PyErr_Format(PyExc_TypeError, "no dtype %s", dtype);
        return nullptr;
    }
    try {
        Shared image = std::make_shared<Image>();
        image->fixed = fixed != 0;
        if (fill(shape, image.get()) < 0) {
            return nullptr;
        }
        std::unique_ptr<Shared> kept(new Shared(image));
        Object *made = PyObject_New(Object, object_type);
        if (made != nullptr) {
            made->image = kept.release();
        }
        return reinterpret_cast<PyObject *>(made);
    }
    catch (const std::bad_alloc &) {
        return PyErr_NoMemory();
    }
}

PyMethodDef functions[] = {
    {"zeros", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(zeros)),
     METH_VARARGS | METH_KEYWORDS, nullptr},
    {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "example_cpp", nullptr, -1, functions,
                          nullptr, nullptr, nullptr, nullptr};

} // namespace

PyMODINIT_FUNC
PyInit_example_cpp(void)
{
    PyObject *module = PyModule_Create(&definition);
    object_type = module != nullptr ? reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&spec)) : nullptr;
    if (object_type == nullptr) {
        Py_XDECREF(module);
        return nullptr;
    }
#ifdef Py_GIL_DISABLED
    PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
