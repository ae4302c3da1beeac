// Functions that an author writes with pybind11: with its buffer, and with dlshim.hpp.
#include <pybind11/pybind11.h>

#include <dlshim.hpp>

namespace py = pybind11;

static float own(const py::buffer &x) {
    const py::buffer_info info = x.request(true);
    if (info.ndim != 2 || info.format != py::format_descriptor<float>::format()) {
        throw py::type_error("x must have two dimensions of float32");
    }
    return *static_cast<float *>(info.ptr);
}

static float imported(const dlshim::array<float, 2> &x) {
    return x(0, 0);
}

static float borrowed(py::handle obj) {
    dlshim::borrowed<float, 2> x(obj.ptr());
    return x(0, 0);
}

PYBIND11_MODULE(dls_author_pybind11, m) {
    if (dlshim_load() == nullptr) {
        throw py::error_already_set();
    }
    m.def("own", &own);
    m.def("imported", &imported);
    m.def("borrowed", &borrowed);
}
