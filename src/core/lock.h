/* Locks that need no set-up, for the few places that threads without the GIL share.
 * Taken by the files named below; any thread, with or without the GIL. */
#pragma once

#include <stdatomic.h>

#include "core/base.h"

/* A lock is held for a few instructions only, never around a call, and never two at a
 * time.  All locks are listed here, so that a fork can wait until none is held. */
typedef enum {
    DLS_LOCK_GUARDS, /* core/hold: guards that have to wait */
    DLS_LOCK_QUEUE,  /* python/attach: holds that the main interpreter shall drop */
    DLS_LOCK_POOL,   /* gpu/pool */
    DLS_LOCK_CUDA,   /* gpu/cuda: the function table */
    DLS_LOCK_HIP,    /* gpu/hip: the function tables */
    DLS_LOCK_MEMORY, /* gpu/device_memory: memory that has to wait for its end */
#ifdef DLS_FREE_THREADED
    DLS_LOCK_PLANS,  /* exchange/plan_memory: memory for the next plans */
    DLS_LOCK_IMPORT, /* what imports write: compat, attach, work_stream, module */
#endif
    DLS_LOCKS
} dls_lock;

DLS_EXTERN atomic_flag dls_lock_flags[DLS_LOCKS];

static inline void
dls_lock_take(dls_lock lock)
{
    while (atomic_flag_test_and_set_explicit(&dls_lock_flags[lock],
                                             memory_order_acquire)) {
    }
}

static inline void
dls_lock_give(dls_lock lock)
{
    atomic_flag_clear_explicit(&dls_lock_flags[lock], memory_order_release);
}

/* Around what an import writes for the whole process.  With the GIL an import is alone.
 */
#ifdef DLS_FREE_THREADED
#define DLS_IMPORT_BEGIN() dls_lock_take(DLS_LOCK_IMPORT)
#define DLS_IMPORT_END() dls_lock_give(DLS_LOCK_IMPORT)
#else
#define DLS_IMPORT_BEGIN() (void)0
#define DLS_IMPORT_END() (void)0
#endif

/* Take all locks before a fork, give them back after it in both processes.  What the
 * locks protect is then whole in the child, and no lock there is held by a thread that
 * the child does not have. */
DLS_EXTERN void dls_lock_take_all(void);
DLS_EXTERN void dls_lock_give_all(void);
