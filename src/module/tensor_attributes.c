/* The properties of a Tensor, which are read from its object, and its repr.
 * Tests: tests/core/test_properties.py, tests/core/test_ways_out.py. */
#include "module/tensor_attributes.h"

#include "core/dtype.h"
#include "exchange/tensor_object.h"
#include "module/device_type.h"
#include "module/interfaces_out.h"
#include "python/state.h"

/* Bytes of all elements. */
static int64_t
bytes_of(const dls_tensor *data)
{
    int64_t itemsize = dls_tensor_itemsize(data);
    int64_t count = dls_tensor_count(data);
    if (itemsize == 0) { /* packed: the formula of dlpack.h, over all elements */
        int64_t bits = dls_dtype_bits(data->tensor.dtype);
        return count / 8 * bits + (count % 8 * bits + 7) / 8;
    }
    return count * itemsize;
}

/* What NumPy 2.4 and newer ask for where .dtype is not their own. */
static PyObject *
numpy_dtype(const dls_tensor *t)
{
    PyObject *dtype = dls_dtype_object(t->state, t->tensor.dtype);
    PyObject *numpys = NULL;
    if (dtype != NULL) {
        numpys = PyObject_GetAttrString(dtype, "__numpy_dtype__");
        Py_DECREF(dtype);
    }
    return numpys;
}

/* X(name, value for the Tensor `t`, which is the object `self`, docstring) */
#define PROPERTY_LIST(X)                                                               \
    X(shape, dls_dims_tuple(t->tensor.shape, t->tensor.ndim, 1),                       \
      "Extents, a tuple of ints.")                                                     \
    X(strides, dls_dims_tuple(t->tensor.strides, t->tensor.ndim, 1),                   \
      "Strides in elements, a tuple of ints; exactly the row-major ones if the data "  \
      "are C-contiguous.")                                                             \
    X(dtype, dls_dtype_object(t->state, t->tensor.dtype),                              \
      "The dlshim.dtype, which NumPy reads; equals its name and (code, bits, lanes).") \
    X(device, dls_device_new(t->state, t->tensor.device),                              \
      "(device_type, device_id), plain ints; str() gives \"cpu\" or \"cuda:1\".")      \
    X(ndim, PyLong_FromLong(t->tensor.ndim), "Number of dimensions.")                  \
    X(size, PyLong_FromLongLong(dls_tensor_count(t)), "Number of elements.")           \
    X(itemsize, PyLong_FromLongLong((dls_dtype_bits(t->tensor.dtype) + 7) / 8),        \
      "Bytes of one element, sub-byte ones rounded up.")                               \
    X(nbytes, PyLong_FromLongLong(bytes_of(t)),                                        \
      "Bytes of all elements, gaps not counted.")                                      \
    X(byte_offset, PyLong_FromUnsignedLongLong(t->tensor.byte_offset),                 \
      "Bytes from `data` to element zero: 0 where the device has addresses (folded "   \
      "in).")                                                                          \
    X(readonly, PyBool_FromLong((t->flags & DL_FLAG_READ_ONLY) != 0),                  \
      "True when the memory must not be written (DLPack flag READ_ONLY).")             \
    X(is_copied, PyBool_FromLong((t->flags & DL_FLAG_IS_COPIED) != 0),                 \
      "True when a copy was made for this Tensor (DLPack flag IS_COPIED).")            \
    X(version, Py_BuildValue("(ii)", (int)t->major, (int)t->minor),                    \
      "(major, minor) of the struct that was taken; (0, 8) for a legacy one, which "   \
      "carries none.")                                                                 \
    X(__numpy_dtype__, numpy_dtype(t),                                                 \
      "The dtype as NumPy's; AttributeError where it has none.")                       \
    X(__array_interface__, dls_array_interface(self),                                  \
      "NumPy's array interface v3 of host memory; AttributeError elsewhere.")          \
    X(__cuda_array_interface__, dls_cuda_interface(self),                              \
      "CUDA array interface; AttributeError for memory that is not CUDA's.")           \
    X(__sycl_usm_array_interface__, dls_sycl_interface(self),                          \
      "SYCL USM array interface; AttributeError for memory that is not oneAPI's.")

#define GETTER(name, value, doc)                               \
    static PyObject *get_##name(PyObject *self, void *closure) \
    {                                                          \
        const dls_tensor *t = dls_tensor_data(self);           \
        (void)closure;                                         \
        (void)t;                                               \
        return value;                                          \
    }
PROPERTY_LIST(GETTER)
#undef GETTER

PyObject *
dls_tensor_data_ptr(PyObject *self, PyObject *DLS_UNUSED(ignored))
{
    return dls_address_object(dls_tensor_address(dls_tensor_data(self)));
}

PyObject *
dls_tensor_repr(PyObject *self)
{
    char text[48], device[48];
    dls_tensor *data = dls_tensor_data(self);
    const dl_tensor *t = &data->tensor;
    PyObject *shape = dls_dims_tuple(t->shape, t->ndim, 1);
    PyObject *strides = dls_dims_tuple(t->strides, t->ndim, 1);
    PyObject *repr = NULL;
    if (shape != NULL && strides != NULL) {
        repr = PyUnicode_FromFormat(
            "<dlshim.Tensor shape=%R strides=%R dtype=%s device=%s%s at %p>", shape,
            strides, dls_dtype_name(t->dtype, text, sizeof text),
            dls_device_name(t->device, device, sizeof device),
            data->flags & DL_FLAG_READ_ONLY ? " readonly" : "",
            dls_tensor_address(data));
    }
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    return repr;
}

PyGetSetDef dls_tensor_getters[] = {
#define ROW(name, value, doc) {#name, get_##name, NULL, doc, NULL},
    PROPERTY_LIST(ROW)
#undef ROW
        {NULL, NULL, NULL, NULL, NULL},
};
