/* The module dlshim._core: makes its parts at an import, and frees them when the module
 * goes. The interpreter calls it.  Tests: tests/core/test_imports.py,
 * tests/core/test_nothing_breaks.py. */
#include "authors/c_api.h"
#include "authors/producer_class.h"
#include "core/lock.h"
#include "ctable/ctable_out.h"
#include "ctable/homes.h"
#include "exchange/decorated_class.h"
#include "exchange/objects.h"
#include "export/export.h"
#include "gpu/driver.h"
#include "module/test_hooks.h"
#include "public/functions.h"
#include "public/kernel.h"
#include "public/producer.h"
#include "public/tensor_type.h"
#include "python/attach.h"
#include "python/py.h"
#include "python/state.h"
#include "types/class_method.h"
#include "types/plan.h"
#include "types/plan_cache.h"

/* --- states without a module ------------------------------------------------------ */

/* Globals.  The modules of these states have gone, but a Producer or a Tensor may still
 * use them; each import frees those that are no longer used. */
static dls_state *retired;
static DLS_ATOMIC(bool) watching; /* note_module_end will be called */

/* Called near the end of Py_Finalize: the objects of these states cannot be freed any
 * more. */
static void
note_module_end(void)
{
    watching = false;
    for (dls_state *state = retired; state != NULL; state = state->next) {
        state->interpreter = -1;
    }
}

static void
retire(dls_state *state)
{
    DLS_IMPORT_BEGIN();
    state->next = retired;
    retired = state;
    DLS_IMPORT_END();
}

/* Free the states that this interpreter no longer uses.  First they are taken out of
 * the list, because freeing a type may run code that comes here again. */
static void
free_retired(void)
{
    int64_t here = PyInterpreterState_GetID(PyInterpreterState_Get());
    dls_state *unused = NULL, *next;
    DLS_IMPORT_BEGIN();
    for (dls_state **at = &retired; *at != NULL;) {
        dls_state *state = *at;
        if (state->interpreter != here || dls_state_is_used(state)) {
            at = &state->next;
            continue;
        }
        *at = state->next;
        state->next = unused;
        unused = state;
    }
    DLS_IMPORT_END();
    for (; unused != NULL; unused = next) {
        next = unused->next;
        if (dls_state_let_go_of_homes(unused)) {
            retire(unused);
            continue;
        }
        dls_plan_caches_free(unused->plans);
        dls_plan_close(unused->tensor_plan);
        dls_state_free(unused);
    }
}

/* --- the module ------------------------------------------------------------------- */

/* Make a type, and add it to the module.  0, or -1 with an exception. */
static int
add_type(PyObject *module, PyType_Spec *spec, PyTypeObject *base, PyTypeObject **type)
{
    PyObject *made = PyType_FromModuleAndSpec(module, spec, (PyObject *)base);
    *type = (PyTypeObject *)made;
    if (made == NULL) {
        return -1;
    }
    dls_make_immortal(made);
    return PyModule_AddType(module, *type);
}

/* Make the types of methods of other classes, and of kernels.  They know no module:
 * the classes and their users would keep the module.  0, or -1 with an exception. */
static int
make_callable_types(dls_state *state)
{
    state->method_type = (PyTypeObject *)PyType_FromSpec(&dls_class_method_spec);
    state->kernel_type = (PyTypeObject *)PyType_FromSpec(&dls_kernel_spec);
    return state->method_type != NULL && state->kernel_type != NULL ? 0 : -1;
}

/* 0, or -1 with an exception. */
static int
make_device_asker(dls_state *state)
{
    static PyMethodDef method = {"_ask_device", dls_device_asker, METH_O, NULL};
    state->device_asker = PyCFunction_New(&method, NULL);
    return state->device_asker != NULL ? 0 : -1;
}

/* Its text is made when it is read, by the state (python/errors). */
static int
add_unsupported_error(PyObject *module, dls_state *state)
{
    state->unsupported_object_error = dls_unsupported_error_new();
    return state->unsupported_object_error == NULL
               ? -1
               : PyModule_AddType(module,
                                  (PyTypeObject *)state->unsupported_object_error);
}

/* The flags of DLPack's structs, {name: value}: Python takes them from here. */
static int
add_flags(PyObject *module)
{
#define FORMAT(name, bit) "s:i"
#define VALUE(name, bit) , #name, 1 << bit
    PyObject *flags = Py_BuildValue("{" DL_FLAG_LIST(FORMAT) "}" DL_FLAG_LIST(VALUE));
#undef FORMAT
#undef VALUE
    int code = flags != NULL ? PyModule_AddObjectRef(module, "_FLAGS", flags) : -1;
    Py_XDECREF(flags);
    return code;
}

static int
module_exec(PyObject *module)
{
    dls_compat_load();
    free_retired();
    dls_state *state = dls_state_new(module);
    if (state == NULL || dls_library_init(state) < 0
        || add_unsupported_error(module, state) < 0 || add_flags(module) < 0
        || add_type(module, &dls_device_spec, &PyTuple_Type, &state->device_type) < 0
        || add_type(module, &dls_producer_spec, NULL, &state->producer_type) < 0
        || add_type(module, &dls_tensor_spec, NULL, &state->tensor_type) < 0
        || make_callable_types(state) < 0 || make_device_asker(state) < 0
        || dls_ctable_add(state, state->producer_type, dls_ctables) < 0
        || dls_ctable_add(state, state->tensor_type, dls_ctables) < 0
        || PyModule_AddFunctions(module, dls_public_methods) < 0
        || PyModule_AddFunctions(module, dls_kernel_functions) < 0
        || PyModule_AddFunctions(module, dls_record_methods) < 0
        || PyModule_AddFunctions(module, dls_hook_methods) < 0
        || PyModule_AddFunctions(module, dls_by_value_methods) < 0
        || PyModule_AddFunctions(module, dls_class_functions) < 0
        || PyModule_AddFunctions(module, dls_home_functions) < 0
        || dls_c_api_add(module) < 0) {
        return -1;
    }
    bool alone = dls_attach_install(&state->import_number);
    dls_freelists_open(alone);
    state->legacy_flags = state->import_number;
    dls_loader_watch_forks();
    state->find_home = dls_home_find;
    state->module = Py_NewRef(module);
    state->plans = dls_plan_caches_new();
    state->tensor_plan = dls_plan_new_of_tensors(state);
    bool made = state->tensor_plan != NULL && state->plans != NULL;
    /* This step is the last: code that finds the C table may use all of the above. */
    return made ? dls_ctable_register(state, module, alone) : -1;
}

static int
module_traverse(PyObject *module, visitproc visit, void *arg)
{
    dls_state *state = dls_state_of(module);
    if (state == NULL) {
        return 0;
    }
    int stop = state->plans != NULL ? dls_plan_caches_visit(state->plans, visit, arg)
                                    : 0;
    return stop != 0 ? stop : dls_state_visit(state, visit, arg);
}

static int
module_clear(PyObject *module)
{
    dls_state *state = dls_state_of(module);
    if (state != NULL) {
        dls_state_empty(state); /* from now on no plan is added */
        if (state->plans != NULL) {
            dls_plan_caches_clear(state->plans);
        }
    }
    return 0;
}

/* The state is not freed here: the collector clears types in any order, so whether an
 * object is left is known only later. */
static void
module_free(void *module)
{
    dls_state *state = dls_state_of(module);
    if (state == NULL) {
        return;
    }
    module_clear(module);
    dls_track_switch(state, false);
    dls_attach_leave(state->import_number);
    dls_ctable_forget(state);
    dls_c_api_forget(state);
    watching = watching || Py_AtExit(note_module_end) == 0;
    state->interpreter = watching ? state->interpreter : -1;
    retire(state);
}

#define NAME "dlshim._core"
#define DOC "The compiled part of dlshim."

#ifdef Py_TARGET_ABI3T

/* In this ABI a module is made of slots alone. */
PyABIInfo_VAR(abi_info);

static PySlot slots[] = {
    PySlot_STATIC_DATA(Py_mod_name, (void *)NAME),
    PySlot_STATIC_DATA(Py_mod_doc, (void *)DOC),
    PySlot_STATIC_DATA(Py_mod_abi, &abi_info),
    PySlot_SIZE(Py_mod_state_size, sizeof(dls_state *)),
    PySlot_FUNC(Py_mod_exec, module_exec),
    PySlot_FUNC(Py_mod_state_traverse, module_traverse),
    PySlot_FUNC(Py_mod_state_clear, module_clear),
    PySlot_FUNC(Py_mod_state_free, module_free),
    PySlot_DATA(Py_mod_gil, Py_MOD_GIL_NOT_USED),
    PySlot_END,
};

PyMODEXPORT_FUNC
PyModExport__core(void)
{
    return slots;
}

#else

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, module_exec},
#ifdef DLS_FREE_THREADED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED}, /* docs/threads.rst */
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,         .m_name = NAME,        .m_doc = DOC,
    .m_size = sizeof(dls_state *), .m_slots = slots,      .m_traverse = module_traverse,
    .m_clear = module_clear,       .m_free = module_free,
};

PyMODINIT_FUNC
PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}

#endif
