/* Where in a Python object our own struct lies.  Called by exchange/ and module/, for
 * the two types whose objects hold data.
 *
 * An object begins with a head that the interpreter owns.  The struct includes that
 * head, so that object and data have one address.  The stable ABI of CPython 3.15 for
 * builds with and without a GIL (abi3t, Py_TARGET_ABI3T) does not tell what a head is:
 * there the data lie behind it, and remember their object.  Only dls_producer_data,
 * dls_tensor_data and the macros of this file know the difference. */
#pragma once

#include "python/py.h"

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
/* The object that the data are in. */
#define DLS_OBJECT(data) ((data)->object)
/* New objects, not tracked; NULL with MemoryError.  The caller writes every member but
 * the head. */
static inline PyObject *
dls_object_begin(PyObject *self)
{
    if (self != NULL) {
        *(PyObject **)PyObject_GetTypeData(self, Py_TYPE(self)) = self;
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
#define DLS_OBJECT(data) ((PyObject *)(data))
#define DLS_NEW(type, of) ((PyObject *)PyObject_GC_New(type, of))
#define DLS_NEW_VAR(type, of, n) ((PyObject *)PyObject_GC_NewVar(type, of, n))

#endif
