/* elements(x): what an array has to show, moved to another one, and what is left where it was. */
#include <dlshim.hpp>
static int64_t count(const dlshim::view<const double> &x) {
    int64_t n = 0;
    dlshim::each(x, [&n](double) { n++; });
    return n;
}
static bool has(const dlshim::view<const double> &x) {
    try {
        x.at();
        return true;
    }
    catch (const std::out_of_range &) {
        return false;
    }
}
static PyObject *elements(PyObject *, PyObject *obj) {
    dlshim::array<const double> x;
    if (!x.take(obj)) {
        return nullptr;
    }
    const dlshim::view<const double> before = x;
    const int64_t counted = count(before);
    const dlshim::array<const double> other(std::move(x));
    return Py_BuildValue("LLiLLi", static_cast<long long>(other.size()),
                         static_cast<long long>(counted), static_cast<int>(has(other)),
                         static_cast<long long>(x.size()), static_cast<long long>(count(x)),
                         static_cast<int>(has(x)));
}
static PyMethodDef functions[] = {{"elements", elements, METH_O, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "elements", nullptr, -1, functions,
                                 nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit_elements() { return PyModule_Create(&definition); }
