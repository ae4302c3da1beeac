/* The wrapper: what `upgrade` gives, without a check. */
#include "floor.h"

/* 1: a versioned capsule is wanted, 0: a legacy one, -1: exception. */
static int wants_versioned(floor_state *st, PyObject *const *values, PyObject *kwnames)
{
    if (kwnames == NULL) {
        return 0;
    }
    Py_ssize_t count = PyTuple_Size(kwnames);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *word = PyTuple_GetItem(kwnames, i);
        if (word == st->word_max_version) {
            if (values[i] == Py_None) {
                return 0;
            }
            PyObject *major = PyTuple_GetItem(values[i], 0);
            return major != NULL ? PyLong_AsLong(major) >= 1 : -1;
        }
    }
    return 0;
}

static PyObject *export_legacy(floor_wrapper *self)
{
    if (self->form == FLOOR_LEGACY) {
        return floor_call_bare(self->state, self->source);
    }
    dl_managed_tensor_versioned *inner =
        floor_own(self->state, self->plan, self->form, self->source);
    dl_managed_tensor *made = inner != NULL ? floor_to_legacy(inner) : NULL;
    return made != NULL ? floor_capsule_legacy(made) : NULL;
}

static PyObject *export_versioned(floor_wrapper *self)
{
    if (self->form == FLOOR_VERSIONED) {
        return floor_call_versioned(self->state, self->source);
    }
    dl_managed_tensor_versioned *made =
        floor_own(self->state, self->plan, self->form, self->source);
    return made != NULL ? floor_capsule_versioned(made) : NULL;
}

static PyObject *wrapper_dlpack(PyObject *op, PyObject *const *args, Py_ssize_t nargs,
                                PyObject *kwnames)
{
    floor_wrapper *self = (floor_wrapper *)op;
    int versioned = wants_versioned(self->state, args + nargs, kwnames);
    if (versioned < 0) {
        return NULL;
    }
    return versioned ? export_versioned(self) : export_legacy(self);
}

static PyObject *wrapper_device(PyObject *op, PyObject *unused)
{
    (void)unused;
    PyObject *device = ((floor_wrapper *)op)->state->cpu_device;
    Py_INCREF(device);
    return device;
}

static void drop_contents(floor_wrapper *self)
{
    if (self->kept != NULL) {
        self->kept->deleter(self->kept);
    }
    Py_DECREF(self->source);
}

static void wrapper_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    drop_contents((floor_wrapper *)op);
    PyObject_Free(op);
    Py_DECREF(type);
}

static void wrapper_gc_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    PyObject_GC_UnTrack(op);
    drop_contents((floor_wrapper *)op);
    PyObject_GC_Del(op);
    Py_DECREF(type);
}

static int wrapper_traverse(PyObject *op, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(op));
    Py_VISIT(((floor_wrapper *)op)->source);
    return 0;
}

static void fill(floor_wrapper *self, floor_state *st, const floor_plan *plan, PyObject *source,
                 floor_form form)
{
    Py_INCREF(source);
    self->state = st;
    self->plan = plan;
    self->source = source;
    self->form = form;
    self->kept = NULL;
}

PyObject *floor_upgrade(floor_state *st, PyObject *source)
{
    const floor_plan *plan = floor_find_plan(st, source);
    floor_wrapper *self =
        plan != NULL ? PyObject_GC_New(floor_wrapper, st->wrapper_gc) : NULL;
    if (self != NULL) {
        fill(self, st, plan, source, plan->method);
        PyObject_GC_Track(self);
    }
    return (PyObject *)self;
}

PyObject *floor_upgrade_table(floor_state *st, PyObject *source)
{
    floor_wrapper *self = (floor_wrapper *)floor_upgrade(st, source);
    if (self != NULL && self->plan->table != NULL) {
        self->form = FLOOR_TABLE;
    }
    return (PyObject *)self;
}

PyObject *floor_upgrade_untracked(floor_state *st, PyObject *source)
{
    const floor_plan *plan = floor_find_plan(st, source);
    floor_wrapper *self = plan != NULL ? PyObject_New(floor_wrapper, st->wrapper) : NULL;
    if (self != NULL) {
        fill(self, st, plan, source, plan->method);
    }
    return (PyObject *)self;
}

static PyMethodDef wrapper_methods[] = {
    {"__dlpack__", FLOOR_METHOD(wrapper_dlpack), METH_FASTCALL | METH_KEYWORDS, NULL},
    {"__dlpack_device__", wrapper_device, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot wrapper_slots[] = {
    {Py_tp_dealloc, (void *)wrapper_dealloc},
    {Py_tp_methods, wrapper_methods},
    {0, NULL},
};
static PyType_Slot wrapper_gc_slots[] = {
    {Py_tp_dealloc, (void *)wrapper_gc_dealloc},
    {Py_tp_traverse, (void *)wrapper_traverse},
    {Py_tp_methods, wrapper_methods},
    {0, NULL},
};

static PyTypeObject *add_type(PyObject *module, const char *name, unsigned int flags,
                              PyType_Slot *slots)
{
    PyTypeObject *type = floor_add_type(module, name, sizeof(floor_wrapper), flags, slots);
    if (type != NULL && floor_add_table(type) < 0) {
        Py_CLEAR(type);
    }
    return type;
}

int floor_add_wrappers(PyObject *module, floor_state *st)
{
    st->wrapper = add_type(module, "dls_floor.Wrapper", 0, wrapper_slots);
    if (st->wrapper == NULL) {
        return -1;
    }
    st->wrapper_gc =
        add_type(module, "dls_floor.WrapperGC", Py_TPFLAGS_HAVE_GC, wrapper_gc_slots);
    return st->wrapper_gc != NULL ? 0 : -1;
}
