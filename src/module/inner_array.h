/* The inner array of an object whose class dlshim.producer changed, for
 * module/functions and module/producer_class.  The GIL is held; foreign code runs. */
#pragma once

#include "exchange/plan.h"

/* Is the object's __dlpack__ the one that dlshim.producer puts on classes?  It may be
 * another one of a subclass, or of its own.  A pending exception stays. */
bool dls_object_has_our_method(const dls_state *state, PyObject *obj);

/* What was done to get or to wrap `inner` (NULL: there is none) has failed: the pending
 * exception becomes a BufferError that names the object and the attribute.  What a
 * Producer raises is about options, and stays. */
void dls_inner_refuse(dls_state *state, PyObject *obj, const dls_plan *plan,
                      PyObject *inner);

/* The inner array, a new reference; NULL with BufferError. */
static inline PyObject *
dls_inner_get(dls_state *state, PyObject *obj, const dls_plan *plan)
{
    PyObject *args[] = {NULL, obj};
    PyObject *inner = plan->inner_is_called
                          ? dls_compat.PyObject_VectorcallMethod(
                                plan->inner, &args[1], 1 | DLS_VECTORCALL_OFFSET, NULL)
                          : PyObject_GetAttr(obj, plan->inner);
    if (inner == NULL) {
        dls_inner_refuse(state, obj, plan, NULL);
    }
    return inner;
}
