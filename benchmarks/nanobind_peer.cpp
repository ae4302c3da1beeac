// A nanobind module as a peer: two consumers that do nothing with what they
// take, and a function that wraps what it took into a new nanobind array.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;

using Rewrapped = nb::ndarray<nb::array_api>;

static Rewrapped rewrap(const nb::ndarray<> &array) {
    auto *kept = new nb::ndarray<>(array);
    nb::capsule owner(kept, [](void *p) noexcept { delete static_cast<nb::ndarray<> *>(p); });
    size_t shape[32];
    int64_t strides[32];
    for (size_t i = 0; i < array.ndim(); i++) {
        shape[i] = array.shape(i);
        strides[i] = array.stride(i);
    }
    return Rewrapped(array.data(), array.ndim(), shape, owner, strides, array.dtype(),
                     array.device_type(), array.device_id());
}

NB_MODULE(dls_nanobind, m) {
    m.def("take", [](const nb::ndarray<> &) {});
    m.def("rewrap", &rewrap);
}
