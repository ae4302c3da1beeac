/* Says how an object of a decorated class is asked, which calls run already, which
 * thread has asked for its device, and why its inner array failed.  Called by
 * export/export, module/functions and module/producer_class.  Tests:
 * tests/core/test_authors.py, tests/core/test_called_class.py. */
#include "exchange/decorated_class.h"

#include <assert.h>
#include <string.h>

#include "core/alloc.h"
#include "exchange/device_question.h"
#include "python/errors.h"
#include "types/offers.h"
#include "types/plan_cache.h"

bool
dls_object_has_our_method(const dls_state *state, PyObject *obj)
{
    PyObject *error = dls_error_take();
    PyObject *method = PyObject_GetAttr(obj, state->names.dlpack);
    PyErr_Clear();
    bool ours = method != NULL && PyCFunction_Check(method)
                && PyCFunction_GetFunction(method) == state->our_method
                && PyCFunction_GetSelf(method) == obj;
    Py_XDECREF(method);
    if (error != NULL) {
        dls_error_restore(error);
    }
    return ours;
}

/* --- which calls run ------------------------------------------------------ */

/* The kind of a running call. */
typedef enum { RUNS_EXPORT, RUNS_DEVICE } running_kind;

/* The addresses are only compared with. */
typedef struct {
    uintptr_t key; /* the object and a running_kind; 0: no call */
    unsigned long thread;
    const PyObject *greenlet; /* NULL: the process has none */
    Py_ssize_t next;          /* dls_authored_place */
} running_call;

/* The records of the calls that run: in a block of their own where there are many. */
enum { FIRST_ROOM = 16 };
static DLS_PER_THREAD running_call first_records[FIRST_ROOM];
static DLS_PER_THREAD running_call *records;
static DLS_PER_THREAD unsigned room;
DLS_PER_THREAD unsigned dls_running;

/* Apart: few processes have greenlets.  `modules`: the number of imported modules. */
DLS_APART static const PyObject *
look_for_greenlet(dls_state *state, Py_ssize_t modules)
{
    PyObject *module = dls_dict_borrow(state->modules, state->names.greenlet);
    if (module == NULL) {
        state->without_greenlet = modules;
        return NULL;
    }
    PyObject *here = PyObject_CallMethod(module, "getcurrent", NULL);
    Py_XDECREF(here); /* it runs */
    PyErr_Clear();    /* the module is being imported, or is another one */
    dls_let_go(module);
    return here;
}

/* The greenlet that runs; NULL: the process has not imported greenlet, as gevent and
 * eventlet do.  Looking for that module costs a hundred instructions, so it is looked
 * for only after the number of modules has changed. */
static inline const PyObject *
greenlet_here(dls_state *state)
{
    Py_ssize_t modules = PyDict_Size(state->modules);
    return modules != state->without_greenlet ? look_for_greenlet(state, modules)
                                              : NULL;
}

/* The place in the MRO after the methods that run for this object; 0: none does. */
static Py_ssize_t
running_next(dls_state *state, PyObject *obj, running_kind kind)
{
    Py_ssize_t next = 0;
    unsigned long me = dls_this_thread();
    const PyObject *greenlet = dls_running != 0 ? greenlet_here(state) : NULL;
    for (unsigned i = 0; dls_running != 0 && i < room; i++) {
        const running_call *call = &records[i];
        if (call->key == ((uintptr_t)obj | (uintptr_t)kind) && call->thread == me
            && call->greenlet == greenlet && call->next > next) {
            next = call->next;
        }
    }
    return next;
}

/* Before the first call and after the last: no block is left, whatever thread ends. */
static void
start_anew(void)
{
    if (records != first_records) {
        dls_free(records);
        memset(first_records, 0, sizeof first_records);
        records = first_records;
        room = FIRST_ROOM;
    }
}

/* Room for twice as many.  0, or -1 with MemoryError. */
static int
make_room(void)
{
    size_t used = room * sizeof *records;
    running_call *larger = dls_alloc(2 * used);
    if (larger == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(larger, records, used);
    memset(larger + room, 0, used);
    if (records != first_records) {
        dls_free(records);
    }
    records = larger;
    room *= 2;
    return 0;
}

unsigned
dls_running_begin(dls_state *state, PyObject *obj, const dls_plan *plan, bool device)
{
    bool answers = device && plan->has_device; /* else an export does */
    uintptr_t kind = answers ? RUNS_DEVICE : RUNS_EXPORT;
    assert(((uintptr_t)obj & 1) == 0); /* where the kind is put */
    const running_call call = {
        .key = (uintptr_t)obj | kind,
        .thread = dls_this_thread(),
        .greenlet = greenlet_here(state),
        .next = answers ? plan->device_place.next : plan->place.next,
    };
    if (dls_running == 0) {
        start_anew();
    }
    else if (dls_running == room && make_room() < 0) {
        return DLS_NO_CALL;
    }
    unsigned i = 0;
    while (records[i].key != 0) {
        i++;
    }
    records[i] = call;
    dls_running++;
    return i;
}

void
dls_running_end(unsigned call)
{
    if (call == DLS_NO_CALL) {
        return;
    }
    assert(call < room && records[call].key != 0);
    records[call].key = 0;
    dls_running--;
    if (dls_running == 0) {
        start_anew();
    }
}

void
dls_running_fork(void)
{
    unsigned long me = dls_this_thread();
    for (unsigned i = 0; i < room; i++) {
        if (records[i].key != 0 && records[i].thread != me) {
            records[i].key = 0;
            dls_running--;
        }
    }
}

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

/* --- what its author wrote ------------------------------------------------ */

static inline bool
is_of_type(const dls_plan *plan)
{
    return plan->name != NULL && plan->method == NULL && plan->device_method == NULL;
}

/* Keep the plan with its type, in the place of one that was made before another class
 * of the MRO was changed.  The caller owns the type.  0, or -1 with an exception. */
static int
keep_plan(dls_state *state, PyObject *obj, dls_plan *plan)
{
    dls_plan *known = dls_plan_known_authored(state, obj);
    if (known != NULL && known->place.first != plan->place.first) {
        dls_plan_forget_authored(state, known);
    }
    dls_plan_drop(known);
    return dls_plan_keep_authored(state, plan);
}

/* Python finds what the author wrote: it looks at each class of the MRO.  The plan is
 * kept with the type if it is the one that is asked first, and if it works by names: a
 * plan that holds a function of the class would keep the class alive. */
static dls_plan *
find_plan(dls_state *state, PyObject *obj, const PyTypeObject *entered, bool device)
{
    dls_authored authored;
    Py_ssize_t next = running_next(state, obj, RUNS_EXPORT);
    Py_ssize_t device_next = running_next(state, obj, RUNS_DEVICE);
    if (dls_authored_find(state, obj, entered, device, next, device_next, &authored)
        < 0) {
        return NULL;
    }
    PyObject *type = PyObject_Type(obj);
    dls_plan *plan = dls_plan_new_authored(state, obj, &authored, (PyTypeObject *)type);
    bool first = entered == authored.place.first || entered == &PyBaseObject_Type
                 || (entered == NULL && next == 0);
    bool kept = plan != NULL && !device && first && device_next == 0
                && is_of_type(plan);
    if (kept && keep_plan(state, obj, plan) < 0) {
        dls_plan_drop(plan);
        plan = NULL;
    }
    Py_DECREF(authored.owner);
    Py_DECREF(type);
    return plan;
}

/* Is the plan, which is kept, the one of this call? */
static bool
fits(const dls_plan *plan, const PyTypeObject *entered, bool device)
{
    const PyTypeObject *first = device ? plan->device_place.first : plan->place.first;
    return entered == NULL || entered == first
           || (entered == &PyBaseObject_Type && first != NULL);
}

static dls_plan *
plan_of_author(dls_state *state, PyObject *obj, const PyTypeObject *entered,
               bool device)
{
    dls_plan *plan = NULL;
    if (dls_running == 0
        || (running_next(state, obj, RUNS_EXPORT) == 0
            && running_next(state, obj, RUNS_DEVICE) == 0)) {
        plan = dls_plan_known_authored(state, obj);
        if (plan == NULL && device) {
            plan = find_plan(state, obj, NULL, false); /* this one is kept */
            if (plan == NULL) {
                return NULL;
            }
        }
    }
    if (plan != NULL && !fits(plan, entered, device)) {
        dls_plan_drop(plan);
        plan = NULL;
    }
    return plan != NULL ? plan : find_plan(state, obj, entered, device);
}

/* Plan the export of an object that has another __dlpack__ in front of ours by now. */
static dls_plan *
plan_by_name(dls_state *state, PyObject *obj)
{
    const dls_authored foreign = {
        .inner = Py_None, .dlpack = state->names.dlpack, .place.next = 1};
    PyObject *type = PyObject_Type(obj);
    dls_plan *plan = dls_plan_new_authored(state, obj, &foreign, (PyTypeObject *)type);
    Py_DECREF(type);
    return plan;
}

dls_plan *
dls_decorated_plan(dls_state *state, PyObject *obj, const PyTypeObject *entered,
                   bool device)
{
    dls_plan *plan = plan_of_author(state, obj, entered, device);
    if (!device
        || (plan == NULL && !PyErr_ExceptionMatches(state->unsupported_object_error))) {
        return plan;
    }
    /* If the author's class answers no device question, the export of the object does,
     * unless it is the export that asks. */
    bool silent = plan == NULL || (!plan->has_device && plan->inner == NULL);
    if (silent && !dls_object_has_our_method(state, obj)
        && running_next(state, obj, RUNS_EXPORT) == 0) {
        PyErr_Clear();
        dls_plan_drop(plan);
        plan = plan_by_name(state, obj);
    }
    return plan;
}

unsigned
dls_decorated_begin(dls_state *state, PyObject *obj, dls_plan **plan, bool device)
{
    dls_plan *ours = *plan;
    if (!ours->is_decorated || !dls_object_has_our_method(state, obj)) {
        return DLS_NO_CALL;
    }
    if (!device) {
        /* By dlshim, whose export does not come by ours. */
        dls_decorated_was_asked(obj);
    }
    dls_plan *authored = dls_decorated_plan(state, obj, NULL, device);
    if (authored != NULL && authored->inner != NULL) {
        dls_plan_drop(authored); /* a base class has one: our method exports it */
        return DLS_NO_CALL;
    }
    unsigned running = authored != NULL
                           ? dls_running_begin(state, obj, authored, device)
                           : DLS_NO_CALL;
    if (running == DLS_NO_CALL) {
        dls_plan_drop(authored);
        authored = NULL;
    }
    *plan = authored;
    dls_plan_drop(ours);
    return running;
}

/* --- its inner array ------------------------------------------------------ */

void
dls_inner_refuse(dls_state *state, PyObject *obj, const dls_plan *plan, PyObject *inner)
{
    if (inner == Py_None || inner == obj) {
        PyErr_Clear();
        dls_refuse(state, DLS_EBUFFER, obj, "its inner array '%U' is %s", plan->inner,
                   inner == obj ? "the object itself"
                                : "None; set it before the export");
    }
    else if (inner == NULL || !PyObject_TypeCheck(inner, state->producer_type)) {
        dls_refuse_from_pending(state, obj, "its inner array '%U' cannot be exported",
                                plan->inner);
    }
}
