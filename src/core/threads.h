/* What a build without the GIL needs, and what compiles to nothing in a build with it.
 *
 * DLS_FREE_THREADED is set by setup.py where the interpreter has no GIL (cp313t and
 * newer).  The wheel for all other interpreters contains none of this: there the GIL
 * makes each of our functions one step, until foreign code runs.  Which thing is
 * guarded by what stands in docs/architecture.rst, "Threads without the GIL".
 *
 * Any layer may include this.  DLS_LOCK and DLS_UNLOCK stand only in files that also
 * include Python.h. */
#pragma once

#ifdef DLS_FREE_THREADED
#include <stdatomic.h>

/* A member or variable that threads read and write without a lock.  Each single read,
 * write, ++ and -- of it is atomic; two in a row are not. */
#define DLS_ATOMIC(type) _Atomic(type)

/* Declares `before` as what was in an atomic place, and puts `value` there. */
#define DLS_SWAP(type, before, place, value) \
    type before = atomic_exchange(&(place), (value))

/* A static variable that one thread after the other uses for itself: each has its own.
 */
#define DLS_PER_THREAD _Thread_local

/* Hold the lock of an object (a critical section) until DLS_UNLOCK in the same block.
 * Between them stand a few instructions, which run no foreign code, drop no reference
 * and never detach from the interpreter: only so is it a lock, and free at a fork. One
 * at a time. */
#define DLS_LOCK(object)              \
    PyCriticalSection locked_section; \
    PyCriticalSection_Begin(&locked_section, (PyObject *)(object))
#define DLS_UNLOCK() PyCriticalSection_End(&locked_section)

#else
#define DLS_ATOMIC(type) type
#define DLS_SWAP(type, before, place, value) \
    type before = (place);                   \
    (place) = (value)
#define DLS_PER_THREAD
#define DLS_LOCK(object) (void)0
#define DLS_UNLOCK() (void)0
#endif
