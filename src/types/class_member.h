/* Members of classes: what stands in the own dict of a class, and of which kind it is.
 * GIL held; foreign code runs. */
#pragma once

#include "python/state.h"

/* The own dicts of the classes of an MRO, views that show each change: a new tuple.
 * NULL with an exception, TypeError where it is no tuple. */
PyObject *dls_class_dicts(const dls_state *state, PyObject *mro);
/* The member of that name in the class's own dict: 1 = *value, a new reference; 0 =
 * none; -1 = exception. */
int dls_class_member(dls_state *state, PyObject *cls, PyObject *name, PyObject **value);
/* Is the class attribute a plain method: a function, in Python or in C, that gets the
 * object as its first argument? */
bool dls_is_plain_method(PyObject *value);
/* Is its type called so?  Some types have no name in C. */
bool dls_is_of(PyObject *value, const char *name);
