/* Locks that need no set-up, for the few places that threads without the GIL share, and
 * the macros of a build without the GIL.  Any layer may include this; locks are taken
 * by the files named below, on any thread, with or without the GIL. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "core/base.h"

/* A lock is held for a few instructions only, and never two at a time.  Between taking
 * and giving it nothing is called that may allocate, block, run foreign code, drop a
 * reference, or detach the thread from the interpreter.  A thread that waits for a lock
 * stays attached: if its holder could detach, the collector, which stops all threads,
 * would wait for ever.  tests/project/test_locks.py has the list of the functions that
 * are called.  All locks stand here, so that a fork can wait until none is held. */
typedef enum {
    DLS_LOCK_GUARDS, /* core/hold: guards that have to wait */
    DLS_LOCK_QUEUE,  /* python/attach: holds that the main interpreter shall drop */
    DLS_LOCK_POOL,   /* gpu/sync_run */
    DLS_LOCK_CUDA,   /* gpu/cuda: the function table */
    DLS_LOCK_HIP,    /* gpu/hip: the function tables */
    DLS_LOCK_MEMORY, /* gpu/device_copy: memory that has to wait for its end */
#ifdef DLS_FREE_THREADED
    DLS_LOCK_PLANS, /* types/plan: memory for the next plans */
    /* Variables that imports write: compat, attach, state, module. */
    DLS_LOCK_IMPORT,
    /* DLS_LOCK_STATE : python/state, types/plan_cache, ctable/homes,
     * public/kernel. */
    DLS_LOCK_STATES,
    /* DLS_LOCK, by the address: Tensors in exchange/objects, Producers there and in
     * ctable/ctable_view.  DLS_LOCK_CAPSULE: python/capsule, module/records. */
    DLS_LOCK_FIRST_STRIPE,
    DLS_LOCK_LAST_STRIPE = DLS_LOCK_FIRST_STRIPE + 31,
#endif
    DLS_LOCKS
} dls_lock;

/* Without the GIL each lock has a cache line of its own, so that no thread waits for
 * the holders of other locks. */
#ifdef DLS_FREE_THREADED
#define DLS_LOCK_SIZE 64
#else
#define DLS_LOCK_SIZE 1
#endif
DLS_EXTERN atomic_flag dls_lock_flags[DLS_LOCKS * DLS_LOCK_SIZE];

#ifdef DLS_FREE_THREADED
/* Let another thread run that holds the lock, because the system may have stopped
 * it. */
DLS_EXTERN void dls_lock_wait(void);
#else
#define dls_lock_wait() (void)0
#endif

static inline void
dls_lock_take(dls_lock lock)
{
    while (atomic_flag_test_and_set_explicit(&dls_lock_flags[lock * DLS_LOCK_SIZE],
                                             memory_order_acquire)) {
        dls_lock_wait();
    }
}

static inline void
dls_lock_give(dls_lock lock)
{
    atomic_flag_clear_explicit(&dls_lock_flags[lock * DLS_LOCK_SIZE],
                               memory_order_release);
}

#ifdef DLS_FREE_THREADED
/* The lock of the thing at this address.  All bits of the address count: each thread
 * has pages of its own, and uses the same places in them. */
static inline dls_lock
dls_lock_of(const void *address)
{
    const unsigned stripes = DLS_LOCK_LAST_STRIPE - DLS_LOCK_FIRST_STRIPE + 1;
    uint64_t mixed = (uintptr_t)address * UINT64_C(0x9e3779b97f4a7c15);
    return (dls_lock)(DLS_LOCK_FIRST_STRIPE + (unsigned)(mixed >> 32) % stripes);
}

/* The lock of a thing that is mostly used by the thread that has made it.  All things
 * in its allocator's page of 64 kB share the lock, which then stays in the cache of
 * that thread's processor. */
static inline dls_lock
dls_lock_of_page(const void *address)
{
    return dls_lock_of((const void *)((uintptr_t)address >> 16));
}
#endif

/* Stand around code of an import that writes variables of the whole process.  With the
 * GIL an import is alone. */
#ifdef DLS_FREE_THREADED
#define DLS_IMPORT_BEGIN() dls_lock_take(DLS_LOCK_IMPORT)
#define DLS_IMPORT_END() dls_lock_give(DLS_LOCK_IMPORT)
#else
#define DLS_IMPORT_BEGIN() (void)0
#define DLS_IMPORT_END() (void)0
#endif

/* Take all locks before a fork, give them back after it in both processes.  The data
 * that the locks protect are then whole in the child, and no lock there is held by a
 * thread that the child does not have. */
DLS_EXTERN void dls_lock_take_all(void);
DLS_EXTERN void dls_lock_give_all(void);

/* --- threads without the GIL ------------------------------------------------ */
/* Everything below is needed by a build without the GIL, and compiles to nothing in a
 * build with it.
 *
 * DLS_FREE_THREADED is set by setup.py where the interpreter has no GIL (cp313t and
 * newer).  The wheel for all other interpreters contains none of this: there the GIL
 * makes each of our functions one step, until foreign code runs.  The table of
 * docs/threads.rst, "Threads without the GIL", says what guards each thing. */

#ifdef DLS_FREE_THREADED

/* A member or variable that threads read and write without a lock.  Each single read,
 * write, ++ and -- of it is atomic; two in a row are not. */
#define DLS_ATOMIC(type) _Atomic(type)

/* Declares `before`, moves the value of an atomic place into it, and puts `value`
 * there. */
#define DLS_SWAP(type, before, place, value) \
    type before = atomic_exchange(&(place), (value))

/* A static variable that one thread after the other uses for itself: each has its own.
 */
#define DLS_PER_THREAD _Thread_local

/* Threads that count in the same place wait for each other's caches, so each counts in
 * one of so many places, which are DLS_LINE bytes apart.  Threads that run at the same
 * time mostly have different ones. */
#define DLS_THREAD_SLOTS 16
#define DLS_LINE 64
/* The number of this thread's place. */
DLS_EXTERN unsigned dls_thread_slot(void);

/* Hold the lock of a Tensor, a Producer or (DLS_LOCK_CAPSULE) a capsule, found by its
 * address, until DLS_UNLOCK in the same block.  DLS_LOCK_STATE: the lock of all states,
 * for members of a state and for plan caches.  The rules for the code between the two
 * are above. */
#define DLS_LOCK(address) DLS_LOCK_HOLD(dls_lock_of(address))
#define DLS_LOCK_CAPSULE(address) DLS_LOCK_HOLD(dls_lock_of_page(address))
#define DLS_LOCK_STATE() DLS_LOCK_HOLD(DLS_LOCK_STATES)
#define DLS_LOCK_HOLD(lock)       \
    const dls_lock held = (lock); \
    dls_lock_take(held)
#define DLS_UNLOCK() dls_lock_give(held)

#else
#define DLS_ATOMIC(type) type
#define DLS_SWAP(type, before, place, value) \
    type before = (place);                   \
    (place) = (value)
#define DLS_PER_THREAD
#define DLS_LOCK(address) (void)0
#define DLS_LOCK_CAPSULE(address) (void)0
#define DLS_LOCK_STATE() (void)0
#define DLS_UNLOCK() (void)0
#endif
