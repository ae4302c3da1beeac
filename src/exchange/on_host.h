/* Host memory that needs no question: the row of a library tells which attribute of an
 * object says where it lies (N5).  Inline, for the fast path of the device question. */
#pragma once

#include "exchange/plan.h"
#include "python/errors.h"

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

/* Does an object of the plan's own type lie on device (1, 0), by what it shows?  1 =
 * yes, 0 = that is not told, nothing set, -1 = exception. */
static inline int
dls_host_is_known(const dls_plan *plan, PyObject *obj)
{
    if (plan->cpu_only || plan->where.get == NULL) {
        return plan->cpu_only;
    }
    return dls_plan_has(plan, DLS_LIB_BASE_TELLS) ? dls_bases_end(plan, obj)
                                                  : dls_is_cpu_is_true(plan, obj);
}
