/* What can be told of a method from its class (N1). */
#ifndef DLS_SOURCE_METHOD_H
#define DLS_SOURCE_METHOD_H

#include "python/py.h"

/* Is the class attribute a plain method, called alike through the type? */
bool dls_is_method(PyObject *value);

/* Can instances of the type have attributes of their own? */
bool dls_has_instance_dict(PyTypeObject *type);

/* A new reference to a method found on a static type, whose classes cannot be changed
 * and do not end; NULL for all others, and where calling it so would be no gain
 * (before 3.11). */
PyObject *dls_lasting_method(PyTypeObject *type, PyObject *value);

/* An attribute with a getter in C, found on such a type; all NULL: none. */
typedef struct {
    PyObject *descriptor; /* strong */
    descrgetfunc get;
} dls_getter;

/* As above; nothing is changed where it is none. */
void dls_lasting_getter(PyTypeObject *type, PyObject *value, dls_getter *getter);

/* Its value for an object, a new reference. */
static inline PyObject *
dls_getter_read(const dls_getter *getter, PyObject *obj)
{
    return getter->get(getter->descriptor, obj, (PyObject *)Py_TYPE(obj));
}

#endif
