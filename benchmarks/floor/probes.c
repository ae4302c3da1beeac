/* What Python calls: making wrappers, consuming, loops over C tables, and marks for
 * callgrind; and the module with its state. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <dlfcn.h>

#include "floor.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#define MARKS 1
#else
#define MARKS 0
#define RUNNING_ON_VALGRIND 0
#define CALLGRIND_START_INSTRUMENTATION (void)0
#define CALLGRIND_ZERO_STATS (void)0
#define CALLGRIND_DUMP_STATS_AT(text) (void)(text)
#endif

typedef struct {
    PyObject ob_base;
    dl_managed_tensor_versioned *managed;
} floor_tensor;

static floor_state *state_of(PyObject *module)
{
    return (floor_state *)PyModule_GetState(module);
}

static PyObject *upgrade(PyObject *module, PyObject *source)
{
    return floor_upgrade(state_of(module), source, false);
}

static PyObject *upgrade_table(PyObject *module, PyObject *source)
{
    return floor_upgrade(state_of(module), source, true);
}

static PyObject *nothing(PyObject *module, PyObject *source)
{
    (void)module;
    (void)source;
    Py_RETURN_NONE;
}

/* Owning object: the least that a `from_dlpack` can return. */
static inline PyObject *own(PyObject *module, PyObject *source, bool by_table)
{
    floor_state *st = state_of(module);
    const floor_plan *plan = floor_find_plan(st, source);
    if (plan == NULL) {
        return NULL;
    }
    floor_form form = by_table && plan->table != NULL ? FLOOR_TABLE : plan->method;
    dl_managed_tensor_versioned *managed = floor_own(st, plan, form, source);
    floor_tensor *self = managed != NULL ? PyObject_New(floor_tensor, st->tensor) : NULL;
    if (self != NULL) {
        self->managed = managed;
    } else if (managed != NULL) {
        managed->deleter(managed);
    }
    return (PyObject *)self;
}

static PyObject *from_dlpack(PyObject *module, PyObject *source)
{
    return own(module, source, false);
}

static PyObject *from_dlpack_table(PyObject *module, PyObject *source)
{
    return own(module, source, true);
}

static void tensor_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    dl_managed_tensor_versioned *managed = ((floor_tensor *)op)->managed;
    managed->deleter(managed);
    PyObject_Free(op);
    Py_DECREF(type);
}

/* Loops over a type's C table: the call from Python is shared by all. */

static const dl_exchange_api *loop_table(PyObject *args, PyObject **source, Py_ssize_t *count)
{
    if (!PyArg_ParseTuple(args, "On", source, count)) {
        return NULL;
    }
    const dl_exchange_api *table = floor_table_of(Py_TYPE(*source));
    if (table == NULL) {
        PyErr_SetString(PyExc_TypeError, "the type has no C table");
    }
    return table;
}

static PyObject *loop_owned(PyObject *module, PyObject *args)
{
    PyObject *source;
    Py_ssize_t count;
    const dl_exchange_api *table = loop_table(args, &source, &count);
    (void)module;
    for (Py_ssize_t i = 0; table != NULL && i < count; i++) {
        dl_managed_tensor_versioned *managed = NULL;
        if (table->managed_tensor_from_py_object_no_sync(source, &managed) < 0) {
            return NULL;
        }
        managed->deleter(managed);
    }
    return table != NULL ? PyLong_FromSsize_t(count) : NULL;
}

static PyObject *loop_borrowed(PyObject *module, PyObject *args)
{
    PyObject *source;
    Py_ssize_t count;
    const dl_exchange_api *table = loop_table(args, &source, &count);
    (void)module;
    if (table != NULL && table->dltensor_from_py_object_no_sync == NULL) {
        PyErr_SetString(PyExc_TypeError, "the type's C table gives no borrowed view");
        return NULL;
    }
    for (Py_ssize_t i = 0; table != NULL && i < count; i++) {
        dl_tensor tensor;
        if (table->dltensor_from_py_object_no_sync(source, &tensor) < 0) {
            return NULL;
        }
    }
    return table != NULL ? PyLong_FromSsize_t(count) : NULL;
}

/* Counting begins after the imports, and each loop has a dump of its own.  Outside valgrind marks do
 * nothing. */
static PyObject *marks_start(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    CALLGRIND_START_INSTRUMENTATION;
    return PyBool_FromLong(MARKS && RUNNING_ON_VALGRIND);
}

static PyObject *marks_zero(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    CALLGRIND_ZERO_STATS;
    Py_RETURN_NONE;
}

static PyObject *marks_dump(PyObject *module, PyObject *args)
{
    const char *text;
    (void)module;
    if (!PyArg_ParseTuple(args, "s", &text)) {
        return NULL;
    }
    CALLGRIND_DUMP_STATS_AT(text);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"upgrade", upgrade, METH_O, "Wrapper, by `__dlpack__`."},
    {"upgrade_table", upgrade_table, METH_O, "Wrapper by the type's table where it has one."},
    {"nothing", nothing, METH_O, "A call that does nothing."},
    {"from_dlpack", from_dlpack, METH_O, "Owning object, by `__dlpack__`."},
    {"from_dlpack_table", from_dlpack_table, METH_O, "Owning object, by the type's table."},
    {"loop_owned", loop_owned, METH_VARARGS, "loop_owned(x, n): n owned exports by the table."},
    {"loop_borrowed", loop_borrowed, METH_VARARGS, "loop_borrowed(x, n): n borrowed tensors."},
    {"callgrind_start", marks_start, METH_NOARGS, "Begin to count; False when nothing counts."},
    {"callgrind_zero", marks_zero, METH_NOARGS, "Forget what was counted."},
    {"callgrind_dump", marks_dump, METH_VARARGS, "callgrind_dump(text): write the counts."},
    {NULL, NULL, 0, NULL},
};

/* ---- the module ---- */

static int intern(PyObject **slot, const char *text)
{
    *slot = PyUnicode_InternFromString(text);
    return *slot != NULL ? 0 : -1;
}

static int fill_state(floor_state *st)
{
    void *symbol = dlsym(RTLD_DEFAULT, "PyObject_VectorcallMethod");
    if (symbol == NULL) {
        PyErr_SetString(PyExc_ImportError, "no PyObject_VectorcallMethod in this interpreter");
        return -1;
    }
    *(void **)&st->vectorcall_method = symbol;
    if (intern(&st->name_dlpack, "__dlpack__") < 0 ||
        intern(&st->name_requires_grad, "requires_grad") < 0 ||
        intern(&st->name_arrow_array, "__arrow_c_array__") < 0 ||
        intern(&st->name_arrow_stream, "__arrow_c_stream__") < 0 ||
        intern(&st->word_stream, "stream") < 0 ||
        intern(&st->word_max_version, "max_version") < 0 ||
        intern(&st->word_dl_device, "dl_device") < 0 || intern(&st->word_copy, "copy") < 0) {
        return -1;
    }
    st->keywords = PyTuple_Pack(1, st->word_max_version);
    st->version = Py_BuildValue("(ii)", 1, 3);
    st->cpu_device = Py_BuildValue("(ii)", (int)dl_kDLCPU, 0);
    return st->keywords != NULL && st->version != NULL && st->cpu_device != NULL ? 0 : -1;
}

PyTypeObject *floor_add_type(PyObject *module, const char *name, size_t size,
                             unsigned int flags, PyType_Slot *slots)
{
    PyType_Spec spec = {
        .name = name,
        .basicsize = (int)size,
        .flags = Py_TPFLAGS_DEFAULT | flags,
        .slots = slots,
    };
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    if (type != NULL && PyModule_AddType(module, type) < 0) {
        Py_CLEAR(type);
    }
    return type;
}

static int floor_exec(PyObject *module)
{
    floor_state *st = state_of(module);
    PyType_Slot slots[] = {{Py_tp_dealloc, (void *)tensor_dealloc}, {0, NULL}};
    if (fill_state(st) < 0 || floor_add_producers(module) < 0 || floor_add_arrow(module) < 0 ||
        floor_add_wrapper(module, st) < 0) {
        return -1;
    }
    st->tensor = floor_add_type(module, "dls_floor.Tensor", sizeof(floor_tensor),
                                Py_TPFLAGS_DISALLOW_INSTANTIATION, slots);
    return st->tensor != NULL ? 0 : -1;
}

static PyModuleDef_Slot floor_slots[] = {
    {Py_mod_exec, (void *)floor_exec},
    {0, NULL},
};
static PyModuleDef floor_module = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "dls_floor",
    .m_doc = "Probes without checks: the least that an exchange costs.",
    .m_size = sizeof(floor_state),
    .m_methods = methods,
    .m_slots = floor_slots,
};

PyMODINIT_FUNC PyInit_dls_floor(void)
{
    return PyModuleDef_Init(&floor_module);
}
