/* The methods that dlshim.producer puts on a decorated class: __dlpack__,
 * __dlpack_device__ and __array__ in C, and the C table (shim/decorator.py does the
 * rest).  __dlpack__ is hot. Tests: tests/core/test_authors.py. */
#include "module/producer_class.h"

#include "abi/dlpack_abi.h"
#include "exchange/decorated_class.h"
#include "exchange/device_question.h"
#include "module/ctable_out.h"
#include "module/functions.h"
#include "module/producer.h"
#include "python/errors.h"
#include "python/state.h"
#include "types/class_method.h"
#include "types/plan_cache.h"

/* --- calls ---------------------------------------------------------------- */

/* A Producer of an inner array; NULL with an exception. */
static PyObject *
upgrade_inner(dls_state *state, PyObject *self, const dls_plan *plan, PyObject *inner)
{
    /* The class's own C table says what the home is. */
    PyObject *producer = inner != self ? dls_upgrade_into(state, state->producer_type,
                                                          inner, NULL)
                                       : NULL;
    if (producer == NULL) {
        dls_inner_refuse(state, self, plan, inner);
    }
    return producer;
}

/* A Producer of what the plan says.  Steals the plan, which may be NULL with an
 * exception.  NULL with an exception. */
static inline PyObject *
producer_of(dls_state *state, PyObject *self, dls_plan *plan, bool device,
            unsigned *running)
{
    if (plan == NULL) {
        return NULL;
    }
    if (plan->inner == NULL) {
        *running = dls_running_begin(state, self, plan, device);
        if (*running != DLS_NO_CALL) {
            return dls_producer_new(state, self, plan, NULL);
        }
        dls_plan_drop(plan);
        return NULL;
    }
    PyObject *inner = dls_inner_get(state, self, plan);
    PyObject *producer = inner != NULL ? upgrade_inner(state, self, plan, inner) : NULL;
    Py_XDECREF(inner);
    dls_plan_drop(plan);
    return producer;
}

/* The state, and in *type a type that keeps it while foreign code runs.  NULL with an
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
        *type = Py_NewRef((PyObject *)state->tensor_type);
    }
    Py_XDECREF(module);
    return state;
}

int
dls_class_enter(dls_class_call *call, PyObject *self, const PyTypeObject *entered,
                bool device)
{
    *call = (dls_class_call){.running = DLS_NO_CALL};
    dls_state *state = hold_state(&call->type);
    if (state == NULL) {
        return -1;
    }
    if (device || dls_object_has_our_method(state, self)) {
        dls_plan *plan = dls_decorated_plan(state, self, entered, device);
        call->producer = producer_of(state, self, plan, device, &call->running);
    }
    else {
        /* It has another one by now. */
        call->producer = dls_upgrade_into(state, state->producer_type, self, NULL);
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
    unsigned running = dls_running_begin(state, self, plan, false);
    if (running == DLS_NO_CALL) {
        dls_plan_drop(plan);
        return NULL;
    }
    PyObject *capsule = export_source(state, self, plan, call);
    dls_running_end(running);
    return capsule;
}

PyObject *
dls_class_dlpack(PyObject *self, PyTypeObject *entered, PyObject *const *args,
                 Py_ssize_t n, PyObject *kwnames)
{
    PyObject *type, *capsule = NULL;
    call_arguments call = {args, n, kwnames, dls_decorated_was_asked(self)};
    dls_state *state = hold_state(&type);
    if (state == NULL) {
        return NULL;
    }
    /* If no call runs, the plan is usually known. */
    dls_plan *plan = dls_running == 0 ? dls_plan_known_authored(state, self) : NULL;
    if (plan == NULL || plan->place.first != entered) {
        dls_plan_drop(plan);
        plan = dls_decorated_plan(state, self, entered, false);
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
class_dlpack_device(PyObject *self, PyTypeObject *entered, PyObject *const *args,
                    Py_ssize_t n, PyObject *kwnames)
{
    (void)args;
    if (n != 0 || (kwnames != NULL && PyTuple_Size(kwnames) != 0)) {
        return PyErr_Format(PyExc_TypeError, "__dlpack_device__() takes no arguments");
    }
    dls_class_call call;
    PyObject *device = NULL;
    if (dls_class_enter(&call, self, entered, true) == 0) {
        device = dls_producer_dlpack_device(call.producer, NULL);
    }
    dls_class_leave(&call);
    dls_decorated_note_question(self);
    return device;
}

static PyObject *
class_array(PyObject *self, PyTypeObject *DLS_UNUSED(entered), PyObject *const *args,
            Py_ssize_t n, PyObject *kwnames)
{
    dls_class_call call;
    PyObject *array = NULL;
    if (dls_class_enter(&call, self, NULL, false) == 0) {
        array = dls_producer_array(call.producer, args, n, kwnames);
    }
    dls_class_leave(&call);
    return array;
}

/* --- the attributes ------------------------------------------------------- */

enum { WITH_CLASS = METH_METHOD | METH_FASTCALL | METH_KEYWORDS };

static PyMethodDef methods[] = {DLS_DLPACK_METHODS(dls_class_dlpack, WITH_CLASS,
                                                   class_dlpack_device, WITH_CLASS,
                                                   class_array, WITH_CLASS)};

/* The methods for one class, which take objects of that class alone.  A copy of the
 * class needs methods of its own. */
static PyObject *
class_methods(PyObject *module, PyObject *cls)
{
    dls_state *state = dls_state_of(module);
    if (!PyType_Check(cls)) {
        return PyErr_Format(PyExc_TypeError, "a class is needed, not %R", cls);
    }
    PyObject *made = PyDict_New();
    for (size_t i = 0; made != NULL && i < Py_ARRAY_LENGTH(methods); i++) {
        PyObject *method = dls_class_method_new(state, (PyTypeObject *)cls,
                                                &methods[i]);
        if (method == NULL
            || PyDict_SetItemString(made, methods[i].ml_name, method) < 0) {
            Py_CLEAR(made);
        }
        Py_XDECREF(method);
    }
    return made;
}

PyMethodDef dls_class_functions[] = {
    {"_class_methods", class_methods, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
