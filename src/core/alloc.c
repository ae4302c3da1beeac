/* Allocates and frees, and fails on demand.  Called everywhere.  Tests:
 * tests/core/test_alloc_failure.py. */
#include "core/alloc.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Counts down to the allocation that fails; negative = off. */
static atomic_long fail_in = -1;

void *
dls_alloc(size_t size)
{
    if (atomic_load_explicit(&fail_in, memory_order_relaxed) > 0
        && atomic_fetch_sub_explicit(&fail_in, 1, memory_order_relaxed) == 1) {
        atomic_store_explicit(&fail_in, -1, memory_order_relaxed);
        return NULL;
    }
    return malloc(size != 0 ? size : 1);
}

void *
dls_alloc_aligned(int64_t bytes, int64_t alignment, void **start)
{
    assert(bytes >= 0 && alignment > 0 && (alignment & (alignment - 1)) == 0);
    if (bytes > PTRDIFF_MAX - alignment) {
        return NULL;
    }
    void *block = dls_alloc((size_t)(bytes + alignment));
    uintptr_t mask = (uintptr_t)alignment - 1;
    *start = (void *)(((uintptr_t)block + mask) & ~mask);
    return block;
}

void
dls_free(void *block)
{
    free(block);
}

void
dls_alloc_fail(long n)
{
    atomic_store_explicit(&fail_in, n, memory_order_relaxed);
}
