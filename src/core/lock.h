/* A lock that needs no set-up, for the few places that threads without the GIL share. */
#ifndef DLS_CORE_LOCK_H
#define DLS_CORE_LOCK_H

#include <stdatomic.h>

/* Held for a few instructions only, never around a call that can block. */
typedef struct {
    atomic_flag held;
} dls_lock;

#define DLS_LOCK_INIT {ATOMIC_FLAG_INIT}

static inline void
dls_lock_take(dls_lock *lock)
{
    while (atomic_flag_test_and_set_explicit(&lock->held, memory_order_acquire)) {
    }
}

static inline void
dls_lock_give(dls_lock *lock)
{
    atomic_flag_clear_explicit(&lock->held, memory_order_release);
}

#endif
