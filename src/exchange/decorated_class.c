/* Says how an object of a decorated class is asked, which calls run already, which
 * thread has asked for its device, and why its inner array failed.  Called by
 * export/export, module/functions and module/producer_class.  Tests:
 * tests/core/test_authors.py. */
#include "exchange/decorated_class.h"

#include <assert.h>
#include <string.h>

#include "core/alloc.h"
#include "exchange/device_question.h"
#include "exchange/offers.h"
#include "exchange/plan_cache.h"
#include "python/errors.h"

bool
dls_object_has_our_method(const dls_state *state, PyObject *obj)
{
    PyObject *error = dls_error_take();
    PyObject *method = PyObject_GetAttr(obj, state->names.dlpack);
    PyErr_Clear();
    bool ours = method != NULL && PyCFunction_Check(method)
                && PyCFunction_GetFunction(method) == state->our_method;
    Py_XDECREF(method);
    if (error != NULL) {
        dls_error_restore(error);
    }
    return ours;
}

/* --- which calls run ------------------------------------------------------ */

/* The addresses of objects are only compared with. */
typedef struct {
    uintptr_t key; /* the object and a dls_running_kind; 0: no call */
    unsigned long thread;
} running_call;

/* The records of the calls that run: in a block of their own where there are many. */
enum { FIRST_ROOM = 16 };
static DLS_PER_THREAD running_call first_records[FIRST_ROOM];
static DLS_PER_THREAD running_call *records;
static DLS_PER_THREAD unsigned room;
DLS_PER_THREAD unsigned dls_running;

unsigned
dls_running_count(PyObject *obj, dls_running_kind kind)
{
    unsigned count = 0;
    unsigned long me = dls_this_thread();
    for (unsigned i = 0; i < room; i++) {
        count += records[i].key == ((uintptr_t)obj | (uintptr_t)kind)
                 && records[i].thread == me;
    }
    return count;
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
dls_running_begin(PyObject *obj, dls_running_kind kind)
{
    assert(((uintptr_t)obj & 3) == 0); /* where the kind is put */
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
    records[i] = (running_call){(uintptr_t)obj | (uintptr_t)kind, dls_this_thread()};
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

/* Python finds what the author wrote: it looks at each class of the MRO.  The plan is
 * kept with the type if it is the one that is asked first, and if it works by names: a
 * plan that holds a function of the class would keep the class alive. */
static dls_plan *
find_plan(dls_state *state, PyObject *obj, bool device)
{
    dls_authored authored;
    unsigned level = dls_running_count(obj, DLS_RUNS_EXPORT);
    if (dls_authored_find(state, obj, level, dls_running_count(obj, DLS_RUNS_DEVICE),
                          device, &authored)
        < 0) {
        return NULL;
    }
    PyObject *type = PyObject_Type(obj);
    dls_plan *plan = dls_plan_new_authored(state, obj, &authored, (PyTypeObject *)type);
    Py_DECREF(authored.owner);
    bool kept = plan != NULL && !device && level == 0 && is_of_type(plan);
    if (kept && dls_plan_keep_authored(state, plan) < 0) {
        dls_plan_drop(plan);
        plan = NULL;
    }
    Py_DECREF(type);
    return plan;
}

/* Does the question go to the object's class?  A class may have another
 * __dlpack_device__ by now, which then calls ours by super(). */
static bool
is_overridden(const dls_state *state, const dls_plan *plan)
{
    return plan->device_name == state->names.dlpack_device && plan->has_device;
}

dls_plan *
dls_decorated_plan(dls_state *state, PyObject *obj, bool device)
{
    dls_plan *plan = NULL;
    if (dls_running == 0
        || dls_running_count(obj, DLS_RUNS_EXPORT)
                   + dls_running_count(obj, DLS_RUNS_DEVICE)
               == 0) {
        plan = dls_plan_known_authored(state, obj);
        if (plan == NULL && device) {
            plan = find_plan(state, obj, false); /* this one is kept */
            if (plan == NULL) {
                return NULL;
            }
        }
    }
    if (plan != NULL && device && is_overridden(state, plan)) {
        dls_plan_drop(plan);
        plan = NULL;
    }
    return plan != NULL ? plan : find_plan(state, obj, device);
}

unsigned
dls_decorated_begin(dls_state *state, PyObject *obj, dls_plan **plan)
{
    dls_plan *ours = *plan;
    if (!ours->is_decorated || !dls_object_has_our_method(state, obj)) {
        return DLS_NO_CALL;
    }
    dls_decorated_was_asked(obj); /* by dlshim, whose export does not come by ours */
    dls_plan *authored = dls_decorated_plan(state, obj, false);
    if (authored != NULL && authored->inner != NULL) {
        dls_plan_drop(authored); /* a base class has one: our method exports it */
        return DLS_NO_CALL;
    }
    unsigned running = authored != NULL ? dls_running_begin(obj, DLS_RUNS_EXPORT)
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
    else if (inner == NULL || !Py_IS_TYPE(inner, state->producer_type)) {
        dls_refuse_from_pending(state, obj, "its inner array '%U' cannot be exported",
                                plan->inner);
    }
}
