/* One plan per type, learned at the first meeting.  Open addressing; a record
 * is never moved, evicted or reused, because wrappers point at it. */
#include "floor.h"

const dl_exchange_api *floor_table_of(PyTypeObject *type)
{
    PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
    if (capsule == NULL) {
        PyErr_Clear();
        return NULL;
    }
    const dl_exchange_api *table = PyCapsule_GetPointer(capsule, DL_NAME_EXCHANGE_API);
    if (table == NULL) {
        PyErr_Clear();
    }
    Py_DECREF(capsule);
    return table;
}

/* Asks for a versioned capsule; a TypeError says that the type is legacy. */
static int learn_method(floor_state *st, PyObject *source, floor_plan *plan)
{
    PyObject *capsule = floor_call_versioned(st, source);
    plan->method = FLOOR_VERSIONED;
    if (capsule == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError)) {
            return -1;
        }
        PyErr_Clear();
        plan->method = FLOOR_LEGACY;
        return 0;
    }
    if (!PyCapsule_IsValid(capsule, DL_NAME_VERSIONED)) {
        plan->method = FLOOR_LEGACY;
    }
    Py_DECREF(capsule);
    return 0;
}

static int learn(floor_state *st, PyObject *source, floor_plan *plan)
{
    PyTypeObject *type = Py_TYPE(source);
    if (learn_method(st, source, plan) < 0) {
        return -1;
    }
    plan->table = floor_table_of(type);
    if (plan->table != NULL) {
        PyObject *word = PyObject_GetAttr((PyObject *)type, st->name_requires_grad);
        plan->asks_grad = word != NULL;
        Py_XDECREF(word);
        PyErr_Clear();
    }
    Py_INCREF(type);
    plan->type = type;
    return 0;
}

const floor_plan *floor_find_plan(floor_state *st, PyObject *source)
{
    PyTypeObject *type = Py_TYPE(source);
    size_t slot = (uintptr_t)type >> 4;
    const floor_plan *first = &st->plans[slot % FLOOR_PLANS];
    if (first->type == type) {
        return first;
    }
    for (size_t tries = 0; tries < FLOOR_PLANS; tries++, slot++) {
        floor_plan *plan = &st->plans[slot % FLOOR_PLANS];
        if (plan->type == type) {
            return plan;
        }
        if (plan->type == NULL) {
            return learn(st, source, plan) < 0 ? NULL : plan;
        }
    }
    PyErr_SetString(PyExc_RuntimeError, "the floor knows no more than 128 types");
    return NULL;
}
