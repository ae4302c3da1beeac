/* The only malloc and free of the library, and the counters of dlshim's work.  Any
 * thread, with or without the GIL. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base.h"
#include "core/lock.h"

/* NULL when out of memory, or when dls_alloc_fail has chosen this allocation. */
void *dls_alloc(size_t size);
/* As dls_alloc, for a number of bytes that came from outside: NULL also where addresses
 * have 32 bits and the number has more. */
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

/* Counters, for tests and for finding leaks.  X(member): handed_on = a producer's own
 * capsule or tensor given untouched; translated = a new struct; copied = copies that
 * were made; taken = foreign tensors that became ours; live = structs of ours whose
 * deleter has not run; tensors = Tensors that are alive, whatever their memory is. */
#define DLS_COUNTER_LIST(X) \
    X(handed_on) X(translated) X(copied) X(taken) X(live) X(tensors)

typedef struct {
#define DLS_COUNTER_MEMBER(member) _Atomic int64_t member;
    DLS_COUNTER_LIST(DLS_COUNTER_MEMBER)
} dls_counter_block;

#ifdef DLS_FREE_THREADED
/* Each thread counts in the block of its slot, and the count is the sum of all. */
typedef struct {
    _Alignas(DLS_LINE) dls_counter_block block;
} dls_counter_line;
DLS_EXTERN dls_counter_line dls_counters[DLS_THREAD_SLOTS];

static inline dls_counter_block *
dls_counter_block_here(void)
{
    return &dls_counters[dls_thread_slot()].block;
}

#define DLS_COUNT_LIVE(change)                                                    \
    atomic_fetch_add_explicit(&dls_counter_block_here()->live, (int64_t)(change), \
                              memory_order_relaxed)
#define DLS_COUNT_BY(member, change)                                                \
    atomic_fetch_add_explicit(&dls_counter_block_here()->member, (int64_t)(change), \
                              memory_order_relaxed)
#define DLS_COUNTED(member) dls_counter_sum(offsetof(dls_counter_block, member))
/* The sum of the member at this offset. */
int64_t dls_counter_sum(size_t offset);

#else
DLS_EXTERN dls_counter_block dls_counters;

/* Exact while the GIL is held, or for one thread: a relaxed load and store takes three
 * instructions, an atomic add twenty cycles.  `live` changes on any thread, so it is
 * counted with the atomic add. */
#define DLS_COUNT_BY(member, change)                                                 \
    atomic_store_explicit(                                                           \
        &dls_counters.member,                                                        \
        atomic_load_explicit(&dls_counters.member, memory_order_relaxed) + (change), \
        memory_order_relaxed)
#define DLS_COUNT_LIVE(change) \
    atomic_fetch_add_explicit(&dls_counters.live, (change), memory_order_relaxed)
/* The count so far. */
#define DLS_COUNTED(member) atomic_load(&dls_counters.member)
#endif
#define DLS_COUNT(member) DLS_COUNT_BY(member, 1)
