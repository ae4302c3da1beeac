/* The counters themselves.  Counted by everything that exports, read by the hooks.
 * Tests: tests/core/test_handing_on.py, tests/core/test_stress.py. */
#include "core/counters.h"

#ifdef DLS_FREE_THREADED
dls_counter_line dls_counters[DLS_COUNTER_BLOCKS];

dls_counter_block *
dls_counter_block_here(void)
{
    static atomic_uint threads;
    static _Thread_local unsigned number; /* 0: not given yet */
    if (number == 0) {
        number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
    }
    return &dls_counters[number % DLS_COUNTER_BLOCKS].block;
}

int64_t
dls_counter_sum(size_t offset)
{
    int64_t sum = 0;
    for (int i = 0; i < DLS_COUNTER_BLOCKS; i++) {
        char *block = (char *)&dls_counters[i].block;
        sum += atomic_load((_Atomic int64_t *)(void *)(block + offset));
    }
    return sum;
}
#else
dls_counter_block dls_counters;
#endif
