/* Threads told apart. */
#ifndef DLS_PYTHON_THREAD_H
#define DLS_PYTHON_THREAD_H

#include "python/state.h"

/* A number of the calling thread, never 0 and never used again: the system gives the
 * idents of ended threads to new ones.  0 when out of memory. */
uintptr_t dls_thread_number(dls_state *state);

#endif
