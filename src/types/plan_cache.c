/* Finds the plan of a type, or makes one.  Called by public/ (upgrade, from_dlpack) and
 * module/ (its life) and export/.  Foreign code runs where a new plan is made.  Tests:
 * tests/core/test_lifetime.py, tests/core/test_leaks.py. */
#include "types/plan_cache.h"

#include "core/alloc.h"
#include "python/errors.h"
#include "types/offers.h"

enum { FIRST_SIZE = 32 };

/* Callback of the weak reference to a type whose plan is cached: the type has gone.
 * about: the module, and the type's address, by which the entries are found. */
static PyObject *
forget_type(PyObject *about, PyObject *reference)
{
    dls_plan_caches *plans = dls_state_of(PyTuple_GetItem(about, 0))->plans;
    const PyTypeObject *type = PyLong_AsVoidPtr(PyTuple_GetItem(about, 1));
    dls_plan_cache_forget(&plans->of_types, type, reference);
    dls_plan_cache_forget(&plans->of_instances, type, reference);
    Py_RETURN_NONE;
}

static PyMethodDef forget_method = {"_forget", forget_type, METH_O, NULL};

/* --- the two ------------------------------------------------------------------- */

dls_plan_caches *
dls_plan_caches_new(void)
{
    dls_plan_caches *plans = dls_alloc(sizeof *plans);
    if (plans == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    *plans = (dls_plan_caches){.of_types = {.entries = NULL}};
    if (dls_plan_cache_init(&plans->of_types, FIRST_SIZE) < 0
        || dls_plan_cache_init(&plans->of_instances, FIRST_SIZE) < 0) {
        dls_plan_caches_free(plans);
        return NULL;
    }
    return plans;
}

void
dls_plan_caches_clear(dls_plan_caches *plans)
{
    dls_plan_cache_clear(&plans->of_types);
    dls_plan_cache_clear(&plans->of_instances);
}

void
dls_plan_caches_free(dls_plan_caches *plans)
{
    if (plans != NULL) {
        dls_plan_cache_free(&plans->of_types);
        dls_plan_cache_free(&plans->of_instances);
        dls_free(plans);
    }
}

int
dls_plan_caches_visit(dls_plan_caches *plans, visitproc visit, void *arg)
{
    int stop = dls_plan_cache_visit(&plans->of_types, visit, arg);
    return stop != 0 ? stop : dls_plan_cache_visit(&plans->of_instances, visit, arg);
}

/* dls_plan_cache_keep for a cache of the state.  0: also because the module was emptied
 * (state.h): the plan would never be taken out. */
static int
cache_add(dls_state *state, dls_plan_cache *cache, dls_plan *plan)
{
    PyObject *module = dls_state_borrow(&state->module);
    int kept = module != NULL ? dls_plan_cache_keep(cache, plan, module, &forget_method)
                              : 0;
    dls_let_go(module);
    return kept;
}

/* A plan that offers nothing (a count, stolen), if that still is so; else it is taken
 * out, and NULL. */
static dls_plan *
nothing_still(dls_state *state, dls_plan *plan, PyObject *obj)
{
    if (dls_offers_nothing_still(state, plan, obj)) {
        return plan;
    }
    dls_plan_cache_retire(&state->plans->of_instances, plan);
    dls_plan_drop(plan);
    return NULL;
}

/* The plan of a type whose instances may have a __dlpack__ of their own, if this one
 * has it.  A proxy (a type with __getattr__) is not asked: looking can cost it a
 * millisecond, and its export tells the same.  Of a class that dlshim.producer changed,
 * the caller asks dls_object_has_our_method. */
static dls_plan *
known_of_instance(dls_state *state, PyObject *obj)
{
    PyObject *method = NULL;
    dls_plan *plan = dls_plan_known_in(&state->plans->of_instances, obj);
    if (plan == NULL || plan->is_proxy || plan->is_decorated) {
        return plan;
    }
    if (plan->offers == 0) {
        return nothing_still(state, plan, obj);
    }
    int got = dls_get_optional(obj, state->names.dlpack, &method);
    bool has = got > 0 && method != Py_None;
    Py_XDECREF(method);
    if (!has) {
        PyErr_Clear(); /* looking at everything raises it again */
        dls_plan_drop(plan);
    }
    return has ? plan : NULL;
}

/* The cache of a plan that is not an author's. */
static dls_plan_cache *
cache_of(dls_state *state, const dls_plan *plan)
{
    return plan->on_instance || plan->offers == 0 ? &state->plans->of_instances
                                                  : &state->plans->of_types;
}

/* Put a new plan (stolen) into the cache.  The plan that the cache has of the type
 * afterwards, which may be another thread's, or the plan itself where no cache takes
 * it; NULL with an exception. */
static dls_plan *
keep_plan(dls_state *state, PyObject *obj, dls_plan *plan)
{
    if (plan->on_instance && !dls_plan_offers(plan, DLS_PROTOCOL_DLPACK)) {
        return plan; /* it tells of this one object, and has nothing of the type */
    }
    if (plan->offers == 0 && !plan->keeps_refusal) {
        return plan;
    }
    dls_plan_cache *cache = cache_of(state, plan);
    int kept = cache_add(state, cache, plan);
    if (kept > 0 || (kept == 0 && plan->offers == 0)) {
        return plan; /* another plan of instances may be there, which is not obj's */
    }
    dls_plan *there = kept == 0 ? dls_plan_known_in(cache, obj) : NULL;
    if (kept == 0 && there == NULL) {
        plan->type = NULL; /* nothing would tell it when the type ends */
        return plan;
    }
    dls_plan_drop(plan);
    return there;
}

dls_plan *
dls_plan_find(dls_state *state, PyObject *obj)
{
    dls_plan *plan = dls_plan_known(state, obj);
    plan = plan != NULL ? plan : known_of_instance(state, obj);
    if (plan == NULL) {
        PyObject *type = PyObject_Type(obj);
        plan = dls_plan_look(state, obj, (PyTypeObject *)type);
        if (plan != NULL && plan->offers != 0) {
            plan->producer_type = NULL; /* found when an object is upgraded */
        }
        plan = plan != NULL ? keep_plan(state, obj, plan) : NULL;
        Py_DECREF(type);
    }
    if (plan != NULL && plan->offers == 0) {
        dls_plan_drop(plan);
        dls_refuse_unsupported(state, obj, false);
        return NULL;
    }
    return plan;
}

void
dls_plan_forget(dls_state *state, dls_plan *plan)
{
    dls_plan_cache_retire(cache_of(state, plan), plan);
}

bool
dls_plan_retire(dls_state *state, dls_plan *plan, PyObject *obj)
{
    PyObject *error = dls_error_take(), *method = NULL;
    int got = dls_plan_offers(plan, DLS_PROTOCOL_DLPACK)
                  ? dls_get_optional(obj, state->names.dlpack, &method)
                  : -1;
    bool lost = got == 0 || method == Py_None;
    Py_XDECREF(method);
    if (!lost) {
        PyErr_Clear();
        dls_error_restore(error);
        return false;
    }
    Py_XDECREF(error);
    dls_plan_forget(state, plan);
    return true;
}
