/* dlsym(RTLD_DEFAULT, ...) is a GNU name. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "python/py.h"

#include <string.h>

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

dls_late_table dls_late;

/* What the interpreter has; NULL where a fallback serves. */
static dls_late_table found;

typedef void (*any_function)(void);

static any_function
find_symbol(const char *name)
{
    any_function function = NULL;
#ifdef _WIN32
    PyObject *handle = PySys_GetObject("dllhandle"); /* borrowed */
    void *module = handle != NULL ? PyLong_AsVoidPtr(handle) : NULL;
    if (module == NULL) {
        PyErr_Clear();
        return NULL;
    }
    function = (any_function)GetProcAddress((HMODULE)module, name);
#else
    /* ISO C has no cast from object to function pointer; POSIX says they fit. */
    void *symbol = dlsym(RTLD_DEFAULT, name);
    memcpy(&function, &symbol, sizeof function);
#endif
    return function;
}

int
dls_python_version(void)
{
    static int version;
    if (version == 0) {
        const char *text = Py_GetVersion();
        int parts[2] = {0, 0};
        for (int i = 0; i < 2; i++, text++) {
            for (; *text >= '0' && *text <= '9'; text++) {
                parts[i] = parts[i] * 10 + (*text - '0');
            }
        }
        version = (parts[0] << 8) | parts[1];
    }
    return version;
}

/* --- fallbacks: the same contract by functions of the floor ----------------- */

static PyObject *
fallback_PyObject_Vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf,
                             PyObject *kwnames)
{
    Py_ssize_t positional = (Py_ssize_t)(nargsf & ~DLS_VECTORCALL_OFFSET);
    Py_ssize_t keywords = kwnames != NULL ? PyTuple_Size(kwnames) : 0;
    PyObject *result = NULL, *dict = NULL;
    PyObject *tuple = PyTuple_New(positional);
    if (tuple == NULL) {
        goto done;
    }
    for (Py_ssize_t i = 0; i < positional; i++) {
        Py_INCREF(args[i]);
        PyTuple_SetItem(tuple, i, args[i]);
    }
    if (keywords > 0) {
        dict = PyDict_New();
        if (dict == NULL) {
            goto done;
        }
    }
    for (Py_ssize_t i = 0; i < keywords; i++) {
        if (PyDict_SetItem(dict, PyTuple_GetItem(kwnames, i), args[positional + i])
            < 0) {
            goto done;
        }
    }
    result = PyObject_Call(callable, tuple, dict);
done:
    Py_XDECREF(dict);
    Py_XDECREF(tuple);
    return result;
}

static PyObject *
fallback_PyObject_VectorcallMethod(PyObject *name, PyObject *const *args, size_t nargsf,
                                   PyObject *kwnames)
{
    size_t positional = nargsf & ~DLS_VECTORCALL_OFFSET;
    PyObject *method = PyObject_GetAttr(args[0], name);
    if (method == NULL) {
        return NULL;
    }
    PyObject *result = fallback_PyObject_Vectorcall(method, args + 1, positional - 1,
                                                    kwnames);
    Py_DECREF(method);
    return result;
}

/* Every CPython so far exports the three buffer functions; the limited API has no
 * other way to a buffer's address, so without them the protocol is not offered. */
static int
fallback_PyObject_GetBuffer(PyObject *obj, dls_buffer *view, int flags)
{
    (void)obj;
    (void)view;
    (void)flags;
    PyErr_SetString(PyExc_BufferError,
                    "this interpreter offers no buffer functions to extensions; "
                    "wrap numpy.asarray(obj) instead");
    return -1;
}

static void
fallback_PyBuffer_Release(dls_buffer *view)
{
    /* A view got from the real function must go back to it. */
    if (found.PyBuffer_Release != NULL) {
        found.PyBuffer_Release(view);
    }
}

static int
fallback_PyObject_CheckBuffer(PyObject *obj)
{
    (void)obj;
    return 0;
}

static int
fallback_PyObject_GetOptionalAttr(PyObject *obj, PyObject *name, PyObject **result)
{
    *result = PyObject_GetAttr(obj, name);
    if (*result != NULL) {
        return 1;
    }
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) {
        return -1;
    }
    PyErr_Clear();
    return 0;
}

/* Deprecated since 3.13.  Borrowed, and here only compared. */
static PyObject *
fallback_PyWeakref_GetObject(PyObject *reference)
{
    PyObject *obj = PyObject_CallFunctionObjArgs(reference, NULL);
    if (obj == NULL) {
        PyErr_Clear();
        return Py_None;
    }
    Py_DECREF(obj);
    return obj;
}

/* The type stays open to attributes, as any class of Python's. */
static int
fallback_PyType_Freeze(PyTypeObject *type)
{
    (void)type;
    return 0;
}

/* "Not known": guard.c then treats the thread as not attached, and attaches. */
static PyThreadState *
fallback_PyThreadState_GetUnchecked(void)
{
    return NULL;
}

static PyThreadState *
fallback__PyThreadState_UncheckedGet(void)
{
    return NULL;
}

/* ------------------------------------------------------------------------- */

void
dls_late_force_fallback(bool force)
{
#define USE(result, name, parameters, first, last) \
    dls_late.name = !force && found.name != NULL ? found.name : fallback_##name;
    DLS_LATE_LIST(USE)
#undef USE
}

int
dls_late_load(void)
{
    int version = dls_python_version();
#define FIND(result, name, parameters, first, last)                 \
    if (version >= (first) && ((last) == 0 || version <= (last))) { \
        found.name = (result(*) parameters)find_symbol(#name);      \
    }
    DLS_LATE_LIST(FIND)
#undef FIND
    dls_late_force_fallback(false);
    return 0;
}

PyObject *
dls_late_report(void)
{
    PyObject *report = PyDict_New();
    if (report == NULL) {
        return NULL;
    }
#define REPORT(result, name, parameters, first, last)                               \
    if (PyDict_SetItemString(report, #name,                                         \
                             dls_late.name != fallback_##name ? Py_True : Py_False) \
        < 0) {                                                                      \
        Py_DECREF(report);                                                          \
        return NULL;                                                                \
    }
    DLS_LATE_LIST(REPORT)
#undef REPORT
    return report;
}

int
dls_get_optional(PyObject *obj, PyObject *name, PyObject **result)
{
    return dls_late.PyObject_GetOptionalAttr(obj, name, result);
}
