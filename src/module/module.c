/* dlshim._core: a table of contents. */
#include "exchange/freelist.h"
#include "exchange/plan.h"
#include "exchange/plan_cache.h"
#include "exchange/producer_object.h"
#include "gpu/loader.h"
#include "module/ctable_out.h"
#include "module/functions.h"
#include "module/test_hooks.h"
#include "python/attach.h"
#include "python/state.h"

/* Weak reference of a cached type died: forget its plan. */
static PyObject *
forget(PyObject *module, PyObject *reference)
{
    dls_state *state = PyModule_GetState(module);
    if (state->plans != NULL) {
        dls_plan_cache_forget(state->plans, reference);
    }
    Py_RETURN_NONE;
}

static PyMethodDef forget_method[] = {
    {"_forget", forget, METH_O,
     "_forget($module, reference, /)\n--\n\nPlan cache callback."},
    {NULL, NULL, 0, NULL},
};

static int
module_exec(PyObject *module)
{
    dls_state *state = PyModule_GetState(module);
    if (dls_late_load() < 0 || dls_state_init(state, module) < 0
        || dls_dtype_type_init(state, module) < 0
        || dls_producer_type_init(state, module) < 0
        || dls_tensor_type_init(state, module) < 0
        || PyModule_AddFunctions(module, dls_public_methods) < 0
        || PyModule_AddFunctions(module, dls_hook_methods) < 0
        || PyModule_AddFunctions(module, forget_method) < 0
        || dls_exchange_register(state, module) < 0) {
        return -1;
    }
    dls_guard_install();
    dls_spares_open(dls_guard_is_alone());
    dls_loader_watch_forks();
    state->forget = PyObject_GetAttrString(module, "_forget");
    state->plans = dls_plan_cache_new();
    return state->forget != NULL && state->plans != NULL ? 0 : -1;
}

static int
module_traverse(PyObject *module, visitproc visit, void *arg)
{
    dls_state *state = PyModule_GetState(module);
    int stop = state->plans != NULL ? dls_plan_cache_visit(state->plans, visit, arg)
                                    : 0;
    return stop != 0 ? stop : dls_state_visit(state, visit, arg);
}

static int
module_clear(PyObject *module)
{
    dls_state *state = PyModule_GetState(module);
    struct dls_plan_cache *plans = state->plans;
    dls_exchange_forget(state);
    state->plans = NULL;
    dls_plan_cache_free(plans);
    dls_state_clear(state);
    return 0;
}

static void
module_free(void *module)
{
    module_clear(module);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, module_exec},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "dlshim._core",
    .m_doc = "The compiled part of dlshim.",
    .m_size = sizeof(dls_state),
    .m_slots = slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC
PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
