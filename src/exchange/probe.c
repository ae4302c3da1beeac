/* Looks at class attributes while a plan is made (plan.c).  Foreign code runs only
 * where a metaclass has it.  Tests: tests/core/test_negotiation.py,
 * tests/core/test_ctable.py. */
#include "exchange/probe.h"
#include "python/compat.h"

/* Is its type called so?  Some types have no name in C. */
static bool
is_a(PyObject *value, const char *name)
{
    PyObject *kind = PyObject_GetAttrString((PyObject *)Py_TYPE(value), "__name__");
    bool found = kind != NULL && PyUnicode_Check(kind)
                 && PyUnicode_CompareWithASCIIString(kind, name) == 0;
    Py_XDECREF(kind);
    PyErr_Clear();
    return found;
}

/* Is the class attribute a plain method? */
static bool
is_method(PyObject *value)
{
    return is_a(value, "function") || is_a(value, "cython_function_or_method")
           || is_a(value, "method_descriptor");
}

static bool
is_static(PyTypeObject *type)
{
    return !(PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE);
}

PyObject *
dls_method_lasting(PyTypeObject *type, PyObject *value)
{
    if (dls_python_version() < 0x030b || !is_static(type) || !is_method(value)) {
        return NULL;
    }
    return Py_NewRef(value);
}

void
dls_getter_lasting(PyTypeObject *type, PyObject *value, dls_getter *getter)
{
    if (!is_static(type) || !is_a(value, "getset_descriptor")) {
        return;
    }
    void *slot = PyType_GetSlot(Py_TYPE(value), Py_tp_descr_get);
    if (slot == NULL) {
        PyErr_Clear();
        return;
    }
    *getter = (dls_getter){Py_NewRef(value), (descrgetfunc)(uintptr_t)slot};
}

bool
dls_type_has_dict(PyTypeObject *type)
{
    PyObject *offset = PyObject_GetAttrString((PyObject *)type, "__dictoffset__");
    bool has = offset == NULL || PyObject_IsTrue(offset) != 0;
    Py_XDECREF(offset);
    PyErr_Clear();
    return has;
}

const dl_exchange_api *
dls_ctable_from_attribute(PyObject *value)
{
    void *pointer = NULL;
    if (PyCapsule_IsValid(value, DL_NAME_EXCHANGE_API)) {
        pointer = PyCapsule_GetPointer(value, DL_NAME_EXCHANGE_API);
    }
    else if (PyLong_Check(value) && !PyBool_Check(value)) {
        pointer = PyLong_AsVoidPtr(value);
        if (pointer == NULL) {
            PyErr_Clear();
        }
        /* A number that cannot be the address of a struct of pointers. */
        if ((uintptr_t)pointer < 4096
            || (uintptr_t)pointer % _Alignof(dl_exchange_api)) {
            pointer = NULL;
        }
    }
    const dl_exchange_header *header = pointer;
    for (int i = 0; header != NULL && header->version.major != DL_MAJOR; i++) {
        header = i < 64 ? header->prev_api : NULL; /* a longer chain is a loop */
    }
    const dl_exchange_api *table = (const dl_exchange_api *)header;
    bool exports = table != NULL
                   && table->managed_tensor_from_py_object_no_sync != NULL;
    return exports ? table : NULL;
}
