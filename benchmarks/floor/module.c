/* dls_floor: the module's state and its table of contents. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <dlfcn.h>

#include "floor.h"

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
        intern(&st->name_dlpack_device, "__dlpack_device__") < 0 ||
        intern(&st->name_requires_grad, "requires_grad") < 0 ||
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
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | flags,
        .slots = slots,
    };
    PyTypeObject *type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (type != NULL && PyModule_AddType(module, type) < 0) {
        Py_CLEAR(type);
    }
    return type;
}

static int floor_exec(PyObject *module)
{
    floor_state *st = floor_state_of(module);
    if (fill_state(st) < 0 || floor_add_producers(module, st) < 0 ||
        floor_add_wrappers(module, st) < 0 || floor_add_probes(module) < 0) {
        return -1;
    }
    return floor_add_marks(module);
}

/* A measuring tool lives as long as its process: nothing is ever freed. */
static PyModuleDef_Slot floor_slots[] = {
    {Py_mod_exec, (void *)floor_exec},
    {0, NULL},
};
static PyModuleDef floor_module = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "dls_floor",
    .m_doc = "Probes without checks: the least that an exchange costs.",
    .m_size = sizeof(floor_state),
    .m_slots = floor_slots,
};

PyMODINIT_FUNC PyInit_dls_floor(void)
{
    return PyModuleDef_Init(&floor_module);
}
