// Functions of tvm-ffi that allocate their results where its caller says.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/tvm_ffi.h>
namespace ffi = tvm::ffi;

ffi::Tensor twice(ffi::TensorView x) {
    ffi::Tensor y = ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(),
                                              x.device());
    const float *from = static_cast<const float *>(x.data_ptr());
    float *to = static_cast<float *>(y.data_ptr());
    for (int64_t i = 0; i < x.numel(); ++i) to[i] = 2 * from[i];
    return y;
}
ffi::Array<ffi::Tensor> pair(ffi::TensorView x) { return {twice(x), twice(x)}; }
ffi::Tensor echo(ffi::Tensor x) { return x; }
ffi::Tensor second(ffi::TensorView, ffi::TensorView y) { return twice(y); }
ffi::Any callback(ffi::Function f, ffi::TensorView x) { return f(twice(x)); }
void add_one(ffi::TensorView x) {
    float *at = static_cast<float *>(x.data_ptr());
    for (int64_t i = 0; i < x.numel(); ++i) at[i] += 1;
}
void fails(ffi::TensorView x) {
    twice(x);
    TVM_FFI_THROW(ValueError) << "after it has allocated";
}
