/* Writes down which functions of the extension are called while it is told to.  Linked into a
 * build with -finstrument-functions by tests/project/test_road.py. */
#include <stddef.h>

#define ROOM 65536
#define UNTRACED __attribute__((no_instrument_function))

void *dls_trace_seen[ROOM];
size_t dls_trace_count;
int dls_trace_on;

UNTRACED void
__cyg_profile_func_enter(void *function, void *caller)
{
    (void)caller;
    if (dls_trace_on && dls_trace_count < ROOM) {
        dls_trace_seen[dls_trace_count++] = function;
    }
}

UNTRACED void
__cyg_profile_func_exit(void *function, void *caller)
{
    (void)function;
    (void)caller;
}
