#include "exchange/freelist.h"

#if defined(Py_GIL_DISABLED) || defined(__SANITIZE_ADDRESS__)
#define ROOM 0
#else
#define ROOM DLS_SPARES
#endif

dls_spares dls_spare_producers;
dls_spares dls_spare_tensors[DLS_SPARE_NDIM + 1];

static bool watching;

static void
set_room(int room)
{
    dls_spare_producers = (dls_spares){.room = room};
    for (int ndim = 0; ndim <= DLS_SPARE_NDIM; ndim++) {
        dls_spare_tensors[ndim] = (dls_spares){.room = room};
    }
}

/* By the last C-level hook of Py_Finalize: the memory is the ended interpreter's. */
static void
forget(void)
{
    watching = false;
    set_room(0);
}

void
dls_spares_open(bool alone)
{
    if (!alone) {
        set_room(0); /* what they hold is lost: it is another interpreter's to free */
        return;
    }
    if (!watching) {
        watching = Py_AtExit(forget) == 0;
        set_room(watching ? ROOM : 0);
    }
}
