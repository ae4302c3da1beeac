/* The callables that dlshim.kernel makes: their calls, and their type (K2, K4).
 * Calls with types that were not met, columns, tables and containers other than lists
 * and tuples of arrays go to shim/kernels.py, and so do results that must be brought
 * home.  A call is hot.  Tests: tests/core/test_kernel.py. */
#include "public/kernel.h"

#include <stddef.h>

#include "exchange/objects.h"
#include "public/kernel_arguments.h"
#include "python/errors.h"
#include "types/plan_cache.h"

#include <structmember.h>

static dls_kernel *
data_of(PyObject *self)
{
    return DLS_DATA(dls_kernel, self);
}

/* --- calls ------------------------------------------------------------------ */

static PyObject *call_usual(PyObject *self, PyObject *const *args, size_t nargsf,
                            PyObject *kwnames);

static inline void
call_begin(dls_kernel_call *call, dls_kernel *data)
{
    call->data = data;
    call->is_usual = data->call == call_usual && data->said.takes == DLS_TAKES_PRODUCER;
    call->first = NULL;
    call->home = data->said.home;
    call->pairs = call->room;
    call->count = 0;
    call->size = DLS_KERNEL_ROOM;
    call->item = -1;
}

/* An answer that was looked at is for this call: a Producer that the function has kept
 * asks its source anew. */
DLS_APART static void
forget_answers(const dls_kernel_call *call)
{
    for (Py_ssize_t i = 0; i < call->count; i++) {
        PyObject *made = call->pairs[i].made;
        bool is_kept = made != call->pairs[i].own && !dls_is_unshared(made)
                       && PyObject_TypeCheck(made, call->data->state->producer_type);
        PyObject *answer = is_kept ? dls_producer_take_answer(dls_producer_data(made))
                                   : NULL;
        if (answer != NULL) {
            dls_drop_foreign(answer);
        }
    }
}

/* What was made is given back; the code of others that runs then leaves a pending
 * exception as it is (T9). */
static inline void
call_end(dls_kernel_call *call, bool has_failed)
{
    PyObject *error = has_failed ? dls_error_take() : NULL;
    if (call->data->said.is_checked) {
        forget_answers(call);
    }
    for (Py_ssize_t i = 0; i < call->count; i++) {
        Py_DECREF(call->pairs[i].own);
        Py_DECREF(call->pairs[i].made);
    }
    if (call->pairs != call->room) {
        dls_free(call->pairs);
    }
    if (has_failed) {
        dls_error_restore(error);
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

/* The pairs as a tuple of tuples (own, made), a new reference; pairs NULL: the objects
 * `args` were passed as they are.  NULL with an exception. */
static PyObject *
tuple_of_pairs(const dls_kernel_pair *pairs, PyObject *const *args, Py_ssize_t count)
{
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; tuple != NULL && i < count; i++) {
        PyObject *own = pairs != NULL ? pairs[i].own : args[i];
        PyObject *both = PyTuple_Pack(2, own, pairs != NULL ? pairs[i].made : own);
        if (both == NULL || PyTuple_SetItem(tuple, i, both) < 0) {
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

/* Call the function in Python.  pairs: what was made of arrays already. */
DLS_APART static PyObject *
call_in_full(const dls_kernel *data, PyObject *const *args, Py_ssize_t n,
             PyObject *kwnames, const dls_kernel_pair *pairs, Py_ssize_t count)
{
    PyObject *keywords = PyDict_New(), *result = NULL;
    PyObject *positional = tuple_of(args, n);
    PyObject *skip = PyLong_FromLong(data->as_method == NULL);
    PyObject *made = tuple_of_pairs(pairs, NULL, count);
    bool all = keywords != NULL && positional != NULL && skip != NULL && made != NULL;
    int code = all ? 0 : -1;
    Py_ssize_t named = kwnames != NULL ? PyTuple_Size(kwnames) : 0;
    for (Py_ssize_t i = 0; code == 0 && i < named; i++) {
        code = PyDict_SetItem(keywords, PyTuple_GetItem(kwnames, i), args[n + i]);
    }
    if (code == 0) {
        result = PyObject_CallFunctionObjArgs(data->in_full, skip, positional, keywords,
                                              made, NULL);
    }
    Py_XDECREF(skip);
    Py_XDECREF(positional);
    Py_XDECREF(keywords);
    Py_XDECREF(made);
    return result;
}

/* The result (stolen) with its arrays of the caller's library (K4).  What the function
 * was given may be given back: pairs and args as of tuple_of_pairs. */
DLS_APART static PyObject *
bring_home(const dls_kernel *data, PyObject *result, PyObject *first,
           const dls_kernel_pair *pairs, PyObject *const *args, Py_ssize_t count)
{
    PyObject *given = tuple_of_pairs(pairs, args, count), *home = NULL;
    PyObject *function = PyObject_GetAttrString(data->calls, "bring_home");
    if (given != NULL && function != NULL) {
        home = PyObject_CallFunctionObjArgs(
            function, result, first != NULL ? first : Py_None, given, NULL);
    }
    Py_XDECREF(function);
    Py_XDECREF(given);
    Py_DECREF(result);
    return home;
}

/* The result (stolen) of a call.  Most results need nothing.  first: the first array;
 * NULL: there was none. */
static inline PyObject *
finish(const dls_kernel *data, PyObject *result, PyObject *first,
       const dls_kernel_pair *pairs, PyObject *const *args, Py_ssize_t count)
{
    if (result == NULL || dls_kernel_is_simple(result)) {
        return result;
    }
    const dls_kernel_said *said = &data->said;
    PyObject *type = said->of_results;
    if (type == NULL && first != NULL) {
        type = (PyObject *)Py_TYPE(first);
    }
    bool is_done = type == NULL || said->stay || (PyObject *)Py_TYPE(result) == type;
    return is_done ? result : bring_home(data, result, first, pairs, args, count);
}

/* A call with an argument that is not passed as it is. */
DLS_APART static PyObject *
call_upgraded(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    dls_kernel *data = data_of(self);
    Py_ssize_t n = (Py_ssize_t)(nargsf & ~DLS_VECTORCALL_OFFSET);
    Py_ssize_t all = n + (kwnames != NULL ? PyTuple_Size(kwnames) : 0);
    Py_ssize_t skip = data->as_method == NULL && n > 0;
    PyObject *stack[1 + DLS_KERNEL_ROOM], **room = stack;
    if (all > DLS_KERNEL_ROOM) {
        room = dls_alloc((size_t)(all + 1) * sizeof *room);
        if (room == NULL) {
            return PyErr_NoMemory();
        }
    }
    PyObject *result = NULL, **passed = room + 1;
    dls_kernel_call call;
    call_begin(&call, data);
    int given = skip > 0 ? dls_kernel_give_self(&call, args[0], passed) : 1;
    for (Py_ssize_t i = skip; i < all && given > 0; i++) {
        passed[i] = args[i];
        if (!dls_kernel_is_simple(args[i])) {
            call.at = i;
            call.named = i < n ? NULL : PyTuple_GetItem(kwnames, i - n);
            given = dls_kernel_give(&call, args[i], &passed[i]);
        }
    }
    if (given > 0) {
        size_t flagged = (size_t)n | DLS_VECTORCALL_OFFSET;
        result = dls_compat.PyObject_Vectorcall(data->function, passed, flagged,
                                                kwnames);
        result = finish(data, result, call.first, call.pairs, NULL, call.count);
    }
    else if (given == 0) {
        result = call_in_full(data, args, n, kwnames, call.pairs + skip,
                              call.count - skip);
    }
    call_end(&call, result == NULL);
    if (room != stack) {
        dls_free(room);
    }
    return result;
}

/* A call with arguments of other types than the remembered one.  First it looks whether
 * all are passed as they are: those of a library with a C table are. */
DLS_APART static PyObject *
call_looking(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    dls_kernel *data = data_of(self);
    Py_ssize_t n = (Py_ssize_t)(nargsf & ~DLS_VECTORCALL_OFFSET);
    PyObject *first = NULL;
    const dl_exchange_api *table = NULL;
    n += kwnames != NULL ? PyTuple_Size(kwnames) : 0;
    for (Py_ssize_t i = data->as_method == NULL; i < n; i++) {
        if (dls_kernel_is_simple(args[i])
            || (first != NULL && Py_TYPE(args[i]) == Py_TYPE(first))) {
            continue;
        }
        dls_plan *plan = dls_plan_known(data->state, args[i]);
        bool fits = plan != NULL && (first == NULL || plan->table == table);
        table = fits ? dls_kernel_allocating(plan->table) : NULL;
        first = first != NULL ? first : args[i];
        if (table == NULL) {
            dls_plan_drop(plan);
            return call_upgraded(self, args, nargsf, kwnames);
        }
        dls_kernel_remember(data, plan);
    }
    PyObject *result = dls_compat.PyObject_Vectorcall(data->function, args, nargsf,
                                                      kwnames);
    return finish(data, result, first, NULL, args, n);
}

/* The usual call.  If all arrays are of the remembered type, they are passed.  Where
 * the end of that type was not heard of (plan_cache.h), another type may have its
 * address: its objects are passed as a bare call passes them. */
static PyObject *
call_usual(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    const dls_kernel *data = data_of(self);
    Py_ssize_t n = (Py_ssize_t)(nargsf & ~DLS_VECTORCALL_OFFSET);
    PyObject *first = NULL;
    n += kwnames != NULL ? PyTuple_Size(kwnames) : 0;
    const dls_plan *as_is = data->as_is;
    const PyTypeObject *type = as_is != NULL ? as_is->type : NULL;
    for (Py_ssize_t i = data->as_method == NULL; i < n; i++) {
        if (Py_TYPE(args[i]) == type) {
            first = first != NULL ? first : args[i];
        }
        else if (!dls_kernel_is_simple(args[i])) {
            return (data->said.takes == DLS_TAKES_PRODUCER
                        ? call_looking
                        : call_upgraded)(self, args, nargsf, kwnames);
        }
    }
    PyObject *result = dls_compat.PyObject_Vectorcall(data->function, args, nargsf,
                                                      kwnames);
    return finish(data, result, first, NULL, args, n);
}

/* With a tuple, for those who know no vectorcall. */
static PyObject *
call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    const dls_kernel *data = data_of(self);
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
    const dls_kernel *data = data_of(self);
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
    const dls_kernel *data = data_of(self);
    return dls_in_python(data->state, DLS_IN_KERNELS, "reduce", self, &data->calls, 1,
                         NULL);
}

/* --- making one ------------------------------------------------------------- */

static void
said_clear(dls_kernel_said *said)
{
    dls_options_free(said->options);
    dls_options_free(said->look);
    Py_XDECREF((PyObject *)said->home);
    Py_XDECREF(said->of_results);
    Py_XDECREF(said->names);
    Py_XDECREF(said->wanted_names);
    for (Py_ssize_t i = 0; i < said->wanted_count; i++) {
        dls_wanted_clear(&said->wanted[i]);
    }
    dls_free(said->wanted);
}

/* *options becomes the options of a dict (stolen), the caller's.  0, or -1 with an
 * exception, also where the dict is NULL. */
static int
options_of_dict(dls_state *state, PyObject *dict, dls_options **options)
{
    PyObject *names = dict != NULL ? PySequence_Tuple(dict) : NULL;
    PyObject *values[DLS_OPTION_COUNT];
    Py_ssize_t n = names != NULL ? PyTuple_Size(names) : 0;
    int code = names != NULL ? 0 : -1;
    for (Py_ssize_t i = 0; i < n && i < DLS_OPTION_COUNT; i++) {
        values[i] = PyDict_GetItemWithError(dict, PyTuple_GetItem(names, i));
    }
    if (code == 0) {
        code = dls_options_parse(state, "kernel", names, values, NULL, options);
    }
    Py_XDECREF(names);
    Py_XDECREF(dict);
    return code;
}

/* An attribute of Calls that may be None: NULL then.  0, or -1 with an exception. */
static int
read_object(PyObject *calls, const char *name, PyObject **object)
{
    PyObject *value = PyObject_GetAttrString(calls, name);
    bool given = value != NULL && value != Py_None;
    *object = given ? Py_NewRef(value) : NULL;
    Py_XDECREF(value);
    return value != NULL ? 0 : -1;
}

/* An attribute of Calls that is a number without a sign. */
static int
read_number(PyObject *calls, const char *name, uint64_t *number)
{
    PyObject *value = PyObject_GetAttrString(calls, name);
    *number = value != NULL ? PyLong_AsUnsignedLongLong(value) : 0;
    Py_XDECREF(value);
    return PyErr_Occurred() == NULL ? 0 : -1;
}

/* What is accepted of one argument: (dtypes, ndims, host memory alone). */
static int
read_one_wanted(dls_state *state, PyObject *triple, dls_wanted *wanted)
{
    PyObject *dtypes, *ndims;
    int host;
    if (!PyArg_ParseTuple(triple, "OOp", &dtypes, &ndims, &host)
        || dls_wanted_read(state, dtypes, ndims, wanted) < 0) {
        return -1;
    }
    wanted->request.device_type = host ? 0 : DLSHIM_ANY_DEVICE;
    return 0;
}

/* The attribute `wanted` of Calls, a tuple for all arguments that are not named and for
 * each position; None: any array is accepted. */
static int
read_wanted(dls_state *state, PyObject *calls, dls_kernel_said *said)
{
    PyObject *list = NULL;
    int code = read_object(calls, "wanted", &list);
    Py_ssize_t n = list != NULL ? PyTuple_Size(list) : 0;
    if (n > 0) {
        said->wanted = dls_alloc((size_t)n * sizeof *said->wanted);
        if (said->wanted == NULL) {
            PyErr_NoMemory();
            code = -1;
        }
    }
    for (Py_ssize_t i = 0; i < n && code == 0; i++) {
        code = read_one_wanted(state, PyTuple_GetItem(list, i), &said->wanted[i]);
        said->wanted_count += code == 0;
    }
    Py_XDECREF(list);
    return code < 0 ? code : read_object(calls, "wanted_names", &said->wanted_names);
}

/* What Calls says.  0, or -1 with an exception; said_clear ends it in both cases. */
static int
said_read(dls_state *state, PyObject *calls, dls_kernel_said *said)
{
    uint64_t kind = 0, stay = 0, all_written = 0, positions = 0;
    *said = (dls_kernel_said){0};
    int code = options_of_dict(state, PyObject_GetAttrString(calls, "options"),
                               &said->options);
    code = code < 0 ? code
                    : options_of_dict(state, PyObject_GetAttrString(calls, "look"),
                                      &said->look);
    code = code < 0 ? code : read_number(calls, "kind", &kind);
    code = code < 0 ? code : read_number(calls, "stay", &stay);
    code = code < 0 ? code : read_number(calls, "all_written", &all_written);
    code = code < 0 ? code : read_number(calls, "mask", &said->written);
    code = code < 0 ? code : read_object(calls, "home_class", (PyObject **)&said->home);
    code = code < 0 ? code : read_object(calls, "of_results", &said->of_results);
    code = code < 0 ? code : read_object(calls, "written_names", &said->names);
    code = code < 0 ? code : read_number(calls, "wanted_positions", &positions);
    code = code < 0 ? code : read_wanted(state, calls, said);
    said->wanted_positions = (Py_ssize_t)positions;
    said->takes = (dls_kernel_takes)kind;
    said->stay = stay != 0;
    said->all_written = all_written != 0;
    said->is_checked = said->written != 0 || said->names != NULL
                       || said->wanted != NULL;
    return code;
}

/* A kernel; as_method NULL: the one for bound methods. */
static PyObject *
kernel_new(dls_state *state, PyObject *function, PyObject *calls, PyObject *dict,
           PyObject *as_method)
{
    PyObject *self = DLS_NEW(dls_kernel, state->kernel_type);
    if (self == NULL) {
        return NULL;
    }
    dls_kernel *data = data_of(self);
    data->state = state;
    data->keeps = Py_NewRef((PyObject *)state->tensor_type);
    data->function = Py_NewRef(function);
    data->calls = Py_NewRef(calls);
    data->as_method = Py_XNewRef(as_method);
    data->dict = Py_NewRef(dict);
    data->weakrefs = NULL;
    data->as_is = NULL;
    int code = said_read(state, calls, &data->said);
    data->in_full = code == 0 ? PyObject_GetAttrString(calls, "in_full") : NULL;
    bool short_roads = data->said.options == NULL && !data->said.is_checked
                       && (data->said.takes == DLS_TAKES_PRODUCER
                           || data->said.takes == DLS_TAKES_IMPORTED);
    data->call = short_roads ? call_usual : call_upgraded;
    PyObject_GC_Track(self);
    if (data->in_full == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    return self;
}

/* _kernel(function, calls) */
static PyObject *
make_kernel(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    if (n != 2) {
        return PyErr_Format(PyExc_TypeError, "_kernel takes 2 arguments");
    }
    dls_state *state = dls_state_of(module);
    PyObject *dict = PyDict_New(), *self = NULL, *as_method = NULL;
    if (dict != NULL) {
        as_method = kernel_new(state, args[0], args[1], dict, NULL);
    }
    if (as_method != NULL) {
        self = kernel_new(state, args[0], args[1], dict, as_method);
    }
    Py_XDECREF(as_method);
    Py_XDECREF(dict);
    return self;
}

/* _check_wanted((dtypes, ndims, host), x, tensor): refuse x, whose memory the Tensor
 * describes; without these it only reads the tuple. */
static PyObject *
check_wanted(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    dls_state *state = dls_state_of(module);
    dls_wanted wanted;
    if ((n != 1 && n != 3) || !PyTuple_Check(args[0])
        || (n == 3 && !Py_IS_TYPE(args[2], state->tensor_type))) {
        return PyErr_Format(PyExc_TypeError,
                            "_check_wanted takes a tuple, an object and its Tensor");
    }
    if (read_one_wanted(state, args[0], &wanted) < 0) {
        return NULL;
    }
    int code = 0;
    if (n == 3) {
        const dl_tensor *tensor = &dls_tensor_data(args[2])->tensor;
        code = dls_wanted_accepts(&wanted.request, tensor, 0)
                   ? 0
                   : dls_wanted_refuse(state, args[1], &wanted.request, tensor);
    }
    dls_wanted_clear(&wanted);
    return code == 0 ? Py_NewRef(Py_None) : NULL;
}

PyMethodDef dls_kernel_functions[] = {
    {"_check_wanted", DLS_FASTCALL(check_wanted), METH_FASTCALL, NULL},
    {"_kernel", DLS_FASTCALL(make_kernel), METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

/* --- the type ------------------------------------------------------------- */

static int
traverse(PyObject *self, visitproc visit, void *arg)
{
    const dls_kernel *data = data_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(data->keeps);
    Py_VISIT(data->function);
    Py_VISIT(data->calls);
    Py_VISIT(data->in_full);
    Py_VISIT(data->as_method);
    Py_VISIT(data->dict);
    Py_VISIT((PyObject *)data->said.home);
    Py_VISIT(data->said.of_results);
    Py_VISIT(data->said.names);
    Py_VISIT(data->said.wanted_names);
    int stop = dls_options_visit(data->said.options, visit, arg);
    return stop != 0 ? stop : dls_options_visit(data->said.look, visit, arg);
}

static int
clear(PyObject *self)
{
    dls_kernel *data = data_of(self);
    dls_kernel old = *data;
    /* A finaliser may still call it: None is no function. */
    data->function = Py_NewRef(Py_None);
    data->calls = Py_NewRef(Py_None);
    data->in_full = Py_NewRef(Py_None);
    data->dict = NULL;
    data->said = (dls_kernel_said){0};
    Py_DECREF(old.function);
    Py_DECREF(old.calls);
    Py_XDECREF(old.in_full);
    Py_XDECREF(old.dict);
    said_clear(&old.said);
    return 0;
}

static void
dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    dls_kernel *data = data_of(self);
    PyObject_GC_UnTrack(self);
    if (data->weakrefs != NULL) {
        PyObject_ClearWeakRefs(self);
    }
    Py_DECREF(data->function);
    Py_DECREF(data->calls);
    Py_XDECREF(data->in_full);
    Py_XDECREF(data->as_method);
    Py_XDECREF(data->dict);
    said_clear(&data->said);
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
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(dls_kernel, call),
     READONLY | DLS_MEMBER, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(dls_kernel, dict), READONLY | DLS_MEMBER,
     NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(dls_kernel, weakrefs),
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
    .basicsize = DLS_BASICSIZE(dls_kernel),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION
             | Py_TPFLAGS_IMMUTABLETYPE | HAVE_VECTORCALL,
    .slots = slots,
};
