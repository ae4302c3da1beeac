#include "python/thread.h"

#include <stdatomic.h>

static _Atomic uintptr_t threads;

uintptr_t
dls_thread_number(dls_state *state)
{
    if (state->thread_key == NULL) {
        return 0; /* the module is being cleared */
    }
    uintptr_t number = (uintptr_t)PyThread_tss_get(state->thread_key);
    if (number == 0) {
        number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
        if (PyThread_tss_set(state->thread_key, (void *)number) != 0) {
            return 0;
        }
    }
    return number;
}
