/* nanobind: functions that take any array and return memory of C++ to any library.
 *
 *   FLAGS=$(python -c "import sys, sysconfig as s; print('-I' + s.get_path('include') \
 *       + ' -undefined dynamic_lookup' * (sys.platform == 'darwin'))")
 *   NB=$(python -c "import nanobind; print(nanobind.__path__[0])")
 *   c++ -std=c++17 -O2 -shared -fPIC -fvisibility=hidden -fno-strict-aliasing -DNDEBUG \
 *       $FLAGS -I$NB/include -I$NB/ext/robin_map/include -I$(python -m dlshim --include) \
 *       $NB/src/nb_combined.cpp nanobind_module.cpp -o nanobind_module.so
 */
#include <nanobind/nanobind.h>

#include <dlshim.hpp> /* after nanobind: its functions may have parameters dlshim::array<...> */

#include <vector>

namespace nb = nanobind;

/* In place.  The memory is borrowed for the length of the call, so the GIL is kept. */
static void scale(nb::handle x, double by) {
    dlshim::borrowed<double> values(x.ptr(), dlshim::options("scale(): x").row_major());
    for (int64_t i = 0; i < values.size(); i++) {
        values.data()[i] *= by;
    }
}

/* Of any strides.  Other threads run meanwhile, so the memory is imported. */
static double total(nb::handle obj) {
    const dlshim::array<const double> x(obj.ptr(), dlshim::options("total(): x"));
    nb::gil_scoped_release others;
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
static nb::object ramp(size_t n) {
    std::vector<double> values(n);
    for (size_t i = 0; i < n; i++) {
        values[i] = static_cast<double>(i);
    }
    return nb::steal(dlshim::export_values(std::move(values)));
}

NB_MODULE(nanobind_module, m) {
    if (dlshim_load() == nullptr) {
        throw nb::python_error();
    }
    m.def("scale", &scale);
    m.def("total", &total);
    m.def("trace", &trace<double>);
    m.def("trace", &trace<float, dlshim::last>);
    m.def("ramp", &ramp);
}
