/* The methods that dlshim.producer puts on a decorated class: __dlpack__,
 * __dlpack_device__ and __array__ in C, and the C table (shim/decorator.py does the
 * rest).  __dlpack__ is hot. Tests: tests/core/test_authors.py. */
#include "authors/producer_class.h"

#include <string.h>

#include "abi/dlpack_abi.h"
#include "exchange/decorated_class.h"
#include "exchange/device_question.h"
#include "public/functions.h"
#include "public/producer.h"
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

/* The Producer of the inner array of that plan; NULL with an exception. */
static PyObject *
producer_of_inner(dls_state *state, PyObject *self, const dls_plan *plan)
{
    PyObject *inner = dls_inner_get(state, self, plan);
    PyObject *producer = inner != NULL ? upgrade_inner(state, self, plan, inner) : NULL;
    Py_XDECREF(inner);
    return producer;
}

/* A Producer of what our method of the object says.  NULL with an exception. */
static PyObject *
producer_of(dls_state *state, PyObject *self, PyObject *method)
{
    dls_plan *plan = dls_method_plan(state, method, self);
    if (plan == NULL || plan->inner == NULL) {
        return plan != NULL ? dls_producer_new(state, self, plan, NULL) : NULL;
    }
    PyObject *producer = producer_of_inner(state, self, plan);
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
dls_class_enter(dls_class_call *call, PyObject *self)
{
    *call = (dls_class_call){.producer = NULL};
    dls_state *state = hold_state(&call->type);
    if (state == NULL) {
        return -1;
    }
    PyObject *method = dls_method_of(state, self);
    /* It may have another one by now. */
    call->producer = method != NULL
                         ? producer_of(state, self, method)
                         : dls_upgrade_into(state, state->producer_type, self, NULL);
    Py_XDECREF(method);
    return call->producer != NULL ? 0 : -1;
}

void
dls_class_leave(dls_class_call *call)
{
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

static PyObject *
class_dlpack(PyObject *self, PyObject *method, PyObject *const *args, Py_ssize_t n,
             PyObject *kwnames)
{
    PyObject *type, *capsule = NULL;
    call_arguments call = {args, n, kwnames, dls_decorated_was_asked(self)};
    dls_state *state = hold_state(&type);
    if (state == NULL) {
        return NULL;
    }
    dls_plan *plan = dls_method_plan(state, method, self);
    call.asked |= plan != NULL && plan->hides_question;
    if (plan != NULL && plan->inner != NULL) {
        capsule = export_inner(state, self, plan, &call);
    }
    else if (plan != NULL) {
        capsule = export_source(state, self, plan, &call);
    }
    Py_DECREF(type);
    return capsule;
}

/* The answer of the plan (stolen), which learns where the objects lie. */
static PyObject *
answer_of(dls_state *state, PyObject *self, dls_plan *plan)
{
    dls_producer data = {.state = state, .source = self, .plan = plan};
    PyObject *device = dls_producer_device(&data);
    if (device == state->host_device) {
        dls_plan_learn_form(plan, 0);
    }
    else if (device != NULL) {
        dls_plan_leave_host(plan);
    }
    dls_plan_drop(plan);
    return device;
}

/* The answer of the inner array.  Steals the plan. */
static PyObject *
answer_of_inner(dls_state *state, PyObject *self, dls_plan *plan)
{
    PyObject *producer = producer_of_inner(state, self, plan), *device = NULL;
    if (producer != NULL) {
        device = dls_producer_dlpack_device(producer, NULL);
        Py_DECREF(producer);
    }
    dls_plan_drop(plan);
    return device;
}

static PyObject *
class_dlpack_device(PyObject *self, PyObject *method, PyObject *const *args,
                    Py_ssize_t n, PyObject *kwnames)
{
    (void)args;
    if (n != 0 || (kwnames != NULL && PyTuple_Size(kwnames) != 0)) {
        return PyErr_Format(PyExc_TypeError, "__dlpack_device__() takes no arguments");
    }
    PyObject *type, *device = NULL;
    dls_state *state = hold_state(&type);
    if (state == NULL) {
        return NULL;
    }
    dls_plan *plan = dls_method_device_plan(state, method, self);
    if (plan != NULL) {
        device = (plan->inner == NULL ? answer_of : answer_of_inner)(state, self, plan);
    }
    Py_DECREF(type);
    dls_decorated_note_question(self);
    return device;
}

static PyObject *
class_array(PyObject *self, PyObject *DLS_UNUSED(method), PyObject *const *args,
            Py_ssize_t n, PyObject *kwnames)
{
    dls_class_call call;
    PyObject *array = NULL;
    if (dls_class_enter(&call, self) == 0) {
        array = dls_producer_array(call.producer, args, n, kwnames);
    }
    dls_class_leave(&call);
    return array;
}

/* --- the attributes ------------------------------------------------------- */

/* Their functions get the method in the place of the class that METH_METHOD passes. */
enum { WITH_METHOD = METH_METHOD | METH_FASTCALL | METH_KEYWORDS };

static PyMethodDef methods[] = {DLS_DLPACK_METHODS(class_dlpack, WITH_METHOD,
                                                   class_dlpack_device, WITH_METHOD,
                                                   class_array, WITH_METHOD)};

/* The method of that name for one class, which takes objects of that class alone.  A
 * copy of the class needs methods of its own. */
static PyObject *
class_method(PyObject *module, PyObject *args)
{
    PyObject *cls, *own, *inner;
    const char *name;
    if (!PyArg_ParseTuple(args, "O!sOO", &PyType_Type, &cls, &name, &own, &inner)) {
        return NULL;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(methods); i++) {
        if (strcmp(methods[i].ml_name, name) == 0) {
            return dls_method_new(dls_state_of(module), (PyTypeObject *)cls,
                                  &methods[i], own, inner);
        }
    }
    return PyErr_Format(PyExc_ValueError, "dlshim puts no %s on classes", name);
}

PyMethodDef dls_class_functions[] = {
    {"_class_method", class_method, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
