/* The callables that dlshim.kernel makes: array arguments go in upgraded (K2, K3).  A
 * call with anything else to decide, and results that must be brought home, go to
 * shim/kernels.py.  A call is hot.  Tests: tests/core/test_kernel.py. */
#include "module/kernel.h"

#include <stddef.h>

#include "exchange/objects.h"
#include "module/producer.h"
#include "python/errors.h"
#include "request/options.h"
#include "types/plan_cache.h"

#include <structmember.h>

typedef PyObject *(*vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);

typedef struct {
    DLS_HEAD
    vectorcall call; /* what CPython calls in the place of tp_call */
    dls_state *state;
    PyObject *keeps;      /* the type Tensor, which keeps the state; strong */
    PyObject *function;   /* strong; None after tp_clear, as the next two */
    PyObject *in_full;    /* Calls.in_full, a bound method; strong */
    PyObject *bring_home; /* Calls.bring_home; strong */
    PyObject *as_method;  /* the same callable for bound methods, whose first argument
                           * is none (K8); strong, NULL: it is that one itself */
    PyObject *dict;       /* shared with as_method; strong */
    PyObject *weakrefs;
    /* The plan of the first type whose arrays went in as they are; counted, NULL: none
     * yet.  It is set once, so that any thread may look at its type. */
    DLS_ATOMIC(dls_plan *) as_is;
} kernel;

static kernel *
data_of(PyObject *self)
{
    return DLS_DATA(kernel, self);
}

/* --- arguments and results -------------------------------------------------- */

/* Arguments for which a call needs no memory. */
enum { ROOM = 8 };

/* One call. */
typedef struct {
    PyObject *first;              /* the first array; borrowed, NULL: none yet */
    PyTypeObject *home;           /* the class of its Producers */
    const dl_exchange_api *table; /* of its type; NULL: none that allocates */
    PyObject *made[ROOM];         /* Producers, strong */
    int count;
} one_call;

/* What is of none of these types is looked at. */
static inline bool
is_simple(PyObject *x)
{
    PyTypeObject *type = Py_TYPE(x);
    return x == Py_None || type == &PyLong_Type || type == &PyFloat_Type
           || type == &PyBool_Type || type == &PyUnicode_Type;
}

/* Is it an array by what its type offers (K3)? */
static inline bool
is_array(const dls_plan *plan)
{
    return (plan->offers
            & (1u << DLS_PROTOCOL_TABLE | 1u << DLS_PROTOCOL_DLPACK
               | 1u << DLS_PROTOCOL_CUDA | 1u << DLS_PROTOCOL_SYCL))
           != 0;
}

/* Is it a column or a table of Arrow, or a column of pandas? */
static inline bool
is_of_arrow(const dls_plan *plan)
{
    return (plan->offers
            & (1u << DLS_PROTOCOL_ARROW_DEVICE_ARRAY | 1u << DLS_PROTOCOL_ARROW_ARRAY
               | 1u << DLS_PROTOCOL_ARROW_DEVICE_STREAM
               | 1u << DLS_PROTOCOL_ARROW_STREAM | 1u << DLS_PROTOCOL_VALUES))
           != 0;
}

/* Is a type that was not met yet, or is one of ours, that of an array, a column or a
 * table?  Columns of pandas (C12) have to_numpy() alone.  1, 0, or -1 with an
 * exception. */
static int
type_offers(dls_state *state, PyTypeObject *type)
{
    PyObject *const names[] = {state->names.dlpack,
                               state->names.exchange_api,
                               state->names.exchange_api_old,
                               state->names.cuda_array_interface,
                               state->names.sycl_usm_array_interface,
                               state->names.arrow_c_device_array,
                               state->names.arrow_c_array,
                               state->names.arrow_c_device_stream,
                               state->names.arrow_c_stream,
                               state->names.to_numpy};
    int found = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && found == 0; i++) {
        PyObject *value = NULL;
        found = dls_get_optional((PyObject *)type, names[i], &value);
        found = found > 0 && value == Py_None ? 0 : found;
        Py_XDECREF(value);
    }
    return found;
}

/* Is it left to Python: a container, an array of a new type, an object of ours, a
 * column or a table?  plan: of x, or NULL.  1, 0, or -1 with an exception. */
static int
is_left_to_python(dls_state *state, PyObject *x, const dls_plan *plan)
{
    PyTypeObject *type = Py_TYPE(x);
    if (plan != NULL) {
        return is_of_arrow(plan);
    }
    if (type == &PyList_Type || type == &PyDict_Type || PyTuple_Check(x)) {
        return 1;
    }
    return type_offers(state, type);
}

static const dl_exchange_api *
allocating(const dl_exchange_api *table)
{
    return table != NULL && table->managed_tensor_allocator != NULL ? table : NULL;
}

/* *passed becomes what the function is given for an argument; borrowed.  plan: of the
 * argument, which is an array; the count is stolen.  0, or -1 with MemoryError. */
static inline int
give_array(dls_state *state, one_call *call, PyObject *x, dls_plan *plan,
           PyObject **passed)
{
    if (call->first == NULL) {
        call->first = x;
        call->home = plan->producer_type;
        call->table = allocating(plan->table);
    }
    if (call->table != NULL && plan->table == call->table) {
        dls_plan_drop(plan); /* as the library's own users pass it */
        return 0;
    }
    *passed = dls_producer_new_of(state, call->home, x, plan, NULL);
    call->made[call->count] = *passed;
    call->count += *passed != NULL;
    return *passed != NULL ? 0 : -1;
}

/* What the function is given for n arguments.  1 = done, 0 = the call is left to
 * Python, -1 = exception. */
static inline int
give(dls_state *state, one_call *call, PyObject *const *args, Py_ssize_t n,
     PyObject **passed)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        passed[i] = args[i];
        if (is_simple(args[i])) {
            continue;
        }
        dls_plan *plan = dls_plan_known(state, args[i]);
        if (plan != NULL && is_array(plan)) {
            if (give_array(state, call, args[i], plan, &passed[i]) < 0) {
                return -1;
            }
            continue;
        }
        int left = is_left_to_python(state, args[i], plan);
        dls_plan_drop(plan);
        if (left != 0) {
            return left < 0 ? -1 : 0;
        }
    }
    return 1;
}

static inline void
give_back(one_call *call)
{
    for (int i = 0; i < call->count; i++) {
        Py_DECREF(call->made[i]);
    }
}

static PyObject *
tuple_of(PyObject *const *items, Py_ssize_t n)
{
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple != NULL && i < n; i++) {
        PyTuple_SetItem(tuple, i, Py_NewRef(items[i]));
    }
    return tuple;
}

/* Call the function in Python. */
DLS_APART static PyObject *
call_in_full(const kernel *data, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *keywords = PyDict_New(), *result = NULL;
    PyObject *positional = tuple_of(args, n);
    PyObject *skip = PyLong_FromLong(data->as_method == NULL);
    int code = keywords != NULL && positional != NULL && skip != NULL ? 0 : -1;
    Py_ssize_t named = kwnames != NULL ? PyTuple_Size(kwnames) : 0;
    for (Py_ssize_t i = 0; code == 0 && i < named; i++) {
        code = PyDict_SetItem(keywords, PyTuple_GetItem(kwnames, i), args[n + i]);
    }
    if (code == 0) {
        result = PyObject_CallFunctionObjArgs(data->in_full, skip, positional, keywords,
                                              NULL);
    }
    Py_XDECREF(skip);
    Py_XDECREF(positional);
    Py_XDECREF(keywords);
    return result;
}

/* The result (stolen) with its arrays of the caller's library (K4). */
DLS_APART static PyObject *
bring_home(const kernel *data, PyObject *result, PyObject *first, PyObject *const *args,
           PyObject *const *passed, Py_ssize_t n)
{
    PyObject *given = tuple_of(args, n), *stood = tuple_of(passed, n), *home = NULL;
    if (given != NULL && stood != NULL) {
        home = PyObject_CallFunctionObjArgs(data->bring_home, result, first, given,
                                            stood, NULL);
    }
    Py_XDECREF(given);
    Py_XDECREF(stood);
    Py_DECREF(result);
    return home;
}

/* --- calls ---------------------------------------------------------------- */

/* The result (stolen) of a call with arrays.  Most results need nothing. */
static inline PyObject *
finish(const kernel *data, PyObject *result, PyObject *first, PyObject *const *args,
       PyObject *const *passed, Py_ssize_t n)
{
    bool is_done = result == NULL || result == Py_None
                   || Py_TYPE(result) == Py_TYPE(first) || is_simple(result);
    return is_done ? result : bring_home(data, result, first, args, passed, n);
}

/* A call with an argument that is not passed as it is. */
DLS_APART static PyObject *
call_upgraded(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    const kernel *data = data_of(self);
    Py_ssize_t n = (Py_ssize_t)(nargsf & ~DLS_VECTORCALL_OFFSET);
    Py_ssize_t all = n + (kwnames != NULL ? PyTuple_Size(kwnames) : 0);
    Py_ssize_t skip = data->as_method == NULL && n > 0;
    PyObject *stack[1 + ROOM], **passed = stack + 1;
    if (all > ROOM) {
        return call_in_full(data, args, n, kwnames);
    }
    one_call call;
    call.first = NULL;
    call.home = NULL;
    call.table = NULL;
    call.count = 0;
    passed[0] = args[0];
    int given = give(data->state, &call, args + skip, all - skip, passed + skip);
    PyObject *result = NULL;
    if (given > 0) {
        size_t flagged = (size_t)n | DLS_VECTORCALL_OFFSET;
        result = dls_compat.PyObject_Vectorcall(data->function, passed, flagged,
                                                kwnames);
        if (call.first != NULL) {
            result = finish(data, result, call.first, args, passed, all);
        }
    }
    else if (given == 0) {
        result = call_in_full(data, args, n, kwnames);
    }
    give_back(&call);
    return result;
}

/* Remember the first plan, whose count is stolen. */
static void
remember(kernel *data, dls_plan *plan)
{
    dls_plan *unused = plan;
    if (data->as_is == NULL) {
        DLS_LOCK_STATE();
        if (data->as_is == NULL) {
            data->as_is = plan;
            unused = NULL;
        }
        DLS_UNLOCK();
    }
    dls_plan_drop(unused);
}

/* A call with arguments of other types than the remembered one.  First it looks whether
 * all are passed as they are: those of a library with a C table are. */
DLS_APART static PyObject *
call_looking(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    kernel *data = data_of(self);
    Py_ssize_t n = (Py_ssize_t)(nargsf & ~DLS_VECTORCALL_OFFSET);
    PyObject *first = NULL;
    const dl_exchange_api *table = NULL;
    n += kwnames != NULL ? PyTuple_Size(kwnames) : 0;
    for (Py_ssize_t i = data->as_method == NULL; i < n; i++) {
        if (first != NULL && Py_TYPE(args[i]) == Py_TYPE(first)) {
            continue;
        }
        dls_plan *plan = dls_plan_known(data->state, args[i]);
        if (plan == NULL && is_simple(args[i])) {
            continue;
        }
        bool fits = plan != NULL && (first == NULL || plan->table == table);
        table = fits ? allocating(plan->table) : NULL;
        first = first != NULL ? first : args[i];
        if (table == NULL) {
            dls_plan_drop(plan);
            return call_upgraded(self, args, nargsf, kwnames);
        }
        remember(data, plan);
    }
    PyObject *result = dls_compat.PyObject_Vectorcall(data->function, args, nargsf,
                                                      kwnames);
    return first == NULL ? result : finish(data, result, first, args, args, n);
}

/* The usual call.  If all arrays are of the remembered type, they are passed.  Where
 * the end of that type was not heard of (plan_cache.h), another type may have its
 * address: its objects are passed as a bare call passes them. */
static PyObject *
call_usual(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    const kernel *data = data_of(self);
    Py_ssize_t n = (Py_ssize_t)(nargsf & ~DLS_VECTORCALL_OFFSET);
    PyObject *first = NULL;
    n += kwnames != NULL ? PyTuple_Size(kwnames) : 0;
    const dls_plan *as_is = data->as_is;
    const PyTypeObject *type = as_is != NULL ? as_is->type : NULL;
    for (Py_ssize_t i = data->as_method == NULL; i < n; i++) {
        if (Py_TYPE(args[i]) == type) {
            first = first != NULL ? first : args[i];
        }
        else if (!is_simple(args[i])) {
            return call_looking(self, args, nargsf, kwnames);
        }
    }
    PyObject *result = dls_compat.PyObject_Vectorcall(data->function, args, nargsf,
                                                      kwnames);
    return first == NULL ? result : finish(data, result, first, args, args, n);
}

static PyObject *
call_with_options(PyObject *self, PyObject *const *args, size_t nargsf,
                  PyObject *kwnames)
{
    return call_in_full(data_of(self), args,
                        (Py_ssize_t)(nargsf & ~DLS_VECTORCALL_OFFSET), kwnames);
}

/* With a tuple, for those who know no vectorcall. */
static PyObject *
call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    const kernel *data = data_of(self);
    PyObject *skip = PyLong_FromLong(data->as_method == NULL);
    PyObject *keywords = kwargs != NULL ? Py_NewRef(kwargs) : PyDict_New();
    PyObject *result = NULL;
    if (skip != NULL && keywords != NULL) {
        result = PyObject_CallFunctionObjArgs(data->in_full, skip, args, keywords,
                                              NULL);
    }
    Py_XDECREF(skip);
    Py_XDECREF(keywords);
    return result;
}

/* A bound method, as of a function: Python's own type of methods, which is that of
 * in_full. */
static PyObject *
bind(PyObject *self, PyObject *obj, PyObject *DLS_UNUSED(type))
{
    const kernel *data = data_of(self);
    PyObject *callable = data->as_method != NULL ? data->as_method : self;
    if (obj == NULL || data->in_full == Py_None) {
        return Py_NewRef(self);
    }
    return PyObject_CallFunctionObjArgs((PyObject *)Py_TYPE(data->in_full), callable,
                                        obj, NULL);
}

/* --- what is shown -------------------------------------------------------- */

static PyObject *
repr(PyObject *self)
{
    return PyUnicode_FromFormat("<dlshim.kernel of %R>", data_of(self)->function);
}

/* shim/kernels.py: reduce(self, Calls) */
static PyObject *
reduce(PyObject *self, PyObject *DLS_UNUSED(ignored))
{
    const kernel *data = data_of(self);
    PyObject *calls = PyObject_GetAttrString(data->in_full, "__self__");
    PyObject *result = NULL;
    if (calls != NULL) {
        result = dls_in_python(data->state, DLS_IN_KERNELS, "reduce", self, &calls, 1,
                               NULL);
        Py_DECREF(calls);
    }
    return result;
}

/* --- making one ------------------------------------------------------------- */

static PyObject *
kernel_new(dls_state *state, PyObject *const *args, bool is_plain, PyObject *dict)
{
    PyObject *self = DLS_NEW(kernel, state->kernel_type);
    if (self != NULL) {
        kernel *data = data_of(self);
        data->call = is_plain ? call_usual : call_with_options;
        data->state = state;
        data->keeps = Py_NewRef((PyObject *)state->tensor_type);
        data->function = Py_NewRef(args[0]);
        data->in_full = Py_NewRef(args[1]);
        data->bring_home = Py_NewRef(args[2]);
        data->as_method = NULL;
        data->dict = Py_NewRef(dict);
        data->weakrefs = NULL;
        data->as_is = NULL;
        PyObject_GC_Track(self);
    }
    return self;
}

/* _kernel(function, in_full, bring_home, is_plain) */
static PyObject *
make(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    if (n != 4) {
        return PyErr_Format(PyExc_TypeError, "_kernel takes 4 arguments");
    }
    dls_state *state = dls_state_of(module);
    PyObject *dict = PyDict_New(), *self = NULL, *as_method = NULL;
    if (dict != NULL) {
        as_method = kernel_new(state, args, args[3] == Py_True, dict);
    }
    if (as_method != NULL) {
        self = kernel_new(state, args, args[3] == Py_True, dict);
    }
    if (self != NULL) {
        data_of(self)->as_method = Py_NewRef(as_method);
    }
    Py_XDECREF(as_method);
    Py_XDECREF(dict);
    return self;
}

PyMethodDef dls_kernel_functions[] = {
    {"_kernel", DLS_FASTCALL(make), METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

/* --- the type ------------------------------------------------------------- */

static int
traverse(PyObject *self, visitproc visit, void *arg)
{
    const kernel *data = data_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(data->keeps);
    Py_VISIT(data->function);
    Py_VISIT(data->in_full);
    Py_VISIT(data->bring_home);
    Py_VISIT(data->as_method);
    Py_VISIT(data->dict);
    return 0;
}

static int
clear(PyObject *self)
{
    kernel *data = data_of(self);
    const kernel old = *data;
    /* A finaliser may still call it: None is no function. */
    data->function = Py_NewRef(Py_None);
    data->in_full = Py_NewRef(Py_None);
    data->bring_home = Py_NewRef(Py_None);
    data->dict = NULL;
    Py_DECREF(old.function);
    Py_DECREF(old.in_full);
    Py_DECREF(old.bring_home);
    Py_XDECREF(old.dict);
    return 0;
}

static void
dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    kernel *data = data_of(self);
    PyObject_GC_UnTrack(self);
    if (data->weakrefs != NULL) {
        PyObject_ClearWeakRefs(self);
    }
    Py_DECREF(data->function);
    Py_DECREF(data->in_full);
    Py_DECREF(data->bring_home);
    Py_XDECREF(data->as_method);
    Py_XDECREF(data->dict);
    dls_plan_drop(data->as_is);
    Py_DECREF(data->keeps);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyGetSetDef attributes[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(kernel, call), READONLY | DLS_MEMBER,
     NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(kernel, dict), READONLY | DLS_MEMBER, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(kernel, weakrefs),
     READONLY | DLS_MEMBER, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, dealloc},   {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},       {Py_tp_repr, repr},
    {Py_tp_call, call},         {Py_tp_descr_get, bind},
    {Py_tp_getset, attributes}, {Py_tp_methods, methods},
    {Py_tp_members, members},   {0, NULL},
};

enum { HAVE_VECTORCALL = 1 << 11 }; /* the headers of the floor lack the name */

PyType_Spec dls_kernel_spec = {
    .name = "dlshim._core.Kernel",
    .basicsize = DLS_BASICSIZE(kernel),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION
             | Py_TPFLAGS_IMMUTABLETYPE | HAVE_VECTORCALL,
    .slots = slots,
};
