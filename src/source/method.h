/* What can be told of a method from its class (N1). */
#ifndef DLS_SOURCE_METHOD_H
#define DLS_SOURCE_METHOD_H

#include "python/py.h"

/* Is the class attribute a plain method, called alike through the type? */
bool dls_is_method(PyObject *value);

/* Can instances of the type have attributes of their own? */
bool dls_has_instance_dict(PyTypeObject *type);

/* A new reference to a method found on a static type, whose classes cannot be changed and do
 * not end; NULL for all others, and where calling it so would be no gain (before 3.11). */
PyObject *dls_lasting_method(PyTypeObject *type, PyObject *value);

/* The same of an attribute with a getter in C; *get reads it: get(value, obj, type). */
PyObject *dls_lasting_getter(PyTypeObject *type, PyObject *value, descrgetfunc *get);

#endif
