/* The freelists of Producers and Tensors, and when they are in use.
 * Tests: tests/core/test_freelists.py. */
#include "exchange/freelist.h"

#if defined(DLS_FREE_THREADED) || defined(__SANITIZE_ADDRESS__)
#define ROOM 0
#else
#define ROOM DLS_FREELIST_ROOM
#endif

dls_freelist dls_freelist_producers;
dls_freelist dls_freelist_tensors[DLS_FREELIST_NDIM + 1];

static DLS_ATOMIC(bool) watching; /* forget will be called */

static void
set_room(int room)
{
    if (ROOM == 0) {
        return; /* no list is ever read */
    }
    dls_freelist_producers = (dls_freelist){.room = room};
    for (int ndim = 0; ndim <= DLS_FREELIST_NDIM; ndim++) {
        dls_freelist_tensors[ndim] = (dls_freelist){.room = room};
    }
}

/* Called near the end of Py_Finalize: the memory is freed with the interpreter. */
static void
forget(void)
{
    watching = false;
    set_room(0);
}

void
dls_freelists_open(bool alone)
{
    if (!alone) {
        set_room(0); /* what is in the lists is leaked: its interpreter owns it */
        return;
    }
    if (ROOM != 0 && !watching) {
        watching = Py_AtExit(forget) == 0;
        set_room(watching ? ROOM : 0);
    }
}
