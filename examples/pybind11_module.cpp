/* pybind11: functions that take any array and return memory of C++ to any library.
 *
 *   MACOS=$(python -c "import sys; print('-undefined dynamic_lookup' * (sys.platform == 'darwin'))")
 *   c++ -std=c++17 -O2 -shared -fPIC -fvisibility=hidden $(python -m pybind11 --includes) $MACOS \
 *       -I$(python -m dlshim --include) pybind11_module.cpp -o pybind11_module.so
 */
#include <pybind11/pybind11.h>

#include <dlshim.hpp> /* after pybind11: its functions may have parameters dlshim::array<...> */

#include <vector>

namespace py = pybind11;

/* In place.  The memory is borrowed for the length of the call, so the GIL is kept. */
static void scale(py::handle x, double by) {
    dlshim::borrowed<double> values(x.ptr(), dlshim::options("scale(): x").row_major());
    for (int64_t i = 0; i < values.size(); i++) {
        values.data()[i] *= by;
    }
}

/* Of any strides.  Other threads run meanwhile, so the memory is imported. */
static double total(py::handle obj) {
    const dlshim::array<const double> x(obj.ptr(), dlshim::options("total(): x"));
    py::gil_scoped_release others;
    double sum = 0;
    dlshim::each(x, [&sum](double value) { sum += value; });
    return sum;
}

/* One overload for each dtype, of two dimensions and any strides.  Integers become doubles, for that is
 * the first; where the last one refuses an array, too, the user reads why. */
template <class T, class... Options>
static T trace(const dlshim::array<const T, 2, Options...> &x) {
    T sum = 0;
    for (int64_t i = 0; i < x.shape(0) && i < x.shape(1); i++) {
        sum += x(i, i);
    }
    return sum;
}

/* The vector becomes an array without a copy, and lives as long as somebody uses it. */
static py::object ramp(size_t n) {
    std::vector<double> values(n);
    for (size_t i = 0; i < n; i++) {
        values[i] = static_cast<double>(i);
    }
    return py::reinterpret_steal<py::object>(dlshim::export_values(std::move(values)));
}

PYBIND11_MODULE(pybind11_module, m) {
    if (dlshim_load() == nullptr) {
        throw py::error_already_set();
    }
    m.def("scale", &scale);
    m.def("total", &total);
    m.def("trace", &trace<double>);
    m.def("trace", &trace<float, dlshim::last>);
    m.def("ramp", &ramp);
}
