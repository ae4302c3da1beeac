/* The offers of a type's objects: protocols, methods, getters, a C table (N1, N2); and
 * host memory that needs no question.  GIL held; foreign code runs. */
#pragma once

#include "python/errors.h"
#include "types/plan.h"

/* A new plan for the objects of obj's type, which is in no cache.  NULL with
 * UnsupportedObjectError when the object offers no protocol, or with the exception of a
 * look-up. */
dls_plan *dls_plan_new(dls_state *state, PyObject *obj);
/* As dls_plan_new, but without the methods that dlshim.producer has put on the
 * class: they would lead back to dlshim.  If there is an inner array, nothing is looked
 * at.  authored NULL: as dls_plan_new.  type: that of obj, owned by the caller until
 * the plan is kept, because an attribute that is looked at may give the object another
 * class. */
struct dls_authored; /* types/authored.h */
dls_plan *dls_plan_new_authored(dls_state *state, PyObject *obj,
                                const struct dls_authored *authored,
                                PyTypeObject *type);

/* Does the class of the plan, which is that of obj, show another C table now than when
 * it was met?  Libraries replace theirs at run time (TileLang that of torch), and give
 * one to a class that had none (torch-c-dlpack-ext).  Foreign code may run; no
 * exception is left. */
bool dls_plan_table_is_replaced(dls_state *state, const dls_plan *plan, PyObject *obj);

/* As dls_plan_new, but a plan that offers nothing is returned: the caller
 * raises.  Such a plan says whether it may be kept. */
dls_plan *dls_plan_look(dls_state *state, PyObject *obj, PyTypeObject *type);
/* Has the object, whose type has such a plan that is kept, no protocol that its class,
 * or it alone, got since?  false: perhaps, and all has to be looked at.  No exception
 * is left. */
bool dls_offers_nothing_still(dls_state *state, const dls_plan *plan, PyObject *obj);

/* --- host memory that needs no question ------------------------------------- */
/* The row of a library tells which attribute of an object says where it lies (N5).
 * Inline, for the fast path of the device question. */

/* Does the chain of bases end in nothing?  Then the library has made the memory itself.
 * Each array holds its base, and no other code runs here. */
static inline int
dls_bases_end(const dls_plan *plan, PyObject *array)
{
    PyObject *base = array;
    do {
        base = dls_getter_read(&plan->where, base);
        if (base == NULL) {
            return dls_error_forget();
        }
        Py_DECREF(base);
    } while (Py_IS_TYPE(base, plan->type));
    return base == Py_None;
}

/* torch's getter runs Python where a function mode is on (torch.set_default_device). */
static inline int
dls_is_cpu_is_true(const dls_plan *plan, PyObject *obj)
{
    PyObject *value = dls_getter_read(&plan->where, obj);
    if (value == NULL) {
        return dls_error_forget();
    }
    bool said = value == Py_True;
    Py_DECREF(value);
    return said;
}

/* Does an object of the plan's own type lie on device (1, 0), by its attributes?  1 =
 * yes, 0 = they do not tell, nothing set, -1 = exception. */
static inline int
dls_host_is_known(const dls_plan *plan, PyObject *obj)
{
    if (plan->cpu_only || plan->where.get == NULL) {
        return plan->cpu_only;
    }
    return dls_plan_has(plan, DLS_LIB_BASE_TELLS) ? dls_bases_end(plan, obj)
                                                  : dls_is_cpu_is_true(plan, obj);
}
