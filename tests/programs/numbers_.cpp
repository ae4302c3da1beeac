/* Floats of 16 bits, and values of C++ that become an array. */
#include <dlshim.hpp>
#include <array>
#include <vector>
/* halves(x, by): the elements of x as doubles, in an array of the same shape, and x times `by`. */
struct Halves {
    std::vector<double> values;
    float by;
    template <class T> void operator()(const dlshim::view<T> &x) {
        dlshim::each(x, [this](T &value) {
            values.push_back(static_cast<double>(static_cast<float>(value)));
            value = static_cast<float>(value) * by;
        });
    }
    template <class U> void operator()(const dlshim::view<std::complex<U>> &) {}
    void operator()(const dlshim::view<bool> &) {}
};
static PyObject *halves(PyObject *, PyObject *args) {
    PyObject *obj;
    Halves all;
    if (!PyArg_ParseTuple(args, "Of", &obj, &all.by)) {
        return nullptr;
    }
    try {
        dlshim::array<void> x(obj);
        if (!dlshim::visit<dlshim::float16, dlshim::bfloat16>(x, all)) {
            Py_RETURN_NONE;
        }
        return dlshim::export_values(std::move(all.values), x.as_c().shape, x.ndim());
    }
    catch (const dlshim::python_error &) {
        return nullptr;
    }
}
static int ended;
struct Own : std::vector<int16_t> {
    using std::vector<int16_t>::vector;
    Own(Own &&) = default;
    ~Own() { ended += !empty(); }
};
struct Fixed : Own {
    using Own::Own;
    const int16_t *data() const { return Own::data(); }
};
/* owns(how): a Tensor, or what was raised; ended() counts the values that are gone. */
static PyObject *owns(PyObject *, PyObject *how) {
    try {
        switch (PyLong_AsLong(how)) {
        case 0: return dlshim::export_values(Own{1, 2, 3, 4, 5, 6});
        case 1: return dlshim::export_values(Own{1, 2, 3, 4, 5, 6}, {2, 3});
        case 2: return dlshim::export_values(Fixed{1, 2, 3});
        case 3: return dlshim::export_values(Own{}, {4, 0});
        case 4: return dlshim::export_values(std::array<std::complex<float>, 1>{{{1, 2}}}, {});
        case 5: return dlshim::export_values(Own{1, 2, 3}, {2, 3});
        case 6: return dlshim::export_values(Own{1, 2, 3}, {-1, -3});
        case 7: return dlshim::export_values(Own{1, 2}, {INT64_MAX, 2, 2, 2, 2});
        default: return dlshim::export_values(Own{1, 2}, {});
        }
    }
    catch (const dlshim::python_error &) {
        return nullptr;
    }
}
static PyObject *gone(PyObject *, PyObject *) { return PyLong_FromLong(ended); }
static PyMethodDef functions[] = {{"halves", halves, METH_VARARGS, nullptr},
                                  {"owns", owns, METH_O, nullptr},
                                  {"gone", gone, METH_NOARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "numbers_", nullptr, -1, functions,
                                 nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit_numbers_() { return PyModule_Create(&definition); }
