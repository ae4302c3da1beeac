/* The type of the methods that dlshim.producer puts on classes: binds and calls them,
 * and shows them to help() and inspect.  A call is hot.
 * Tests: tests/core/test_called_class.py. */
#include "types/class_method.h"

#include <stddef.h>
#include <string.h>

#include "python/errors.h"

#include <structmember.h>

typedef PyObject *(*vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);
/* A function of METH_METHOD | METH_FASTCALL | METH_KEYWORDS. */
typedef PyObject *(*function)(PyObject *, PyTypeObject *, PyObject *const *, Py_ssize_t,
                              PyObject *);

typedef struct {
    DLS_HEAD
    vectorcall call; /* what CPython calls in the place of tp_call */
    PyMethodDef *method;
    PyTypeObject *owner; /* strong */
} class_method;

static class_method *
data_of(PyObject *self)
{
    return DLS_DATA(class_method, self);
}

/* --- calls ---------------------------------------------------------------- */

/* 0, or -1 with TypeError. */
static int
refuse_other(const class_method *data, PyObject *obj)
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
check_object(const class_method *data, PyObject *obj)
{
    return Py_TYPE(obj) == data->owner || PyType_IsSubtype(Py_TYPE(obj), data->owner)
               ? 0
               : refuse_other(data, obj);
}

static PyObject *
call_unbound(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    const class_method *data = data_of(self);
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
    PyObject *result = called(args[0], data->owner, args + 1, n - 1, kwnames);
    Py_LeaveRecursiveCall();
    return result;
}

PyObject *
dls_class_method_get(PyObject *self, PyObject *obj, PyObject *DLS_UNUSED(type))
{
    const class_method *data = data_of(self);
    if (obj == NULL) {
        return Py_NewRef(self);
    }
    return check_object(data, obj) < 0
               ? NULL
               : PyCMethod_New(data->method, obj, NULL, data->owner);
}

/* With a tuple, for those who know no vectorcall. */
static PyObject *
call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t n = PyTuple_Size(args);
    if (n == 0) {
        return call_unbound(self, NULL, 0, NULL);
    }
    PyObject *bound = dls_class_method_get(self, PyTuple_GetItem(args, 0), NULL);
    PyObject *rest = bound != NULL ? PyTuple_GetSlice(args, 1, n) : NULL;
    PyObject *result = rest != NULL ? PyObject_Call(bound, rest, kwargs) : NULL;
    Py_XDECREF(rest);
    Py_XDECREF(bound);
    return result;
}

/* --- what is shown -------------------------------------------------------- */

/* Between the signature and the text in ml_doc. */
#define MARK "\n--\n\n"

static PyObject *
get_name(PyObject *self, void *DLS_UNUSED(ignored))
{
    return PyUnicode_FromString(data_of(self)->method->ml_name);
}

static PyObject *
get_qualname(PyObject *self, void *DLS_UNUSED(ignored))
{
    const class_method *data = data_of(self);
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
    return PyUnicode_FromString(strstr(data_of(self)->method->ml_doc, MARK)
                                + strlen(MARK));
}

static PyObject *
get_signature(PyObject *self, void *DLS_UNUSED(ignored))
{
    const PyMethodDef *method = data_of(self)->method;
    const char *begin = method->ml_doc + strlen(method->ml_name);
    return PyUnicode_FromStringAndSize(begin, strstr(begin, MARK) - begin);
}

static PyObject *
get_owner(PyObject *self, void *DLS_UNUSED(ignored))
{
    return Py_NewRef((PyObject *)data_of(self)->owner);
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
    const class_method *data = data_of(self);
    PyObject *getattr = PyDict_GetItemString(PyEval_GetBuiltins(), "getattr");
    return Py_BuildValue("O(Os)", getattr, data->owner, data->method->ml_name);
}

/* --- the type ------------------------------------------------------------- */

PyObject *
dls_class_method_new(dls_state *state, PyTypeObject *owner, PyMethodDef *method)
{
    PyObject *self = DLS_NEW(class_method, state->method_type);
    if (self != NULL) {
        class_method *data = data_of(self);
        data->call = call_unbound;
        data->method = method;
        data->owner = (PyTypeObject *)Py_NewRef((PyObject *)owner);
        PyObject_GC_Track(self);
    }
    return self;
}

/* There is no tp_clear: the class drops its methods, and not they it. */
static int
traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(data_of(self)->owner);
    return 0;
}

static void
dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_DECREF(data_of(self)->owner);
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
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(class_method, call),
     READONLY | DLS_MEMBER, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, dealloc},
    {Py_tp_traverse, traverse},
    {Py_tp_repr, repr},
    {Py_tp_call, call},
    {Py_tp_descr_get, dls_class_method_get},
    {Py_tp_getset, attributes},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, NULL},
};

/* Names that the headers of the floor lack. */
enum { HAVE_VECTORCALL = 1 << 11, METHOD_DESCRIPTOR = 1 << 17 };

/* Immutable: else CPython specialises no call of a method, at 150 instructions each. */
PyType_Spec dls_class_method_spec = {
    .name = "dlshim._core.Method",
    .basicsize = DLS_BASICSIZE(class_method),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION
             | Py_TPFLAGS_IMMUTABLETYPE | HAVE_VECTORCALL | METHOD_DESCRIPTOR,
    .slots = slots,
};
