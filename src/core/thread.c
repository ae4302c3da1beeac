#include "core/thread.h"

#include <stdatomic.h>

static _Atomic uint64_t threads;
static _Thread_local uint64_t number;

uint64_t
dls_thread_number(void)
{
    if (number == 0) {
        number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
    }
    return number;
}
