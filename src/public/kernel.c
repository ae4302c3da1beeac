/* The callables that dlshim.kernel makes: array arguments go in upgraded (K2, K3).
 * Calls with types that were not met, columns, tables and containers other than lists
 * and tuples of arrays go to shim/kernels.py, and so do results that must be brought
 * home.  A call is hot.  Tests: tests/core/test_kernel.py. */
#include "public/kernel.h"

#include <stddef.h>
#include <string.h>

#include "core/alloc.h"
#include "exchange/objects.h"
#include "public/functions.h"
#include "public/producer.h"
#include "python/errors.h"
#include "request/options.h"
#include "request/request.h"
#include "types/offers.h"
#include "types/plan_cache.h"

#include <structmember.h>

typedef PyObject *(*vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);

/* Values of takes=: what stands for an array. */
typedef enum {
    TAKES_PRODUCER,
    TAKES_TENSOR,
    TAKES_CAPSULE,
    TAKES_CAPSULE_1,
    TAKES_IMPORTED /* an array of a library that the user has named */
} kernel_takes;

/* What dlshim.kernel was told of a function (shim/kernels.py has checked it). */
typedef struct {
    kernel_takes takes;
    dls_options *options; /* of upgrade, for each array; owned, NULL: none */
    dls_options *look;    /* the same for a look at memory that is written; owned */
    PyTypeObject *home;   /* like=: the class of Producers; strong, NULL: not given */
    PyObject *of_results; /* the type of arrays that are home already; strong, NULL:
                           * that of the first array */
    bool stay;            /* returns=None: results are left as they are */
    bool all_written;     /* writes=True */
    uint64_t written;     /* bit i: the function writes argument i */
    PyObject *names;      /* ... and keyword arguments of these names; strong, a set */
} kernel_said;

typedef struct {
    DLS_HEAD
    vectorcall call; /* what CPython calls in the place of tp_call */
    dls_state *state;
    PyObject *keeps;    /* the type Tensor, which keeps the state; strong */
    PyObject *function; /* strong; None after tp_clear, as the next two */
    PyObject *calls;    /* shim/kernels.py: Calls, for what is left to Python; strong */
    PyObject *in_full;  /* a bound method of it; strong */
    PyObject *as_method; /* the same callable for bound methods, whose first argument
                          * is none (K8); strong, NULL: it is that one itself */
    PyObject *dict;      /* shared with as_method; strong */
    PyObject *weakrefs;
    kernel_said said; /* of as_method too; its objects are this one's own references */
    /* The plan of the first type whose arrays went in as they are; counted, NULL: none
     * yet.  It is set once, so that any thread may look at its type. */
    DLS_ATOMIC(dls_plan *) as_is;
} kernel;

static kernel *
data_of(PyObject *self)
{
    return DLS_DATA(kernel, self);
}

/* --- one call --------------------------------------------------------------- */

/* Arguments and pairs for which a call needs no memory. */
enum { ROOM = 8 };

/* An argument, or an item of one, and what the function is given for it, which may be
 * the same object.  Strong: a list may change meanwhile. */
typedef struct {
    PyObject *own, *made;
} pair;

typedef struct {
    kernel *data;
    bool is_usual;      /* arrays go in upgraded, and nothing was said of them */
    PyObject *first;    /* the first array; borrowed, NULL: none yet */
    PyTypeObject *home; /* the class of the Producers of all; NULL: not known yet */
    /* Where the object stands that is looked at now. */
    Py_ssize_t at;   /* the argument */
    PyObject *named; /* its name, if it is a keyword argument; borrowed or NULL */
    Py_ssize_t item; /* in a container; -1: it is the argument itself */
    pair room[ROOM];
    pair *pairs; /* `room`, or memory of the call's own */
    Py_ssize_t count, size;
} one_call;

static PyObject *call_usual(PyObject *self, PyObject *const *args, size_t nargsf,
                            PyObject *kwnames);

static inline void
call_begin(one_call *call, kernel *data)
{
    call->data = data;
    call->is_usual = data->call == call_usual && data->said.takes == TAKES_PRODUCER;
    call->first = NULL;
    call->home = data->said.home;
    call->pairs = call->room;
    call->count = 0;
    call->size = ROOM;
    call->item = -1;
}

static inline void
call_end(one_call *call)
{
    for (Py_ssize_t i = 0; i < call->count; i++) {
        Py_DECREF(call->pairs[i].own);
        Py_DECREF(call->pairs[i].made);
    }
    if (call->pairs != call->room) {
        dls_free(call->pairs);
    }
}

/* Room for another pair.  0, or -1 with MemoryError. */
DLS_APART static int
grow(one_call *call)
{
    pair *more = dls_alloc(2 * (size_t)call->size * sizeof *more);
    if (more == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(more, call->pairs, (size_t)call->count * sizeof *more);
    if (call->pairs != call->room) {
        dls_free(call->pairs);
    }
    call->pairs = more;
    call->size *= 2;
    return 0;
}

/* Remember what stands for an object.  Steals `made` (NULL: an exception is pending),
 * on failure too.  1, or -1 with an exception. */
static inline int
add_pair(one_call *call, PyObject *own, PyObject *made)
{
    if (made == NULL) {
        return -1;
    }
    if (call->count == call->size && grow(call) < 0) {
        Py_DECREF(made);
        return -1;
    }
    call->pairs[call->count++] = (pair){Py_NewRef(own), made};
    return 1;
}

/* --- arguments -------------------------------------------------------------- */

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

/* Is a type that was not met yet that of an array, a column or a table?  Columns of
 * pandas (C12) have to_numpy() alone.  1, 0, or -1 with an exception. */
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

static const dl_exchange_api *
allocating(const dl_exchange_api *table)
{
    return table != NULL && table->managed_tensor_allocator != NULL ? table : NULL;
}

/* Call a method of Calls with the place of the argument that is looked at now, and an
 * object (stolen).  The result, or NULL with an exception. */
DLS_APART static PyObject *
ask_calls(const one_call *call, const char *method, PyObject *x)
{
    PyObject *place = call->named != NULL ? Py_NewRef(call->named)
                                          : PyLong_FromSsize_t(call->at);
    PyObject *item = PyLong_FromSsize_t(call->item);
    PyObject *function = PyObject_GetAttrString(call->data->calls, method);
    PyObject *result = NULL;
    if (place != NULL && item != NULL && function != NULL) {
        result = PyObject_CallFunctionObjArgs(function, place, item, x, NULL);
    }
    Py_XDECREF(place);
    Py_XDECREF(item);
    Py_XDECREF(function);
    Py_DECREF(x);
    return result;
}

/* The pending exception gets the place of the argument that is looked at now: -1. */
DLS_APART static int
tell_place(const one_call *call)
{
    if (!dls_error_is_fatal()) {
        Py_XDECREF(ask_calls(call, "fail", dls_error_take()));
    }
    return -1;
}

/* Does the function write the argument that is looked at now?  1, 0, or -1 with an
 * exception. */
static inline int
is_written(const one_call *call)
{
    const kernel_said *said = &call->data->said;
    if (said->all_written) {
        return 1;
    }
    if (call->named == NULL && call->at < 64) {
        return (said->written >> call->at & 1) != 0;
    }
    PyObject *key = call->named != NULL ? Py_NewRef(call->named)
                                        : PyLong_FromSsize_t(call->at);
    int found = -1;
    if (key != NULL) {
        found = said->names != NULL ? PySet_Contains(said->names, key) : 0;
        Py_DECREF(key);
    }
    return found;
}

/* A copy of options, the caller's.  0, or -1 with MemoryError. */
static inline int
copy_options(const one_call *call, const dls_options *options, dls_options **copy)
{
    *copy = NULL;
    return options == NULL ? 0
                           : dls_options_merge(call->data->state, options, NULL, copy);
}

/* Refuse an argument in which nothing can be written, or not so that it is seen (K5).
 * 0, or -1 with BufferError. */
DLS_APART static int
look_at_written(const one_call *call, PyObject *x, dls_plan *plan)
{
    PyObject *tensor = NULL;
    dls_options *options = NULL;
    /* Where the object shows that it is host memory, no stream need be named. */
    bool is_bare = call->data->said.options == NULL && plan != NULL;
    int host = is_bare ? dls_host_is_known(plan, x) : 0;
    if (host > 0) {
        tensor = dls_tensor_plainly(call->data->state, dls_plan_share(plan), x);
    }
    else if (host == 0 && copy_options(call, call->data->said.look, &options) == 0) {
        tensor = dls_tensor_with(call->data->state, x, options);
    }
    if (tensor == NULL) {
        return tell_place(call);
    }
    uint64_t flags = dls_tensor_data(tensor)->flags;
    Py_DECREF(tensor);
    if ((flags & (DL_FLAG_READ_ONLY | DL_FLAG_IS_COPIED)) == 0) {
        return 0;
    }
    PyObject *refused = ask_calls(call, "refuse_written", Py_NewRef(x));
    Py_XDECREF(refused);
    return refused != NULL ? 0 : -1;
}

/* What stands for an array; a new reference.  plan: of x, a count that is stolen; NULL:
 * x is an object of ours.  NULL with an exception. */
static inline PyObject *
make(const one_call *call, PyObject *x, dls_plan *plan)
{
    dls_state *state = call->data->state;
    const kernel_said *said = &call->data->said;
    if (said->takes == TAKES_PRODUCER && said->options == NULL && plan != NULL) {
        return dls_producer_new_of(state, call->home, x, plan, NULL);
    }
    if (said->takes == TAKES_TENSOR && said->options == NULL && plan != NULL) {
        return dls_tensor_plainly(state, plan, x);
    }
    dls_plan_drop(plan);
    if (said->takes == TAKES_IMPORTED) {
        return ask_calls(call, "imported", Py_NewRef(x));
    }
    dls_options *options;
    if (copy_options(call, said->options, &options) < 0) {
        return NULL;
    }
    if (said->takes == TAKES_PRODUCER) {
        return dls_upgrade_into(state, call->home, x, options);
    }
    if (said->takes == TAKES_TENSOR) {
        return dls_tensor_with(state, x, options);
    }
    dls_request request;
    dls_request_init(&request, NULL);
    request.want.versioned = said->takes == TAKES_CAPSULE_1;
    request.who.asked_with = request.want.versioned ? DLS_ASK_VERSION : 0;
    return dls_capsule_with(state, x, options, &request);
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

/* Note the first array of the call, and the class of Producers of its home. */
static inline void
first_array(one_call *call, PyObject *x, PyTypeObject *home)
{
    if (call->first == NULL) {
        call->first = x;
        call->home = call->home != NULL ? call->home : home;
    }
}

/* An array goes in.  *passed becomes what the function is given; borrowed.  source: x,
 * or that of a Producer; as_is: its library's own users pass it so; plan: as for make.
 * 1, or -1 with an exception. */
DLS_APART static int
give_array(one_call *call, PyObject *x, PyObject *source, PyTypeObject *home,
           bool as_is, dls_plan *plan, PyObject **passed)
{
    const kernel_said *said = &call->data->said;
    first_array(call, source, home);
    bool any = said->written != 0 || said->names != NULL;
    int written = any ? is_written(call) : 0;
    if (written < 0 || (written > 0 && look_at_written(call, x, plan) < 0)) {
        dls_plan_drop(plan);
        return -1;
    }
    if (as_is && home == call->home && said->takes == TAKES_PRODUCER
        && said->options == NULL) {
        dls_plan_drop(plan);
        return add_pair(call, x, Py_NewRef(x));
    }
    bool imports = said->takes == TAKES_IMPORTED && plan != NULL;
    dls_plan *kept = imports ? dls_plan_share(plan) : NULL;
    *passed = make(call, x, plan);
    int code = *passed != NULL ? add_pair(call, x, *passed) : tell_place(call);
    if (kept != NULL && *passed == x && said->options == NULL) {
        remember(call->data, kept);
    }
    else {
        dls_plan_drop(kept);
    }
    return code;
}

/* A Producer or a Tensor of ours. */
static int
give_ours(one_call *call, PyObject *x, PyObject **passed)
{
    const dls_state *state = call->data->state;
    if (Py_TYPE(x) == state->tensor_type) {
        return give_array(call, x, x, state->producer_type, true, NULL, passed);
    }
    return give_array(call, x, dls_producer_data(x)->source, Py_TYPE(x), true, NULL,
                      passed);
}

/* --- containers ------------------------------------------------------------- */

static inline bool
is_container(PyObject *x)
{
    return Py_TYPE(x) == &PyList_Type || Py_TYPE(x) == &PyDict_Type || PyTuple_Check(x);
}

/* The contents of a container at this moment, a new tuple or list; NULL with an
 * exception. */
static PyObject *
contents(PyObject *x)
{
    return Py_TYPE(x) == &PyDict_Type ? PyDict_Values(x) : PySequence_List(x);
}

/* Are all contents simple, or containers of such, `depth` containers deep?  1, 0, or -1
 * with an exception. */
static int
holds_no_object(PyObject *x, int depth)
{
    PyObject *items = contents(x);
    int code = items != NULL ? 1 : -1;
    Py_ssize_t n = items != NULL ? PyList_Size(items) : 0;
    for (Py_ssize_t i = 0; i < n && code > 0; i++) {
        PyObject *item = PyList_GetItem(items, i);
        if (!is_simple(item)) {
            code = depth > 1 && is_container(item) ? holds_no_object(item, depth - 1)
                                                   : 0;
        }
    }
    Py_XDECREF(items);
    return code;
}

enum { DEPTH = 3 }; /* deeper containers are left to Python */

static int give_container(one_call *call, PyObject *x, PyObject **passed);

/* What give_object gives for what is no array of a type that was met.  plan: of x, a
 * count that is stolen, or NULL. */
DLS_APART static int
give_other(one_call *call, PyObject *x, dls_plan *plan, PyObject **passed)
{
    const dls_state *state = call->data->state;
    if (plan != NULL) {
        bool left = is_of_arrow(plan);
        dls_plan_drop(plan);
        return !left;
    }
    if (is_container(x)) {
        return call->item < 0 ? give_container(call, x, passed)
                              : holds_no_object(x, DEPTH - 1);
    }
    if (Py_TYPE(x) == state->tensor_type
        || PyObject_TypeCheck(x, state->producer_type)) {
        return give_ours(call, x, passed);
    }
    int offers = type_offers(call->data->state, Py_TYPE(x));
    return offers < 0 ? -1 : offers == 0;
}

/* An argument, or an item of one.  1: *passed is what the function is given, borrowed;
 * 0: the call is left to Python, which meets types first, and knows columns, tables and
 * deep containers; -1 with an exception. */
DLS_INLINE int
give_object(one_call *call, PyObject *x, PyObject **passed)
{
    dls_plan *plan = dls_plan_known(call->data->state, x);
    if (plan == NULL || !is_array(plan)) {
        return give_other(call, x, plan, passed);
    }
    PyTypeObject *home = plan->producer_type;
    if (home == NULL) { /* not asked for yet, or it could not be: Python says why */
        dls_plan_drop(plan);
        return 0;
    }
    bool as_is = allocating(plan->table) != NULL;
    if (call->is_usual && !as_is) { /* most calls of a kernel */
        first_array(call, x, home);
        *passed = dls_producer_new_of(call->data->state, call->home, x, plan, NULL);
        return add_pair(call, x, *passed);
    }
    return give_array(call, x, x, home, as_is, plan, passed);
}

/* As give_object, for the items of a list or a tuple, which was read once, for
 * what runs meanwhile may change it (K3).  *made becomes a list of what the function is
 * given, strong; NULL: the items are given as they are. */
static int
give_items(one_call *call, PyObject *items, PyObject **made)
{
    int code = 1;
    Py_ssize_t n = PyList_Size(items);
    for (Py_ssize_t i = 0; i < n && code > 0; i++) {
        PyObject *item = PyList_GetItem(items, i), *given = item;
        if (is_simple(item)) {
            continue;
        }
        call->item = i;
        code = give_object(call, item, &given);
        if (code > 0 && given != item) {
            *made = *made != NULL ? *made : PySequence_List(items);
            bool failed = *made == NULL
                          || PyList_SetItem(*made, i, Py_NewRef(given)) < 0;
            code = failed ? -1 : 1;
        }
    }
    call->item = -1;
    return code;
}

/* As give_object, for a container that is an argument. */
static int
give_container(one_call *call, PyObject *x, PyObject **passed)
{
    if (Py_TYPE(x) != &PyList_Type && Py_TYPE(x) != &PyTuple_Type) {
        return holds_no_object(x, DEPTH);
    }
    for (Py_ssize_t i = 0; i < call->count; i++) {
        if (call->pairs[i].own == x) {
            *passed = call->pairs[i].made; /* one container at two places stays one */
            int written = is_written(
                call); /* ... whose arrays are looked at in Python */
            if (written == 0) {
                return 1;
            }
            return written > 0 ? 0 : -1;
        }
    }
    PyObject *items = contents(x), *made = NULL;
    int code = items != NULL ? give_items(call, items, &made) : -1;
    if (code > 0 && made != NULL) {
        *passed = Py_TYPE(x) == &PyList_Type ? Py_NewRef(made) : PyList_AsTuple(made);
        code = add_pair(call, x, *passed);
    }
    Py_XDECREF(made);
    Py_XDECREF(items);
    return code;
}

/* --- calls ------------------------------------------------------------------ */

static PyObject *
tuple_of(PyObject *const *items, Py_ssize_t n)
{
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple != NULL && i < n; i++) {
        PyTuple_SetItem(tuple, i, Py_NewRef(items[i]));
    }
    return tuple;
}

/* Call the function in Python.  pairs: what was made of arrays already. */
DLS_APART static PyObject *
call_in_full(const kernel *data, PyObject *const *args, Py_ssize_t n, PyObject *kwnames,
             const pair *pairs, Py_ssize_t count)
{
    PyObject *keywords = PyDict_New(), *result = NULL;
    PyObject *positional = tuple_of(args, n);
    PyObject *skip = PyLong_FromLong(data->as_method == NULL);
    PyObject *made = PyTuple_New(count);
    bool all = keywords != NULL && positional != NULL && skip != NULL && made != NULL;
    int code = all ? 0 : -1;
    for (Py_ssize_t i = 0; code == 0 && i < count; i++) {
        PyObject *both = PyTuple_Pack(2, pairs[i].own, pairs[i].made);
        code = both != NULL ? PyTuple_SetItem(made, i, both) : -1;
    }
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
 * was given may be given back: that of the pairs, or (NULL) the arguments as they are.
 */
DLS_APART static PyObject *
bring_home(const kernel *data, PyObject *result, PyObject *first, const pair *pairs,
           PyObject *const *args, Py_ssize_t count)
{
    PyObject *own = PyTuple_New(count), *made = PyTuple_New(count), *home = NULL;
    for (Py_ssize_t i = 0; own != NULL && made != NULL && i < count; i++) {
        PyTuple_SetItem(own, i, Py_NewRef(pairs != NULL ? pairs[i].own : args[i]));
        PyTuple_SetItem(made, i, Py_NewRef(pairs != NULL ? pairs[i].made : args[i]));
    }
    PyObject *function = PyObject_GetAttrString(data->calls, "bring_home");
    if (own != NULL && made != NULL && function != NULL) {
        home = PyObject_CallFunctionObjArgs(
            function, result, first != NULL ? first : Py_None, own, made, NULL);
    }
    Py_XDECREF(function);
    Py_XDECREF(own);
    Py_XDECREF(made);
    Py_DECREF(result);
    return home;
}

/* The result (stolen) of a call.  Most results need nothing.  first: the first array;
 * NULL: there was none. */
static inline PyObject *
finish(const kernel *data, PyObject *result, PyObject *first, const pair *pairs,
       PyObject *const *args, Py_ssize_t count)
{
    if (result == NULL || is_simple(result)) {
        return result;
    }
    const kernel_said *said = &data->said;
    PyObject *type = said->of_results;
    if (type == NULL && first != NULL) {
        type = (PyObject *)Py_TYPE(first);
    }
    bool is_done = type == NULL || said->stay || (PyObject *)Py_TYPE(result) == type;
    return is_done ? result : bring_home(data, result, first, pairs, args, count);
}

/* The object of a method is no argument (K8), and may be given back. */
static inline int
give_object_of_method(one_call *call, PyObject *self, PyObject **passed)
{
    *passed = self;
    return add_pair(call, self, Py_NewRef(self));
}

/* A call with an argument that is not passed as it is. */
DLS_APART static PyObject *
call_upgraded(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    kernel *data = data_of(self);
    Py_ssize_t n = (Py_ssize_t)(nargsf & ~DLS_VECTORCALL_OFFSET);
    Py_ssize_t all = n + (kwnames != NULL ? PyTuple_Size(kwnames) : 0);
    Py_ssize_t skip = data->as_method == NULL && n > 0;
    PyObject *stack[1 + ROOM], **room = stack;
    if (all > ROOM) {
        room = dls_alloc((size_t)(all + 1) * sizeof *room);
        if (room == NULL) {
            return PyErr_NoMemory();
        }
    }
    PyObject *result = NULL, **passed = room + 1;
    one_call call;
    call_begin(&call, data);
    int given = skip > 0 ? give_object_of_method(&call, args[0], passed) : 1;
    for (Py_ssize_t i = skip; i < all && given > 0; i++) {
        passed[i] = args[i];
        if (!is_simple(args[i])) {
            call.at = i;
            call.named = i < n ? NULL : PyTuple_GetItem(kwnames, i - n);
            given = give_object(&call, args[i], &passed[i]);
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
    call_end(&call);
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
    kernel *data = data_of(self);
    Py_ssize_t n = (Py_ssize_t)(nargsf & ~DLS_VECTORCALL_OFFSET);
    PyObject *first = NULL;
    const dl_exchange_api *table = NULL;
    n += kwnames != NULL ? PyTuple_Size(kwnames) : 0;
    for (Py_ssize_t i = data->as_method == NULL; i < n; i++) {
        if (is_simple(args[i])
            || (first != NULL && Py_TYPE(args[i]) == Py_TYPE(first))) {
            continue;
        }
        dls_plan *plan = dls_plan_known(data->state, args[i]);
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
    return finish(data, result, first, NULL, args, n);
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
            return (data->said.takes == TAKES_PRODUCER ? call_looking : call_upgraded)(
                self, args, nargsf, kwnames);
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
    return dls_in_python(data->state, DLS_IN_KERNELS, "reduce", self, &data->calls, 1,
                         NULL);
}

/* --- making one ------------------------------------------------------------- */

static void
said_clear(kernel_said *said)
{
    dls_options_free(said->options);
    dls_options_free(said->look);
    Py_XDECREF((PyObject *)said->home);
    Py_XDECREF(said->of_results);
    Py_XDECREF(said->names);
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

/* What Calls says.  0, or -1 with an exception; said_clear ends it in both cases. */
static int
said_read(dls_state *state, PyObject *calls, kernel_said *said)
{
    uint64_t kind = 0, stay = 0, all_written = 0;
    *said = (kernel_said){0};
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
    said->takes = (kernel_takes)kind;
    said->stay = stay != 0;
    said->all_written = all_written != 0;
    return code;
}

/* A kernel; as_method NULL: the one for bound methods. */
static PyObject *
kernel_new(dls_state *state, PyObject *function, PyObject *calls, PyObject *dict,
           PyObject *as_method)
{
    PyObject *self = DLS_NEW(kernel, state->kernel_type);
    if (self == NULL) {
        return NULL;
    }
    kernel *data = data_of(self);
    data->state = state;
    data->keeps = Py_NewRef((PyObject *)state->tensor_type);
    data->function = Py_NewRef(function);
    data->calls = Py_NewRef(calls);
    data->as_method = Py_XNewRef(as_method);
    data->dict = Py_NewRef(dict);
    data->weakrefs = NULL;
    data->as_is = NULL;
    data->in_full = PyObject_GetAttrString(calls, "in_full");
    int code = said_read(state, calls, &data->said);
    bool short_roads = data->said.options == NULL && data->said.written == 0
                       && data->said.names == NULL
                       && (data->said.takes == TAKES_PRODUCER
                           || data->said.takes == TAKES_IMPORTED);
    data->call = short_roads ? call_usual : call_upgraded;
    PyObject_GC_Track(self);
    if (code < 0 || data->in_full == NULL) {
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

PyMethodDef dls_kernel_functions[] = {
    {"_kernel", DLS_FASTCALL(make_kernel), METH_FASTCALL, NULL},
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
    Py_VISIT(data->calls);
    Py_VISIT(data->in_full);
    Py_VISIT(data->as_method);
    Py_VISIT(data->dict);
    Py_VISIT((PyObject *)data->said.home);
    Py_VISIT(data->said.of_results);
    Py_VISIT(data->said.names);
    int stop = dls_options_visit(data->said.options, visit, arg);
    return stop != 0 ? stop : dls_options_visit(data->said.look, visit, arg);
}

static int
clear(PyObject *self)
{
    kernel *data = data_of(self);
    kernel old = *data;
    /* A finaliser may still call it: None is no function. */
    data->function = Py_NewRef(Py_None);
    data->calls = Py_NewRef(Py_None);
    data->in_full = Py_NewRef(Py_None);
    data->dict = NULL;
    data->said = (kernel_said){0};
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
    kernel *data = data_of(self);
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
