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
call_method(dls_state *state, PyObject **args, PyObject *kwnames)
{
    return dls_compat.PyObject_VectorcallMethod(state->names.dlpack, &args[SELF],
                                                1 | DLS_VECTORCALL_OFFSET, kwnames);
}

PyObject *
dls_call_dlpack(dls_state *state, PyObject *source, unsigned mask,
                const dls_call_values *values)
{
    PyObject *args[ROOM];
    args[SELF] = source;
    write_values(state, mask, values, &args[FIRST_VALUE]);
    return call_method(state, args, mask ? state->kwnames[mask] : NULL);
}

PyObject *
dls_call_bare(dls_state *state, PyObject *source)
{
    PyObject *args[] = {[SELF] = source};
    return call_method(state, args, NULL);
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
    if (form & DLS_FAST_DIRECT) {
        return dls_compat.PyObject_Vectorcall(plan->method, &args[SELF],
                                              1 | DLS_VECTORCALL_OFFSET, kwnames);
    }
    return call_method(state, args, kwnames);
}
