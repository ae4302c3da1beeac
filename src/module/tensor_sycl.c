#include "module/tensor_sycl.h"

#include "core/dtype.h"
#include "core/layout.h"
#include "module/tensor_type.h"
#include "older_protocols/sycl_interface.h"
#include "python/errors.h"
#include "sync/sycl_queue.h"

static PyObject *
raise_not_offered(const dls_tensor *data, const char *why)
{
    PyErr_Format(PyExc_AttributeError,
                 "__sycl_usm_array_interface__: %s (device type %d)", why,
                 (int)data->tensor.device.device_type);
    return NULL;
}

/* The dict has no word for pending work. */
static int
wait_for_data(PyObject *self, const dls_tensor *data)
{
    const dls_want nothing = {.unknown_stream = DLS_UNKNOWN_AUTO};
    dls_pending p = dls_tensor_pending(data);
    if (dls_tensor_count(data) == 0) {
        return 0;
    }
    if (p.known == DLS_P_UNKNOWN) {
        dls_raise(
            data->state, DLS_EBUFFER, self,
            "__sycl_usm_array_interface__: it was taken with stream=-1, and the queue "
            "with its pending work is not known; take it with stream=None or a "
            "SyclQueue");
        return -1;
    }
    return dls_queue_order(data->state, self, DLS_DUTY_WAIT, p, &nothing);
}

static PyObject *
syclobj_of(const dls_tensor *data)
{
    PyObject *object = dls_sycl_named(dls_hold_behind(&data->hold));
    if (object == NULL && data->ready != NULL) {
        object = data->ready->stream;
    }
    if (object == NULL) {
        return PyUnicode_FromFormat("%d", (int)data->tensor.device.device_id);
    }
    Py_INCREF(object);
    return object;
}

/* In elements, as the Tensor's own; None for row-major data. */
static PyObject *
strides_of(PyObject *self, const dls_tensor *data)
{
    const dl_tensor *t = &data->tensor;
    if (dls_layout_is_contiguous(t->ndim, t->shape, t->strides)) {
        Py_RETURN_NONE;
    }
    return PyObject_GetAttr(self, data->state->names.strides);
}

PyObject *
dls_tensor_sycl_interface(PyObject *self)
{
    const dls_tensor *data = dls_tensor_data(self);
    const dl_tensor *t = &data->tensor;
    char typestr[16];
    if (t->device.device_type != dl_kDLOneAPI) {
        return raise_not_offered(data, "offered for oneAPI memory only");
    }
    /* The protocol knows numbers only, no 'V'. */
    if (t->dtype.lanes != 1 || !dls_dtype_typestr(t->dtype, typestr)
        || typestr[1] == 'V') {
        return raise_not_offered(
            data, "its dtype has no typestr; pass reinterpret= to upgrade");
    }
    if (wait_for_data(self, data) < 0) {
        return NULL;
    }
    /* The base, where it is still known (T5); the offset counts elements. */
    uint64_t itemsize = (uint64_t)dls_tensor_itemsize(data);
    bool whole = t->byte_offset % itemsize == 0;
    void *base = whole ? t->data : dls_tensor_address(data);
    /* N steals, and passes on what failed. */
    return Py_BuildValue("{s:i,s:N,s:s,s:N,s:(NO),s:K,s:N}", "version", 1, "shape",
                         PyObject_GetAttr(self, data->state->names.shape), "typestr",
                         typestr, "strides", strides_of(self, data), "data",
                         PyLong_FromVoidPtr(base),
                         data->flags & DL_FLAG_READ_ONLY ? Py_True : Py_False, "offset",
                         (unsigned long long)(whole ? t->byte_offset / itemsize : 0),
                         "syclobj", syclobj_of(data));
}
