#include <stddef.h>

#include "core/alloc.h"
#include "exchange/borrowed_list.h"
#include "exchange/freelist.h"
#include "export/fast_path.h"
#include "module/ctable_out.h"
#include "python/errors.h"
#include "request/request.h"

#include <structmember.h>

/* --- life ------------------------------------------------------------------------- */

PyObject *
dls_producer_new(dls_state *state, PyObject *source, dls_plan *plan,
                 dls_options *options)
{
    PyObject *self = dls_spare_take(&dls_spare_producers);
    if (self != NULL) {
        PyObject_Init(self, state->producer_type);
    }
    else {
        self = (PyObject *)PyObject_GC_New(dls_producer, state->producer_type);
    }
    if (self == NULL) {
        dls_plan_drop(plan);
        dls_options_free(options);
        return NULL;
    }
    dls_producer *data = dls_producer_data(self);
    Py_INCREF(source);
    data->state = state;
    data->source = source;
    data->plan = plan;
    data->options = options;
    data->kept = NULL;
    data->borrowed = NULL;
    data->asked = 0;
    data->weakrefs = NULL;
    /* What can be in no cycle is not the collector's business. */
    if (plan == NULL || plan->can_cycle || options != NULL) {
        PyObject_GC_Track(self);
    }
    return self;
}

static int
producer_traverse(PyObject *self, visitproc visit, void *arg)
{
    dls_producer *data = dls_producer_data(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(data->source);
    int stop = dls_shared_visit(data->kept, visit, arg);
    if (stop == 0) {
        stop = dls_borrowed_visit(data->borrowed, visit, arg);
    }
    if (stop != 0) {
        return stop;
    }
    return dls_options_visit(data->options, visit, arg);
}

static int
producer_clear(PyObject *self)
{
    dls_producer *data = dls_producer_data(self);
    dls_options *options = data->options;
    data->options = NULL;
    /* A cleared Producer may still be called by a finaliser: None is refused there. */
    PyObject *source = data->source;
    Py_INCREF(Py_None);
    data->source = Py_None;
    dls_shared *kept = data->kept;
    data->kept = NULL;
    dls_borrowed *borrowed = data->borrowed;
    data->borrowed = NULL;
    dls_options_free(options);
    dls_shared_drop_attached(kept);
    dls_borrowed_drop(borrowed);
    Py_XDECREF(source);
    return 0;
}

static void
producer_dealloc(PyObject *self)
{
    dls_producer *data = dls_producer_data(self);
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    uintptr_t more = (uintptr_t)data->options | (uintptr_t)data->kept
                     | (uintptr_t)data->borrowed | (uintptr_t)data->weakrefs;
    if (DLS_RARE(more != 0)) {
        if (data->weakrefs != NULL) {
            PyObject_ClearWeakRefs(self);
        }
        dls_shared_drop_attached(data->kept);
        dls_borrowed_drop(data->borrowed);
        dls_options_free(data->options);
    }
    dls_plan_drop(data->plan);
    Py_XDECREF(data->source);
    dls_spare_give(&dls_spare_producers, self);
    Py_DECREF(type);
}

/* --- the protocol --------------------------------------------------------------------
 */

PyObject *
dls_producer_export(dls_producer *data, dls_request *request)
{
    request->kept = &data->kept;
    /* Memory made for the export before this one has had its time (T8). */
    dls_shared *before = data->kept;
    data->kept = NULL;
    PyObject *capsule = dls_serve_capsule(data->state, data->source, data->plan,
                                          request);
    if (before != NULL) {
        if (capsule == NULL && data->kept == NULL) {
            data->kept = before; /* no export was made */
        }
        else {
            dls_shared_drop_attached(before);
        }
    }
    return capsule;
}

DLS_APART PyObject *
dls_producer_ask(dls_producer *data, PyObject *const *args, Py_ssize_t n,
                 PyObject *kwnames, dls_answer *answer)
{
    dls_request request;
    dls_request_init(&request, data->options);
    request.answer = answer;
    if (dls_request_parse(data->state, args, n, kwnames, &request) < 0) {
        if (answer != NULL) {
            dls_express_drop(answer);
        }
        return NULL;
    }
    request.device_question = dls_use_question(&data->asked);
    return dls_producer_export(data, &request);
}

DLS_FLAT static PyObject *
producer_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    dls_producer *data = dls_producer_data(self);
    bool versioned;
    if (dls_express_bare(data)
        && dls_request_is_usual(data->state, args, n, kwnames, &versioned)) {
        unsigned road = dls_express_road(data->plan, data->source, versioned);
        if (road != 0) {
            return dls_express_export(data, args, kwnames, road);
        }
    }
    return dls_producer_ask(data, args, n, kwnames, NULL);
}

DLS_APART static PyObject *
device_carefully(dls_producer *data)
{
    dl_device device;
    if (dls_serve_device(data->state, data->source, data->plan, data->options, &device)
        < 0) {
        return NULL;
    }
    dls_mark_question(&data->asked);
    return dls_device_pair(data->state, device);
}

DLS_FLAT static PyObject *
producer_dlpack_device(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    dls_producer *data = dls_producer_data(self);
    int host = dls_express_device(data);
    if (DLS_RARE(host <= 0)) {
        return host == 0 ? device_carefully(data) : NULL;
    }
    dls_mark_question(&data->asked);
    Py_INCREF(data->state->host_device);
    return data->state->host_device;
}

DLS_COLD static PyObject *
producer_repr(PyObject *self)
{
    dls_producer *data = dls_producer_data(self);
    PyObject *name = dls_type_name(data->source);
    PyObject *options = dls_options_repr(data->options);
    PyObject *repr = NULL;
    if (name != NULL && options != NULL) {
        repr = PyUnicode_FromFormat("<dlshim.Producer of '%U' object at %p%U>", name,
                                    (void *)data->source, options);
    }
    Py_XDECREF(name);
    Py_XDECREF(options);
    return repr;
}

static PyMethodDef methods[] = {
    {"__dlpack__", DLS_FASTCALL(producer_dlpack), METH_FASTCALL | METH_KEYWORDS,
     DLS_DOC_DLPACK},
    {"__dlpack_device__", producer_dlpack_device, METH_NOARGS, DLS_DOC_DLPACK_DEVICE},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"source", T_OBJECT, offsetof(dls_producer, source), READONLY,
     "The wrapped object; a Tensor when a raw capsule was wrapped."},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(dls_producer, weakrefs), READONLY,
     NULL},
    {NULL, 0, 0, 0, NULL},
};

DLS_COLD bool
dls_producer_is_type(PyTypeObject *type)
{
    return (uintptr_t)PyType_GetSlot(type, Py_tp_dealloc)
           == (uintptr_t)producer_dealloc;
}

/* No len, no items, no __array__, no buffer: consumers would walk elements, prefer the
 * wrong road, or release twice (design section 3). */
static PyType_Slot slots[] = {
    {Py_tp_doc,
     "A DLPack producer around another object, made by upgrade().\n\n"
     "Lazy: the wrapped object is asked only when a consumer asks this one."},
    {Py_tp_dealloc, producer_dealloc},
    {Py_tp_traverse, producer_traverse},
    {Py_tp_clear, producer_clear},
    {Py_tp_repr, producer_repr},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "dlshim.Producer",
    .basicsize = sizeof(dls_producer),
    /* Not IMMUTABLETYPE: the exchange table has to be put on it first. */
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC
             | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

DLS_COLD int
dls_producer_type_init(dls_state *state, PyObject *module)
{
    state->producer_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec,
                                                                    NULL);
    if (state->producer_type == NULL
        || dls_exchange_add(state, state->producer_type) < 0) {
        return -1;
    }
    return PyModule_AddType(module, state->producer_type);
}
