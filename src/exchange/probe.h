/* What a class attribute is, so that a plan knows how to use it (N1, N2): a method, a
 * getter, a C table.  Called by plan.c; the getters are read at each export.  GIL held.
 */
#pragma once

#include "abi/dlpack_abi.h"
#include "python/py.h"

/* Can instances of the type have attributes of their own? */
bool dls_type_has_dict(PyTypeObject *type);

/* A new reference to a method found on a static type, whose classes cannot be changed
 * and do not end; NULL for all others, and where calling it so would be no gain
 * (before 3.11). */
PyObject *dls_method_lasting(PyTypeObject *type, PyObject *value);

/* An attribute with a getter in C, found on such a type; all NULL: none. */
typedef struct {
    PyObject *descriptor; /* strong */
    descrgetfunc get;
} dls_getter;

/* As above; nothing is changed where it is none. */
void dls_getter_lasting(PyTypeObject *type, PyObject *value, dls_getter *getter);

/* Its value for an object, a new reference. */
static inline PyObject *
dls_getter_read(const dls_getter *getter, PyObject *obj)
{
    return getter->get(getter->descriptor, obj, (PyObject *)Py_TYPE(obj));
}

/* The table behind a class attribute: a capsule named dlpack_exchange_api or an int
 * (DLPack 1.2).  prev_api is walked to a table of major 1.  NULL, nothing set, when it
 * is something else or lacks the export function. */
const dl_exchange_api *dls_ctable_from_attribute(PyObject *value);
