/* Allocates and frees, and fails on demand; the counters.  Called everywhere.  Asks
 * Linux for large pages.  Tests: tests/core/test_alloc_failure.py,
 * tests/core/test_copy.py, tests/core/test_handing_on.py, tests/core/test_stress.py. */
#ifdef __linux__
#define _DEFAULT_SOURCE /* madvise */
#endif
#include "core/alloc.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

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

/* From this size on, an advice costs less than the page faults that it saves. */
#define LARGE (INT64_C(4) << 20)
#define PAGE 4096

/* The kernel gives fresh memory page by page, as it is written.  Ask the kernel for 2
 * MB pages, which some kernels give only to programs that ask.  Without them nothing
 * fails. */
static void
advise_large_pages(void *start, int64_t bytes)
{
#ifdef MADV_HUGEPAGE
    if (bytes >= LARGE) {
        uintptr_t first = ((uintptr_t)start + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
        madvise((void *)first, (size_t)bytes - (first - (uintptr_t)start),
                MADV_HUGEPAGE);
    }
#else
    (void)start, (void)bytes;
#endif
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
    if (block != NULL) {
        advise_large_pages(*start, bytes);
    }
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

#ifdef DLS_FREE_THREADED
dls_counter_line dls_counters[DLS_THREAD_SLOTS];

int64_t
dls_counter_sum(size_t offset)
{
    int64_t sum = 0;
    for (int i = 0; i < DLS_THREAD_SLOTS; i++) {
        char *block = (char *)&dls_counters[i].block;
        sum += atomic_load((_Atomic int64_t *)(void *)(block + offset));
    }
    return sum;
}
#else
dls_counter_block dls_counters;
#endif
