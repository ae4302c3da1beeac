/* The locks themselves, and the taking of all of them around a fork.  Tests:
 * tests/core/test_lifetime.py, tests/device/test_release.py (forks). */
#include "core/lock.h"

atomic_flag dls_lock_flags[DLS_LOCKS] = {
    ATOMIC_FLAG_INIT, ATOMIC_FLAG_INIT, ATOMIC_FLAG_INIT,
    ATOMIC_FLAG_INIT, ATOMIC_FLAG_INIT, ATOMIC_FLAG_INIT,
#ifdef DLS_FREE_THREADED
    ATOMIC_FLAG_INIT, ATOMIC_FLAG_INIT
#endif
};

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
