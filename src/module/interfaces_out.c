#include "module/interfaces_out.h"

#include "core/device.h"
#include "core/dtype.h"
#include "core/layout.h"
#include "module/tensor_type.h"
#include "python/errors.h"
#include "sync/sync_exchange.h"

#define CUDA_DEVICES                                             \
    (DLS_DEVICE_BIT(dl_kDLCUDA) | DLS_DEVICE_BIT(dl_kDLCUDAHost) \
     | DLS_DEVICE_BIT(dl_kDLCUDAManaged))

static PyObject *
raise_not_offered(const dls_tensor *data, const char *why)
{
    PyErr_Format(PyExc_AttributeError, "__cuda_array_interface__: %s (device type %d)",
                 why, (int)data->tensor.device.device_type);
    return NULL;
}

/* In bytes; None for row-major data. */
static PyObject *
strides_of(const dls_tensor *data)
{
    const dl_tensor *t = &data->tensor;
    if (dls_layout_is_contiguous(t->ndim, t->shape, t->strides)) {
        Py_RETURN_NONE;
    }
    int64_t itemsize = dls_tensor_itemsize(data);
    PyObject *tuple = PyTuple_New(t->ndim);
    for (int32_t i = 0; tuple != NULL && i < t->ndim; i++) {
        int64_t bytes;
        /* Only strides that count for nothing (extents below 2) can overflow here. */
        bool fits = dls_mul(t->strides[i], itemsize, &bytes);
        PyObject *item = PyLong_FromLongLong(fits ? bytes : 0);
        if (item == NULL) {
            Py_CLEAR(tuple);
            break;
        }
        PyTuple_SetItem(tuple, i, item);
    }
    return tuple;
}

/* The dict has no word for "unknown": bring all that the device has been given into L.
 */
static int
order_into_legacy(PyObject *self, const dls_tensor *data)
{
    const dls_ordering ordering = {
        .duty = DLS_DUTY_ORDER,
        .p = {.known = DLS_P_UNKNOWN},
        .s = 1,
        .policy = DLS_UNKNOWN_AUTO,
        .has_s = true,
        .device = data->tensor.device,
        .address = dls_tensor_address(data),
    };
    dls_error err;
    int code;
    Py_BEGIN_ALLOW_THREADS
    code = dls_handoff(&ordering, &err);
    Py_END_ALLOW_THREADS
    return code == DLS_OK ? 0 : dls_raise_error(data->state, self, &err);
}

/* None: nothing is pending.  0 is no stream of this protocol. */
static PyObject *
stream_of(PyObject *self, dls_tensor *data, bool empty)
{
    dls_pending p = dls_tensor_pending(data);
    if (empty || p.known == DLS_P_READY) {
        Py_RETURN_NONE;
    }
    if (p.known == DLS_P_UNKNOWN) {
        if (order_into_legacy(self, data) < 0) {
            return NULL;
        }
        data->ready->p = (dls_pending){.known = DLS_P_KNOWN,
                                       .handle = 1}; /* once is enough */
    }
    bool named = p.known == DLS_P_KNOWN && p.handle != 0;
    return PyLong_FromUnsignedLongLong(named ? p.handle : 1);
}

PyObject *
dls_tensor_cuda_interface(PyObject *self)
{
    dls_tensor *data = dls_tensor_data(self);
    const dl_tensor *t = &data->tensor;
    char typestr[16];
    if (!dls_device_in(t->device.device_type, CUDA_DEVICES)) {
        return raise_not_offered(data, "offered for CUDA memory only");
    }
    if (t->dtype.lanes != 1 || !dls_dtype_typestr(t->dtype, typestr)) {
        return raise_not_offered(
            data, "its dtype has no typestr; pass reinterpret= to upgrade");
    }
    bool empty = dls_tensor_count(data) == 0;
    PyObject *stream = stream_of(self, data, empty);
    if (stream == NULL) {
        return NULL;
    }
    /* N steals, and passes on what failed. */
    return Py_BuildValue("{s:i,s:N,s:s,s:N,s:(NO),s:N}", "version", 3, "shape",
                         PyObject_GetAttr(self, data->state->names.shape), "typestr",
                         typestr, "strides", strides_of(data), "data",
                         PyLong_FromVoidPtr(empty ? NULL : dls_tensor_address(data)),
                         data->flags & DL_FLAG_READ_ONLY ? Py_True : Py_False, "stream",
                         stream);
}
