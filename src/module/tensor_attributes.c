#include "module/tensor_type.h"

#include "core/device.h"
#include "core/dtype.h"
#include "core/layout.h"
#include "module/interfaces_out.h"
#include "module/tensor_sycl.h"

static PyObject *
tuple_of(const int64_t *values, int32_t n, int64_t factor)
{
    PyObject *tuple = PyTuple_New(n);
    for (int32_t i = 0; tuple != NULL && i < n; i++) {
        int64_t value;
        /* Only strides that count for nothing (extents below 2) can overflow here. */
        PyObject *item = PyLong_FromLongLong(dls_mul(values[i], factor, &value) ? value
                                                                                : 0);
        if (item == NULL) {
            Py_CLEAR(tuple);
            break;
        }
        PyTuple_SetItem(tuple, i, item);
    }
    return tuple;
}

int64_t
dls_tensor_count(const dls_tensor *self)
{
    int64_t count = 0;
    dls_layout_count(self->tensor.ndim, self->tensor.shape, &count, NULL);
    return count;
}

/* Bytes from element to element; packed sub-byte elements have none. */
int64_t
dls_tensor_itemsize(const dls_tensor *self)
{
    return dls_dtype_itemsize(self->tensor.dtype, self->flags & DL_FLAG_SUBBYTE_PADDED);
}

bool
dls_tensor_on_host(const dls_tensor *self)
{
    return dls_device_is_host(self->tensor.device.device_type);
}

static PyObject *
get_shape(PyObject *self, void *closure)
{
    (void)closure;
    const dl_tensor *t = &dls_tensor_data(self)->tensor;
    return tuple_of(t->shape, t->ndim, 1);
}

static PyObject *
get_strides(PyObject *self, void *closure)
{
    (void)closure;
    const dl_tensor *t = &dls_tensor_data(self)->tensor;
    return tuple_of(t->strides, t->ndim, 1);
}

static PyObject *
get_dtype(PyObject *self, void *closure)
{
    (void)closure;
    dls_tensor *data = dls_tensor_data(self);
    return dls_dtype_new(data->state, data->tensor.dtype);
}

PyObject *
dls_tensor_device_pair(const dls_tensor *self)
{
    return dls_device_pair(self->state, self->tensor.device);
}

static PyObject *
get_device(PyObject *self, void *closure)
{
    (void)closure;
    return dls_tensor_device_pair(dls_tensor_data(self));
}

static PyObject *
get_ndim(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromLong(dls_tensor_data(self)->tensor.ndim);
}

static PyObject *
get_size(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromLongLong(dls_tensor_count(dls_tensor_data(self)));
}

static PyObject *
get_itemsize(PyObject *self, void *closure)
{
    (void)closure;
    dls_tensor *data = dls_tensor_data(self);
    return PyLong_FromLongLong((dls_dtype_bits(data->tensor.dtype) + 7) / 8);
}

static PyObject *
get_nbytes(PyObject *self, void *closure)
{
    (void)closure;
    dls_tensor *data = dls_tensor_data(self);
    int64_t itemsize = dls_tensor_itemsize(data);
    int64_t count = dls_tensor_count(data);
    if (itemsize == 0) { /* packed: the header's formula, over all of them */
        int64_t bits = dls_dtype_bits(data->tensor.dtype);
        return PyLong_FromLongLong(count / 8 * bits + (count % 8 * bits + 7) / 8);
    }
    return PyLong_FromLongLong(count * itemsize);
}

static PyObject *
get_byte_offset(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(dls_tensor_data(self)->tensor.byte_offset);
}

static PyObject *
get_readonly(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong((dls_tensor_data(self)->flags & DL_FLAG_READ_ONLY) != 0);
}

static PyObject *
get_is_copied(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong((dls_tensor_data(self)->flags & DL_FLAG_IS_COPIED) != 0);
}

static PyObject *
get_version(PyObject *self, void *closure)
{
    (void)closure;
    dls_tensor *data = dls_tensor_data(self);
    return Py_BuildValue("(ii)", (int)data->major, (int)data->minor);
}

/* Address of element zero where the device has addresses, else the handle. */
void *
dls_tensor_address(const dls_tensor *self)
{
    const dl_tensor *t = &self->tensor;
    bool adds = dls_device_has_addresses(t->device.device_type) && t->byte_offset != 0;
    return adds ? (char *)t->data + t->byte_offset : t->data;
}

static PyObject *
get_data_ptr(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromVoidPtr(dls_tensor_address(dls_tensor_data(self)));
}

/* --- older protocols out
 * -------------------------------------------------------------- */

static PyObject *
raise_not_offered(PyObject *self, const char *name, const char *why)
{
    PyErr_Format(PyExc_AttributeError, "%s: %s (device type %d)", name, why,
                 (int)dls_tensor_data(self)->tensor.device.device_type);
    return NULL;
}

static PyObject *
get_array_interface(PyObject *self, void *closure)
{
    (void)closure;
    dls_tensor *data = dls_tensor_data(self);
    const dl_tensor *t = &data->tensor;
    char typestr[16];
    if (!dls_tensor_on_host(data)) {
        return raise_not_offered(self, "__array_interface__",
                                 "its memory is not on the host");
    }
    if (t->dtype.lanes != 1 || !dls_dtype_typestr(t->dtype, typestr)) {
        return raise_not_offered(
            self, "__array_interface__",
            "its dtype has no typestr; pass reinterpret= to upgrade");
    }
    int64_t itemsize = dls_tensor_itemsize(data);
    PyObject *strides = NULL;
    if (dls_layout_is_contiguous(t->ndim, t->shape, t->strides)) {
        Py_INCREF(Py_None);
        strides = Py_None;
    }
    else {
        strides = tuple_of(t->strides, t->ndim, itemsize);
    }
    return Py_BuildValue("{s:i,s:N,s:s,s:N,s:(NO)}", "version", 3, "shape",
                         tuple_of(t->shape, t->ndim, 1), "typestr", typestr, "strides",
                         strides, "data", PyLong_FromVoidPtr(dls_tensor_address(data)),
                         data->flags & DL_FLAG_READ_ONLY ? Py_True : Py_False);
}

static PyObject *
get_cuda_array_interface(PyObject *self, void *closure)
{
    (void)closure;
    return dls_tensor_cuda_interface(self);
}

static PyObject *
get_sycl_usm_array_interface(PyObject *self, void *closure)
{
    (void)closure;
    return dls_tensor_sycl_interface(self);
}

PyObject *
dls_tensor_repr(PyObject *self)
{
    char text[48];
    dls_tensor *data = dls_tensor_data(self);
    const dl_tensor *t = &data->tensor;
    PyObject *shape = tuple_of(t->shape, t->ndim, 1);
    PyObject *strides = tuple_of(t->strides, t->ndim, 1);
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

#define DOC_READONLY "True when the memory must not be written (DLPack flag READ_ONLY)."
PyGetSetDef dls_tensor_getters[] = {
    {"shape", get_shape, NULL, "Extents, a tuple of ints.", NULL},
    {"strides", get_strides, NULL,
     "Strides in elements, a tuple of ints; row-major ones to the letter when the data "
     "are C-contiguous.",
     NULL},
    {"dtype", get_dtype, NULL, "(code, bits, lanes), a tuple whose str() is the name.",
     NULL},
    {"device", get_device, NULL, "(device_type, device_id), plain ints.", NULL},
    {"ndim", get_ndim, NULL, "Number of dimensions.", NULL},
    {"size", get_size, NULL, "Number of elements.", NULL},
    {"itemsize", get_itemsize, NULL, "Bytes of one element, sub-byte ones rounded up.",
     NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements, gaps not counted.", NULL},
    {"byte_offset", get_byte_offset, NULL,
     "Bytes from `data` to element zero: 0 where the device has addresses (folded in).",
     NULL},
    {"readonly", get_readonly, NULL, DOC_READONLY, NULL},
    {"is_copied", get_is_copied, NULL,
     "True when a copy was made for this Tensor (DLPack flag IS_COPIED).", NULL},
    {"version", get_version, NULL,
     "(major, minor) of the struct that was taken; (0, 8) for a legacy one, which "
     "carries "
     "none.",
     NULL},
    {"data_ptr", get_data_ptr, NULL,
     "Address of element zero as an int; the handle on devices without addresses.",
     NULL},
    {"__array_interface__", get_array_interface, NULL,
     "NumPy's array interface v3 of host memory; AttributeError elsewhere.", NULL},
    {"__cuda_array_interface__", get_cuda_array_interface, NULL,
     "CUDA array interface; AttributeError for memory that is not CUDA's.", NULL},
    {"__sycl_usm_array_interface__", get_sycl_usm_array_interface, NULL,
     "SYCL USM array interface; AttributeError for memory that is not oneAPI's.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
