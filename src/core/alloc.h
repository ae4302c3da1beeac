/* The only malloc and free of the library.  Any thread, with or without the GIL. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* NULL when out of memory, or when dls_alloc_fail has chosen this allocation. */
void *dls_alloc(size_t size);
/* The same for a number of bytes that came from outside: NULL also where addresses have
 * 32 bits and the number has more. */
static inline void *
dls_alloc_bytes(int64_t bytes)
{
    size_t size = (size_t)bytes;
    return (int64_t)size == bytes ? dls_alloc(size) : NULL;
}
void dls_free(void *block); /* NULL allowed */

/* The least alignment of copies and of memory that dlshim makes for others.  JAX shares
 * memory only if it is aligned so. */
#define DLS_ALIGNMENT 64
/* A block with room for `bytes` from *start on.  *start is a multiple of `alignment`, a
 * power of two.  NULL as above; *start is then undefined. */
void *dls_alloc_aligned(int64_t bytes, int64_t alignment, void **start);

/* For tests: the n-th allocation from now on fails (1 = the next); -1 = none. */
void dls_alloc_fail(long n);
