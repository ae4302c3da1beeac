/* What the author of a decorated class wrote (dlshim.producer has put our methods on
 * it): which function Python would call if no class were decorated.
 *
 * The classes of an object are searched in their order; methods of ours are looked
 * into.  Only where a plan is made: a plan says it from then on.  The GIL is held;
 * foreign code runs where attributes of classes are looked up. */
#pragma once

#include "types/class_member.h"
#include "types/class_method.h"

/* A member of the classes, as Python would find it. */
typedef struct {
    Py_ssize_t at;      /* the place of its class in the MRO; -1: there is none */
    PyObject *owner;    /* that class; borrowed from the MRO */
    PyObject *function; /* to be called with the object; strong, NULL where `inner` */
    PyObject *inner;    /* the name of an inner array, which is exported; strong */
    PyObject *seen;     /* what the class shows under the name as long as the function
                         * is the right one; strong.  NULL: the function looks */
} dls_member_found;
void dls_member_clear(dls_member_found *found);

/* Find the member of that name from this place of the MRO on.  entered: our method that
 * was called, which stands at that place (another may have taken its place by now), or
 * NULL.  through: methods of ours whose classes have nothing of their own are passed;
 * else the first after the start is what is found: `seen` alone.  0, also if there is
 * none; -1 with an exception, nothing found. */
int dls_member_find(dls_state *state, PyObject *mro, PyObject *name, Py_ssize_t start,
                    PyObject *entered, bool through, dls_member_found *found);
/* As dls_member_find, from the first class on, as the object itself shows it.  *ours:
 * the first class that has the name has a method of ours; else only its place is found.
 */
int dls_member_shown(dls_state *state, PyObject *mro, PyObject *name,
                     dls_member_found *found, bool *ours);
/* The place of a class in the MRO, or -1. */
Py_ssize_t dls_place_of(PyObject *mro, const void *cls);

/* What a plan needs to know of it. */
typedef struct dls_authored {
    PyObject *inner;      /* the name of an inner array; strong, or NULL */
    bool inner_is_called; /* it is a method */
    bool forwards; /* nothing of the class itself: `seen` is our method of a base */
    bool hides_question; /* the object shows a __dlpack_device__ that is not ours */
    PyObject *dlpack;    /* a function, or the name of a method; strong, or NULL */
    PyObject *device;    /* the same of the device question */
    Py_ssize_t at;       /* the place of the class that has dlpack, or -1 */
    PyObject *from; /* the class of such a function, borrowed; NULL: there is none */
    PyObject *seen_on, *seen; /* as in dls_plan; strong, or NULL */
} dls_authored;
void dls_authored_clear(dls_authored *authored);

/* Find it for an export of objects of this type by our method `entered`; NULL: by the
 * one that they show.  The device question goes to what they show.  0, or -1 with an
 * exception and nothing found. */
int dls_authored_find(dls_state *state, PyTypeObject *type, PyObject *mro,
                      PyObject *entered, dls_authored *authored);
/* As dls_authored_find, for a device question by our method `entered`.  An export, if
 * it takes one to answer, is that which the objects show. */
int dls_authored_find_device(dls_state *state, PyTypeObject *type, PyObject *mro,
                             PyObject *entered, dls_authored *authored);
