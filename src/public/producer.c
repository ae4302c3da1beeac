/* The type Producer.  It holds a source, its plan and the options; __dlpack__ takes the
 * fast path if the Producer is bare and the request is usual.  Its two methods are hot.
 * Tests: tests/core/test_fast_path.py, tests/core/test_options.py,
 * tests/core/test_lifetime.py. */
#include "public/producer.h"

#include <assert.h>
#include <stddef.h>

#include "core/dtype.h"
#include "exchange/decorated_class.h"
#include "exchange/exchange.h"
#include "exchange/objects.h"
#include "export/device_answer.h"
#include "export/export.h"
#include "export/fast_path.h"
#include "python/errors.h"
#include "python/state.h"
#include "request/request.h"

#include <structmember.h>

/* --- life ----------------------------------------------------------------- */

static inline PyObject *
new_of_class(dls_state *state, PyTypeObject *type, PyObject *source, dls_plan *plan,
             dls_options *options)
{
    assert(source != NULL && plan != NULL);
    PyObject *self = dls_freelist_take(&dls_freelist_producers);
    if (self != NULL) {
        PyObject_Init(self, type);
    }
    else {
        self = DLS_NEW(dls_producer, type);
    }
    if (self == NULL) {
        dls_plan_drop(plan);
        dls_options_free(options);
        return NULL;
    }
    dls_producer *data = dls_producer_data(self);
    data->state = state;
    data->source = Py_NewRef(source);
    data->plan = plan;
    data->options = options;
    data->kept = NULL;
    data->borrowed = NULL;
    data->asked = 0;
    data->weakrefs = NULL;
    /* The collector needs to see only objects that can be in a cycle. */
    if (plan->can_cycle || options != NULL) {
        PyObject_GC_Track(self);
    }
    return self;
}

PyObject *
dls_producer_new(dls_state *state, PyObject *source, dls_plan *plan,
                 dls_options *options)
{
    PyTypeObject *home = plan->producer_type;
    assert(home != NULL);
    return new_of_class(state, home, source, plan, options);
}

PyObject *
dls_producer_new_of(dls_state *state, PyTypeObject *type, PyObject *source,
                    dls_plan *plan, dls_options *options)
{
    return new_of_class(state, type, source, plan, options);
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
    return stop != 0 ? stop : dls_options_visit(data->options, visit, arg);
}

static int
producer_clear(PyObject *self)
{
    dls_producer *data = dls_producer_data(self);
    const dls_producer old = *data;
    /* A finaliser may still call a cleared Producer: None is refused there. */
    data->source = Py_NewRef(Py_None);
    data->options = NULL;
    data->kept = NULL;
    data->borrowed = NULL;
    dls_options_free(old.options);
    dls_shared_drop(old.kept, DLS_ATTACHED);
    dls_borrowed_drop(old.borrowed);
    Py_XDECREF(old.source);
    return 0;
}

/* Drop the members that most Producers do not have.  Apart: it passes addresses of
 * locals on, and the stack protector would guard producer_dealloc with it. */
DLS_APART static void
drop_more(PyObject *self)
{
    dls_producer *data = dls_producer_data(self);
    if (data->weakrefs != NULL) {
        PyObject_ClearWeakRefs(self);
    }
    dls_shared_drop(data->kept, DLS_ATTACHED);
    dls_borrowed_drop(data->borrowed);
    dls_options_free(data->options);
}

static void
producer_dealloc(PyObject *self)
{
    dls_producer *data = dls_producer_data(self);
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    /* Test all at once, which costs one branch. */
    uintptr_t more = (uintptr_t)data->options | (uintptr_t)data->kept
                     | (uintptr_t)data->borrowed | (uintptr_t)data->weakrefs;
    if (more != 0) {
        drop_more(self);
    }
    dls_plan_drop(data->plan);
    Py_XDECREF(data->source);
    dls_freelist_put(&dls_freelist_producers, self);
    Py_DECREF(type);
}

/* --- the protocol --------------------------------------------------------- */

/* A Producer that is bare, of an object of a decorated class: the author's methods,
 * which are asked, have a fast path where the object's type has none. */
DLS_APART static PyObject *
dlpack_of_author(dls_producer *self, PyObject *const *args, Py_ssize_t n,
                 PyObject *kwnames)
{
    dls_producer author = {.state = self->state, .source = self->source};
    author.plan = dls_plan_share(self->plan);
    if (dls_decorated_enter(self->state, self->source, &author.plan, true) < 0) {
        dls_refuse_from_pending(self->state, self->source, DLS_AUTHOR_OFFERS_NOTHING);
        dls_plan_drop(author.plan);
        return NULL;
    }
    if (dls_question_use(&self->asked)) {
        dls_question_note(&author.asked);
    }
    PyObject *capsule = !author.plan->is_decorated
                            ? dls_producer_dlpack(&author, args, n, kwnames)
                            : dls_export_producer(&author, args, n, kwnames, NULL);
    if (author.kept != NULL) {
        dls_producer_keep_share(self, author.kept);
    }
    dls_plan_drop(author.plan);
    return capsule;
}

/* With options that change nothing of most memory. */
static PyObject *
dlpack_idle(dls_producer *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    dls_usual usual = dls_request_read_usual(self->state, args, n, kwnames);
    bool wanted = usual == DLS_WANTS_VERSIONED;
    dls_form form = wanted || usual == DLS_WANTS_LEGACY ? dls_fast_form(self, wanted)
                                                        : 0;
    return form & DLS_FORM_FAST ? dls_fast_capsule_idle(self, args, kwnames, form)
                                : dls_export_producer(self, args, n, kwnames, NULL);
}

/* With a kept answer (stolen): that is exported, if the consumer would have the source
 * asked in the same form. */
static PyObject *
dlpack_of_answer(dls_producer *self, PyObject *const *args, Py_ssize_t n,
                 PyObject *kwnames, PyObject *answer)
{
    dls_usual usual = dls_request_read_usual(self->state, args, n, kwnames);
    bool wanted = usual == DLS_WANTS_VERSIONED;
    dls_form form = wanted || usual == DLS_WANTS_LEGACY ? dls_fast_form(self, wanted)
                                                        : 0;
    bool same = ((form ^ dls_fast_form(self, true)) & ~DLS_FORM_WANTED) == 0;
    if (same && dls_fast_gives_capsule(form)) {
        return dls_fast_capsule_given(self, args, kwnames, form, answer);
    }
    dls_drop_foreign(answer);
    return dls_producer_dlpack(self, args, n, kwnames);
}

/* Columns have a fast path, too, and so has copy=True alone, also where the copy of the
 * export before is kept; all else is read in full. */
DLS_APART static PyObject *
dlpack_in_full(dls_producer *self, PyObject *const *args, Py_ssize_t n,
               PyObject *kwnames, dls_usual usual)
{
    if (self->plan->is_decorated && dls_fast_is_bare(self)
        && Py_TYPE(self->source) == self->plan->type) {
        return dlpack_of_author(self, args, n, kwnames);
    }
    if (self->options != NULL) {
        return dls_fast_is_idle(self)
                   ? dlpack_idle(self, args, n, kwnames)
                   : dls_export_producer(self, args, n, kwnames, NULL);
    }
    dls_form column = usual == DLS_WANTS_VERSIONED ? dls_fast_column_form(self) : 0;
    if (column != 0) {
        return dls_fast_column(self, args, kwnames, column);
    }
    PyObject *answer = dls_producer_take_answer(self);
    if (answer != NULL) {
        return dlpack_of_answer(self, args, n, kwnames, answer);
    }
    if (self->kept != NULL) {
        usual = dls_request_read_usual(self->state, args, n, kwnames);
    }
    dls_form form = 0;
    bool plain = self->kept == NULL
                 && (usual == DLS_WANTS_LEGACY || usual == DLS_WANTS_VERSIONED);
    int shown = plain ? dls_fast_form_shown(self->plan, self->source,
                                            usual == DLS_WANTS_VERSIONED, &form)
                      : 0;
    if (shown != 0) {
        return shown > 0 ? dls_fast_capsule(self, args, kwnames, form) : NULL;
    }
    bool copies = usual == DLS_WANTS_LEGACY_COPY || usual == DLS_WANTS_VERSIONED_COPY;
    form = copies ? dls_fast_form(self, usual == DLS_WANTS_VERSIONED_COPY) : 0;
    return form & DLS_FORM_FAST ? dls_fast_capsule_copy(self, args, kwnames, form)
                                : dls_export_producer(self, args, n, kwnames, NULL);
}

PyObject *
dls_producer_dlpack(dls_producer *data, PyObject *const *args, Py_ssize_t n,
                    PyObject *kwnames)
{
    dls_usual usual = dls_fast_is_bare(data)
                          ? dls_request_read_usual(data->state, args, n, kwnames)
                          : DLS_READ_IN_FULL;
    /* Write the cases out, so that the compiler sees the case of a call without
     * keywords. */
    dls_form form = usual == DLS_WANTS_LEGACY      ? dls_fast_form(data, false)
                    : usual == DLS_WANTS_VERSIONED ? dls_fast_form(data, true)
                                                   : 0;
    return form & DLS_FORM_FAST ? dls_fast_capsule(data, args, kwnames, form)
                                : dlpack_in_full(data, args, n, kwnames, usual);
}

static PyObject *
producer_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    return dls_producer_dlpack(dls_producer_data(self), args, n, kwnames);
}

DLS_APART static PyObject *
answer_in_full(dls_producer *data)
{
    dl_device device;
    if (dls_device_answer(data->state, data->source, data->plan, data->options, &device)
        < 0) {
        return NULL;
    }
    dls_question_note(&data->asked);
    return dls_device_pair(data->state, device);
}

PyObject *
dls_producer_device(dls_producer *data)
{
    int host = dls_device_is_known_host(data);
    if (host <= 0) {
        return host == 0 ? answer_in_full(data) : NULL;
    }
    dls_question_note(&data->asked);
    return Py_NewRef(data->state->host_device);
}

PyObject *
dls_producer_dlpack_device(PyObject *self, PyObject *DLS_UNUSED(ignored))
{
    return dls_producer_device(dls_producer_data(self));
}

/* A Tensor of the source, on the fast path where that is open. */
static PyObject *
make_tensor(dls_producer *self)
{
    dls_exchange x;
    dls_form form = dls_fast_is_bare(self) ? dls_fast_form(self, true) : 0;
    if (form & DLS_FORM_FAST) {
        return dls_fast_tensor(self->state, dls_plan_share(self->plan), self->source,
                               form);
    }
    dls_exchange_begin(&x, self->state, self->source, self->plan, self->options, NULL);
    PyObject *tensor = dls_exchange_run(&x, DLS_EXPORT_TENSOR);
    dls_exchange_end(&x);
    return tensor;
}

/* numpy.asarray(): the array of a Tensor.  Memory that is not on the host is not even
 * exported: then Python is given the Producer, and refuses it. */
PyObject *
dls_producer_array(PyObject *self, PyObject *const *args, Py_ssize_t n,
                   PyObject *kwnames)
{
    dls_producer *data = dls_producer_data(self);
    dl_device device = {dl_kDLCPU, 0};
    int host = dls_device_is_known_host(data);
    if (host < 0
        || (host == 0
            && dls_device_answer(data->state, data->source, data->plan, data->options,
                                 &device)
                   < 0)) {
        return NULL;
    }
    bool readable = dls_device_is_host(device.device_type);
    PyObject *tensor = readable ? make_tensor(data) : Py_NewRef(self);
    PyObject *array = NULL;
    if (tensor != NULL) {
        array = dls_in_python(data->state, DLS_IN_ARRAYS, "array", tensor, args, n,
                              kwnames);
        Py_DECREF(tensor);
    }
    return array;
}

/* Written in Python, which shows the facts that the source tells without being
 * asked. */
static PyObject *
producer_repr(PyObject *self)
{
    const dls_producer *data = dls_producer_data(self);
    PyObject *given[] = {dls_type_name(data->state, data->source), NULL};
    given[1] = given[0] != NULL ? dls_options_dict(data->options) : NULL;
    PyObject *repr = given[1] != NULL ? dls_in_python(data->state, DLS_IN_ARRAYS,
                                                      "shown", self, given, 2, NULL)
                                      : NULL;
    Py_XDECREF(given[0]);
    Py_XDECREF(given[1]);
    return repr;
}

/* Classes of homes are made without it. */
static PyObject *
refuse_subclass(PyObject *DLS_UNUSED(type), PyObject *DLS_UNUSED(ignored))
{
    return PyErr_Format(PyExc_TypeError,
                        "type 'dlshim.Producer' is not an acceptable base type");
}

/* An array has this attribute, and a Producer has not: who asks for it is told what
 * has. hasattr() says no, as for a name that is unknown. */
static PyObject *
refuse_attribute(PyObject *DLS_UNUSED(self), void *name)
{
    return PyErr_Format(PyExc_AttributeError,
                        "'dlshim.Producer' object has no attribute '%s'\n"
                        "  ask dlshim.from_dlpack(x).%s",
                        (const char *)name, (const char *)name);
}

static PyGetSetDef getters[] = {
    {"dtype", refuse_attribute, NULL, NULL, "dtype"},
    {"ndim", refuse_attribute, NULL, NULL, "ndim"},
    {"shape", refuse_attribute, NULL, NULL, "shape"},
    {NULL, NULL, NULL, NULL, NULL},
};

/* dir() is object.__dir__() without the names above: editors offer what is there. */
static PyObject *
producer_dir(PyObject *self, PyObject *DLS_UNUSED(ignored))
{
    PyObject *names = PyObject_CallMethod((PyObject *)&PyBaseObject_Type, "__dir__",
                                          "O", self);
    for (const PyGetSetDef *each = getters; each->name != NULL && names != NULL;
         each++) {
        PyObject *gone = PyObject_CallMethod(names, "remove", "s", each->name);
        if (gone == NULL) {
            Py_CLEAR(names);
        }
        Py_XDECREF(gone);
    }
    return names;
}

static PyMethodDef methods[] = {
    {"__init_subclass__", refuse_subclass, METH_CLASS | METH_NOARGS, NULL},
    DLS_DLPACK_METHODS(producer_dlpack, METH_FASTCALL | METH_KEYWORDS,
                       dls_producer_dlpack_device, METH_NOARGS, dls_producer_array,
                       METH_FASTCALL | METH_KEYWORDS),
    {"__reduce__", dls_refuse_pickle, METH_NOARGS, NULL},
    {"__dir__", producer_dir, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"source", T_OBJECT, offsetof(dls_producer, source), READONLY | DLS_MEMBER,
     "The wrapped object; a Tensor when a raw capsule was wrapped."},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(dls_producer, weakrefs),
     READONLY | DLS_MEMBER, NULL},
    {NULL, 0, 0, 0, NULL},
};

bool
dls_producer_is_type(PyTypeObject *type)
{
    return (uintptr_t)PyType_GetSlot(type, Py_tp_dealloc)
           == (uintptr_t)producer_dealloc;
}

/* A Producer offers DLPack, and __array__ for numpy.asarray().  With a length and
 * items, consumers would walk the elements; with a buffer, they would prefer that to
 * DLPack. */
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
    {Py_tp_getset, getters},
    {0, NULL},
};

PyType_Spec dls_producer_spec = {
    .name = "dlshim.Producer",
    .basicsize = DLS_BASICSIZE(dls_producer),
    /* Not IMMUTABLETYPE: dls_ctable_add adds attributes, then freezes the type
     * where CPython can (3.14).  BASETYPE for the classes of homes. */
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE
             | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

/* The slots of a home's class: as `slots`, without members, which are inherited.  The
 * functions are repeated: Python would put a dealloc of its own there, and look at the
 * base for each method. */
static PyType_Slot slots_of_home[] = {
    {Py_tp_doc, "A DLPack producer around an object of one home, made by upgrade()."},
    {Py_tp_dealloc, producer_dealloc},
    {Py_tp_traverse, producer_traverse},
    {Py_tp_clear, producer_clear},
    {Py_tp_repr, producer_repr},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec dls_producer_spec_of_home = {
    .name = "dlshim.Producer",
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC
             | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots_of_home,
};
