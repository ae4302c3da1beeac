#include "module/spare.h"

#if defined(Py_GIL_DISABLED) || defined(__SANITIZE_ADDRESS__)
#define ROOM 0
#else
#define ROOM DLS_SPARES
#endif

static void
close_list(dls_spares *spares)
{
    spares->room = 0;
    while (spares->count > 0) {
        PyObject_GC_Del(spares->objects[--spares->count]);
    }
}

void
dls_spares_open(dls_state *state)
{
    state->spare_producers.room = ROOM;
    for (int ndim = 0; ndim <= DLS_SPARE_NDIM; ndim++) {
        state->spare_tensors[ndim].room = ROOM;
    }
}

void
dls_spares_close(dls_state *state)
{
    close_list(&state->spare_producers);
    for (int ndim = 0; ndim <= DLS_SPARE_NDIM; ndim++) {
        close_list(&state->spare_tensors[ndim]);
    }
}
