/* Threads told apart. */
#ifndef DLS_CORE_THREAD_H
#define DLS_CORE_THREAD_H

#include <stdint.h>

/* A number of the calling thread, never 0 and never used again: the system gives the
 * idents of ended threads to new ones. */
uint64_t dls_thread_number(void);

#endif
