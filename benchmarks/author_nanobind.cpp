// Functions that an author writes with nanobind: with its own ndarray, and with dlshim.hpp.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <dlshim.hpp>

namespace nb = nanobind;

template <class T> static float own(const nb::ndarray<T, nb::ndim<2>, nb::device::cpu> &x) {
    return x(0, 0);
}

template <class T> static float imported(const dlshim::array<T, 2> &x) {
    return x(0, 0);
}

template <class T> static float borrowed(nb::handle obj) {
    dlshim::borrowed<T, 2> x(obj.ptr());
    return x(0, 0);
}

NB_MODULE(dls_author_nanobind, m) {
    if (dlshim_load() == nullptr) {
        throw nb::python_error();
    }
    m.def("own", &own<float>);
    m.def("own_const", &own<const float>);
    m.def("imported", &imported<float>);
    m.def("imported_const", &imported<const float>);
    m.def("borrowed", &borrowed<float>);
    m.def("borrowed_const", &borrowed<const float>);
}
