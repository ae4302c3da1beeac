/* The array interfaces of a Tensor: one dict that all three share, and the entries that
 * each adds to it.  Tests: tests/core/test_ways_out.py,
 * tests/core/test_cuda_interface.py, tests/core/test_sycl_interface.py,
 * tests/device/test_cuda_interface.py. */
#include "public/tensor_type.h"

#include "core/dtype.h"
#include "core/tensor.h"
#include "exchange/exchange.h"
#include "exchange/objects.h"
#include "protocols/protocols.h"
#include "python/errors.h"
#include "sync/sycl.h"
#include "sync/sync_exchange.h"
#include "types/library.h"

#define CUDA_DEVICES                                             \
    (DLS_DEVICE_BIT(dl_kDLCUDA) | DLS_DEVICE_BIT(dl_kDLCUDAHost) \
     | DLS_DEVICE_BIT(dl_kDLCUDAManaged))

typedef struct {
    const char *name;
    int version;
    uint32_t devices;  /* whose memory it can describe */
    const char *other; /* why it is not offered for other memory */
    bool has_void;     /* the typestr may be of kind 'V' */
    bool in_bytes;     /* strides are bytes */
    bool says_strides; /* of C-contiguous memory too */
} interface;

/* Pillow asks for tobytes() where the strides are said, and for a buffer of bare bytes,
 * which a Tensor refuses, where they are not. */
static const interface array = {"__array_interface__",
                                3,
                                DLS_HOST_DEVICES,
                                "its memory is not on the host",
                                false,
                                true,
                                true};
static const interface cuda = {"__cuda_array_interface__",
                               3,
                               CUDA_DEVICES,
                               "offered for CUDA memory only",
                               true,
                               true,
                               false};
static const interface sycl = {"__sycl_usm_array_interface__",
                               1,
                               DLS_DEVICE_BIT(dl_kDLOneAPI),
                               "offered for oneAPI memory only",
                               false,
                               false,
                               false};

/* --- what all three say --------------------------------------------------- */

/* Write the typestr (16 bytes).  0, or -1 with AttributeError if the interface cannot
 * describe this Tensor. */
static int
check_offer(const interface *kind, const dls_tensor *data, char *typestr)
{
    const dl_tensor *t = &data->tensor;
    const char *why = "its dtype has no typestr";
    const char *cure = "\n  pass reinterpret= to upgrade";
    if (!dls_device_in(t->device.device_type, kind->devices)) {
        why = kind->other;
        cure = "";
    }
    else if (t->dtype.lanes == 1 && dls_dtype_typestr(t->dtype, typestr)
             && (kind->has_void || typestr[1] != 'V')) {
        return 0;
    }
    PyErr_Format(PyExc_AttributeError, "%s: %s (device type %d)%s", kind->name, why,
                 (int)t->device.device_type, cure);
    return -1;
}

/* The dict, and in it `more`, which is stolen. */
static PyObject *
make_dict(const interface *kind, const dls_tensor *data, const char *typestr,
          void *address, PyObject *more)
{
    const dl_tensor *t = &data->tensor;
    int64_t unit = kind->in_bytes ? dls_tensor_itemsize(data) : 1;
    bool contiguous = dls_layout_is_contiguous(t->ndim, t->shape, t->strides);
    PyObject *readonly = data->flags & DL_FLAG_READ_ONLY ? Py_True : Py_False;
    PyObject *dict = NULL;
    if (more != NULL) {
        /* N steals, and passes on what failed; "" makes None. */
        dict = Py_BuildValue("{s:i,s:N,s:s,s:N,s:(NO)}", "version", kind->version,
                             "shape", dls_dims_tuple(t->shape, t->ndim, 1), "typestr",
                             typestr, "strides",
                             contiguous && !kind->says_strides
                                 ? Py_BuildValue("")
                                 : dls_dims_tuple(t->strides, t->ndim, unit),
                             "data", dls_address_object(address), readonly);
    }
    if (dict != NULL && PyDict_Update(dict, more) < 0) {
        Py_CLEAR(dict);
    }
    Py_XDECREF(more);
    return dict;
}

PyObject *
dls_array_interface(PyObject *self)
{
    const dls_tensor *data = dls_tensor_data(self);
    char typestr[16];
    if (check_offer(&array, data, typestr) < 0) {
        return NULL;
    }
    return make_dict(&array, data, typestr, dls_tensor_address(data), PyDict_New());
}

/* --- CUDA ----------------------------------------------------------------- */

/* The dict cannot say that the stream is not known: all work that the device was given
 * is synchronised with the legacy default stream. */
static int
order_into_legacy(PyObject *self, dls_tensor *data)
{
    const dls_sync_job job = {
        .task = DLS_TASK_SYNC,
        .p = {.known = DLS_P_UNKNOWN},
        .s = 1,
        .policy = DLS_UNKNOWN_AUTO,
        .has_s = true,
        .device = data->tensor.device,
        .memory.address = dls_tensor_address(data),
    };
    if (dls_sync_run_job(data->state, self, &job) < 0) {
        return -1;
    }
    dls_tensor_set_ready_stream(data, job.s); /* so that it is done once */
    return 0;
}

/* For a consumer that waits for no stream, the host waits.  0, or -1. */
static int
wait_for_cuda(PyObject *self, const dls_tensor *data)
{
    const dls_sync_job job = {
        .task = DLS_TASK_WAIT,
        .p = dls_tensor_ready_stream(data),
        .policy = DLS_UNKNOWN_AUTO,
        .device = data->tensor.device,
        .memory.address = dls_tensor_address(data),
    };
    return dls_sync_run_job(data->state, self, &job);
}

/* The int of the stream; None if the data need no sync.  The protocol has no stream 0:
 * the legacy default stream is 1. */
static PyObject *
cuda_stream(PyObject *self, dls_tensor *data)
{
    dls_producer_stream p = dls_tensor_ready_stream(data);
    if (dls_tensor_count(data) == 0 || p.known == DLS_P_READY) {
        Py_RETURN_NONE;
    }
    if (p.known == DLS_P_UNKNOWN && order_into_legacy(self, data) < 0) {
        return NULL;
    }
    /* mutant: stream for JAX */
    if (dls_library_asked_by(data->state, DLS_ASKER_DROPS_STREAM) != NULL) {
        return wait_for_cuda(self, data) == 0 ? Py_BuildValue("") : NULL;
    }
    bool named = p.known == DLS_P_KNOWN && p.handle != 0;
    return PyLong_FromUnsignedLongLong(named ? p.handle : 1);
}

PyObject *
dls_cuda_interface(PyObject *self)
{
    dls_tensor *data = dls_tensor_data(self);
    bool empty = dls_tensor_count(data) == 0;
    char typestr[16];
    if (check_offer(&cuda, data, typestr) < 0) {
        return NULL;
    }
    return make_dict(&cuda, data, typestr, empty ? NULL : dls_tensor_address(data),
                     Py_BuildValue("{s:N}", "stream", cuda_stream(self, data)));
}

/* --- SYCL ----------------------------------------------------------------- */

/* The object that the source's own dict named, borrowed, or NULL. */
static PyObject *
find_syclobj(const dls_tensor *data)
{
    return dls_syclobj_find(dls_hold_behind(&data->hold));
}

/* Did the source's own dict name a context or a device, and no queue? */
static bool
names_no_queue(const dls_tensor *data)
{
    PyObject *object = find_syclobj(data);
    return object != NULL && !PyObject_HasAttrString(object, "sycl_device");
}

/* The dict names no stream, so the host waits for the data.  Where their queue is not
 * known because the source's own dict named none, it says what that said. */
static int
wait_for_data(PyObject *self, const dls_tensor *data)
{
    dls_producer_stream p = dls_tensor_ready_stream(data);
    if (dls_tensor_count(data) == 0) {
        return 0;
    }
    if (p.known == DLS_P_UNKNOWN && !names_no_queue(data)) {
        return dls_refuse(
            data->state, DLS_EBUFFER, self,
            "__sycl_usm_array_interface__: it was taken with stream=-1, or the queue "
            "of its producer is not known\n"
            "  take it with stream=None and producer_stream= its SyclQueue");
    }
    const dls_sync_job job = {
        .task = DLS_TASK_WAIT_IF_KNOWN, .p = p, .policy = DLS_UNKNOWN_AUTO};
    return dls_sycl_queue_sync(data->state, self, &job, NULL, false);
}

static PyObject *
make_syclobj(const dls_tensor *data)
{
    PyObject *object = find_syclobj(data);
    if (object == NULL && data->ready != NULL) {
        object = data->ready->stream;
    }
    return object != NULL
               ? Py_NewRef(object)
               : PyUnicode_FromFormat("%d", (int)data->tensor.device.device_id);
}

PyObject *
dls_sycl_interface(PyObject *self)
{
    const dls_tensor *data = dls_tensor_data(self);
    const dl_tensor *t = &data->tensor;
    char typestr[16];
    if (check_offer(&sycl, data, typestr) < 0 || wait_for_data(self, data) < 0) {
        return NULL;
    }
    /* `data` is the base where that is still known (T5); `offset` counts elements. */
    uint64_t itemsize = (uint64_t)dls_tensor_itemsize(data);
    bool whole = t->byte_offset % itemsize == 0;
    unsigned long long offset = whole ? t->byte_offset / itemsize : 0;
    return make_dict(
        &sycl, data, typestr, whole ? t->data : dls_tensor_address(data),
        Py_BuildValue("{s:K,s:N}", "offset", offset, "syclobj", make_syclobj(data)));
}
