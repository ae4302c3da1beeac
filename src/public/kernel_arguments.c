/* What an argument of a kernel becomes: what stands for an array, and for lists and
 * tuples of arrays (K2, K3, K5).  Called by public/kernel.c for each argument that is
 * no plain value.  Hot.
 * Tests: tests/core/test_kernel.py, tests/core/test_kernel_accepts.py. */
#include "public/kernel_arguments.h"

#include <string.h>

#include "exchange/objects.h"
#include "export/fast_path.h"
#include "public/functions.h"
#include "public/producer.h"
#include "python/errors.h"
#include "request/request.h"
#include "types/offers.h"
#include "types/plan_cache.h"

/* --- what stands for the objects of a call ------------------------------------ */

/* Room for another pair.  0, or -1 with MemoryError. */
DLS_APART static int
grow(dls_kernel_call *call)
{
    dls_kernel_pair *more = dls_alloc(2 * (size_t)call->size * sizeof *more);
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
add_pair(dls_kernel_call *call, PyObject *own, PyObject *made)
{
    if (made == NULL) {
        return -1;
    }
    if (call->count == call->size && grow(call) < 0) {
        Py_DECREF(made);
        return -1;
    }
    call->pairs[call->count++] = (dls_kernel_pair){Py_NewRef(own), made};
    return 1;
}

int
dls_kernel_give_self(dls_kernel_call *call, PyObject *self, PyObject **passed)
{
    *passed = self;
    return add_pair(call, self, Py_NewRef(self));
}

/* --- arguments -------------------------------------------------------------- */

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

/* Call a method of Calls with the place of the argument that is looked at now, and an
 * object (stolen).  The result, or NULL with an exception. */
DLS_APART static PyObject *
ask_calls(const dls_kernel_call *call, const char *method, PyObject *x)
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
tell_place(const dls_kernel_call *call)
{
    if (!dls_error_is_fatal()) {
        Py_XDECREF(ask_calls(call, "fail", dls_error_take()));
    }
    return -1;
}

/* Does the function write the argument that is looked at now?  1, 0, or -1 with an
 * exception. */
static inline int
is_written(const dls_kernel_call *call)
{
    const dls_kernel_said *said = &call->data->said;
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
copy_options(const dls_kernel_call *call, const dls_options *options,
             dls_options **copy)
{
    *copy = NULL;
    return options == NULL ? 0
                           : dls_options_merge(call->data->state, options, NULL, copy);
}

/* --- what is checked of an argument ----------------------------------------- */

/* What the memory of an argument is compared with. */
typedef struct {
    bool written;                 /* the function writes it (K5) */
    const dlshim_request *wanted; /* NULL: any array is accepted (K12) */
} checks;

/* What is accepted of the argument that is looked at now: in `wanted` stands first what
 * is accepted of those that were not named, then of each position, then of each name
 * without a position.  0, or -1 with an exception. */
static inline int
find_wanted(const dls_kernel_call *call, const dlshim_request **wanted)
{
    const dls_kernel_said *said = &call->data->said;
    Py_ssize_t place = call->at < said->wanted_positions ? call->at + 1 : 0;
    if (call->named != NULL) {
        PyObject *found = PyDict_GetItemWithError(said->wanted_names, call->named);
        place = found != NULL ? PyLong_AsSsize_t(found) : 0;
        if (found == NULL && PyErr_Occurred() != NULL) {
            return -1;
        }
    }
    *wanted = &said->wanted[place < said->wanted_count ? place : 0].request;
    return 0;
}

/* The checks of the argument that is looked at now.  0, or -1 with an exception. */
static inline int
find_checks(const dls_kernel_call *call, checks *of)
{
    const dls_kernel_said *said = &call->data->said;
    *of = (checks){false, NULL};
    if (said->written != 0 || said->names != NULL) {
        int written = is_written(call);
        if (written < 0) {
            return -1;
        }
        of->written = written > 0;
    }
    return said->wanted != NULL ? find_wanted(call, &of->wanted) : 0;
}

/* Refuse an argument in which nothing can be written, or not so that it is seen, or of
 * which the memory is not accepted.  0, or -1 with an exception. */
static inline int
check_memory(const dls_kernel_call *call, PyObject *x, checks of,
             const dl_tensor *tensor, uint64_t flags)
{
    if (of.written && (flags & (DL_FLAG_READ_ONLY | DL_FLAG_IS_COPIED)) != 0) {
        PyObject *refused = ask_calls(call, "refuse_written", Py_NewRef(x));
        Py_XDECREF(refused);
        if (refused == NULL) {
            return -1;
        }
    }
    if (of.wanted == NULL || dls_wanted_accepts(of.wanted, tensor, 0)) {
        return 0;
    }
    dls_wanted_refuse(call->data->state, x, of.wanted, tensor);
    return tell_place(call);
}

/* As check_memory, of the memory of a Tensor, which is stolen.  NULL: an exception. */
static int
check_tensor(const dls_kernel_call *call, PyObject *x, checks of, PyObject *tensor)
{
    if (tensor == NULL) {
        return tell_place(call);
    }
    const dls_tensor *data = dls_tensor_data(tensor);
    int code = check_memory(call, x, of, &data->tensor, data->flags);
    Py_DECREF(tensor);
    return code;
}

/* Does the C table of the type lend a view, which tells dtype and dimensions? */
static inline bool
lends_view(const dls_kernel_call *call, const dls_plan *plan, checks of)
{
    return !of.written && call->data->said.options == NULL && plan != NULL
           && plan->table != NULL
           && plan->table->dltensor_from_py_object_no_sync != NULL;
}

/* Look at that view.  1: it is accepted; 0: there is none; -1 with an exception. */
DLS_APART static int
look_at_view(const dls_kernel_call *call, PyObject *x, const dls_plan *plan, checks of)
{
    dl_tensor view;
    if (plan->table->dltensor_from_py_object_no_sync(x, &view) != 0) {
        return dls_error_forget();
    }
    return check_memory(call, x, of, &view, 0) < 0 ? -1 : 1;
}

/* Look at the memory of an argument before it goes in.  0, or -1 with an exception. */
DLS_APART static int
look_at(const dls_kernel_call *call, PyObject *x, dls_plan *plan, checks of)
{
    PyObject *tensor = NULL;
    dls_options *options = NULL;
    int seen = lends_view(call, plan, of) ? look_at_view(call, x, plan, of) : 0;
    if (seen != 0) {
        return seen < 0 ? -1 : 0;
    }
    /* Where the object shows that it is host memory, no stream need be named. */
    bool is_bare = call->data->said.options == NULL && plan != NULL;
    int host = is_bare ? dls_host_is_known(plan, x) : 0;
    if (host > 0) {
        tensor = dls_tensor_plainly(call->data->state, dls_plan_share(plan), x);
    }
    else if (host == 0 && copy_options(call, call->data->said.look, &options) == 0) {
        tensor = dls_tensor_with(call->data->state, x, options);
    }
    return check_tensor(call, x, of, tensor);
}

/* The form in which an argument is asked once, for the look and for the function: the
 * Producer keeps the answer.  0: it is looked at by itself. */
static dls_form
form_of_answer(const dls_kernel_call *call, const dls_plan *plan)
{
    const dls_kernel_said *said = &call->data->said;
    bool bare = said->takes == DLS_TAKES_PRODUCER && said->options == NULL
                && plan != NULL;
    dls_form form = bare ? dls_fast_form_of(plan, true) : 0;
    return dls_fast_gives_capsule(form) ? form : 0;
}

/* As look_at, of the answer that the new Producer then keeps. */
DLS_APART static int
look_at_answer(const dls_kernel_call *call, PyObject *x, PyObject *made, checks of)
{
    const dls_kernel *data = call->data;
    dls_producer *producer = dls_producer_data(made);
    dls_outcome outcome;
    uint64_t flags;
    dls_form form = form_of_answer(call, producer->plan);
    if (form == 0) {
        return look_at(call, x, producer->plan, of);
    }
    const dl_tensor *tensor = dls_fast_answer(producer, form, &outcome, &flags);
    if (tensor == NULL) {
        return check_tensor(call, x, of,
                            dls_export_tensor(data->state, producer->plan, x,
                                              data->said.look, &outcome, -1));
    }
    if (check_memory(call, x, of, tensor, flags) < 0) {
        dls_outcome_drop(&outcome);
        return -1;
    }
    return dls_producer_keep_answer(producer, outcome.capsule);
}

/* As look_at, of what was made for the argument. */
static int
look_at_made(const dls_kernel_call *call, PyObject *x, PyObject *made, checks of)
{
    bool versioned = call->data->said.takes == DLS_TAKES_CAPSULE_1;
    if (call->data->said.takes == DLS_TAKES_PRODUCER) {
        return look_at_answer(call, x, made, of);
    }
    if (call->data->said.takes == DLS_TAKES_TENSOR) {
        const dls_tensor *data = dls_tensor_data(made);
        return check_memory(call, x, of, &data->tensor, data->flags);
    }
    const char *name = versioned ? DL_NAME_VERSIONED : DL_NAME_LEGACY;
    const void *managed = PyCapsule_GetPointer(made, name);
    return managed != NULL
               ? check_memory(call, x, of, dls_managed_tensor(managed, versioned), 0)
               : -1;
}

/* What stands for an array; a new reference.  plan: of x, a count that is stolen; NULL:
 * x is an object of ours.  NULL with an exception. */
DLS_INLINE PyObject *
make(const dls_kernel_call *call, PyObject *x, dls_plan *plan)
{
    dls_state *state = call->data->state;
    const dls_kernel_said *said = &call->data->said;
    if (said->takes == DLS_TAKES_PRODUCER && said->options == NULL && plan != NULL) {
        return dls_producer_new_of(state, call->home, x, plan, NULL);
    }
    if (said->takes == DLS_TAKES_TENSOR && plan != NULL
        && (said->options == NULL || said->options->idle)) {
        return said->options == NULL ? dls_tensor_plainly(state, plan, x)
                                     : dls_tensor_idly(state, plan, x, said->options);
    }
    bool versioned = said->takes == DLS_TAKES_CAPSULE_1;
    if ((versioned || said->takes == DLS_TAKES_CAPSULE) && said->options == NULL
        && plan != NULL) {
        return dls_capsule_plainly(state, plan, x, versioned);
    }
    dls_plan_drop(plan);
    if (said->takes == DLS_TAKES_IMPORTED) {
        return ask_calls(call, "imported", Py_NewRef(x));
    }
    dls_options *options;
    if (copy_options(call, said->options, &options) < 0) {
        return NULL;
    }
    if (said->takes == DLS_TAKES_PRODUCER) {
        return dls_upgrade_into(state, call->home, x, options);
    }
    if (said->takes == DLS_TAKES_TENSOR) {
        return dls_tensor_with(state, x, options);
    }
    dls_request request;
    dls_request_init(&request, NULL);
    request.want.versioned = versioned;
    request.who.asked_with = versioned ? DLS_ASK_VERSION : 0;
    return dls_capsule_with(state, x, options, &request);
}

void
dls_kernel_remember(dls_kernel *data, dls_plan *plan)
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
first_array(dls_kernel_call *call, PyObject *x, PyTypeObject *home)
{
    if (call->first == NULL) {
        call->first = x;
        call->home = call->home != NULL ? call->home : home;
    }
}

/* Look at an argument before it goes in.  *of keeps what a capsule shows once it is
 * made: no flags, which a legacy one cannot tell.  0, or -1 with an exception. */
DLS_APART static int
look_before(const dls_kernel_call *call, PyObject *x, dls_plan *plan, checks *of)
{
    checks now = *of;
    *of = (checks){false, NULL};
    if (call->data->said.takes == DLS_TAKES_CAPSULE
        || call->data->said.takes == DLS_TAKES_CAPSULE_1) {
        of->wanted = now.wanted;
        now.wanted = NULL;
    }
    return now.written || now.wanted != NULL ? look_at(call, x, plan, now) : 0;
}

/* An array goes in.  *passed becomes what the function is given; borrowed.  source: x,
 * or that of a Producer; as_is: its library's own users pass it so; plan: as for make.
 * 1, or -1 with an exception. */
DLS_APART static int
give_array(dls_kernel_call *call, PyObject *x, PyObject *source, PyTypeObject *home,
           bool as_is, dls_plan *plan, PyObject **passed)
{
    const dls_kernel_said *said = &call->data->said;
    checks of = {false, NULL};
    first_array(call, source, home);
    bool stays = as_is && home == call->home && said->takes == DLS_TAKES_PRODUCER
                 && said->options == NULL;
    bool late = said->takes == DLS_TAKES_TENSOR
                || (!stays && form_of_answer(call, plan) != 0);
    if (said->is_checked
        && (find_checks(call, &of) < 0
            || (!late && look_before(call, x, plan, &of) < 0))) {
        dls_plan_drop(plan);
        return -1;
    }
    if (stays) {
        dls_plan_drop(plan);
        return add_pair(call, x, Py_NewRef(x));
    }
    bool imports = said->takes == DLS_TAKES_IMPORTED && plan != NULL;
    dls_plan *kept = imports ? dls_plan_share(plan) : NULL;
    *passed = make(call, x, plan);
    int code = *passed != NULL ? add_pair(call, x, *passed) : tell_place(call);
    if (kept != NULL && *passed == x && said->options == NULL) {
        dls_kernel_remember(call->data, kept);
    }
    else {
        dls_plan_drop(kept);
    }
    if (code > 0 && (of.written || of.wanted != NULL)) {
        return look_at_made(call, x, *passed, of) < 0 ? -1 : 1;
    }
    return code;
}

/* A Producer or a Tensor of ours. */
static int
give_ours(dls_kernel_call *call, PyObject *x, PyObject **passed)
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
        if (!dls_kernel_is_simple(item)) {
            code = depth > 1 && is_container(item) ? holds_no_object(item, depth - 1)
                                                   : 0;
        }
    }
    Py_XDECREF(items);
    return code;
}

enum { DEPTH = 3 }; /* deeper containers are left to Python */

static int give_container(dls_kernel_call *call, PyObject *x, PyObject **passed);

/* What give_object gives for what is no array of a type that was met.  plan: of x, a
 * count that is stolen, or NULL. */
DLS_APART static int
give_other(dls_kernel_call *call, PyObject *x, dls_plan *plan, PyObject **passed)
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

/* As dls_kernel_give. */
DLS_INLINE int
give_object(dls_kernel_call *call, PyObject *x, PyObject **passed)
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
    bool as_is = dls_kernel_allocating(plan->table) != NULL;
    if (call->is_usual && !as_is) { /* most calls of a dls_kernel */
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
give_items(dls_kernel_call *call, PyObject *items, PyObject **made)
{
    int code = 1;
    Py_ssize_t n = PyList_Size(items);
    for (Py_ssize_t i = 0; i < n && code > 0; i++) {
        PyObject *item = PyList_GetItem(items, i), *given = item;
        if (dls_kernel_is_simple(item)) {
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
give_container(dls_kernel_call *call, PyObject *x, PyObject **passed)
{
    if (Py_TYPE(x) != &PyList_Type && Py_TYPE(x) != &PyTuple_Type) {
        return holds_no_object(x, DEPTH);
    }
    for (Py_ssize_t i = 0; i < call->count; i++) {
        if (call->pairs[i].own == x) {
            *passed = call->pairs[i].made;  /* one container at two places stays one */
            int written = is_written(call); /* whose arrays are looked at in Python */
            if (written == 0 && call->data->said.wanted == NULL) {
                return 1;
            }
            return written >= 0 ? 0 : -1;
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

int
dls_kernel_give(dls_kernel_call *call, PyObject *x, PyObject **passed)
{
    return give_object(call, x, passed);
}
