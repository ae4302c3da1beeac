/* Says how an object of a decorated class is asked, which thread has asked for its
 * device, and why its inner array failed.  Called by
 * export/export, public/functions and authors/producer_class.  Tests:
 * tests/core/test_authors.py, tests/core/test_called_class.py. */
#include "exchange/decorated_class.h"

#include "exchange/device_question.h"
#include "python/errors.h"
#include "types/authored.h"
#include "types/offers.h"

/* --- the device question (N9) --------------------------------------------- */

DLS_PER_THREAD dls_question dls_questions[DLS_QUESTIONS];
DLS_PER_THREAD unsigned dls_question_count;

void
dls_decorated_note_question(PyObject *obj)
{
    unsigned long me = dls_this_thread();
    unsigned i = 0;
    while (i < dls_question_count && i < DLS_QUESTIONS
           && dls_questions[i].thread != me) {
        i++;
    }
    if (i < DLS_QUESTIONS) {
        dls_questions[i] = (dls_question){obj, me};
    }
    dls_question_count += i == dls_question_count;
}

/* --- the plan of a method ------------------------------------------------- */

/* Does the plan, which was kept, still say what Python would find?  A base may have got
 * another method, and dlshim may have been imported anew.  1, 0, or -1 with an
 * exception. */
static int
is_current(const dls_state *state, const dls_plan *plan, PyObject *name)
{
    if (plan->producer_type != state->producer_type || plan->seen_on == NULL) {
        return plan->producer_type == state->producer_type;
    }
    PyObject *shown = PyObject_GetAttr(plan->seen_on, name);
    int same = shown != NULL ? shown == plan->seen : dls_error_forget();
    Py_XDECREF(shown);
    return same;
}

/* The plan that the method keeps for this object, with a new count.  1, 0 = there is
 * none, or -1 with an exception. */
static inline int
known_plan(const dls_state *state, PyObject *method, PyObject *name, PyObject *obj,
           dls_plan **plan)
{
    *plan = dls_plan_known_in(&dls_method_data(method)->plans, obj);
    int current = *plan != NULL ? is_current(state, *plan, name) : 0;
    if (*plan != NULL && current <= 0) {
        dls_plan_cache_retire(&dls_method_data(method)->plans, *plan);
        dls_plan_drop(*plan);
        *plan = NULL;
    }
    return current;
}

typedef int (*finder)(dls_state *, PyTypeObject *, PyObject *, PyObject *,
                      dls_authored *);

/* A plan for the objects of a type, which is kept with the method.  A function that
 * only a subclass's other bases have is not kept: the method may outlive them. */
static dls_plan *
make_plan(dls_state *state, PyObject *method, PyObject *obj, PyObject *type,
          finder find)
{
    dls_authored authored;
    PyTypeObject *owner = dls_method_data(method)->owner;
    PyObject *mro = PyObject_GetAttr(type, state->names.mro);
    if (mro != NULL && !PyTuple_Check(mro)) {
        PyErr_Format(PyExc_TypeError, "type.__mro__ is not a tuple");
        Py_CLEAR(mro);
    }
    if (mro == NULL || find(state, (PyTypeObject *)type, mro, method, &authored) < 0) {
        Py_XDECREF(mro);
        return NULL;
    }
    bool lasts = authored.from == NULL
                 || PyType_IsSubtype(owner, (PyTypeObject *)authored.from);
    dls_plan *plan = dls_plan_new_authored(state, obj, &authored, (PyTypeObject *)type);
    dls_authored_clear(&authored);
    Py_DECREF(mro);
    if (plan != NULL && lasts && dls_method_keep(method, plan) < 0) {
        dls_plan_drop(plan);
        plan = NULL;
    }
    return plan;
}

/* The plan of the first method, from this one on, that does not leave the object to a
 * method of ours of a base. */
static dls_plan *
plan_of(dls_state *state, PyObject *method, PyObject *obj, PyObject *name, finder find)
{
    dls_plan *plan, *last = NULL;
    do {
        int known = known_plan(state, method, name, obj, &plan);
        if (known == 0) {
            PyObject *type = PyObject_Type(obj);
            plan = make_plan(state, method, obj, type, find);
            Py_DECREF(type);
        }
        dls_plan_drop(last); /* it has held the method until now */
        last = plan;
        method = plan != NULL ? plan->seen : NULL;
    } while (plan != NULL && plan->forwards);
    return plan;
}

dls_plan *
dls_method_plan(dls_state *state, PyObject *method, PyObject *obj)
{
    /* As plan_of does, where nothing is to be looked up. */
    dls_plan *plan = dls_plan_known_in(&dls_method_data(method)->plans, obj);
    if (plan != NULL && plan->seen_on == NULL
        && plan->producer_type == state->producer_type) {
        return plan;
    }
    dls_plan_drop(plan);
    return plan_of(state, method, obj, state->names.dlpack, dls_authored_find);
}

/* Plan the export of an object that has another __dlpack__ in front of ours by now. */
static dls_plan *
plan_by_name(dls_state *state, PyObject *obj)
{
    const dls_authored foreign = {.dlpack = state->names.dlpack};
    PyObject *type = PyObject_Type(obj);
    dls_plan *plan = dls_plan_new_authored(state, obj, &foreign, (PyTypeObject *)type);
    Py_DECREF(type);
    return plan;
}

dls_plan *
dls_method_device_plan(dls_state *state, PyObject *method, PyObject *obj)
{
    dls_plan *plan = plan_of(state, method, obj, state->names.dlpack_device,
                             dls_authored_find_device);
    if (plan == NULL && !PyErr_ExceptionMatches(state->unsupported_object_error)) {
        return NULL;
    }
    /* If nothing answers the question, the export of the object does. */
    bool silent = plan == NULL || (!plan->has_device && plan->inner == NULL);
    PyObject *ours = silent ? dls_method_of(state, obj) : NULL;
    if (silent && ours == NULL) {
        PyErr_Clear();
        dls_plan_drop(plan);
        plan = plan_by_name(state, obj);
    }
    Py_XDECREF(ours);
    return plan;
}

/* --- asked by dlshim ------------------------------------------------------ */

/* Is this function, which the author wrote, running for the object, in this thread and
 * greenlet?  The plan has only a hint.  1, 0, or -1 with an exception. */
static int
runs_for(dls_state *state, const dls_plan *plan, PyObject *obj, PyObject *function)
{
    if (plan->serves != obj || function == NULL) {
        return 0;
    }
    PyObject *told = dls_in_python_with(state, DLS_IN_DECORATOR, "runs", "(OO)", obj,
                                        function);
    int runs = told != NULL ? PyObject_IsTrue(told) : -1;
    Py_XDECREF(told);
    if (runs == 0) {
        (void)dls_plan_serve(plan, NULL); /* a hint of another thread, or an old one */
    }
    return runs;
}

/* The answer of the author's method; None: only an export can tell. */
static PyObject *
ask_author(dls_state *state, PyObject *method, PyObject *obj)
{
    dls_plan *plan = dls_method_device_plan(state, method, obj);
    if (plan == NULL) {
        return NULL;
    }
    PyObject *function = plan->device_method, *answer = NULL;
    int runs = runs_for(state, plan, obj, function);
    if (runs == 0 && function != NULL) {
        answer = dls_device_call(plan, obj);
    }
    else if (runs >= 0) {
        answer = Py_NewRef(Py_None);
    }
    dls_plan_drop(plan);
    return answer;
}

PyObject *
dls_device_asker(PyObject *DLS_UNUSED(module), PyObject *obj)
{
    PyObject *module = dls_module_here();
    dls_state *state = module != NULL ? dls_state_of(module) : NULL;
    PyTypeObject *type = Py_TYPE(obj);
    PyObject *method = state != NULL ? PyObject_GetAttr((PyObject *)type,
                                                        state->names.dlpack_device)
                                     : NULL;
    PyObject *answer = NULL;
    if (method != NULL) {
        answer = dls_method_fits(state, method, type) ? ask_author(state, method, obj)
                                                      : Py_NewRef(Py_None);
    }
    Py_XDECREF(method);
    Py_XDECREF(module);
    return answer;
}

int
dls_decorated_enter(dls_state *state, PyObject *obj, dls_plan **plan, bool exports)
{
    PyObject *method = (*plan)->is_decorated ? dls_method_of(state, obj) : NULL;
    if (method == NULL) {
        return 0; /* it has another __dlpack__ by now */
    }
    if (exports) {
        /* By dlshim, whose export does not come by ours. */
        dls_decorated_was_asked(obj);
    }
    dls_plan *authored = dls_method_plan(state, method, obj);
    Py_DECREF(method);
    if (authored == NULL) {
        return -1;
    }
    if (authored->inner != NULL) {
        dls_plan_drop(authored); /* a base class has one: our method exports it */
        return 0;
    }
    int runs = runs_for(state, authored, obj, authored->method);
    if (runs != 0) {
        dls_plan_drop(authored);
        return runs < 0 ? -1
                        : dls_refuse(state, DLS_EBUFFER, obj,
                                     "its own __dlpack__ asks dlshim to export the "
                                     "object itself, which asks that method again\n"
                                     "  in it, call super().__dlpack__() or wrap the "
                                     "array that it holds: dlshim.upgrade(inner)");
    }
    dls_plan_drop(*plan);
    *plan = authored;
    return 0;
}

/* --- its inner array ------------------------------------------------------ */

void
dls_inner_refuse(dls_state *state, PyObject *obj, const dls_plan *plan, PyObject *inner)
{
    if (inner == Py_None || inner == obj) {
        PyErr_Clear();
        dls_refuse(state, DLS_EBUFFER, obj, "its inner array '%U' is %s", plan->inner,
                   inner == obj ? "the object itself"
                                : "None\n"
                                  "  set it before the export");
    }
    else if (inner == NULL || !PyObject_TypeCheck(inner, state->producer_type)) {
        dls_refuse_from_pending(state, obj, "its inner array '%U' cannot be exported",
                                plan->inner);
    }
}

PyObject *
dls_inner_described(dls_state *state, PyObject *obj, const dls_plan *plan,
                    PyObject *parts)
{
    PyObject *tensor = dls_in_python_with(state, DLS_IN_ARRAYS, "from_parts", "(O)",
                                          parts);
    Py_DECREF(parts);
    if (tensor == NULL) {
        dls_inner_refuse(state, obj, plan, NULL);
    }
    return tensor;
}
