/* The methods that dlshim.producer puts on a decorated class: __dlpack__,
 * __dlpack_device__ and __array__ in C, and the C table (shim/decorator.py does the
 * rest).  __dlpack__ is hot. Tests: tests/core/test_authors.py. */
#include "module/producer_class.h"

#include "abi/dlpack_abi.h"
#include "exchange/decorated_class.h"
#include "exchange/device_question.h"
#include "exchange/plan_cache.h"
#include "module/functions.h"
#include "module/producer.h"
#include "python/errors.h"
#include "python/state.h"

/* --- calls ---------------------------------------------------------------- */

/* A Producer of an inner array; NULL with an exception. */
static PyObject *
upgrade_inner(dls_state *state, PyObject *self, const dls_plan *plan, PyObject *inner)
{
    PyObject *producer = inner != self ? dls_upgrade(state, inner) : NULL;
    if (producer == NULL) {
        dls_inner_refuse(state, self, plan, inner);
    }
    return producer;
}

/* A third nested device question is an endless loop; an export would detect it too. */
static PyObject *
refuse_circle(dls_state *state, PyObject *self)
{
    dls_refuse(state, DLS_EBUFFER, self,
               "its __dlpack_device__ calls itself through dlshim");
    return NULL;
}

/* Find the party that is asked.  1 = the author's own methods, by *plan; 0 = the
 * object, which has another __dlpack__ by now; -1 = an exception. */
static int
find_asked(dls_state *state, PyObject *self, dls_class_method method, dls_plan **plan)
{
    bool device = method == DLS_CLASS_DEVICE;
    if (!device && !dls_object_has_our_method(state, self)) {
        return 0;
    }
    *plan = dls_decorated_plan(state, self, device);
    if (*plan == NULL && !PyErr_ExceptionMatches(state->unsupported_object_error)) {
        return -1;
    }
    /* If the author's class answers no device question, the object may. */
    bool silent = *plan == NULL || (!(*plan)->has_device && (*plan)->inner == NULL);
    if (device && silent && !dls_object_has_our_method(state, self)) {
        PyErr_Clear();
        dls_plan_drop(*plan);
        *plan = NULL;
        return 0;
    }
    return *plan != NULL ? 1 : -1;
}

/* The Producer of a call.  NULL with an exception. */
static inline PyObject *
producer_of(dls_state *state, PyObject *self, dls_class_method method,
            unsigned *running)
{
    bool device = method == DLS_CLASS_DEVICE;
    dls_plan *plan = NULL;
    if (device && dls_running > 1 && dls_running_count(self, DLS_RUNS_DEVICE) > 1) {
        return refuse_circle(state, self);
    }
    int asked = find_asked(state, self, method, &plan);
    if (asked < 0) {
        return NULL;
    }
    /* If the author's class answers no device question, its export does. */
    bool answered = device && (asked == 0 || plan->has_device);
    *running = dls_running_begin(self, answered     ? DLS_RUNS_DEVICE
                                       : asked == 0 ? DLS_RUNS_FOREIGN
                                                    : DLS_RUNS_EXPORT);
    if (*running == DLS_NO_CALL) {
        dls_plan_drop(plan);
        return NULL;
    }
    if (asked == 0) {
        return dls_upgrade(state, self);
    }
    if (plan->inner == NULL) {
        return dls_producer_new(state, self, plan, NULL);
    }
    PyObject *inner = dls_inner_get(state, self, plan);
    PyObject *producer = inner != NULL ? upgrade_inner(state, self, plan, inner) : NULL;
    Py_XDECREF(inner);
    dls_plan_drop(plan);
    return producer;
}

/* The state, and in *type the type that keeps it while foreign code runs.  NULL with an
 * exception. */
static inline dls_state *
hold_state(PyObject **type)
{
    dls_state *state = dls_state_known;
    PyObject *module = state == NULL ? dls_module_here() : NULL;
    if (module != NULL) {
        state = dls_state_of(module);
    }
    if (state != NULL) {
        *type = Py_NewRef((PyObject *)state->producer_type);
    }
    Py_XDECREF(module);
    return state;
}

int
dls_class_enter(dls_class_call *call, PyObject *self, dls_class_method method)
{
    *call = (dls_class_call){.running = DLS_NO_CALL};
    dls_state *state = hold_state(&call->type);
    if (state != NULL) {
        call->producer = producer_of(state, self, method, &call->running);
    }
    return call->producer != NULL ? 0 : -1;
}

void
dls_class_leave(dls_class_call *call)
{
    dls_running_end(call->running);
    Py_XDECREF(call->producer);
    Py_XDECREF(call->type);
}

/* The arguments of a __dlpack__ call. */
typedef struct {
    PyObject *const *args;
    Py_ssize_t n;
    PyObject *kwnames;
    bool asked; /* for the device, just before */
} call_arguments;

/* Export as a Producer does, without an object for it.  Steals the plan.  A copy that
 * was made for the export is not kept. */
static inline PyObject *
export_source(dls_state *state, PyObject *source, dls_plan *plan,
              const call_arguments *call)
{
    dls_producer data = {.state = state, .source = source, .plan = plan};
    if (call->asked) {
        dls_question_note(&data.asked);
    }
    PyObject *capsule = dls_producer_dlpack(&data, call->args, call->n, call->kwnames);
    if (data.kept != NULL) {
        dls_shared_drop(data.kept, DLS_ATTACHED);
    }
    dls_plan_drop(plan);
    return capsule;
}

/* The inner array by a Producer, which may have options. */
static PyObject *
export_upgraded(dls_state *state, PyObject *self, const dls_plan *plan, PyObject *inner,
                const call_arguments *call)
{
    PyObject *producer = upgrade_inner(state, self, plan, inner);
    if (producer == NULL) {
        return NULL;
    }
    dls_producer *data = dls_producer_data(producer);
    if (call->asked) {
        dls_question_note(&data->asked);
    }
    PyObject *capsule = dls_producer_dlpack(data, call->args, call->n, call->kwnames);
    Py_DECREF(producer);
    return capsule;
}

/* The inner array, as another source where its type is known.  Steals the plan. */
static inline PyObject *
export_inner(dls_state *state, PyObject *self, dls_plan *plan,
             const call_arguments *call)
{
    PyObject *capsule = NULL;
    PyObject *inner = dls_inner_get(state, self, plan);
    if (inner != NULL) {
        dls_plan *known = dls_plan_known(state, inner);
        capsule = known != NULL ? export_source(state, inner, known, call)
                                : export_upgraded(state, self, plan, inner, call);
        Py_DECREF(inner);
    }
    dls_plan_drop(plan);
    return capsule;
}

/* Export by the author's own methods, which may call ours.  Steals the plan. */
static inline PyObject *
export_authored(dls_state *state, PyObject *self, dls_plan *plan,
                const call_arguments *call)
{
    unsigned running = dls_running_begin(self, DLS_RUNS_EXPORT);
    if (running == DLS_NO_CALL) {
        dls_plan_drop(plan);
        return NULL;
    }
    PyObject *capsule = export_source(state, self, plan, call);
    dls_running_end(running);
    return capsule;
}

PyObject *
dls_class_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *type, *capsule = NULL;
    call_arguments call = {args, n, kwnames, dls_decorated_was_asked(self)};
    dls_state *state = hold_state(&type);
    if (state == NULL) {
        return NULL;
    }
    /* If no call runs, the plan is usually known. */
    dls_plan *plan = dls_running == 0 ? dls_plan_known_authored(state, self) : NULL;
    if (plan == NULL) {
        plan = dls_decorated_plan(state, self, false);
    }
    /* A question to another __dlpack_device__ of the class was not seen here. */
    call.asked |= plan != NULL && plan->hides_question;
    if (plan != NULL && plan->inner != NULL) {
        capsule = export_inner(state, self, plan, &call);
    }
    else if (plan != NULL) {
        capsule = export_authored(state, self, plan, &call);
    }
    Py_DECREF(type);
    return capsule;
}

static PyObject *
class_dlpack_device(PyObject *self, PyObject *ignored)
{
    dls_class_call call;
    PyObject *device = NULL;
    if (dls_class_enter(&call, self, DLS_CLASS_DEVICE) == 0) {
        device = dls_producer_dlpack_device(call.producer, ignored);
    }
    dls_class_leave(&call);
    dls_decorated_note_question(self);
    return device;
}

static PyObject *
class_array(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    dls_class_call call;
    PyObject *array = NULL;
    if (dls_class_enter(&call, self, DLS_CLASS_ARRAY) == 0) {
        array = dls_producer_array(call.producer, args, n, kwnames);
    }
    dls_class_leave(&call);
    return array;
}

/* --- the attributes ------------------------------------------------------- */

static PyMethodDef methods[] = {
    DLS_DLPACK_METHODS(dls_class_dlpack, class_dlpack_device, class_array)};

static PyObject *
descriptor(size_t i)
{
    return PyDescr_NewMethod(&PyBaseObject_Type, &methods[i]);
}

/* The methods are descriptors of `object`: they take an object of every class, so that
 * a class may be copied (dataclass(slots=True)).  By this they are known, too. */
static PyObject *
class_attributes(PyObject *module, PyObject *DLS_UNUSED(ignored))
{
    dls_state *state = dls_state_of(module);
    void *table = (void *)(uintptr_t)((const dl_exchange_api *)state->own_table + 1);
    /* The format N steals a reference, and passes the failure of a NULL on. */
    return Py_BuildValue("{sNsNsNONON}", methods[0].ml_name, descriptor(0),
                         methods[1].ml_name, descriptor(1), methods[2].ml_name,
                         descriptor(2), state->names.exchange_api,
                         PyCapsule_New(table, DL_NAME_EXCHANGE_API, NULL),
                         state->names.exchange_api_old, dls_address_object(table));
}

PyMethodDef dls_class_functions[] = {
    {"_class_attributes", class_attributes, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
