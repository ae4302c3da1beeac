/* pybind11: a function that takes a raw capsule of DLPack 0.x, as older kernels do.
 *
 *   FLAGS=$(python -c "import sys, sysconfig as s; print('-I' + s.get_path('include') \
 *       + ' -undefined dynamic_lookup' * (sys.platform == 'darwin'))")
 *   PB=$(python -c "import pybind11; print(pybind11.get_include())")
 *   DL=$(python -m tvm_ffi.config --dlpack-includedir)
 *   c++ -std=c++17 -O1 -shared -fPIC -fvisibility=hidden $FLAGS -I$PB -I$DL \
 *       kernel_pybind11.cpp -o kernel_pybind11.so
 *
 * In Python: dlshim.kernel(kernel_pybind11.total, takes="capsule").
 */
#include <dlpack/dlpack.h>
#include <pybind11/pybind11.h>

namespace py = pybind11;

/* The tensor of a capsule, which is used up: who has renamed it calls the deleter. */
class Taken {
public:
    explicit Taken(py::capsule capsule)
        : managed(static_cast<DLManagedTensor *>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"))) {
        if (managed == nullptr || PyCapsule_SetName(capsule.ptr(), "used_dltensor") != 0) {
            throw py::error_already_set();
        }
    }
    ~Taken() {
        if (managed->deleter) {
            managed->deleter(managed);
        }
    }
    Taken(const Taken &) = delete;

    /* float32 in host memory: else the loop would read beside the array. */
    const Taken &checked() const {
        const DLTensor &x = managed->dl_tensor;
        if (x.dtype.code != kDLFloat || x.dtype.bits != 32 || x.dtype.lanes != 1
            || x.device.device_type != kDLCPU) {
            throw py::type_error("float32 in host memory is wanted");
        }
        return *this;
    }

    template <typename Visit>
    void each(Visit visit, int axis = 0, int64_t at = 0) const {
        const DLTensor &x = managed->dl_tensor;
        if (axis == x.ndim) {
            char *first = static_cast<char *>(x.data) + x.byte_offset;
            visit(reinterpret_cast<float *>(first)[at]);
            return;
        }
        int64_t stride = x.strides ? x.strides[axis] : 1;
        for (int i = axis + 1; !x.strides && i < x.ndim; i++) {
            stride *= x.shape[i];
        }
        for (int64_t n = 0; n < x.shape[axis]; n++) {
            each(visit, axis + 1, at + n * stride);
        }
    }

private:
    DLManagedTensor *managed;
};

PYBIND11_MODULE(kernel_pybind11, m) {
    m.def("total", [](py::capsule x) {
        double sum = 0;
        Taken(x).checked().each([&](float value) { sum += value; });
        return sum;
    });
    m.def("add_one", [](py::capsule x) {
        Taken(x).checked().each([](float &value) { value += 1; });
    });
}
