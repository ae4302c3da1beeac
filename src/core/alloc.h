/* The only malloc.  Memory may be freed on any thread, with or without the GIL. */
#ifndef DLS_CORE_ALLOC_H
#define DLS_CORE_ALLOC_H

#include <stddef.h>

/* NULL when out of memory or when the fail-the-nth switch says so. */
void *dls_alloc(size_t size);
void dls_free(void *block); /* NULL allowed */

/* Test switch: the n-th allocation from now on fails (1 = the next); -1 = off. */
void dls_alloc_fail(long n);

#endif
