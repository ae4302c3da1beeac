/* Finds what the objects of a type offer, and keeps what asking them has taught.
 * Called by plan_cache.c for a new type, and by acquire/ and export/ for what was
 * learned.  Foreign code runs where attributes are looked up.  Tests:
 * tests/core/test_negotiation.py, test_ways_in.py. */
#include "exchange/plan.h"

#include "exchange/cures.h"
#include "exchange/plan_memory.h"
#include "exchange/probe.h"
#include "python/errors.h"
#include "python/state.h"

const char dls_protocol_names[DLS_PROTOCOL_COUNT][32] = {
#define NAME(name, attribute, text) text,
    DLS_PROTOCOL_LIST(NAME)
#undef NAME
};

const int8_t dls_protocol_attributes[DLS_PROTOCOL_COUNT] = {
#define ATTRIBUTE(name, attribute, text) DLS_NAME_INDEX_##attribute,
    DLS_PROTOCOL_LIST(ATTRIBUTE)
#undef ATTRIBUTE
};

/* --- what is learned ------------------------------------------------------ */

/* The only place that writes the word.  False, without the GIL: another thread has
 * written it since `before` was read. */
static bool
write_learned(dls_plan *plan, dls_learned before, dls_learned learned)
{
    uint64_t word;
    memcpy(&word, &learned, sizeof word);
#ifdef DLS_FREE_THREADED
    uint64_t expected;
    memcpy(&expected, &before, sizeof expected);
    return atomic_compare_exchange_strong(&plan->learned, &expected, word);
#else
    (void)before;
    atomic_store_explicit(&plan->learned, word, memory_order_relaxed);
    return true;
#endif
}

void
dls_plan_learn_form(dls_plan *plan, bool wanted, dls_form form, uint8_t fast)
{
    dls_learned learned, before;
    do {
        learned = before = dls_plan_learned(plan);
        learned.met = true;
        if (form.known) {
            learned.forms[wanted] = form;
            learned.fast[wanted] = fast;
        }
    } while (!write_learned(plan, before, learned));
}

void
dls_plan_learn_keywords(dls_plan *plan, unsigned taken, int refused)
{
    dls_learned learned, before;
    if (plan->on_instance) {
        return; /* the next object's __dlpack__ may be another function (N1) */
    }
    do {
        learned = before = dls_plan_learned(plan);
        learned.taken = (learned.taken | taken) & 15u;
        if (refused >= 0) {
            learned.refused = (unsigned)refused & 15u;
        }
    } while (!write_learned(plan, before, learned));
}

void
dls_plan_leave_host(dls_plan *plan, bool forget_forms)
{
    dls_learned learned, before;
    do {
        learned = before = dls_plan_learned(plan);
        learned.off_host = true;
        learned.fast[0] = learned.fast[1] = 0;
        if (forget_forms) {
            learned.forms[0].known = learned.forms[1].known = false;
        }
    } while (!write_learned(plan, before, learned));
}

/* --- the type --------------------------------------------------------------- */

/* Where an attribute stands in the MRO, if it is not a position. */
enum { NOWHERE = -1, FAILED = -2 };

/* One search through the classes of a type. */
typedef struct {
    dls_state *state;
    PyObject *mro; /* a tuple, borrowed */
    dls_plan *plan;
    const dls_authored *authored; /* or NULL */
    Py_ssize_t dlpack_at;         /* of the class that defines __dlpack__ */
    Py_ssize_t library_at;        /* of the class that the row of the library names */
    bool is_ours;                 /* dlshim.producer has put __dlpack__ there */
} search;

/* Position of the first class from `start` on whose own dict has `name`, and in *value
 * what it holds, a new reference. */
static Py_ssize_t
find_from(const search *s, Py_ssize_t start, PyObject *name, PyObject **value)
{
    Py_ssize_t n = PyTuple_Size(s->mro);
    for (Py_ssize_t i = start; i < n; i++) {
        PyObject *dict = PyObject_GetAttr(PyTuple_GetItem(s->mro, i),
                                          s->state->names.dict);
        /* Asking first is cheaper than a KeyError. */
        int has = dict != NULL ? PySequence_Contains(dict, name) : -1;
        if (has > 0) {
            *value = PyObject_GetItem(dict, name);
            has = *value != NULL ? 1 : -1;
        }
        Py_XDECREF(dict);
        if (has != 0) {
            return has > 0 ? i : FAILED;
        }
    }
    return NOWHERE;
}

static Py_ssize_t
find_in_mro(const search *s, PyObject *name, PyObject **value)
{
    return find_from(s, 0, name, value);
}

/* A method that no instance can replace by an attribute of its own. */
static PyObject *
method_of_all(PyTypeObject *type, PyObject *value)
{
    return dls_type_has_dict(type) ? NULL : dls_method_lasting(type, value);
}

/* Has dlshim.producer put this method on a class?  No other is one of `object`. */
static bool
is_ours(PyObject *value)
{
    PyObject *owner = Py_IS_TYPE(value, &PyMethodDescr_Type)
                          ? PyObject_GetAttrString(value, "__objclass__")
                          : NULL;
    Py_XDECREF(owner);
    return owner == (PyObject *)&PyBaseObject_Type;
}

/* A method of the author's: a name by which it is looked up, or a function.  True:
 * there is one. */
static bool
take_authored(PyObject *value, PyObject **name, PyObject **method)
{
    bool found = value != NULL && value != Py_None;
    if (found) {
        Py_CLEAR(*name);
        *(PyUnicode_Check(value) ? name : method) = Py_NewRef(value);
    }
    return found;
}

/* The protocols that are attributes.  None as a class attribute is Python's word for
 * "not offered". */
static int
find_protocols(search *s)
{
    dls_plan *plan = s->plan;
    for (int i = 0; i < DLS_PROTOCOL_COUNT; i++) {
        PyObject *value = NULL;
        int attribute = dls_protocol_attributes[i];
        if (attribute == DLS_NAME_INDEX_NONE) {
            continue;
        }
        if (s->authored != NULL && i == DLS_PROTOCOL_DLPACK) {
            if (take_authored(s->authored->dlpack, &plan->name, &plan->method)) {
                plan->offers |= 1u << i;
                s->dlpack_at = s->authored->at;
            }
            continue;
        }
        Py_ssize_t at = find_in_mro(s, s->state->all_names[attribute], &value);
        if (at == FAILED) {
            return -1;
        }
        bool offered = at >= 0 && value != Py_None;
        plan->offers |= (uint32_t)offered << i;
        if (offered && i == DLS_PROTOCOL_DLPACK) {
            s->dlpack_at = at;
            plan->method = method_of_all(plan->type, value);
            s->is_ours = is_ours(value);
        }
        Py_XDECREF(value);
    }
    return 0;
}

/* The row of the library.  A subclass that has a __dlpack__ of its own exports its own
 * way: nothing is known of it. */
static int
find_library(search *s)
{
    const dls_library *row = dls_library_match(s->mro, &s->library_at);
    if (row != NULL && !(s->dlpack_at >= 0 && s->dlpack_at < s->library_at)) {
        s->plan->library = row;
        s->plan->traits = dls_library_traits(s->state, row);
    }
    return 0;
}

/* The device question.  A subclass that answers for itself may know of other devices
 * than its library does. */
static int
find_device(search *s)
{
    dls_plan *plan = s->plan;
    PyObject *value = NULL;
    Py_ssize_t at = NOWHERE;
    if (s->authored != NULL) {
        plan->has_device = take_authored(s->authored->device, &plan->device_name,
                                         &plan->device_method);
    }
    else {
        at = find_in_mro(s, s->state->names.dlpack_device, &value);
    }
    plan->cpu_only = dls_plan_has(plan, DLS_LIB_CPU_ONLY)
                     && !(at >= 0 && at < s->library_at);
    if (at >= 0) {
        plan->has_device = true;
        plan->device_method = method_of_all(plan->type, value);
    }
    Py_XDECREF(value);
    write_learned(plan, dls_plan_learned(plan), (dls_learned){.met = plan->cpu_only});
    return at == FAILED ? -1 : 0;
}

/* The getter or the method (the other is NULL) `name`, if it is found on a class that
 * cannot be changed. */
static int
find_unchanging(const search *s, PyObject *name, dls_getter *getter, PyObject **method)
{
    PyObject *value = NULL;
    Py_ssize_t at = find_in_mro(s, name, &value);
    PyObject *owner = at >= 0 ? PyTuple_GetItem(s->mro, at) : NULL;
    if (owner != NULL && PyType_Check(owner)) { /* a metaclass may say anything */
        if (getter != NULL) {
            dls_getter_lasting((PyTypeObject *)owner, value, getter);
        }
        else {
            *method = dls_method_lasting((PyTypeObject *)owner, value);
        }
    }
    Py_XDECREF(value);
    return at == FAILED ? -1 : 0;
}

/* Does a subclass send the call of is_neg through __torch_function__ as the library
 * wrote it?  A user's own hook or method must see the call; a C function, which
 * switches that off (torch.nn.Parameter), costs nothing. */
static int
find_redirection(search *s)
{
    PyObject *value = NULL;
    Py_ssize_t method_at = find_in_mro(s, s->state->names.is_neg, &value);
    Py_CLEAR(value);
    Py_ssize_t at = find_in_mro(s, s->state->names.torch_function, &value);
    bool redirects = at >= s->library_at && method_at >= s->library_at
                     && !PyCFunction_Check(value);
    Py_XDECREF(value);
    bool failed = at == FAILED || method_at == FAILED;
    if (redirects && !failed) {
        failed = dls_library_plain_calls(s->state, s->plan->library,
                                         &s->plan->plain_calls)
                 < 0;
    }
    return failed ? -1 : 0;
}

/* What is asked of each object before it goes out (T12), or instead of the device
 * question (N5).  Of the row's own class only: what a user's subclass says may change.
 */
static int
find_lasting(search *s)
{
    dls_plan *plan = s->plan;
    if (s->library_at != 0) {
        return dls_plan_has(plan, DLS_LIB_LAZY_BITS) ? find_redirection(s) : 0;
    }
    if (dls_plan_has(plan, DLS_LIB_LAZY_BITS)
        && (find_unchanging(s, s->state->names.is_neg, NULL, &plan->is_neg) < 0
            || find_unchanging(s, s->state->names.requires_grad, &plan->requires_grad,
                               NULL)
                   < 0)) {
        return -1;
    }
    if (dls_plan_has(plan, DLS_LIB_BASE_TELLS)) {
        return find_unchanging(s, s->state->names.base, &plan->where, NULL);
    }
    return dls_plan_has(plan, DLS_LIB_IS_CPU_TELLS)
               ? find_unchanging(s, s->state->names.is_cpu, &plan->where, NULL)
               : 0;
}

/* The C table under one name.  It counts only if no class before its owner defines
 * __dlpack__ itself (N2).  Ours never counts; an author's may stand behind it. */
static int
find_ctable_named(search *s, PyObject *name)
{
    const dl_exchange_api *own = s->state->own_table;
    Py_ssize_t at = NOWHERE;
    do {
        PyObject *value = NULL;
        at = find_from(s, at + 1, name, &value);
        if (at >= 0 && !(s->dlpack_at >= 0 && s->dlpack_at < at)) {
            const dl_exchange_api *table = dls_ctable_from_attribute(value);
            s->plan->table = table != own && table != own + 1 ? table : NULL;
        }
        Py_XDECREF(value);
    } while (at >= 0 && s->plan->table == NULL && s->authored != NULL);
    return at == FAILED ? -1 : 0;
}

/* The C table, under either name. */
static int
find_ctable(search *s)
{
    dls_plan *plan = s->plan;
    if (find_ctable_named(s, s->state->names.exchange_api) < 0
        || (plan->table == NULL
            && find_ctable_named(s, s->state->names.exchange_api_old) < 0)) {
        return -1;
    }
    plan->offers |= (uint32_t)(plan->table != NULL) << DLS_PROTOCOL_TABLE;
    return 0;
}

static void
take_inner(dls_plan *plan, const dls_authored *authored)
{
    if (authored->inner != Py_None) {
        plan->inner = Py_NewRef(authored->inner);
        plan->inner_is_called = authored->inner_is_called != 0;
    }
}

/* What stands behind our own methods.  dls_plan_known, which is hot, finds no such
 * plan: it is kept with those of instances, because dlshim's functions ask what the
 * author wrote, or export the inner array.  Where the author answers no device
 * question, we would export to answer it, so that it is not put. */
static int
find_behind_ours(dls_state *state, PyObject *obj, dls_plan *plan)
{
    dls_authored authored;
    if (dls_authored_find(state, obj, 0, 0, false, &authored) < 0) {
        return -1;
    }
    take_inner(plan, &authored);
    plan->on_instance = plan->is_decorated = true;
    if (authored.dlpack != Py_None && authored.device == Py_None) {
        plan->has_device = false;
    }
    Py_DECREF(authored.owner);
    return 0;
}

static int
find_in_type(dls_state *state, PyObject *obj, dls_plan *plan,
             const dls_authored *authored)
{
    PyObject *mro = PyObject_GetAttr((PyObject *)plan->type, state->names.mro);
    search s = {.state = state,
                .mro = mro,
                .plan = plan,
                .authored = authored,
                .dlpack_at = NOWHERE,
                .library_at = NOWHERE};
    bool found = false;
    if (mro != NULL && PyTuple_Check(mro)) {
        found = find_protocols(&s) == 0 && find_library(&s) == 0 && find_device(&s) == 0
                && find_lasting(&s) == 0 && find_ctable(&s) == 0;
        found = found && (!s.is_ours || find_behind_ours(state, obj, plan) == 0);
    }
    else if (mro != NULL) {
        PyErr_Format(PyExc_TypeError, "type.__mro__ is not a tuple");
    }
    Py_XDECREF(mro);
    return found ? 0 : -1;
}

/* --- the object ------------------------------------------------------------- */

/* The instance's own attribute; never generalised to its type (N1). */
static int
find_on_instance(dls_state *state, PyObject *obj, int protocol, dls_plan *plan)
{
    PyObject *value = NULL;
    int attribute = dls_protocol_attributes[protocol];
    int got = attribute != DLS_NAME_INDEX_NONE
                  ? dls_get_optional(obj, state->all_names[attribute], &value)
                  : 0;
    if (got > 0 && value != Py_None) {
        plan->offers |= 1u << protocol;
        plan->on_instance = true;
    }
    Py_XDECREF(value);
    return got < 0 ? -1 : 0;
}

/* What the type does not offer.  __dlpack__ is looked for first, and where it is found
 * nothing else: looking costs some proxies a millisecond (N2). */
static int
find_in_object(dls_state *state, PyObject *obj, dls_plan *plan, bool authored)
{
    if (dls_compat.PyObject_CheckBuffer(obj)) {
        plan->offers |= 1u << DLS_PROTOCOL_BUFFER;
    }
    if (PyType_Check(obj)) {
        return 0; /* a class is no array, though its methods look like ours */
    }
    if (plan->offers == 0 && !authored) {
        if (find_on_instance(state, obj, DLS_PROTOCOL_DLPACK, plan) < 0) {
            return -1;
        }
        plan->has_device |= plan->on_instance; /* if it is missing, nobody answers */
        plan->is_proxy =
            plan->on_instance
            && PyObject_HasAttrString((PyObject *)plan->type, "__getattr__")
            && !PyObject_HasAttrString((PyObject *)Py_TYPE((PyObject *)plan->type),
                                       "__getattr__");
    }
    if (!dls_plan_offers(plan, DLS_PROTOCOL_DLPACK)) {
        int got = dls_library_has_capsule(state, plan->library, obj);
        if (got < 0) {
            return -1;
        }
        plan->offers |= (uint32_t)got << DLS_PROTOCOL_FUNCTION;
    }
    int code = 0;
    for (int i = DLS_PROTOCOL_FUNCTION;
         code == 0 && plan->offers == 0 && i < DLS_PROTOCOL_BUFFER; i++) {
        code = find_on_instance(state, obj, i, plan);
    }
    return code;
}

static void
raise_unsupported(dls_state *state, PyObject *obj, bool authored)
{
    PyObject *name = dls_type_name(obj);
    if (name == NULL) {
        return;
    }
    const char *cure = dls_cure_find(state, obj);
    PyErr_Format(
        state->unsupported_object_error,
        "'%U' object offers none of __dlpack__, DLPack's C exchange API, a capsule "
        "function, __cuda_array_interface__, __sycl_usm_array_interface__, "
        "__array_struct__, __array_interface__ or the buffer protocol; pass %s instead",
        name,
        cure != NULL ? cure
        : authored   ? "the name of its array as inner= to dlshim.producer"
                     : "an array");
    Py_DECREF(name);
}

/* --- plans ------------------------------------------------------------------ */

/* A plan that says nothing yet; NULL with MemoryError. */
static dls_plan *
plan_new(const dls_state *state, PyTypeObject *type)
{
    dls_plan *plan = dls_plan_memory_take(type);
    if (plan == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    plan->name = Py_NewRef(state->names.dlpack);
    plan->device_name = Py_NewRef(state->names.dlpack_device);
    plan->can_cycle = (PyType_GetFlags(type) & Py_TPFLAGS_HAVE_GC) != 0;
    return plan;
}

void
dls_plan_drop(dls_plan *plan)
{
    if (plan != NULL && --plan->refs == 0) {
        Py_XDECREF(plan->method);
        Py_XDECREF(plan->device_method);
        Py_XDECREF(plan->name);
        Py_XDECREF(plan->device_name);
        Py_XDECREF(plan->inner);
        Py_XDECREF(plan->is_neg);
        Py_XDECREF(plan->plain_calls);
        Py_XDECREF(plan->requires_grad.descriptor);
        Py_XDECREF(plan->where.descriptor);
        dls_plan_memory_give(plan);
    }
}

int
dls_authored_find(dls_state *state, PyObject *obj, unsigned level,
                  unsigned device_level, bool device, dls_authored *authored)
{
    PyObject *found = dls_in_python_with(state, DLS_IN_DECORATOR, "authored", "(OIIi)",
                                         obj, level, device_level, (int)device);
    authored->owner = found;
    if (found != NULL
        && PyArg_ParseTuple(found, "OppOOn", &authored->inner,
                            &authored->inner_is_called, &authored->hides_question,
                            &authored->dlpack, &authored->device, &authored->at)) {
        return 0;
    }
    Py_XDECREF(found);
    return -1;
}

dls_plan *
dls_plan_new_authored(dls_state *state, PyObject *obj, const dls_authored *authored,
                      PyTypeObject *type)
{
    dls_plan *plan = plan_new(state, type);
    if (plan == NULL) {
        return NULL;
    }
    plan->hides_question = authored != NULL && authored->hides_question;
    if (authored != NULL && authored->inner != Py_None) {
        take_inner(plan, authored);
        return plan;
    }
    if (find_in_type(state, obj, plan, authored) == 0
        && find_in_object(state, obj, plan, authored != NULL) == 0) {
        if (plan->offers != 0) {
            assert(dls_plan_check(plan));
            return plan;
        }
        raise_unsupported(state, obj, authored != NULL);
    }
    else {
        dls_refuse_from_pending(state, obj, "looking for its protocols failed");
    }
    dls_plan_drop(plan);
    return NULL;
}

dls_plan *
dls_plan_new(dls_state *state, PyObject *obj)
{
    PyObject *type = PyObject_Type(obj);
    dls_plan *plan = dls_plan_new_authored(state, obj, NULL, (PyTypeObject *)type);
    Py_DECREF(type);
    return plan;
}

/* Tensors own what they hold, so an export of one needs no reference to it (T10). */
dls_plan *
dls_plan_new_of_tensors(dls_state *state)
{
    dls_plan *plan = plan_new(state, state->tensor_type);
    if (plan != NULL) {
        plan->traits = DLS_LIB_OWNS;
        plan->offers = 1u << DLS_PROTOCOL_TENSOR;
    }
    return plan;
}

#ifndef NDEBUG

/* 1. It is counted, and offers something; a Tensor's plan offers nothing else.
 * 2. What is kept of a protocol is there only if the protocol is offered.
 * 3. A learned form is of a protocol that is offered; the fast path uses no other form
 *    than the learned one, and none off the host. */
bool
dls_plan_check(const dls_plan *plan)
{
    const dls_learned learned = dls_plan_learned(plan);
    bool good = plan->refs > 0 && plan->offers != 0
                && (!dls_plan_is_tensor(plan)
                    || plan->offers == 1u << DLS_PROTOCOL_TENSOR);
    good &= dls_plan_offers(plan, DLS_PROTOCOL_TABLE) == (plan->table != NULL)
            && (dls_plan_offers(plan, DLS_PROTOCOL_DLPACK) || plan->method == NULL)
            && (plan->has_device || plan->device_method == NULL)
            && (plan->library == NULL
                || (plan->traits & plan->library->traits) == plan->library->traits);
    for (int i = 0; i < 2; i++) {
        const dls_form form = learned.forms[i];
        good &= !form.known || dls_plan_may_offer(plan, (dls_protocol)form.protocol);
        good &= learned.fast[i] == 0 || (form.known && !learned.off_host);
    }
    return good;
}

#endif
