/* nanobind: functions that take a nb::ndarray, which says whether it writes, and one that returns memory
 * of its own.
 *
 *   FLAGS=$(python -c "import sys, sysconfig as s; print('-I' + s.get_path('include') \
 *       + ' -undefined dynamic_lookup' * (sys.platform == 'darwin'))")
 *   NB=$(python -c "import nanobind; print(nanobind.__path__[0])")
 *   c++ -std=c++17 -O1 -shared -fPIC -fvisibility=hidden -fno-strict-aliasing -DNDEBUG \
 *       $FLAGS -I$NB/include -I$NB/ext/robin_map/include \
 *       $NB/src/nb_combined.cpp kernel_nanobind.cpp -o kernel_nanobind.so
 *
 * In Python: dlshim.kernel(kernel_nanobind.total).
 */
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;

template <typename T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;

template <typename T, typename Visit>
static void each(Matrix<T> x, Visit visit) {
    for (size_t i = 0; i < x.shape(0); i++) {
        for (size_t j = 0; j < x.shape(1); j++) {
            visit(x(i, j));
        }
    }
}

NB_MODULE(kernel_nanobind, m) {
    m.def("total", [](Matrix<const float> x) {
        double sum = 0;
        each(x, [&](float value) { sum += value; });
        return sum;
    });
    m.def("add_one", [](Matrix<float> x) { each(x, [](float &value) { value += 1; }); });
    m.def("twice", [](Matrix<const float> x) {
        size_t n = 0;
        float *to = new float[x.size()];
        nb::capsule owner(to, [](void *p) noexcept { delete[] static_cast<float *>(p); });
        each(x, [&](float value) { to[n++] = 2 * value; });
        return nb::ndarray<nb::numpy, float, nb::ndim<2>>(to, {x.shape(0), x.shape(1)}, owner);
    });
}
