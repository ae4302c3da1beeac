/* The only malloc.  Memory may be freed on any thread, with or without the GIL. */
#ifndef DLS_CORE_ALLOC_H
#define DLS_CORE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/* NULL when out of memory or when the fail-the-nth switch says so. */
void *dls_alloc(size_t size);
void dls_free(void *block); /* NULL allowed */

/* What dlshim's copies, and memory that it makes for others, are at least aligned to:
 * JAX aliases no less. */
#define DLS_ALIGNMENT 64
/* A block with room for `bytes` from *start on, a multiple of `alignment` (a power of
 * two); NULL as above, and *start says nothing. */
void *dls_alloc_aligned(int64_t bytes, int64_t alignment, void **start);

/* Test switch: the n-th allocation from now on fails (1 = the next); -1 = off. */
void dls_alloc_fail(long n);

#endif
