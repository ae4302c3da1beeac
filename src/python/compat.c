/* CPython functions that are newer than the floor: found by symbol when the module is
 * imported, each with a fallback made of functions of the floor.  Called through
 * dls_compat.  Tests: tests/core/test_fallbacks.py. */
/* RTLD_DEFAULT is a GNU name. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "python/py.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base.h"
#include "core/lock.h"

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

dls_compat_table dls_compat;

/* The functions that the interpreter has; NULL if the fallback is used. */
static dls_compat_table found;

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
    static DLS_ATOMIC(int) version;
    if (version == 0) {
        char *end;
        long long major = strtoll(Py_GetVersion(), &end, 10);
        version = (int)(major << 8 | strtoll(end + 1, NULL, 10));
    }
    return version;
}

/* --- fallbacks ------------------------------------------------------------ */

static PyObject *
fallback_PyObject_Vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf,
                             PyObject *kwnames)
{
    Py_ssize_t positional = (Py_ssize_t)(nargsf & ~DLS_VECTORCALL_OFFSET);
    Py_ssize_t keywords = kwnames != NULL ? PyTuple_Size(kwnames) : 0;
    PyObject *tuple = PyTuple_New(positional), *dict = NULL, *result = NULL;
    for (Py_ssize_t i = 0; tuple != NULL && i < positional; i++) {
        PyTuple_SetItem(tuple, i, Py_NewRef(args[i]));
    }
    bool made = tuple != NULL;
    if (made && keywords > 0) {
        dict = PyDict_New();
        made = dict != NULL;
    }
    for (Py_ssize_t i = 0; made && i < keywords; i++) {
        PyObject *name = PyTuple_GetItem(kwnames, i);
        made = PyDict_SetItem(dict, name, args[positional + i]) == 0;
    }
    if (made) {
        result = PyObject_Call(callable, tuple, dict);
    }
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

/* The limited API has no way to a buffer's address but the three buffer functions.
 * Every CPython so far exports them; without them the protocol is not offered. */
static int
fallback_PyObject_GetBuffer(PyObject *DLS_UNUSED(obj), dls_buffer *DLS_UNUSED(view),
                            int DLS_UNUSED(flags))
{
    PyErr_Format(PyExc_BufferError,
                 "this interpreter offers no buffer functions to extensions\n"
                 "  wrap numpy.asarray(obj) instead");
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
fallback_PyObject_CheckBuffer(PyObject *DLS_UNUSED(obj))
{
    return 0;
}

static int
fallback__PyObject_LookupAttr(PyObject *obj, PyObject *name, PyObject **result)
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

/* The older name of the same function, which makes no exception to drop it. */
static int
fallback_PyObject_GetOptionalAttr(PyObject *obj, PyObject *name, PyObject **result)
{
    return dls_compat._PyObject_LookupAttr(obj, name, result);
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

/* Without the function, the type stays open to attributes, like a class in Python. */
static int
fallback_PyType_Freeze(PyTypeObject *DLS_UNUSED(type))
{
    return 0;
}

static PyObject *
fallback_PyMethod_New(PyObject *function, PyObject *self)
{
    PyObject *types = PyImport_ImportModule("types");
    PyObject *bound = types != NULL ? PyObject_CallMethod(types, "MethodType", "OO",
                                                          function, self)
                                    : NULL;
    Py_XDECREF(types);
    return bound;
}

/* The thread's state is unknown, so attach.c takes the thread for one that is not
 * attached. */
static PyThreadState *
fallback_PyThreadState_GetUnchecked(void)
{
    return NULL;
}

#define fallback__PyThreadState_UncheckedGet fallback_PyThreadState_GetUnchecked

/* The state of other interpreters is unknown. */
static int
fallback_PyGILState_Check(void)
{
    return 0;
}

#ifdef Py_TARGET_ABI3T
/* The fallback cannot tell, and takes every object for a shared one. */
static int
fallback_PyUnstable_Object_IsUniquelyReferenced(PyObject *DLS_UNUSED(obj))
{
    return 0;
}
#endif

/* --- the table ------------------------------------------------------------ */

/* In the order of dls_compat_table, whose members all are pointers to functions. */
static const struct {
    any_function fallback;
    uint16_t first, last;
    const char *name;
} rows[] = {
#define ROW(result, name, parameters, first, last) \
    {(any_function)fallback_##name, first, last, #name},
    DLS_COMPAT_LIST(ROW)
#undef ROW
};
#define ROWS (sizeof rows / sizeof *rows)
static_assert(sizeof(dls_compat_table) == ROWS * sizeof(any_function),
              "a row for each member");

static any_function
read_member(const dls_compat_table *table, size_t i)
{
    any_function function;
    memcpy(&function, (const char *)table + i * sizeof function, sizeof function);
    return function;
}

static void
write_member(dls_compat_table *table, size_t i, any_function function)
{
    memcpy((char *)table + i * sizeof function, &function, sizeof function);
}

void
dls_compat_force_fallback(bool force)
{
    for (size_t i = 0; i < ROWS; i++) {
        any_function real = force ? NULL : read_member(&found, i);
        write_member(&dls_compat, i, real != NULL ? real : rows[i].fallback);
    }
}

static void
find_all(dls_compat_table *table)
{
    int version = dls_python_version();
    for (size_t i = 0; i < ROWS; i++) {
        if (version >= rows[i].first
            && (rows[i].last == 0 || version <= rows[i].last)) {
            write_member(table, i, find_symbol(rows[i].name));
        }
    }
}

#ifdef DLS_FREE_THREADED
/* Write the table once, because other threads use it. */
void
dls_compat_load(void)
{
    static atomic_bool loaded;
    dls_compat_table now = {NULL};
    if (loaded) {
        return;
    }
    find_all(&now);
    DLS_IMPORT_BEGIN();
    if (!loaded) { /* else another thread was quicker */
        found = now;
        dls_compat_force_fallback(false);
        loaded = true;
    }
    DLS_IMPORT_END();
}
#else
void
dls_compat_load(void)
{
    find_all(&found);
    dls_compat_force_fallback(false);
}
#endif

void
dls_make_immortal(PyObject *obj)
{
#if defined(DLS_FREE_THREADED) && PY_VERSION_HEX < 0x030e0000
    if (PyInterpreterState_Get() == PyInterpreterState_Main()) {
        Py_SET_REFCNT(obj, (Py_ssize_t)UINT32_MAX + 1); /* that many: immortal */
    }
#else
    (void)obj;
#endif
}

PyObject *
dls_compat_report(PyObject *DLS_UNUSED(module), PyObject *DLS_UNUSED(ignored))
{
    PyObject *report = PyDict_New();
    for (size_t i = 0; report != NULL && i < ROWS; i++) {
        bool real = read_member(&dls_compat, i) != rows[i].fallback;
        if (PyDict_SetItemString(report, rows[i].name, real ? Py_True : Py_False) < 0) {
            Py_CLEAR(report);
        }
    }
    return report;
}
