/* The type of the methods that dlshim.producer puts on classes: binds and calls them,
 * keeps their plans, and shows them to help() and inspect.  A call is hot.
 * Tests: tests/core/test_called_class.py. */
#include "types/class_method.h"

#include <stddef.h>
#include <string.h>

#include "python/errors.h"

#include <structmember.h>

/* The function of a method. */
typedef PyObject *(*function)(PyObject *, PyObject *, PyObject *const *, Py_ssize_t,
                              PyObject *);

/* --- calls ---------------------------------------------------------------- */

/* 0, or -1 with TypeError. */
static int
refuse_other(const dls_method *data, PyObject *obj)
{
    PyObject *owner = PyObject_GetAttrString((PyObject *)data->owner, "__name__");
    PyObject *module = owner != NULL ? dls_module_here() : NULL;
    PyObject *name = module != NULL ? dls_type_name(dls_state_of(module), obj) : NULL;
    if (name != NULL) {
        PyErr_Format(PyExc_TypeError,
                     "descriptor '%s' for '%S' objects doesn't apply to a '%U' object",
                     data->method->ml_name, owner, name);
    }
    Py_XDECREF(name);
    Py_XDECREF(module);
    Py_XDECREF(owner);
    return -1;
}

/* 0 = it is of the class, or of a subclass; -1 with TypeError. */
static inline int
check_object(const dls_method *data, PyObject *obj)
{
    return Py_TYPE(obj) == data->owner || PyType_IsSubtype(Py_TYPE(obj), data->owner)
               ? 0
               : refuse_other(data, obj);
}

static PyObject *
call_unbound(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    const dls_method *data = dls_method_data(self);
    Py_ssize_t n = (Py_ssize_t)(nargsf & ~DLS_VECTORCALL_OFFSET);
    if (n == 0) {
        return PyErr_Format(PyExc_TypeError, "unbound method %s() needs an argument",
                            data->method->ml_name);
    }
    if (check_object(data, args[0]) < 0
        || Py_EnterRecursiveCall(" while calling a Python object") != 0) {
        return NULL;
    }
    function called = (function)(void (*)(void))data->method->ml_meth;
    PyObject *result = called(args[0], self, args + 1, n - 1, kwnames);
    Py_LeaveRecursiveCall();
    return result;
}

static PyObject *
bind(PyObject *self, PyObject *obj, PyObject *DLS_UNUSED(type))
{
    if (obj == NULL) {
        return Py_NewRef(self);
    }
    return check_object(dls_method_data(self), obj) < 0
               ? NULL
               : dls_compat.PyMethod_New(self, obj);
}

/* With a tuple, for those who know no vectorcall. */
static PyObject *
call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t n = PyTuple_Size(args);
    if (n == 0) {
        return call_unbound(self, NULL, 0, NULL);
    }
    PyObject *bound = bind(self, PyTuple_GetItem(args, 0), NULL);
    PyObject *rest = bound != NULL ? PyTuple_GetSlice(args, 1, n) : NULL;
    PyObject *result = rest != NULL ? PyObject_Call(bound, rest, kwargs) : NULL;
    Py_XDECREF(rest);
    Py_XDECREF(bound);
    return result;
}

bool
dls_is_method_of_any(PyObject *value)
{
    void *get = PyType_GetSlot(Py_TYPE(value), Py_tp_descr_get);
    return (descrgetfunc)(uintptr_t)get == bind;
}

/* --- its plans ------------------------------------------------------------ */

/* Most methods are called with objects of few types. */
enum { FIRST_SIZE = 4 };

/* Callback of the weak reference to a type: the type has gone.  about: the method, and
 * the type's address. */
static PyObject *
forget(PyObject *about, PyObject *reference)
{
    dls_method *data = dls_method_data(PyTuple_GetItem(about, 0));
    const PyTypeObject *type = PyLong_AsVoidPtr(PyTuple_GetItem(about, 1));
    dls_plan_cache_forget(&data->plans, type, reference);
    Py_RETURN_NONE;
}

static PyMethodDef forget_method = {"_forget", forget, METH_O, NULL};

int
dls_method_keep(PyObject *self, dls_plan *plan)
{
    return dls_plan_cache_keep(&dls_method_data(self)->plans, plan, self,
                               &forget_method)
                   < 0
               ? -1
               : 0;
}

/* Python's own type of methods that are bound to an object: written once, and never
 * changed. */
static DLS_ATOMIC(PyTypeObject *) bound_type;

PyObject *
dls_method_of(const dls_state *state, PyObject *obj)
{
    PyObject *error = dls_error_take(), *method = NULL, *self = NULL;
    PyObject *bound = PyObject_GetAttr(obj, state->names.dlpack);
    if (bound != NULL && Py_TYPE(bound) == bound_type) {
        method = PyObject_GetAttr(bound, state->names.func);
        self = PyObject_GetAttr(bound, state->names.self);
    }
    if (method != NULL && (self != obj || !dls_is_method(state, method))) {
        Py_CLEAR(method);
    }
    PyErr_Clear();
    Py_XDECREF(self);
    Py_XDECREF(bound);
    if (error != NULL) {
        dls_error_restore(error);
    }
    return method;
}

/* --- what is shown -------------------------------------------------------- */

/* Between the signature and the text in ml_doc. */
#define MARK "\n--\n\n"

static PyObject *
get_name(PyObject *self, void *DLS_UNUSED(ignored))
{
    return PyUnicode_FromString(dls_method_data(self)->method->ml_name);
}

static PyObject *
get_qualname(PyObject *self, void *DLS_UNUSED(ignored))
{
    const dls_method *data = dls_method_data(self);
    PyObject *owner = PyObject_GetAttrString((PyObject *)data->owner, "__qualname__");
    PyObject *name = owner != NULL
                         ? PyUnicode_FromFormat("%S.%s", owner, data->method->ml_name)
                         : NULL;
    Py_XDECREF(owner);
    return name;
}

static PyObject *
get_doc(PyObject *self, void *DLS_UNUSED(ignored))
{
    return PyUnicode_FromString(strstr(dls_method_data(self)->method->ml_doc, MARK)
                                + strlen(MARK));
}

static PyObject *
get_signature(PyObject *self, void *DLS_UNUSED(ignored))
{
    const PyMethodDef *method = dls_method_data(self)->method;
    const char *begin = method->ml_doc + strlen(method->ml_name);
    return PyUnicode_FromStringAndSize(begin, strstr(begin, MARK) - begin);
}

static PyObject *
get_owner(PyObject *self, void *DLS_UNUSED(ignored))
{
    return Py_NewRef((PyObject *)dls_method_data(self)->owner);
}

static PyObject *
repr(PyObject *self)
{
    PyObject *name = get_qualname(self, NULL);
    PyObject *text = name != NULL ? PyUnicode_FromFormat("<method '%U'>", name) : NULL;
    Py_XDECREF(name);
    return text;
}

/* getattr(owner, name) */
static PyObject *
reduce(PyObject *self, PyObject *DLS_UNUSED(ignored))
{
    const dls_method *data = dls_method_data(self);
    PyObject *getattr = PyDict_GetItemString(PyEval_GetBuiltins(), "getattr");
    return Py_BuildValue("O(Os)", getattr, data->owner, data->method->ml_name);
}

/* --- the type ------------------------------------------------------------- */

/* Learn the type of bound methods.  0, or -1 with an exception. */
static int
find_bound_type(PyObject *owner)
{
    PyObject *bound = bound_type == NULL ? dls_compat.PyMethod_New(owner, owner) : NULL;
    if (bound != NULL) {
        bound_type = Py_TYPE(bound);
        Py_DECREF(bound);
    }
    return bound_type != NULL ? 0 : -1;
}

PyObject *
dls_method_new(dls_state *state, PyTypeObject *owner, PyMethodDef *method,
               PyObject *own, PyObject *inner)
{
    dls_plan_cache plans;
    if (find_bound_type((PyObject *)owner) < 0
        || dls_plan_cache_init(&plans, FIRST_SIZE) < 0) {
        return NULL;
    }
    PyObject *self = DLS_NEW(dls_method, state->method_type);
    if (self == NULL) {
        dls_plan_cache_free(&plans);
        return NULL;
    }
    dls_method *data = dls_method_data(self);
    data->call = call_unbound;
    data->method = method;
    data->owner = (PyTypeObject *)Py_NewRef((PyObject *)owner);
    data->own = own != Py_None ? Py_NewRef(own) : NULL;
    data->inner = inner != Py_None ? Py_NewRef(inner) : NULL;
    data->plans = plans;
    PyObject_GC_Track(self);
    return self;
}

/* What a kept plan holds, which may lead back to the class. */
static int
visit_plan(const dls_plan *plan, visitproc visit, void *arg)
{
    Py_VISIT(plan->method);
    Py_VISIT(plan->device_method);
    Py_VISIT(plan->seen_on);
    Py_VISIT(plan->seen);
    return 0;
}

/* There is no tp_clear: the class drops its methods, and not they it. */
static int
traverse(PyObject *self, visitproc visit, void *arg)
{
    const dls_method *data = dls_method_data(self);
    const dls_plan_cache *plans = &data->plans;
    int stop = 0;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(data->owner);
    Py_VISIT(data->own);
    for (size_t i = 0; stop == 0 && i < plans->size; i++) {
        if (plans->entries[i].type != NULL) {
            stop = visit_plan(plans->entries[i].plan, visit, arg);
        }
    }
    return stop != 0 ? stop
                     : dls_plan_cache_visit(&dls_method_data(self)->plans, visit, arg);
}

static void
dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    dls_method *data = dls_method_data(self);
    PyObject_GC_UnTrack(self);
    dls_plan_cache_free(&data->plans);
    Py_XDECREF(data->own);
    Py_XDECREF(data->inner);
    Py_DECREF(data->owner);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyGetSetDef attributes[] = {
    {"__name__", get_name, NULL, NULL, NULL},
    {"__qualname__", get_qualname, NULL, NULL, NULL},
    {"__doc__", get_doc, NULL, NULL, NULL},
    {"__text_signature__", get_signature, NULL, NULL, NULL},
    {"__objclass__", get_owner, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(dls_method, call),
     READONLY | DLS_MEMBER, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, dealloc}, {Py_tp_traverse, traverse}, {Py_tp_repr, repr},
    {Py_tp_call, call},       {Py_tp_descr_get, bind},    {Py_tp_getset, attributes},
    {Py_tp_methods, methods}, {Py_tp_members, members},   {0, NULL},
};

/* Names that the headers of the floor lack. */
enum { HAVE_VECTORCALL = 1 << 11, METHOD_DESCRIPTOR = 1 << 17 };

/* Immutable: else CPython specialises no call of a method, at 150 instructions each. */
PyType_Spec dls_class_method_spec = {
    .name = "dlshim._core.Method",
    .basicsize = DLS_BASICSIZE(dls_method),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION
             | Py_TPFLAGS_IMMUTABLETYPE | HAVE_VECTORCALL | METHOD_DESCRIPTOR,
    .slots = slots,
};
