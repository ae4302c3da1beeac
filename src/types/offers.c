/* Finds the protocols that the objects of a type offer, for a new plan.  Called by
 * plan_cache.c for a new type, by decorated_class.c for a class that dlshim.producer
 * changed, and by export/export.c for one object that has a protocol of its own.
 * Foreign code runs where attributes are looked up.  Tests:
 * tests/core/test_negotiation.py, tests/core/test_ways_in.py,
 * tests/core/test_ctable.py. */
#include "types/offers.h"

#include "python/errors.h"
#include "python/py.h"
#include "python/state.h"
#include "types/authored.h"
#include "types/class_member.h"
#include "types/library.h"

/* --- class attributes ----------------------------------------------------- */

static bool
is_static(PyTypeObject *type)
{
    return !(PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE);
}

/* A new reference to a method found on a static type, whose classes cannot be changed
 * and do not end; NULL for all others, and where calling it so would be no gain
 * (before 3.11). */
static PyObject *
method_lasting(PyTypeObject *type, PyObject *value)
{
    if (dls_python_version() < 0x030b || !is_static(type)
        || !dls_is_plain_method(value)) {
        return NULL;
    }
    return Py_NewRef(value);
}

/* As method_lasting, for a getter; *getter is left alone if there is none. */
static void
getter_lasting(PyTypeObject *type, PyObject *value, dls_getter *getter)
{
    if (!is_static(type) || !dls_is_of(value, "getset_descriptor")) {
        return;
    }
    void *slot = PyType_GetSlot(Py_TYPE(value), Py_tp_descr_get);
    if (slot == NULL) {
        PyErr_Clear();
        return;
    }
    *getter = (dls_getter){Py_NewRef(value), (descrgetfunc)(uintptr_t)slot};
}

/* Can instances of the type have attributes of their own? */
static bool
type_has_dict(PyTypeObject *type)
{
    PyObject *offset = PyObject_GetAttrString((PyObject *)type, "__dictoffset__");
    bool has = offset == NULL || PyObject_IsTrue(offset) != 0;
    Py_XDECREF(offset);
    PyErr_Clear();
    return has;
}

/* The table behind a class attribute: a capsule named dlpack_exchange_api or an int
 * (DLPack 1.2).  prev_api is walked to a table of major 1.  NULL, nothing set, when it
 * is something else or lacks the export function. */
static const dl_exchange_api *
ctable_from_attribute(PyObject *value)
{
    void *pointer = NULL;
    if (PyCapsule_IsValid(value, DL_NAME_EXCHANGE_API)) {
        pointer = PyCapsule_GetPointer(value, DL_NAME_EXCHANGE_API);
    }
    else if (PyLong_Check(value) && !PyBool_Check(value)) {
        pointer = PyLong_AsVoidPtr(value);
        if (pointer == NULL) {
            PyErr_Clear();
        }
        /* A number that cannot be the address of a struct of pointers. */
        if ((uintptr_t)pointer < 4096
            || (uintptr_t)pointer % _Alignof(dl_exchange_api)) {
            pointer = NULL;
        }
    }
    const dl_exchange_header *header = pointer;
    for (int i = 0; header != NULL && header->version.major != DL_MAJOR; i++) {
        header = i < 64 ? header->prev_api : NULL; /* a longer chain is a loop */
    }
    const dl_exchange_api *table = (const dl_exchange_api *)header;
    bool exports = table != NULL
                   && table->managed_tensor_from_py_object_no_sync != NULL;
    return exports ? table : NULL;
}

/* --- the type --------------------------------------------------------------- */

/* The place of an attribute in the MRO, if it is not a position. */
enum { NOWHERE = -1, FAILED = -2 };

/* The state of one search through the classes of a type. */
typedef struct {
    dls_state *state;
    PyObject *mro;   /* a tuple, borrowed */
    PyObject *dicts; /* of these classes; a tuple, borrowed */
    dls_plan *plan;
    const dls_authored *authored; /* or NULL */
    Py_ssize_t dlpack_at;         /* of the class that defines __dlpack__ */
    Py_ssize_t library_at;        /* of the class that the row of the library names */
    Py_ssize_t table_at;          /* of the class that has the C table */
    bool is_ours;                 /* dlshim.producer has put __dlpack__ there */
} search;

/* Position of the first class from `start` on whose own dict has `name`, and in *value
 * its value, a new reference. */
static Py_ssize_t
find_from(const search *s, Py_ssize_t start, PyObject *name, PyObject **value)
{
    Py_ssize_t n = PyTuple_Size(s->dicts);
    for (Py_ssize_t i = start; i < n; i++) {
        PyObject *dict = PyTuple_GetItem(s->dicts, i);
        /* Asking first is cheaper than a KeyError. */
        int has = PySequence_Contains(dict, name);
        if (has > 0) {
            *value = PyObject_GetItem(dict, name);
            has = *value != NULL ? 1 : -1;
        }
        if (has != 0) {
            return has > 0 ? i : FAILED;
        }
    }
    return NOWHERE;
}

/* A method that no instance can replace by an attribute of its own. */
static PyObject *
method_of_all(PyTypeObject *type, PyObject *value)
{
    return type_has_dict(type) ? NULL : method_lasting(type, value);
}

/* A method of the author's: a name by which it is looked up, or a function.  True:
 * there is one. */
static bool
take_authored(PyObject *value, PyObject **name, PyObject **method)
{
    bool found = value != NULL;
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
        Py_ssize_t at = find_from(s, 0, s->state->all_names[attribute], &value);
        if (at == FAILED) {
            return -1;
        }
        bool offered = at >= 0 && value != Py_None;
        plan->offers |= (uint32_t)offered << i;
        if (offered && i == DLS_PROTOCOL_DLPACK) {
            s->dlpack_at = at;
            plan->method = method_of_all(plan->type, value);
            s->is_ours = dls_method_fits(s->state, value, plan->type);
        }
        Py_XDECREF(value);
    }
    return 0;
}

/* What is known of the library. */
static int
find_library(search *s)
{
    dls_plan *plan = s->plan;
    bool streams = dls_plan_offers(plan, DLS_PROTOCOL_ARROW_STREAM);
    dls_known known;
    if (dls_library_find(s->state, plan->type, s->mro, s->dlpack_at, streams, &known)
        < 0) {
        return -1;
    }
    s->library_at = known.at;
    plan->traits = known.traits;
    plan->habits = known.habits;
    plan->library = dls_library_name(known.habits);
    plan->offers |= (uint32_t)dls_plan_has(plan, DLS_LIB_VALUES) << DLS_PROTOCOL_VALUES;
    return 0;
}

/* Is there such an attribute on the type, other than None?  1, 0, or -1 with an
 * exception. */
static int
is_on_type(search *s, PyObject *name)
{
    PyObject *value = NULL;
    Py_ssize_t at = find_from(s, 0, name, &value);
    bool is_there = at >= 0 && value != Py_None;
    Py_XDECREF(value);
    return at == FAILED ? -1 : is_there;
}

/* Is it known that Arrow would give a table (C10)?  Making one may run a query, or copy
 * all that the object has.  An object that gives Arrow's array, and not only a stream,
 * has it. */
static int
find_no_column(search *s)
{
    dls_plan *plan = s->plan;
    bool streams = dls_plan_offers(plan, DLS_PROTOCOL_ARROW_STREAM)
                   && !dls_plan_offers(plan, DLS_PROTOCOL_ARROW_ARRAY);
    if (!streams) {
        return 0;
    }
    if (dls_plan_has(plan, DLS_LIB_HOLDS_ARRAY)) {
        plan->no_column = "it holds an array, and makes a table of it for Arrow";
        return 0;
    }
    int got = is_on_type(s, s->state->names.columns);
    got = got == 0 ? is_on_type(s, s->state->names.column_names) : got;
    if (got > 0) {
        plan->no_column = "it has fields or columns, each with memory of its own";
    }
    return got < 0 ? -1 : 0;
}

static int
find_element_type(search *s)
{
    PyObject *value = NULL;
    Py_ssize_t at = find_from(s, 0, s->state->names.get_element_type, &value);
    s->plan->tells_elements = value != NULL && value != Py_None;
    Py_XDECREF(value);
    return at == FAILED ? -1 : 0;
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
        at = find_from(s, 0, s->state->names.dlpack_device, &value);
    }
    plan->cpu_only = dls_plan_has(plan, DLS_LIB_CPU_ONLY)
                     && !(at >= 0 && at < s->library_at);
    if (at >= 0) {
        plan->has_device = true;
        plan->device_method = method_of_all(plan->type, value);
    }
    Py_XDECREF(value);
    if (plan->cpu_only) {
        dls_plan_learn_form(plan, 0);
    }
    return at == FAILED ? -1 : 0;
}

/* The getter or the method (the other is NULL) `name`, if it is found on a class that
 * cannot be changed. */
static int
find_unchanging(const search *s, PyObject *name, dls_getter *getter, PyObject **method)
{
    PyObject *value = NULL;
    Py_ssize_t at = find_from(s, 0, name, &value);
    PyObject *owner = at >= 0 ? PyTuple_GetItem(s->mro, at) : NULL;
    if (owner != NULL && PyType_Check(owner)) { /* a metaclass may say anything */
        if (getter != NULL) {
            getter_lasting((PyTypeObject *)owner, value, getter);
        }
        else {
            *method = method_lasting((PyTypeObject *)owner, value);
        }
    }
    Py_XDECREF(value);
    return at == FAILED ? -1 : 0;
}

/* Is the attribute, if there is one, the library's and not a subclass's?  *is_c: is it
 * a function in C?  1, 0, or -1 with an exception. */
static int
is_library_s(const search *s, PyObject *name, bool *is_c)
{
    PyObject *value = NULL;
    Py_ssize_t at = find_from(s, 0, name, &value);
    *is_c = value != NULL && PyCFunction_Check(value);
    Py_XDECREF(value);
    return at == FAILED ? -1 : at == NOWHERE || at >= s->library_at;
}

/* Does a subclass send the questions for is_neg and requires_grad through
 * __torch_function__ as the library wrote it?  A user's own hook or attribute must see
 * the question; a C function, which switches that off (torch.nn.Parameter), costs
 * nothing. */
static int
find_redirection(search *s)
{
    bool is_c;
    int own = is_library_s(s, s->state->names.is_neg, &is_c);
    own = own > 0 ? is_library_s(s, s->state->names.requires_grad, &is_c) : own;
    own = own > 0 ? is_library_s(s, s->state->names.torch_function, &is_c) : own;
    if (own > 0 && !is_c) {
        own = dls_library_plain_calls(s->plan->habits, &s->plan->plain_calls);
    }
    return own < 0 ? -1 : 0;
}

/* Find the attributes that are read from each object before it goes out (T12), or
 * instead of the device question (N5).  Only those of the row's own class: the
 * attributes of a user's subclass may change. */
static int
find_lasting(search *s)
{
    dls_plan *plan = s->plan;
    if (s->library_at != 0 || dls_plan_has(plan, DLS_LIB_WRAPS_READ_ONLY)) {
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

/* Is it one of our C tables, of whatever home?  They have two functions that export. */
static bool
is_our_table(const dls_state *state, const dl_exchange_api *table)
{
    const dl_exchange_api *own = state->own_table;
    return table->managed_tensor_from_py_object_no_sync
               == own[0].managed_tensor_from_py_object_no_sync
           || table->managed_tensor_from_py_object_no_sync
                  == own[1].managed_tensor_from_py_object_no_sync;
}

/* The C table under one name.  It counts only if no class before its owner defines
 * __dlpack__ itself (N2).  Ours never counts; an author's may stand behind it. */
static int
find_ctable_named(search *s, PyObject *name)
{
    Py_ssize_t at = NOWHERE;
    do {
        PyObject *value = NULL;
        at = find_from(s, at + 1, name, &value);
        const dl_exchange_api *table = at >= 0 ? ctable_from_attribute(value) : NULL;
        s->plan->shown_table = s->plan->shown_table == NULL ? table
                                                            : s->plan->shown_table;
        if (at >= 0 && !(s->dlpack_at >= 0 && s->dlpack_at < at)) {
            s->plan->table = table != NULL && !is_our_table(s->state, table) ? table
                                                                             : NULL;
            s->table_at = at;
        }
        Py_XDECREF(value);
    } while (at >= 0 && s->plan->table == NULL && s->authored != NULL);
    return at == FAILED ? -1 : 0;
}

/* The C table for readonly=True of a class whose C table is the library's own. */
static int
find_read_only_table(search *s)
{
    PyObject *value = NULL;
    int got = dls_library_read_only_table(s->plan->habits, &value);
    if (got > 0) {
        s->plan->read_only_table = ctable_from_attribute(value);
    }
    Py_XDECREF(value);
    return got < 0 ? -1 : 0;
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
    return plan->table != NULL && s->table_at == s->library_at ? find_read_only_table(s)
                                                               : 0;
}

/* Are attributes of the type's objects looked up in the usual way, and no code of a
 * class is asked for those that are not there? */
static bool
has_usual_look_up(PyTypeObject *type)
{
    return (getattrofunc)(uintptr_t)PyType_GetSlot(type, Py_tp_getattro)
           == PyObject_GenericGetAttr;
}

/* Does the class of this object surely show no C table?  Only objects are asked whose
 * attributes are looked up in the usual way: a class that lacks an attribute makes an
 * exception, whose text costs more than the rest of an exchange. */
static bool
shows_no_table(dls_state *state, PyObject *obj)
{
    PyObject *value = NULL;
    bool absent = has_usual_look_up(Py_TYPE(obj))
                  && dls_get_optional(obj, state->names.exchange_api, &value) == 0
                  && dls_get_optional(obj, state->names.exchange_api_old, &value) == 0;
    if (!absent) {
        Py_XDECREF(value);
        PyErr_Clear();
    }
    return absent;
}

bool
dls_plan_table_is_replaced(dls_state *state, const dls_plan *plan, PyObject *obj)
{
    PyObject *names[] = {state->names.exchange_api, state->names.exchange_api_old};
    const dl_exchange_api *shown = NULL;
    if (plan->shown_table == NULL && shows_no_table(state, obj)) {
        return false;
    }
    for (int i = 0; i < 2 && shown == NULL; i++) {
        PyObject *value = NULL;
        if (dls_get_optional((PyObject *)plan->type, names[i], &value) < 0) {
            PyErr_Clear();
            return false;
        }
        shown = value != NULL ? ctable_from_attribute(value) : NULL;
        Py_XDECREF(value);
    }
    return shown != plan->shown_table;
}

static void
take_inner(dls_plan *plan, const dls_authored *authored)
{
    if (authored->inner != NULL) {
        plan->inner = Py_NewRef(authored->inner);
        plan->inner_is_called = authored->inner_is_called;
    }
}

/* For a class changed by dlshim.producer: is there an inner array, which dlshim's
 * functions ask?  The plan is kept with the plans of instances, so that the hot
 * dls_plan_known never sees it.  If the author answers no device question, it is not
 * put: we would have to export to answer it. */
static int
find_behind_ours(search *s)
{
    dls_plan *plan = s->plan;
    dls_authored authored;
    if (dls_authored_find(s->state, plan->type, s->mro, NULL, &authored) < 0) {
        return -1;
    }
    take_inner(plan, &authored);
    plan->on_instance = plan->is_decorated = true;
    if (authored.dlpack != NULL && authored.device == NULL) {
        plan->has_device = false;
    }
    dls_authored_clear(&authored);
    return 0;
}

static int
find_in_type(dls_state *state, dls_plan *plan, const dls_authored *authored)
{
    PyObject *mro = PyObject_GetAttr((PyObject *)plan->type, state->names.mro);
    PyObject *dicts = mro != NULL ? dls_class_dicts(state, mro) : NULL;
    search s = {.state = state,
                .mro = mro,
                .dicts = dicts,
                .plan = plan,
                .authored = authored,
                .dlpack_at = NOWHERE,
                .library_at = NOWHERE,
                .table_at = NOWHERE};
    bool found = false;
    if (dicts != NULL) {
        found = find_protocols(&s) == 0 && find_library(&s) == 0
                && find_no_column(&s) == 0 && find_element_type(&s) == 0
                && find_device(&s) == 0 && find_lasting(&s) == 0
                && find_ctable(&s) == 0;
        found = found && (!s.is_ours || find_behind_ours(&s) == 0);
    }
    Py_XDECREF(dicts);
    Py_XDECREF(mro);
    return found ? 0 : -1;
}

/* --- the object ------------------------------------------------------------- */

/* The instance's own attribute; never generalised to its type (N1).  Only __dlpack__ is
 * looked up by others too: a warning of another one is no answer. */
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
    if (got >= 0) {
        return 0;
    }
    return protocol == DLS_PROTOCOL_DLPACK ? -1 : dls_error_forget_warning();
}

/* Look in the object for protocols that its type does not offer.  __dlpack__ is looked
 * for first, and if it is found nothing else: looking costs some proxies a millisecond
 * (N2). */
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
        plan->has_device |=
            plan->on_instance; /* if it is missing, the question gets no answer */
        plan->is_proxy =
            plan->on_instance
            && PyObject_HasAttrString((PyObject *)plan->type, "__getattr__")
            && !PyObject_HasAttrString((PyObject *)Py_TYPE((PyObject *)plan->type),
                                       "__getattr__");
    }
    if (!dls_plan_offers(plan, DLS_PROTOCOL_DLPACK)) {
        int got = dls_library_has_capsule(plan->habits, obj);
        if (got < 0) {
            return -1;
        }
        plan->offers |= (uint32_t)got << DLS_PROTOCOL_FUNCTION;
    }
    int code = 0;
    for (int i = DLS_PROTOCOL_FUNCTION;
         code == 0 && plan->offers == 0 && i <= DLS_PROTOCOL_INTERFACE; i++) {
        code = find_on_instance(state, obj, i, plan);
    }
    return code;
}

/* The refusal of a type's objects is kept where all that was looked at can be looked up
 * again (dls_offers_nothing_still).  A library may be imported later that has a capsule
 * function for its own types, and a class has the methods of its objects. */
static void
learn_nothing(dls_plan *plan, PyObject *obj)
{
    plan->keeps_refusal = plan->library == NULL && !PyType_Check(obj)
                          && has_usual_look_up(plan->type);
    plan->lasts = plan->keeps_refusal && is_static(plan->type)
                  && !type_has_dict(plan->type);
}

/* 1, 0 = there is no such attribute, or -1 with an exception. */
static int
has_attribute(PyObject *obj, PyObject *name)
{
    PyObject *value = NULL;
    int got = dls_get_optional(obj, name, &value);
    Py_XDECREF(value);
    return got;
}

bool
dls_offers_nothing_still(dls_state *state, const dls_plan *plan, PyObject *obj)
{
    if (plan->lasts) {
        return true;
    }
    int got = dls_compat.PyObject_CheckBuffer(obj);
    got = got == 0 ? has_attribute(obj, state->names.exchange_api) : got;
    got = got == 0 ? has_attribute(obj, state->names.exchange_api_old) : got;
    for (int i = 0; got == 0 && i < DLS_PROTOCOL_COUNT; i++) {
        int attribute = dls_protocol_attributes[i];
        got = attribute != DLS_NAME_INDEX_NONE
                  ? has_attribute(obj, state->all_names[attribute])
                  : 0;
    }
    got = got == 0 ? dls_library_has_method(plan->habits, obj) : got;
    if (got < 0) {
        PyErr_Clear(); /* looking at everything raises it again */
    }
    return got == 0;
}

/* --- plans ---------------------------------------------------------------- */

/* What dls_plan_new_authored gives, but a plan that offers nothing is returned. */
static dls_plan *
plan_look(dls_state *state, PyObject *obj, const dls_authored *authored,
          PyTypeObject *type)
{
    dls_plan *plan = dls_plan_begin(state, type);
    if (plan == NULL) {
        return NULL;
    }
    if (authored != NULL) {
        plan->hides_question = authored->hides_question;
        plan->forwards = authored->forwards;
        plan->seen_on = Py_XNewRef(authored->seen_on);
        plan->seen = Py_XNewRef(authored->seen);
    }
    if (authored != NULL && (authored->inner != NULL || authored->forwards)) {
        take_inner(plan, authored);
        return plan;
    }
    if (find_in_type(state, plan, authored) == 0
        && find_in_object(state, obj, plan, authored != NULL) == 0) {
        assert(plan->offers == 0 || dls_plan_check(plan));
        return plan;
    }
    dls_refuse_from_pending(state, obj, "looking for its protocols failed");
    dls_plan_drop(plan);
    return NULL;
}

dls_plan *
dls_plan_look(dls_state *state, PyObject *obj, PyTypeObject *type)
{
    dls_plan *plan = plan_look(state, obj, NULL, type);
    if (plan != NULL && plan->offers == 0) {
        learn_nothing(plan, obj);
    }
    return plan;
}

dls_plan *
dls_plan_new_authored(dls_state *state, PyObject *obj, const dls_authored *authored,
                      PyTypeObject *type)
{
    dls_plan *plan = plan_look(state, obj, authored, type);
    if (plan == NULL || plan->offers != 0 || plan->inner != NULL || plan->forwards) {
        return plan;
    }
    dls_refuse_unsupported(state, obj, authored != NULL);
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
