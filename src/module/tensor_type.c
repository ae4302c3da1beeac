/* The type Tensor: its life in the collector's eyes, and its methods.
 * tensor_dlpack and tensor_dealloc are hot.  Tests: tests/core/test_lifetime.py,
 * tests/core/test_properties.py, tests/core/test_ways_out.py. */
#include "module/tensor_type.h"

#include <assert.h>
#include <stddef.h>

#include "core/alloc.h"
#include "exchange/exchange.h"
#include "exchange/tensor_object.h"
#include "export/export.h"
#include "export/fast_path.h"
#include "module/dlpack_methods.h"
#include "module/tensor_attributes.h"
#include "module/tensor_buffer.h"
#include "python/errors.h"
#include "python/state.h"
#include "request/request.h"

#include <structmember.h>

/* --- life ----------------------------------------------------------------- */

/* The hold keeps the source object alive.  If exports share the hold, the source is not
 * this Tensor's alone, and dls_hold_visit does not show it to the collector. */
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
        data->ready->p = (dls_producer_stream){.known = DLS_P_UNKNOWN};
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
    if (data->ready != NULL) {
        Py_XDECREF(data->ready->stream);
        dls_free(data->ready);
    }
    if (PyErr_Occurred() != NULL) {
        dls_hold_drop(&data->hold, DLS_ATTACHED);
    }
    else {
        dls_hold_drop(&data->hold, DLS_ATTACHED_QUIET);
        dls_error_report();
    }
    int32_t ndim = data->tensor.ndim;
    assert(ndim >= 0);
    if (ndim <= DLS_FREELIST_NDIM) {
        dls_freelist_put(&dls_freelist_tensors[ndim], self);
    }
    else {
        PyObject_GC_Del(self);
    }
    Py_DECREF(type);
}

/* --- the type ------------------------------------------------------------- */

static PyObject *
export_in_full(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    dls_tensor *data = dls_tensor_data(self);
    dls_exchange x;
    PyObject *capsule = NULL;
    dls_exchange_begin(&x, data->state, self, data->state->tensor_plan, NULL, NULL);
    if (dls_request_parse(data->state, args, n, kwnames, &x.request) == 0) {
        x.request.device_question = dls_question_use(&data->asked);
        x.request.hides_queue = dls_request_hides_queue(&x.request);
        capsule = dls_exchange_run(&x, DLS_EXPORT_CAPSULE);
    }
    dls_exchange_end(&x);
    return capsule;
}

static PyObject *
tensor_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    dls_tensor *data = dls_tensor_data(self);
    dls_usual usual = dls_fast_is_simple(data)
                          ? dls_request_read_usual(data->state, args, n, kwnames)
                          : DLS_READ_IN_FULL;
    return usual == DLS_READ_IN_FULL
               ? export_in_full(self, args, n, kwnames)
               : dls_fast_capsule_of_tensor(data, usual == DLS_WANTS_VERSIONED);
}

static PyObject *
tensor_dlpack_device(PyObject *self, PyObject *DLS_UNUSED(ignored))
{
    dls_tensor *data = dls_tensor_data(self);
    dls_question_note(&data->asked);
    return dls_device_pair(data->state, data->tensor.device);
}

/* Methods that are written in Python. */
#define IN_PYTHON(name)                                                                \
    static PyObject *tensor_##name(PyObject *self, PyObject *const *args,              \
                                   Py_ssize_t n, PyObject *kwnames)                    \
    {                                                                                  \
        return dls_in_python(dls_tensor_data(self)->state, DLS_IN_ARRAYS, #name, self, \
                             args, n, kwnames);                                        \
    }
IN_PYTHON(array)
IN_PYTHON(tobytes)
IN_PYTHON(reduce)
#undef IN_PYTHON

/* __copy__ and __deepcopy__: memory of its own, which may be written. */
static PyObject *
tensor_copy(PyObject *self, PyObject *DLS_UNUSED(memo))
{
    dls_state *state = dls_tensor_data(self)->state;
    return dls_export_tensor(state, state->tensor_plan, self, NULL, 1);
}

static PyMethodDef methods[] = {
    DLS_DLPACK_METHODS(tensor_dlpack, tensor_dlpack_device, tensor_array),
    {"tobytes", DLS_FASTCALL(tensor_tobytes), METH_FASTCALL | METH_KEYWORDS,
     "tobytes($self, order=\"C\")\n--\n\n"
     "The elements as bytes, in row-major (C) or column-major (F) order."},
    {"__reduce_ex__", DLS_FASTCALL(tensor_reduce), METH_FASTCALL | METH_KEYWORDS,
     "__reduce_ex__($self, protocol, /)\n--\n\nPickle by value."},
    {"__copy__", tensor_copy, METH_NOARGS,
     "__copy__($self, /)\n--\n\nA copy, which may be written."},
    {"__deepcopy__", tensor_copy, METH_O,
     "__deepcopy__($self, memo, /)\n--\n\nA copy, which may be written."},
    {"data_ptr", dls_tensor_data_ptr, METH_NOARGS,
     "data_ptr($self, /)\n--\n\n"
     "Address of element zero as an int; the handle on devices without addresses."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(dls_tensor, weakrefs),
     READONLY | DLS_MEMBER, NULL},
    {NULL, 0, 0, 0, NULL},
};

bool
dls_tensor_is_type(PyTypeObject *type)
{
    return (uintptr_t)PyType_GetSlot(type, Py_tp_dealloc) == (uintptr_t)tensor_dealloc;
}

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "A tensor that was taken: it owns the memory (or a share of it) and describes "
     "it.\n\n"
     "Made by from_dlpack().  It may be exported any number of times, by DLPack in "
     "both\n"
     "generations, the buffer protocol (host memory) and __array_interface__."},
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

PyType_Spec dls_tensor_spec = {
    .name = "dlshim.Tensor",
    .basicsize = DLS_BASICSIZE(dls_tensor),
    .itemsize = sizeof(int64_t),
    /* Not IMMUTABLETYPE: dls_ctable_add adds attributes, then freezes the type. */
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC
             | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};
