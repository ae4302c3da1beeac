/* Memory of a fake driver, and who touched it last.
 *
 * One shadow word per allocation: the last write, and the last read of every stream since.  A
 * read is racy if the last write is not in the reader's clock; a write is racy if the last write
 * or a read is not in the writer's.  The algorithm is that of torch's own sanitizer
 * (torch/cuda/_sanitizer.py).
 *
 * A copy to host memory that no one allocated here leaves a landing: the same word for those
 * bytes, so that a host which reads before it waited is found out.
 */
#ifndef FM_SHADOW_H
#define FM_SHADOW_H

#include "model.h"

typedef enum { FM_DEVICE, FM_MANAGED, FM_PINNED, FM_POOL, FM_LANDING, FM_SYSTEM } fm_kind;

typedef struct {
    unsigned number;
    uintptr_t base;
    size_t size;
    fm_kind kind;
    fm_domain *domain; /* NULL for a landing */
    bool of_test;
    uint64_t write;
    unsigned write_slot;
    char writer[24];
    fm_clock reads;
} fm_memory;

/* Filled with 0xA5 if below 1 GiB; at most 64 GiB.  NULL when there is no memory.  The address is
 * aligned to 512 and never to 1024, so that no test passes or fails by a lucky address. */
fm_memory *fm_memory_new(fm_domain *domain, size_t size, fm_kind kind, bool of_test);
/* Freed memory is overwritten, and given back to the system at the next reset. */
void fm_memory_free(fm_memory *memory);
/* The allocation, not a landing, in which the address lies; or NULL. */
fm_memory *fm_memory_at(uintptr_t address);

/* Allocations that driver calls made and nobody has freed. */
unsigned fm_live_memory(void);
/* Their bytes, and those of the tests. */
size_t fm_live_bytes(void);

/* An operation of `stream`, or of the host when that is NULL, which reads or writes every known
 * byte of the range.  `*racy` is set when it was not synced; each hazard is a line of its own
 * among the races. */
fm_status fm_touch(fm_stream *stream, uintptr_t address, size_t size, bool write, bool *racy);

/* The two touches of a copy, made as one operation of the stream.  Landings are made for what
 * is written and is not allocated here. */
fm_status fm_touch_copy(fm_stream *stream, uintptr_t to, size_t to_size, uintptr_t from,
                        size_t from_size);

/* memmove; of 1 GiB and more the first and the last page alone. */
void fm_move(void *to, const void *from, size_t size);

void fm_shadow_reset(bool hard);

#endif
