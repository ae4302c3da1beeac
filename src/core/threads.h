/* What a build without the GIL needs, and what compiles to nothing in a build with it.
 *
 * DLS_FREE_THREADED is set by setup.py where the interpreter has no GIL (cp313t and
 * newer).  The wheel for all other interpreters contains none of this: there the GIL
 * makes each of our functions one step, until foreign code runs.  Which thing is
 * guarded by what stands in docs/architecture.rst, "Threads without the GIL".
 *
 * Any layer may include this. */
#pragma once

#ifdef DLS_FREE_THREADED
#include <stdatomic.h>

#include "core/lock.h"

/* A member or variable that threads read and write without a lock.  Each single read,
 * write, ++ and -- of it is atomic; two in a row are not. */
#define DLS_ATOMIC(type) _Atomic(type)

/* Declares `before` as what was in an atomic place, and puts `value` there. */
#define DLS_SWAP(type, before, place, value) \
    type before = atomic_exchange(&(place), (value))

/* A static variable that one thread after the other uses for itself: each has its own.
 */
#define DLS_PER_THREAD _Thread_local

/* Hold the lock of what lies at an address, a Tensor or a capsule, until DLS_UNLOCK in
 * the same block.  DLS_LOCK_STATE: that of all states, for members of a state and for
 * plan caches.  What may stand between the two is said in core/lock.h. */
#define DLS_LOCK(address) DLS_LOCK_HOLD(dls_lock_of(address))
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
#define DLS_LOCK_STATE() (void)0
#define DLS_UNLOCK() (void)0
#endif
