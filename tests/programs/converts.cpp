/* Arguments that are converted to the dtype that a function of C++ asks for. */
#include <dlshim.hpp>
#include <string>
#include <vector>
template <class T> struct made {
    template <class... More> static PyObject *of(PyObject *obj, const dlshim::options &asked) {
        const dlshim::array<const T, dlshim::any_rank, More...> x(obj, asked);
        std::vector<T> *values = new std::vector<T>;
        dlshim::each(x, [values](T value) { values->push_back(value); });
        const dlshim_array array = {values->data(), 1, 0, x.ndim(), dlshim::dtype_of<T>::value(),
                                    x.as_c().shape, nullptr, 0};
        return dlshim_export_array(&array, x.flags(), values, [](void *all) {
            delete static_cast<std::vector<T> *>(all);
        }, nullptr);
    }
};
template <> struct made<bool> { /* a std::vector of bool has no data() */
    template <class... More> static PyObject *of(PyObject *obj, const dlshim::options &asked) {
        const dlshim::array<const bool, dlshim::any_rank, More...> x(obj, asked);
        uint8_t *values = new uint8_t[static_cast<size_t>(x.size())], *to = values;
        dlshim::each(x, [&to](bool value) { *to++ = value; });
        const dlshim_array array = {values, 1, 0, x.ndim(), {6, 8, 1}, x.as_c().shape, nullptr, 0};
        return dlshim_export_array(&array, x.flags(), values, [](void *all) {
            delete[] static_cast<uint8_t *>(all);
        }, nullptr);
    }
};
struct own { /* an option of a user */
    static void ask(dlshim::options &more) { more.convert().detach(); }
};
template <class T> static PyObject *extents(PyObject *obj) {
    const T x(obj, "extents(): x");
    return Py_BuildValue("LK", static_cast<long long>(x.size()),
                         reinterpret_cast<uintptr_t>(x.data()));
}
/* numbers_of(name, obj): an array of that dtype, or the size and address of what was taken. */
static PyObject *numbers_of(PyObject *, PyObject *args) {
    const char *text;
    PyObject *obj;
    if (!PyArg_ParseTuple(args, "sO", &text, &obj)) {
        return nullptr;
    }
    const std::string name = text;
    const dlshim::options asked("numbers_of(): x");
    try {
        #define OF(said, T) if (name == said) return made<T>::of<dlshim::convert>(obj, asked)
        OF("bool", bool); OF("int8", int8_t); OF("uint8", uint8_t); OF("int16", int16_t);
        OF("uint16", uint16_t); OF("int32", int32_t); OF("uint32", uint32_t);
        OF("int64", int64_t); OF("uint64", uint64_t); OF("float32", float);
        OF("float64", double); OF("float16", dlshim::float16);
        OF("bfloat16", dlshim::bfloat16); OF("complex64", std::complex<float>);
        OF("complex128", std::complex<double>);
        if (name == "own") return made<float>::of<own>(obj, asked);
        if (name == "options") {
            return made<float>::of<>(obj, dlshim::options(asked).convert().detach());
        }
        if (name == "never") {
            return made<float>::of<dlshim::convert, dlshim::copy<DLSHIM_COPY_NEVER>>(obj, asked);
        }
        using namespace dlshim;
        if (name == "lent") return extents<borrowed<const double, 2, convert>>(obj);
        using two = dlshim::shape<-1, 2>;
        if (name == "pairs") return extents<array<const double, 2, two>>(obj);
        if (name == "lent pairs") return extents<borrowed<const double, 2, two>>(obj);
        if (name == "aligned") {
            return extents<array<const float, 1, convert, dlshim::alignment<256>>>(obj);
        }
        if (name == "rows") return extents<array<const double, 2, dlshim::row_major>>(obj);
        if (name == "written") return extents<array<double, any_rank, convert>>(obj);
    }
    catch (const dlshim::python_error &) {
    }
    return nullptr;
}
static PyMethodDef functions[] = {{"numbers_of", numbers_of, METH_VARARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "converts", nullptr, -1, functions,
                                 nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit_converts() { return PyModule_Create(&definition); }
