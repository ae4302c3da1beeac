/* One call of __dlpack__ with exactly the keywords that are wanted.
 * Called by attempts and by the fast path.
 * Tests: tests/core/test_negotiation.py. */
#include "acquire/call.h"

/* The argument vector of a call.  SCRATCH is free for PY_VECTORCALL_ARGUMENTS_OFFSET.
 */
enum { SCRATCH, SELF, FIRST_VALUE, ROOM = FIRST_VALUE + 4 };

/* Write the values of the mask's keywords, in the order of state->kwnames[mask]. */
static inline void
write_values(dls_state *state, unsigned mask, const dls_call_values *values,
             PyObject **next)
{
    if (mask & DLS_ASK_STREAM) {
        *next++ = values->stream != NULL ? values->stream : Py_None;
    }
    if (mask & DLS_ASK_VERSION) {
        *next++ = state->asked_version;
    }
    if (mask & DLS_ASK_DEVICE) {
        *next++ = values->dl_device;
    }
    if (mask & DLS_ASK_COPY) {
        *next++ = values->copy;
    }
}

/* As `source.__dlpack__(...)`: an attribute of the object goes before its class's. */
static inline PyObject *
call_method(const dls_plan *plan, PyObject **args, PyObject *kwnames)
{
    return dls_compat.PyObject_VectorcallMethod(plan->name, &args[SELF],
                                                1 | DLS_VECTORCALL_OFFSET, kwnames);
}

static inline PyObject *
call_directly(const dls_plan *plan, PyObject **args, PyObject *kwnames)
{
    return dls_compat.PyObject_Vectorcall(plan->method, &args[SELF],
                                          1 | DLS_VECTORCALL_OFFSET, kwnames);
}

PyObject *
dls_call_dlpack(dls_state *state, const dls_plan *plan, PyObject *source, unsigned mask,
                const dls_call_values *values)
{
    PyObject *args[ROOM];
    PyObject *kwnames = mask ? state->kwnames[mask] : NULL;
    args[SELF] = source;
    write_values(state, mask, values, &args[FIRST_VALUE]);
    return plan->name != NULL ? call_method(plan, args, kwnames)
                              : call_directly(plan, args, kwnames);
}

PyObject *
dls_call_bare(const dls_plan *plan, PyObject *source)
{
    PyObject *args[] = {[SELF] = source};
    return call_method(plan, args, NULL);
}

PyObject *
dls_call_learned(dls_state *state, const dls_plan *plan, PyObject *source,
                 unsigned form)
{
    PyObject *args[ROOM], *kwnames = NULL;
    args[SELF] = source;
    if (form & DLS_FAST_VERSION) {
        args[FIRST_VALUE] = state->asked_version;
        kwnames = state->kwnames[DLS_ASK_VERSION];
    }
    return form & DLS_FAST_DIRECT ? call_directly(plan, args, kwnames)
                                  : call_method(plan, args, kwnames);
}
