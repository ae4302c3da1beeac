/* pybind11: functions that take any array and return memory of C++ to any library.
 *
 *   c++ -std=c++17 -O2 -shared -fPIC -fvisibility=hidden $(python -m pybind11 --includes) \
 *       -I$(python -m dlshim --include) pybind11_module.cpp -o pybind11_module.so
 */
#include <dlshim.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <vector>

namespace py = pybind11;

static void scale(py::handle x, double by) {
    static const dlshim_dtype float64 = {2, 64, 1};
    dlshim_request want = DLSHIM_REQUEST_INIT;
    want.name = "scale(): x";
    want.dtypes = &float64;
    want.dtype_count = 1;
    want.contiguous = 1;
    want.writable = 1;
    want.alignment = sizeof(double);
    dlshim_view view;
    if (dlshim_borrow(x.ptr(), &want, &view) < 0) {
        throw py::error_already_set();
    }
    /* However the block is left, the borrow ends. */
    std::unique_ptr<dlshim_view, void (*)(dlshim_view *)> end(&view, dlshim_borrow_end);
    int64_t n = 1;
    for (int32_t i = 0; i < view.array.ndim; i++) {
        n *= view.array.shape[i];
    }
    auto *data = reinterpret_cast<double *>(static_cast<char *>(view.array.data) +
                                            view.array.byte_offset);
    for (int64_t i = 0; i < n; i++) {
        data[i] *= by;
    }
}

/* The vector becomes an array without a copy, and lives as long as somebody uses it. */
static py::object ramp(size_t n) {
    auto values = std::make_unique<std::vector<double>>(n);
    for (size_t i = 0; i < n; i++) {
        (*values)[i] = static_cast<double>(i);
    }
    int64_t shape = static_cast<int64_t>(n);
    dlshim_array array = {values->data(), 1, 0, 1, {2, 64, 1}, &shape, nullptr, 0};
    PyObject *tensor = dlshim_export_array(
        &array, 0, values.get(),
        [](void *p) { delete static_cast<std::vector<double> *>(p); }, nullptr);
    if (tensor == nullptr) {
        throw py::error_already_set(); /* a failure takes nothing */
    }
    values.release();
    return py::reinterpret_steal<py::object>(tensor);
}

PYBIND11_MODULE(pybind11_module, m) {
    if (dlshim_load() == nullptr) {
        throw py::error_already_set();
    }
    m.def("scale", &scale);
    m.def("ramp", &ramp);
}
