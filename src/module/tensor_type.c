#include <stddef.h>

#include "core/alloc.h"
#include "core/tensor.h"
#include "exchange/freelist.h"
#include "export/fast_path.h"
#include "gpu/driver.h"
#include "module/ctable_out.h"
#include "module/tensor_buffer.h"
#include "module/tensor_type.h"
#include "python/errors.h"
#include "python/thread.h"
#include "request/request.h"

#include <structmember.h>

/* --- life ----------------------------------------------------------------------- */

dls_tensor *
dls_tensor_bare(dls_state *state, const dl_tensor *tensor)
{
    int32_t ndim = tensor->ndim;
    Py_ssize_t dims = 2 * (Py_ssize_t)ndim;
    PyObject *spare = ndim <= DLS_SPARE_NDIM ? dls_spare_take(&dls_spare_tensors[ndim])
                                             : NULL;
    dls_tensor *data;
    if (spare != NULL) {
        data = (dls_tensor *)PyObject_InitVar((PyVarObject *)spare, state->tensor_type,
                                              dims);
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
        version = flavour == DLS_LEGACY ? (dl_version){0, 8}
                                        : (dl_version){DL_MAJOR, DL_MINOR};
    }
    self->major = (uint16_t)version.major;
    self->minor = (uint16_t)(version.minor < UINT16_MAX ? version.minor : UINT16_MAX);
    self->flavour = (uint8_t)flavour;
}

/* 0, or -1 with MemoryError. */
DLS_COLD static int
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
               const dls_loan *loan, uint64_t flags, dls_pending ready,
               PyObject *stream)
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
    const dls_pending legacy = {
        .known = DLS_P_KNOWN,
        .handle = dls_driver_of(self->tensor.device.device_type)->legacy};
    bool foreign = ready->p.known == DLS_P_KNOWN && ready->p.handle == 2
                   && ready->thread != dls_thread_number(self->state);
    return foreign ? legacy : ready->p;
}

/* Most Tensors are never exported: only then the hold is made one that can be shared.
 */
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
        dls_spare_give(&dls_spare_tensors[ndim], self);
    }
    else {
        PyObject_GC_Del(self);
    }
    Py_DECREF(type);
}

/* --- the type
 * -------------------------------------------------------------------------- */

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
    return dls_tensor_device_pair(dls_tensor_data(self));
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

DLS_COLD bool
dls_tensor_is_type(PyTypeObject *type)
{
    return (uintptr_t)PyType_GetSlot(type, Py_tp_dealloc) == (uintptr_t)tensor_dealloc;
}

static PyType_Slot slots[] = {
    {Py_tp_doc, "A tensor that was taken: it owns the memory (or a share of it) and "
                "describes it.\n\n"
                "Made by from_dlpack().  It may be exported any number of times, by "
                "DLPack in both\n"
                "flavours, the buffer protocol (host memory) and __array_interface__."},
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_traverse, tensor_traverse},
    {Py_tp_clear, tensor_clear},
    {Py_tp_repr, dls_tensor_repr},
    {Py_tp_getset, dls_tensor_getters},
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
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC
             | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

DLS_COLD int
dls_tensor_type_init(dls_state *state, PyObject *module)
{
    state->tensor_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    if (state->tensor_type == NULL || dls_exchange_add(state, state->tensor_type) < 0) {
        return -1;
    }
    return PyModule_AddType(module, state->tensor_type);
}
