// The nanobind column of the matrix: takes arrays as a plain and as a read-only parameter, holds
// them, and tells what it got.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;

template <typename Array> struct Held {
    Array array;

    // Address, shape, strides in elements, and dtype.
    nb::tuple told() const {
        nb::list shape, strides;
        for (size_t i = 0; i < array.ndim(); ++i) {
            shape.append((long long) array.shape(i));
            strides.append((long long) array.stride(i));
        }
        nb::dlpack::dtype t = array.dtype();
        nb::tuple dtype = nb::make_tuple((int) t.code, (int) t.bits, (int) t.lanes);
        uintptr_t address = (uintptr_t) array.data();
        return nb::make_tuple(address, nb::tuple(shape), nb::tuple(strides), dtype);
    }
};

template <typename Array> void bind(nb::module_ &m, const char *held, const char *function) {
    nb::class_<Held<Array>>(m, held).def("told", &Held<Array>::told);
    m.def(function, [](Array array) { return Held<Array>{array}; });
}

NB_MODULE(dlshim_nanobind, m) {
    bind<nb::ndarray<>>(m, "Held", "take");
    bind<nb::ndarray<nb::ro>>(m, "HeldReadOnly", "take_read_only");
}
