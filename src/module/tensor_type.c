#include <stddef.h>

#include "core/alloc.h"
#include "core/device.h"
#include "core/dtype.h"
#include "core/layout.h"
#include "core/tensor.h"
#include "device/driver.h"
#include "module/exchange.h"
#include "module/express.h"
#include "module/request.h"
#include "module/spare.h"
#include "module/tensor_buffer.h"
#include "module/tensor_cuda.h"
#include "module/tensor_sycl.h"
#include "module/tensor_type.h"
#include "python/raise.h"
#include "python/thread.h"

#include <structmember.h>

/* --- life ----------------------------------------------------------------------- */

dls_tensor *
dls_tensor_bare(dls_state *state, const dl_tensor *tensor)
{
    int32_t ndim = tensor->ndim;
    Py_ssize_t dims = 2 * (Py_ssize_t)ndim;
    PyObject *spare =
        ndim <= DLS_SPARE_NDIM ? dls_spare_take(&state->spare_tensors[ndim]) : NULL;
    dls_tensor *data;
    if (spare != NULL) {
        data = (dls_tensor *)PyObject_InitVar((PyVarObject *)spare, state->tensor_type, dims);
    }
    else {
        data = PyObject_GC_NewVar(dls_tensor, state->tensor_type, dims);
    }
    if (data == NULL) {
        return NULL;
    }
    data->state = state;
    data->hold = (dls_hold){0};
    data->tensor = *tensor;
    data->tensor.shape = data->dims;
    data->tensor.strides = data->dims + ndim;
    data->flags = 0;
    data->ready = NULL;
    data->asked = 0;
    data->weakrefs = NULL;
    return data;
}

void
dls_tensor_stamp(dls_tensor *self, dls_flavour flavour, dl_version version)
{
    if (flavour != DLS_VERSIONED) {
        version = flavour == DLS_LEGACY ? (dl_version){0, 8} : (dl_version){DL_MAJOR, DL_MINOR};
    }
    self->major = (uint16_t)version.major;
    self->minor = (uint16_t)(version.minor < UINT16_MAX ? version.minor : UINT16_MAX);
    self->flavour = (uint8_t)flavour;
}

/* 0, or -1 with MemoryError. */
static int
set_ready(dls_tensor *self, dls_pending p, PyObject *stream)
{
    if (p.known == DLS_P_READY && stream == NULL) {
        return 0;
    }
    self->ready = dls_alloc(sizeof *self->ready);
    if (self->ready == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    Py_XINCREF(stream);
    *self->ready =
        (dls_ready){.p = p, .stream = stream, .thread = dls_thread_number(self->state)};
    return 0;
}

PyObject *
dls_tensor_new(dls_state *state, const dl_tensor *tensor, bool canonical,
               const dls_loan *loan, uint64_t flags, dls_pending ready, PyObject *stream)
{
    dls_tensor *data = dls_tensor_bare(state, tensor);
    if (data == NULL) {
        return NULL;
    }
    dls_tensor_write_dims(tensor, canonical, data->dims);
    dls_tensor_stamp(data, loan->flavour, loan->version);
    data->flags = (uint32_t)flags;
    data->readonly_stated = loan->readonly_stated;
    if (set_ready(data, ready, stream) < 0) {
        Py_DECREF(data);
        return NULL;
    }
    PyObject_GC_Track((PyObject *)data);
    return (PyObject *)data;
}

void
dls_tensor_hold(PyObject *self, dls_hold *hold)
{
    dls_tensor_data(self)->hold = *hold;
    *hold = (dls_hold){0};
}

dls_pending
dls_tensor_pending(const dls_tensor *self)
{
    const dls_ready *ready = self->ready;
    if (ready == NULL) {
        return (dls_pending){.known = DLS_P_READY};
    }
    const dls_pending legacy = {.known = DLS_P_KNOWN,
                                .handle = dls_driver_of(self->tensor.device.device_type)->legacy};
    bool foreign = ready->p.known == DLS_P_KNOWN && ready->p.handle == 2
                   && ready->thread != dls_thread_number(self->state);
    return foreign ? legacy : ready->p;
}

/* Most Tensors are never exported: only then the hold is made one that can be shared. */
dls_shared *
dls_tensor_share(dls_tensor *self)
{
    if (self->hold.kind != DLS_HOLD_SHARED) {
        dls_shared *shared = dls_shared_new(&self->hold);
        if (shared == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        self->hold = (dls_hold){.base = shared, .kind = DLS_HOLD_SHARED};
    }
    return dls_shared_add(self->hold.base);
}

int
dls_tensor_lend(dls_tensor *self, dls_loan *loan)
{
    dls_shared *shared = dls_tensor_share(self);
    if (shared == NULL) {
        return -1;
    }
    loan->tensor = self->tensor;
    /* Others can be handed this memory too: never "copied for you" (T8). */
    loan->flags = self->flags & ~DL_FLAG_IS_COPIED;
    loan->version = (dl_version){self->major, self->minor};
    loan->flavour = (dls_flavour)self->flavour;
    loan->readonly_stated = self->readonly_stated;
    loan->altered = true;
    loan->hold = (dls_hold){.base = shared, .kind = DLS_HOLD_SHARED};
    return 0;
}

/* The source object hangs on the hold, which exports share: it is this Tensor's to
 * show to the collector only while nobody else holds a share. */
static int
tensor_traverse(PyObject *self, visitproc visit, void *arg)
{
    dls_tensor *data = dls_tensor_data(self);
    Py_VISIT(Py_TYPE(self));
    if (data->ready != NULL) {
        Py_VISIT(data->ready->stream);
    }
    return dls_hold_visit(&data->hold, visit, arg);
}

static int
tensor_clear(PyObject *self)
{
    dls_tensor *data = dls_tensor_data(self);
    if (data->ready != NULL) {
        Py_CLEAR(data->ready->stream);
    }
    return 0;
}

static void
tensor_dealloc(PyObject *self)
{
    dls_tensor *data = dls_tensor_data(self);
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (data->weakrefs != NULL) {
        PyObject_ClearWeakRefs(self);
    }
    if (DLS_RARE(data->ready != NULL)) {
        Py_XDECREF(data->ready->stream);
        dls_free(data->ready);
    }
    if (DLS_RARE(PyErr_Occurred() != NULL)) {
        dls_hold_drop_attached(&data->hold);
    }
    else {
        dls_hold_drop_saved(&data->hold);
        dls_error_report();
    }
    int32_t ndim = data->tensor.ndim;
    if (ndim <= DLS_SPARE_NDIM) {
        dls_spare_give(&data->state->spare_tensors[ndim], self);
    }
    else {
        PyObject_GC_Del(self);
    }
    Py_DECREF(type);
}

/* --- what it says ------------------------------------------------------------------ */

static PyObject *
tuple_of(const int64_t *values, int32_t n, int64_t factor)
{
    PyObject *tuple = PyTuple_New(n);
    for (int32_t i = 0; tuple != NULL && i < n; i++) {
        int64_t value;
        /* Only strides that count for nothing (extents below 2) can overflow here. */
        PyObject *item = PyLong_FromLongLong(dls_mul(values[i], factor, &value) ? value : 0);
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

static PyObject *
get_device(PyObject *self, void *closure)
{
    (void)closure;
    dl_device device = dls_tensor_data(self)->tensor.device;
    return Py_BuildValue("(ii)", (int)device.device_type, (int)device.device_id);
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

/* --- older protocols out -------------------------------------------------------------- */

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
        return raise_not_offered(self, "__array_interface__", "its memory is not on the host");
    }
    if (t->dtype.lanes != 1 || !dls_dtype_typestr(t->dtype, typestr)) {
        return raise_not_offered(self, "__array_interface__",
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
                         tuple_of(t->shape, t->ndim, 1), "typestr", typestr, "strides", strides,
                         "data", PyLong_FromVoidPtr(dls_tensor_address(data)),
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

static PyObject *
tensor_repr(PyObject *self)
{
    char text[48];
    dls_tensor *data = dls_tensor_data(self);
    const dl_tensor *t = &data->tensor;
    PyObject *shape = tuple_of(t->shape, t->ndim, 1);
    PyObject *strides = tuple_of(t->strides, t->ndim, 1);
    PyObject *repr = NULL;
    if (shape != NULL && strides != NULL) {
        repr = PyUnicode_FromFormat(
            "<dlshim.Tensor shape=%R strides=%R dtype=%s device=(%d, %d)%s at %p>", shape,
            strides, dls_dtype_name(t->dtype, text, sizeof text), (int)t->device.device_type,
            (int)t->device.device_id, data->flags & DL_FLAG_READ_ONLY ? " readonly" : "",
            dls_tensor_address(data));
    }
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    return repr;
}

/* --- the type -------------------------------------------------------------------------- */

#define DOC_READONLY "True when the memory must not be written (DLPack flag READ_ONLY)."

static PyGetSetDef getters[] = {
    {"shape", get_shape, NULL, "Extents, a tuple of ints.", NULL},
    {"strides", get_strides, NULL,
     "Strides in elements, a tuple of ints; row-major ones to the letter when the data "
     "are C-contiguous.",
     NULL},
    {"dtype", get_dtype, NULL, "(code, bits, lanes), a tuple whose str() is the name.", NULL},
    {"device", get_device, NULL, "(device_type, device_id), plain ints.", NULL},
    {"ndim", get_ndim, NULL, "Number of dimensions.", NULL},
    {"size", get_size, NULL, "Number of elements.", NULL},
    {"itemsize", get_itemsize, NULL, "Bytes of one element, sub-byte ones rounded up.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements, gaps not counted.", NULL},
    {"byte_offset", get_byte_offset, NULL,
     "Bytes from `data` to element zero: 0 where the device has addresses (folded in).", NULL},
    {"readonly", get_readonly, NULL, DOC_READONLY, NULL},
    {"is_copied", get_is_copied, NULL,
     "True when a copy was made for this Tensor (DLPack flag IS_COPIED).", NULL},
    {"version", get_version, NULL,
     "(major, minor) of the struct that was taken; (0, 8) for a legacy one, which carries "
     "none.",
     NULL},
    {"data_ptr", get_data_ptr, NULL,
     "Address of element zero as an int; the handle on devices without addresses.", NULL},
    {"__array_interface__", get_array_interface, NULL,
     "NumPy's array interface v3 of host memory; AttributeError elsewhere.", NULL},
    {"__cuda_array_interface__", get_cuda_array_interface, NULL,
     "CUDA array interface; AttributeError for memory that is not CUDA's.", NULL},
    {"__sycl_usm_array_interface__", get_sycl_usm_array_interface, NULL,
     "SYCL USM array interface; AttributeError for memory that is not oneAPI's.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

DLS_APART static PyObject *
export_carefully(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    dls_tensor *data = dls_tensor_data(self);
    dls_request request;
    dls_request_init(&request, NULL);
    if (dls_request_parse(data->state, args, n, kwnames, &request) < 0) {
        return NULL;
    }
    request.device_question = dls_use_question(&data->asked);
    return dls_serve_capsule(data->state, self, NULL, &request);
}

static PyObject *
tensor_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    dls_tensor *data = dls_tensor_data(self);
    bool versioned;
    if (dls_express_simple(data)
        && dls_request_is_usual(data->state, args, n, kwnames, &versioned)) {
        return dls_express_again(data, versioned);
    }
    return export_carefully(self, args, n, kwnames);
}

static PyObject *
tensor_dlpack_device(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    dls_mark_question(&dls_tensor_data(self)->asked);
    return get_device(self, NULL);
}

static PyMethodDef methods[] = {
    {"__dlpack__", DLS_FASTCALL(tensor_dlpack), METH_FASTCALL | METH_KEYWORDS,
     DLS_DOC_DLPACK},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, DLS_DOC_DLPACK_DEVICE},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(dls_tensor, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "A tensor that was taken: it owns the memory (or a share of it) and describes it.\n\n"
     "Made by from_dlpack().  It may be exported any number of times, by DLPack in both\n"
     "flavours, the buffer protocol (host memory) and __array_interface__."},
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_traverse, tensor_traverse},
    {Py_tp_clear, tensor_clear},
    {Py_tp_repr, tensor_repr},
    {Py_tp_getset, getters},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {DLS_BF_GETBUFFER, dls_tensor_getbuffer},
    {DLS_BF_RELEASEBUFFER, dls_tensor_releasebuffer},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "dlshim.Tensor",
    .basicsize = sizeof(dls_tensor),
    .itemsize = sizeof(int64_t),
    /* Not IMMUTABLETYPE: the exchange table has to be put on it first. */
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

int
dls_tensor_type_init(dls_state *state, PyObject *module)
{
    state->tensor_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    if (state->tensor_type == NULL || dls_exchange_add(state, state->tensor_type) < 0) {
        return -1;
    }
    return PyModule_AddType(module, state->tensor_type);
}
