/* Functions of tvm-ffi, as compiled kernels have them: they know nothing of array libraries.
 *
 *   c++ -std=c++17 -O1 -shared -fPIC $(python -m tvm_ffi.config --cxxflags) kernel_tvm_ffi.cpp \
 *       $(python -m tvm_ffi.config --ldflags) $(python -m tvm_ffi.config --libs) -o kernel_tvm_ffi.so
 *
 * In Python: kernels = tvm_ffi.load_module("kernel_tvm_ffi.so"), and dlshim.kernel(kernels.twice).
 */
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>

namespace ffi = tvm::ffi;

template <typename T, typename Visit>
static void each_from(ffi::TensorView x, Visit &visit, int axis, int64_t at, int64_t *i) {
    if (axis == x.ndim()) {
        visit((*i)++, static_cast<T *>(x.data_ptr())[at]);
        return;
    }
    for (int64_t n = 0; n < x.size(axis); n++) {
        each_from<T>(x, visit, axis + 1, at + n * x.stride(axis), i);
    }
}

/* Other elements, or memory of a device: a loop over floats would read beside the array. */
static void check(ffi::TensorView x, int code, int bits) {
    const DLDataType has = x.dtype();
    if (has.code != code || has.bits != bits || has.lanes != 1 || x.device().device_type != kDLCPU) {
        TVM_FFI_THROW(TypeError) << (bits == 32 ? "float32" : "bfloat16") << " in host memory is wanted";
    }
}

/* Calls visit(i, element) for each element, in row-major order. */
template <typename T, typename Visit> static void each(ffi::TensorView x, Visit visit) {
    int64_t i = 0;
    check(x, sizeof(T) == 4 ? kDLFloat : kDLBfloat, 8 * sizeof(T));
    each_from<T>(x, visit, 0, 0, &i);
}

/* New memory: by the allocator of the caller's library. */
static ffi::Tensor like(ffi::TensorView x) {
    return ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), x.device());
}

static ffi::Tensor times(ffi::TensorView x, float factor) {
    ffi::Tensor out = like(x);
    float *to = static_cast<float *>(out.data_ptr());
    each<float>(x, [&](int64_t i, float value) { to[i] = factor * value; });
    return out;
}

/* In place. */
static void add_one(ffi::TensorView x) {
    each<float>(x, [](int64_t, float &value) { value += 1; });
}

/* The output is the last argument, as most kernels have it. */
static void add(ffi::TensorView a, ffi::TensorView b, ffi::TensorView out) {
    check(out, kDLFloat, 32);
    if (!out.IsContiguous() || a.numel() != out.numel() || b.numel() != out.numel()) {
        TVM_FFI_THROW(ValueError) << "three arrays of one size are wanted, the last of them row-major";
    }
    float *to = static_cast<float *>(out.data_ptr());
    each<float>(a, [&](int64_t i, float value) { to[i] = value; });
    each<float>(b, [&](int64_t i, float value) { to[i] += value; });
}

static ffi::Tensor twice(ffi::TensorView x) { return times(x, 2); }

static ffi::Array<ffi::Tensor> twice_and_half(ffi::TensorView x) {
    return {times(x, 2), times(x, 0.5f)};
}

/* A list of arrays goes in, and a list comes out. */
static ffi::Array<ffi::Tensor> twice_each(ffi::Array<ffi::Tensor> all) {
    ffi::Array<ffi::Tensor> out;
    for (const ffi::Tensor &x : all) {
        out.push_back(twice(x));
    }
    return out;
}

/* Strides of the argument are used, whatever they are. */
static double total(ffi::TensorView x) {
    double sum = 0;
    each<float>(x, [&](int64_t, float value) { sum += value; });
    return sum;
}

/* bfloat16: the sign is the first bit. */
static ffi::Tensor negative(ffi::TensorView x) {
    ffi::Tensor out = like(x);
    uint16_t *to = static_cast<uint16_t *>(out.data_ptr());
    each<uint16_t>(x, [&](int64_t i, uint16_t bits) { to[i] = bits ^ 0x8000; });
    return out;
}

/* A callback gets what the kernel has made, and its result goes out. */
static ffi::Any apply(ffi::Function f, ffi::TensorView x) { return f(times(x, 3)); }

static void fail(ffi::TensorView) { TVM_FFI_THROW(ValueError) << "the kernel refuses"; }

TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_one, add_one);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add, add);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice, twice);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice_and_half, twice_and_half);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice_each, twice_each);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(total, total);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(negative, negative);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(apply, apply);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fail, fail);
