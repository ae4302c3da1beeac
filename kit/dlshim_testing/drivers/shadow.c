#define _POSIX_C_SOURCE 200809L
#include "shadow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "journal.h"

enum { FRESH = 0xA5, FREED = 0xDD, ALIGNED = 512 };
static const size_t HUGE = (size_t)1 << 30; /* from here on only what is used takes memory */

static fm_memory **all;
static size_t length;
static void **graveyard;
static size_t graves;
static unsigned last_number;

static fm_memory *add(uintptr_t base, size_t size, fm_kind kind)
{
    fm_memory *memory = fm_allocate(sizeof *memory);
    memory->number = ++last_number;
    memory->base = base;
    memory->size = size;
    memory->kind = kind;
    all = fm_resize(all, (length + 1) * sizeof *all);
    all[length++] = memory;
    return memory;
}

static void strike(size_t at)
{
    fm_clock_clear(&all[at]->reads);
    free(all[at]);
    all[at] = all[--length];
}

fm_memory *fm_memory_new(fm_domain *domain, size_t size, fm_kind kind, bool of_test)
{
    void *block;
    if (size > (size_t)64 << 30)
        return NULL;
    if (posix_memalign(&block, 2 * ALIGNED, ALIGNED + (size ? size : 1)) != 0)
        return NULL;
    uintptr_t base = (uintptr_t)block + ALIGNED;
    if (size < HUGE)
        memset((void *)base, FRESH, size);
    fm_memory *memory = add(base, size, kind);
    memory->domain = domain;
    memory->of_test = of_test;
    return memory;
}

void fm_memory_free(fm_memory *memory)
{
    if (memory->size < HUGE)
        memset((void *)memory->base, FREED, memory->size);
    graveyard = fm_resize(graveyard, (graves + 1) * sizeof *graveyard);
    graveyard[graves++] = (void *)(memory->base - ALIGNED);
    for (size_t i = 0; i < length; i++)
        if (all[i] == memory) {
            strike(i);
            return;
        }
}

fm_memory *fm_memory_at(uintptr_t address)
{
    for (size_t i = 0; i < length; i++)
        if (all[i]->kind != FM_LANDING && address - all[i]->base < all[i]->size)
            return all[i];
    return NULL;
}

unsigned fm_live_memory(void)
{
    unsigned count = 0;
    for (size_t i = 0; i < length; i++)
        count += all[i]->kind != FM_LANDING && !all[i]->of_test;
    return count;
}

size_t fm_live_bytes(void)
{
    size_t sum = 0;
    for (size_t i = 0; i < length; i++)
        sum += all[i]->kind != FM_LANDING ? all[i]->size : 0;
    return sum;
}

static bool overlaps(const fm_memory *memory, uintptr_t address, size_t size)
{
    return memory->base < address + size && address < memory->base + memory->size;
}

/* ---- hazards ---- */

static void what(const fm_memory *memory, char *text, size_t size)
{
    if (memory->kind == FM_LANDING)
        snprintf(text, size, "host memory");
    else
        snprintf(text, size, "m%u", memory->number);
}

static const char *who(const fm_stream *stream)
{
    return stream ? stream->name : "the host";
}

static bool hazard(const fm_memory *memory, const fm_stream *stream, const fm_clock *clock,
                   bool write)
{
    const char *doing = write ? "write" : "read";
    bool any = false;
    char it[32];
    what(memory, it, sizeof it);
    if (memory->write && fm_clock_get(clock, memory->write_slot) < memory->write) {
        fm_race("%s of %s on %s does not come after the write on %s", doing, it, who(stream),
                memory->writer);
        any = true;
    }
    for (unsigned slot = 0; write && slot < memory->reads.length; slot++) {
        if (memory->reads.seq[slot] <= fm_clock_get(clock, slot))
            continue;
        fm_race("write of %s on %s does not come after the read on %s", it, who(stream),
                fm_slot_name(slot));
        any = true;
    }
    return any;
}

static void mark(fm_memory *memory, const fm_stream *stream, uint64_t seq, bool write)
{
    unsigned slot = stream ? stream->slot : 0;
    if (!write) {
        fm_clock_set(&memory->reads, slot, seq);
        return;
    }
    memory->write = seq;
    memory->write_slot = slot;
    snprintf(memory->writer, sizeof memory->writer, "%s", who(stream));
    fm_clock_clear(&memory->reads);
}

static bool touch_all(const fm_stream *stream, uint64_t seq, uintptr_t address, size_t size,
                      bool write)
{
    const fm_clock *clock = stream ? &stream->clock : fm_host_clock();
    bool racy = false;
    for (size_t i = 0; i < length; i++) {
        if (!overlaps(all[i], address, size))
            continue;
        racy |= hazard(all[i], stream, clock, write);
        mark(all[i], stream, seq, write);
    }
    return racy;
}

/* Landings that the host has waited for, or that this one covers, say nothing any more. */
static void land(const fm_stream *stream, uint64_t seq, uintptr_t address, size_t size)
{
    for (size_t i = length; i-- > 0;) {
        const fm_memory *old = all[i];
        if (old->kind != FM_LANDING)
            continue;
        bool covered = address <= old->base && old->base + old->size <= address + size;
        if (covered || fm_in_host(old->write_slot, old->write))
            strike(i);
    }
    if (!fm_memory_at(address))
        mark(add(address, size, FM_LANDING), stream, seq, true);
}

fm_status fm_touch(fm_stream *stream, uintptr_t address, size_t size, bool write, bool *racy)
{
    uint64_t seq = 0;
    fm_status status = FM_OK;
    if (stream)
        status = fm_operation(stream, &seq);
    else
        seq = fm_host_operation();
    if (status == FM_OK && touch_all(stream, seq, address, size, write))
        *racy = true;
    return status;
}

fm_status fm_touch_copy(fm_stream *stream, uintptr_t to, size_t to_size, uintptr_t from,
                        size_t from_size)
{
    uint64_t seq;
    fm_status status = fm_operation(stream, &seq);
    if (status != FM_OK)
        return status;
    touch_all(stream, seq, from, from_size, false);
    touch_all(stream, seq, to, to_size, true);
    land(stream, seq, to, to_size);
    return FM_OK;
}

void fm_move(void *to, const void *from, size_t size)
{
    const size_t page = 4096;
    if (size < HUGE) {
        memmove(to, from, size);
        return;
    }
    memcpy(to, from, page);
    memcpy((char *)to + size - page, (const char *)from + size - page, page);
}

void fm_shadow_reset(bool hard)
{
    for (size_t i = length; i-- > 0;) {
        fm_memory *memory = all[i];
        if (memory->kind == FM_LANDING) {
            strike(i);
        } else if (hard || memory->of_test) {
            fm_memory_free(memory);
        } else {
            memory->write = 0;
            fm_clock_clear(&memory->reads);
        }
    }
    last_number = 0; /* numbers start again behind those that are kept */
    for (size_t i = 0; i < length; i++)
        if (last_number < all[i]->number)
            last_number = all[i]->number;
    while (graves)
        free(graveyard[--graves]);
}
