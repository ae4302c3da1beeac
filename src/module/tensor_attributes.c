/* The properties of a Tensor, which are read from its object, and its repr.
 * Tests: tests/core/test_properties.py, tests/core/test_ways_out.py. */
#include "module/tensor_attributes.h"

#include "core/device.h"
#include "core/dtype.h"
#include "exchange/tensor_object.h"
#include "module/dtype_type.h"
#include "module/interfaces_out.h"

/* The getter of all properties but the interfaces is one function; its closure says
 * which property is asked for. */
typedef enum {
    SHAPE,
    STRIDES,
    DTYPE,
    DEVICE,
    NDIM,
    SIZE,
    ITEMSIZE,
    NBYTES,
    BYTE_OFFSET,
    READ_ONLY,
    IS_COPIED,
    VERSION,
    DATA_PTR,
} property;

#define WHICH(property) ((void *)(uintptr_t)(property))

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

static PyObject *
get(PyObject *self, void *closure)
{
    const dls_tensor *data = dls_tensor_data(self);
    const dl_tensor *t = &data->tensor;
    switch ((property)(uintptr_t)closure) {
    case SHAPE:
        return dls_dims_tuple(t->shape, t->ndim, 1);
    case STRIDES:
        return dls_dims_tuple(t->strides, t->ndim, 1);
    case DTYPE:
        return dls_dtype_new(data->state, t->dtype);
    case DEVICE:
        return dls_device_pair(data->state, t->device);
    case NDIM:
        return PyLong_FromLong(t->ndim);
    case SIZE:
        return PyLong_FromLongLong(dls_tensor_count(data));
    case ITEMSIZE:
        return PyLong_FromLongLong((dls_dtype_bits(t->dtype) + 7) / 8);
    case NBYTES:
        return PyLong_FromLongLong(bytes_of(data));
    case BYTE_OFFSET:
        return PyLong_FromUnsignedLongLong(t->byte_offset);
    case READ_ONLY:
        return PyBool_FromLong((data->flags & DL_FLAG_READ_ONLY) != 0);
    case IS_COPIED:
        return PyBool_FromLong((data->flags & DL_FLAG_IS_COPIED) != 0);
    case VERSION:
        return Py_BuildValue("(ii)", (int)data->major, (int)data->minor);
    case DATA_PTR:
        return PyLong_FromVoidPtr(dls_tensor_address(data));
    }
    return NULL; /* not reached */
}

PyObject *
dls_tensor_repr(PyObject *self)
{
    char text[48];
    dls_tensor *data = dls_tensor_data(self);
    const dl_tensor *t = &data->tensor;
    PyObject *shape = dls_dims_tuple(t->shape, t->ndim, 1);
    PyObject *strides = dls_dims_tuple(t->strides, t->ndim, 1);
    PyObject *repr = NULL;
    if (shape != NULL && strides != NULL) {
        repr = PyUnicode_FromFormat(
            "<dlshim.Tensor shape=%R strides=%R dtype=%s device=(%d, %d)%s at %p>",
            shape, strides, dls_dtype_name(t->dtype, text, sizeof text),
            (int)t->device.device_type, (int)t->device.device_id,
            data->flags & DL_FLAG_READ_ONLY ? " readonly" : "",
            dls_tensor_address(data));
    }
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    return repr;
}

PyGetSetDef dls_tensor_getters[] = {
    {"shape", get, NULL, "Extents, a tuple of ints.", WHICH(SHAPE)},
    {"strides", get, NULL,
     "Strides in elements, a tuple of ints; row-major ones to the letter when the data "
     "are C-contiguous.",
     WHICH(STRIDES)},
    {"dtype", get, NULL, "(code, bits, lanes), a tuple whose str() is the name.",
     WHICH(DTYPE)},
    {"device", get, NULL, "(device_type, device_id), plain ints.", WHICH(DEVICE)},
    {"ndim", get, NULL, "Number of dimensions.", WHICH(NDIM)},
    {"size", get, NULL, "Number of elements.", WHICH(SIZE)},
    {"itemsize", get, NULL, "Bytes of one element, sub-byte ones rounded up.",
     WHICH(ITEMSIZE)},
    {"nbytes", get, NULL, "Bytes of all elements, gaps not counted.", WHICH(NBYTES)},
    {"byte_offset", get, NULL,
     "Bytes from `data` to element zero: 0 where the device has addresses (folded in).",
     WHICH(BYTE_OFFSET)},
    {"readonly", get, NULL,
     "True when the memory must not be written (DLPack flag READ_ONLY).",
     WHICH(READ_ONLY)},
    {"is_copied", get, NULL,
     "True when a copy was made for this Tensor (DLPack flag IS_COPIED).",
     WHICH(IS_COPIED)},
    {"version", get, NULL,
     "(major, minor) of the struct that was taken; (0, 8) for a legacy one, which "
     "carries none.",
     WHICH(VERSION)},
    {"data_ptr", get, NULL,
     "Address of element zero as an int; the handle on devices without addresses.",
     WHICH(DATA_PTR)},
    {"__array_interface__", dls_array_interface, NULL,
     "NumPy's array interface v3 of host memory; AttributeError elsewhere.", NULL},
    {"__cuda_array_interface__", dls_cuda_interface, NULL,
     "CUDA array interface; AttributeError for memory that is not CUDA's.", NULL},
    {"__sycl_usm_array_interface__", dls_sycl_interface, NULL,
     "SYCL USM array interface; AttributeError for memory that is not oneAPI's.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
