/* The only includer of Python.h.  Declares names that the headers of the oldest
 * supported CPython (the floor) lack, the functions that are newer than the floor and
 * are found by symbol (python/compat.c), helpers on plain objects, and the place of the
 * data in an object of ours. */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#include "core/base.h"
#include "core/lock.h"

#if defined(Py_GIL_DISABLED) && !defined(DLS_FREE_THREADED)
#error \
    "this interpreter has no GIL: compile with -DDLS_FREE_THREADED=1, as setup.py does"
#endif

/* Py_buffer joined the limited API in 3.11; its layout has been the same since
 * 3.0 and is part of the stable ABI. */
#if defined(Py_LIMITED_API) && Py_LIMITED_API < 0x030b0000
typedef struct {
    void *buf;
    PyObject *obj;
    Py_ssize_t len;
    Py_ssize_t itemsize;
    int readonly;
    int ndim;
    char *format;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    Py_ssize_t *suboffsets;
    void *internal;
} dls_buffer;
#else
typedef Py_buffer dls_buffer;
#endif

/* Requests, from the same ABI (PyBUF_*). */
#define DLS_BUF_WRITABLE 0x001
#define DLS_BUF_FORMAT 0x004
#define DLS_BUF_ND 0x008
#define DLS_BUF_STRIDES (0x010 | DLS_BUF_ND)
#define DLS_BUF_RECORDS_RO (DLS_BUF_STRIDES | DLS_BUF_FORMAT)
#define DLS_BUF_FULL_RO (0x100 | DLS_BUF_RECORDS_RO)
/* Flags of PyMemoryView_FromMemory. */
#define DLS_BUF_MAY_READ 0x100
#define DLS_BUF_MAY_WRITE 0x200
/* Type slots of the buffer protocol ("never renumber", typeslots.h). */
#define DLS_BF_GETBUFFER 1
#define DLS_BF_RELEASEBUFFER 2

/* Full-API headers spell one name as a macro for the other. */
#undef _PyThreadState_UncheckedGet
#undef PyObject_GetOptionalAttr
#undef _PyObject_LookupAttr
#undef PyObject_Vectorcall
#undef PyGILState_Check

/* Functions that joined the limited API after the floor, were first exported after it,
 * or are in no limited API but have never changed.  Each is found by symbol at import,
 * has a first and a last version, and a fallback with the same contract (compat.c).
 * X(result, name, parameters, first version whose symbol we use, last version or 0) */
#define DLS_COMPAT_LIST(X)                                                             \
    X(PyObject *, PyObject_VectorcallMethod,                                           \
      (PyObject * name, PyObject *const *args, size_t nargsf, PyObject *kwnames),      \
      0x0309, 0)                                                                       \
    X(PyObject *, PyObject_Vectorcall,                                                 \
      (PyObject * callable, PyObject *const *args, size_t nargsf, PyObject *kwnames),  \
      0x030b, 0)                                                                       \
    X(int, PyObject_GetBuffer, (PyObject * obj, dls_buffer * view, int flags), 0x0300, \
      0)                                                                               \
    X(void, PyBuffer_Release, (dls_buffer * view), 0x0300, 0)                          \
    X(int, PyObject_CheckBuffer, (PyObject * obj), 0x0309, 0)                          \
    X(int, PyObject_GetOptionalAttr,                                                   \
      (PyObject * obj, PyObject * name, PyObject * *result), 0x030d, 0)                \
    X(int, _PyObject_LookupAttr,                                                       \
      (PyObject * obj, PyObject * name, PyObject * *result), 0x030a, 0x030c)           \
    X(PyObject *, PyWeakref_GetObject, (PyObject * reference), 0x0300, 0)              \
    X(int, PyType_Freeze, (PyTypeObject * type), 0x030e, 0)                            \
    X(PyObject *, PyMethod_New, (PyObject * function, PyObject * self), 0x0300, 0)     \
    X(PyThreadState *, PyThreadState_GetUnchecked, (void), 0x030d, 0)                  \
    X(PyThreadState *, _PyThreadState_UncheckedGet, (void), 0x0305, 0x030c)            \
    X(int, PyGILState_Check, (void), 0x0304, 0x030b) DLS_COMPAT_ABI3T(X)

/* More rows, of functions that only abi3t needs (below).  No stable ABI has it. */
#ifdef Py_TARGET_ABI3T
#define DLS_COMPAT_ABI3T(X) \
    X(int, PyUnstable_Object_IsUniquelyReferenced, (PyObject * obj), 0x030e, 0)
#else
#define DLS_COMPAT_ABI3T(X)
#endif

#define DLS_COMPAT_MEMBER(result, name, parameters, first, last) \
    result(*name) parameters;
typedef struct {
    DLS_COMPAT_LIST(DLS_COMPAT_MEMBER)
} dls_compat_table;

/* The functions to call: each is the real one, or its fallback.  Written at import and
 * by the test hook "fallback" only.  Never NULL members. */
DLS_EXTERN dls_compat_table dls_compat;

/* Arguments flag of the vectorcall protocol (PEP 590, frozen). */
#define DLS_VECTORCALL_OFFSET ((size_t)1 << (8 * sizeof(size_t) - 1))

/* True if the reference that the caller owns is the only one, so that no other code can
 * reach the object.  This stands for every test of a reference count of one: the
 * meaning of the count is the interpreter's own affair, and a count other than one
 * (flags of a newer CPython included) counts as shared. */
static inline bool
dls_is_unshared(PyObject *obj)
{
#ifdef Py_TARGET_ABI3T
    return dls_compat.PyUnstable_Object_IsUniquelyReferenced(obj) != 0;
#elif defined(DLS_FREE_THREADED)
    /* The count has two parts.  Only where this thread made the object, and no other
     * thread has ever held it, do they say so for certain. */
    return _Py_IsOwnedByCurrentThread(obj)
           && _Py_atomic_load_uint32_relaxed(&obj->ob_ref_local) == 1
           && _Py_atomic_load_ssize_relaxed(&obj->ob_ref_shared) == 0;
#else
    return Py_REFCNT(obj) == 1;
#endif
}

/* dls_get_optional(obj, name, &result): 1 = found (*result is a new reference), 0 = no
 * such attribute, nothing set, -1 = error set.  A getter that raises AttributeError
 * counts as absent. */
#define dls_get_optional dls_compat.PyObject_GetOptionalAttr

/* A reference that the GIL build borrows: there dls_let_go does nothing.  Without the
 * GIL it is a strong one, because another thread may take the object out of where it
 * was found. */
#ifdef DLS_FREE_THREADED
static inline PyObject *
dls_dict_borrow(PyObject *dict, PyObject *key)
{
    PyObject *value = NULL;
    PyDict_GetItemRef(dict, key, &value);
    return value;
}
static inline PyObject *
dls_list_borrow(PyObject *list, Py_ssize_t i)
{
    PyObject *item = PyList_GetItemRef(list, i);
    if (item == NULL) {
        PyErr_Clear(); /* it has become shorter */
    }
    return item;
}
static inline PyObject *
dls_dict_borrow_text(PyObject *dict, const char *key)
{
    PyObject *value = NULL;
    if (PyDict_GetItemStringRef(dict, key, &value) < 0) {
        PyErr_Clear();
    }
    return value;
}
#define dls_let_go Py_XDECREF
/* The object that a weak reference refers to, a new reference; NULL, nothing set: it
 * has gone. */
static inline PyObject *
dls_weakref_get(PyObject *reference)
{
    PyObject *object = NULL;
    PyWeakref_GetRef(reference, &object);
    return object;
}
#else
#define dls_dict_borrow PyDict_GetItemWithError
#define dls_list_borrow PyList_GetItem
#define dls_dict_borrow_text PyDict_GetItemString
#define dls_let_go(obj) (void)(obj)
static inline PyObject *
dls_weakref_get(PyObject *reference)
{
    PyObject *object = dls_compat.PyWeakref_GetObject(reference);
    return object != NULL && object != Py_None ? Py_NewRef(object) : NULL;
}
#endif

/* An address as an int. */
static inline PyObject *
dls_address_object(const void *address)
{
    return PyLong_FromUnsignedLongLong((uintptr_t)address);
}

#define DLS_FASTCALL(function) ((PyCFunction)(void (*)(void))(function))

/* --- the Python that runs (compat.c) -------------------------------------- */

/* Fill dls_compat. */
void dls_compat_load(void);
/* 0x030b for 3.11 and so on. */
int dls_python_version(void);
/* Test hook: use all fallbacks (true) or the functions of the interpreter (false). */
void dls_compat_force_fallback(bool force);
/* Count a new object of ours no more: it never ends.  For what each exchange uses,
 * types too, because every object counts its type: threads that change one count wait
 * for each other's caches.  CPython 3.13 without a GIL does that to classes and
 * functions as soon as there are two threads, and so do we.  Elsewhere, and in a
 * subinterpreter, which may end, nothing happens; later CPythons count types thread by
 * thread. */
void dls_make_immortal(PyObject *obj);
/* The method _compat: dict name -> bool, is the real function in use? */
PyObject *dls_compat_report(PyObject *module, PyObject *ignored);

/* --- objects that hold data -------------------------------------------------- */
/* The place of our own struct in a Python object, for Producer and Tensor.
 *
 * An object begins with a head that the interpreter owns.  The struct includes that
 * head, so that object and data have one address.  The stable ABI of CPython 3.15 for
 * builds with and without a GIL (abi3t, Py_TARGET_ABI3T) does not tell what a head is:
 * there the data lie behind it, and remember their object.  Only dls_producer_data,
 * dls_tensor_data and the macros of this file know the difference. */

#ifdef Py_TARGET_ABI3T

/* The first member of the struct. */
#define DLS_HEAD PyObject *object; /* borrowed: that these are the data of */
#define DLS_VAR_HEAD DLS_HEAD
/* The size that the type is made with: of the data, without the head. */
#define DLS_BASICSIZE(type) (-(int)sizeof(type))
/* A flag of each PyMemberDef: its offset is in the data. */
#define DLS_MEMBER Py_RELATIVE_OFFSET
/* Declares `data`, a pointer to the struct in an object of one of our types, which are
 * final. */
#define DLS_DATA(type, self) ((type *)PyObject_GetTypeData(self, Py_TYPE(self)))
/* DLS_DATA where the object may be of a subclass that adds no members. */
static inline PyTypeObject *
dls_base_of(PyTypeObject *type)
{
    PyTypeObject *base = PyType_GetSlot(type, Py_tp_base);
    return base != &PyBaseObject_Type ? base : type;
}
#define DLS_DATA_OF_BASE(type, self) \
    ((type *)PyObject_GetTypeData(self, dls_base_of(Py_TYPE(self))))
/* The object that the data are in. */
#define DLS_OBJECT(data) ((data)->object)
/* New objects, not tracked; NULL with MemoryError.  The caller writes every member but
 * the head. */
static inline PyObject *
dls_object_begin(PyObject *self)
{
    if (self != NULL) {
        *(PyObject **)PyObject_GetTypeData(self, dls_base_of(Py_TYPE(self))) = self;
    }
    return self;
}
#define DLS_NEW(type, of) dls_object_begin(PyObject_GC_New(PyObject, of))
#define DLS_NEW_VAR(type, of, n) \
    dls_object_begin((PyObject *)PyObject_GC_NewVar(PyVarObject, of, n))

#else

#define DLS_HEAD PyObject_HEAD
#define DLS_VAR_HEAD PyObject_VAR_HEAD
#define DLS_BASICSIZE(type) (int)sizeof(type)
#define DLS_MEMBER 0
#define DLS_DATA(type, self) ((type *)(self))
#define DLS_DATA_OF_BASE DLS_DATA
#define DLS_OBJECT(data) ((PyObject *)(data))
#define DLS_NEW(type, of) ((PyObject *)PyObject_GC_New(type, of))
#define DLS_NEW_VAR(type, of, n) ((PyObject *)PyObject_GC_NewVar(type, of, n))

#endif
