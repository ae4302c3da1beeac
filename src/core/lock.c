/* The locks themselves, and the taking of all of them around a fork.  Tests:
 * tests/core/test_exit_and_fork.py, tests/device/test_release.py (forks),
 * tests/project/test_locks.py. */
#include "core/lock.h"

#if defined(DLS_FREE_THREADED) && defined(_WIN32)
#include <windows.h>
#elif defined(DLS_FREE_THREADED)
#include <sched.h>
#endif

/* The others are zero, which is ATOMIC_FLAG_INIT with all compilers. */
atomic_flag dls_lock_flags[DLS_LOCKS * DLS_LOCK_SIZE] = {ATOMIC_FLAG_INIT};

#ifdef DLS_FREE_THREADED
void
dls_lock_wait(void)
{
#ifdef _WIN32
    SwitchToThread();
#else
    sched_yield();
#endif
}

unsigned
dls_thread_slot(void)
{
    static atomic_uint threads;
    static _Thread_local unsigned number; /* 0: not given yet */
    if (number == 0) {
        number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
    }
    return number % DLS_THREAD_SLOTS;
}
#endif

void
dls_lock_take_all(void)
{
    for (int lock = 0; lock < DLS_LOCKS; lock++) {
        dls_lock_take((dls_lock)lock);
    }
}

void
dls_lock_give_all(void)
{
    for (int lock = 0; lock < DLS_LOCKS; lock++) {
        dls_lock_give((dls_lock)lock);
    }
}
