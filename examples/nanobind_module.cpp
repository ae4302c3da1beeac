/* nanobind: functions that take any array and return memory of C++ to any library.
 *
 *   INCLUDES=$(python -c "import sysconfig; print('-I' + sysconfig.get_path('include'))")
 *   NB=$(python -c "import nanobind; print(nanobind.__path__[0])")
 *   c++ -std=c++17 -O2 -shared -fPIC -fvisibility=hidden -fno-strict-aliasing -DNDEBUG \
 *       $INCLUDES -I$NB/include -I$NB/ext/robin_map/include -I$(python -m dlshim --include) \
 *       $NB/src/nb_combined.cpp nanobind_module.cpp -o nanobind_module.so
 */
#include <dlshim.h>
#include <nanobind/nanobind.h>

#include <vector>

namespace nb = nanobind;

/* A borrowed array for the length of a call. */
class Doubles {
public:
    Doubles(nb::handle x, const char *name) {
        static const dlshim_dtype float64 = {2, 64, 1};
        dlshim_request want = DLSHIM_REQUEST_INIT;
        want.name = name;
        want.dtypes = &float64;
        want.dtype_count = 1;
        want.contiguous = 1;
        want.writable = 1;
        want.alignment = sizeof(double);
        if (dlshim_borrow(x.ptr(), &want, &view) < 0) {
            throw nb::python_error();
        }
    }
    ~Doubles() { dlshim_borrow_end(&view); }
    Doubles(const Doubles &) = delete;
    Doubles &operator=(const Doubles &) = delete;

    double *begin() const {
        return reinterpret_cast<double *>(static_cast<char *>(view.array.data) +
                                          view.array.byte_offset);
    }
    double *end() const {
        int64_t n = 1;
        for (int32_t i = 0; i < view.array.ndim; i++) {
            n *= view.array.shape[i];
        }
        return begin() + n;
    }

private:
    dlshim_view view;
};

static void scale(nb::handle x, double by) {
    for (double &value : Doubles(x, "scale(): x")) {
        value *= by;
    }
}

/* The vector becomes an array without a copy, and lives as long as somebody uses it. */
static nb::object ramp(size_t n) {
    auto *values = new std::vector<double>(n);
    for (size_t i = 0; i < n; i++) {
        (*values)[i] = static_cast<double>(i);
    }
    int64_t shape = static_cast<int64_t>(n);
    dlshim_array array = {values->data(), 1, 0, 1, {2, 64, 1}, &shape, nullptr, 0};
    PyObject *tensor = dlshim_export_array(
        &array, 0, values, [](void *p) { delete static_cast<std::vector<double> *>(p); },
        nullptr);
    if (tensor == nullptr) {
        delete values;
        throw nb::python_error();
    }
    return nb::steal(tensor);
}

NB_MODULE(nanobind_module, m) {
    if (dlshim_load() == nullptr) {
        throw nb::python_error();
    }
    m.def("scale", &scale);
    m.def("ramp", &ramp);
}
