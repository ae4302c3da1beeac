// A small nanobind extension, built once per nanobind generation: takes arrays as a writable and
// as a read-only parameter, tells what it got, and gives arrays away.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstring>
#include <string>
#include <vector>

namespace nb = nanobind;

template <typename Array> struct Held {
    Array array;

    nb::tuple shape() const {
        nb::list out;
        for (size_t i = 0; i < array.ndim(); ++i) out.append((long long) array.shape(i));
        return nb::tuple(out);
    }

    nb::tuple dtype() const {
        nb::dlpack::dtype t = array.dtype();
        return nb::make_tuple((int) t.code, (int) t.bits, (int) t.lanes);
    }

    uintptr_t address() const { return (uintptr_t) array.data(); }

    // The elements in row-major order.
    nb::bytes read() const {
        std::string out;
        size_t item = (size_t) (array.dtype().bits * array.dtype().lanes + 7) / 8;
        walk(out, (const char *) array.data(), 0, item);
        return nb::bytes(out.data(), out.size());
    }

    void walk(std::string &out, const char *at, size_t axis, size_t item) const {
        if (axis == array.ndim()) {
            out.append(at, item);
            return;
        }
        for (size_t i = 0; i < array.shape(axis); ++i)
            walk(out, at + (ptrdiff_t) i * array.stride(axis) * (ptrdiff_t) item, axis + 1, item);
    }
};

using Writable = nb::ndarray<>;
using ReadOnly = nb::ndarray<nb::ro>;

template <typename Array> void bind(nb::module_ &m, const char *name, const char *function) {
    using H = Held<Array>;
    nb::class_<H>(m, name)
        .def("shape", &H::shape)
        .def("dtype", &H::dtype)
        .def("address", &H::address)
        .def("read", &H::read);
    m.def(function, [](Array array) { return H{array}; });
}

// What give() returns: newer generations have an object that answers __dlpack__, older ones hand
// out a raw capsule.
#if NB_VERSION_MAJOR >= 3
using Given = nb::ndarray<nb::array_api>;
using GivenReadOnly = nb::ndarray<nb::array_api, nb::ro>;
#else
using Given = nb::ndarray<>;
using GivenReadOnly = nb::ndarray<nb::ro>;
#endif

template <typename Array>
static Array give(uintptr_t address, std::vector<size_t> const &shape,
                  std::vector<int64_t> const &strides, nb::dlpack::dtype dtype, nb::object owner) {
    return Array((void *) address, shape.size(), shape.data(), owner, strides.data(), dtype,
                 nb::device::cpu::value, 0);
}

NB_MODULE(interop_ndarray, m) {
    bind<Writable>(m, "HeldWritable", "take_rw");
    bind<ReadOnly>(m, "HeldReadOnly", "take_ro");
    m.def("give", [](uintptr_t address, nb::tuple shape_, nb::tuple strides_, nb::tuple dtype_,
                     bool readonly, nb::object owner) -> nb::object {
        std::vector<size_t> shape;
        std::vector<int64_t> strides;
        for (nb::handle h : shape_) shape.push_back(nb::cast<size_t>(h));
        for (nb::handle h : strides_) strides.push_back(nb::cast<int64_t>(h));
        nb::dlpack::dtype dtype{nb::cast<uint8_t>(dtype_[0]), nb::cast<uint8_t>(dtype_[1]),
                                nb::cast<uint16_t>(dtype_[2])};
        if (readonly) return nb::cast(give<GivenReadOnly>(address, shape, strides, dtype, owner));
        return nb::cast(give<Given>(address, shape, strides, dtype, owner));
    });
}
