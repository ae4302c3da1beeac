#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "journal.h"

static void grow(fm_clock *clock, unsigned length)
{
    if (clock->length >= length)
        return;
    /* Not doubled: two clocks that join each other would grow without end. */
    unsigned room = (length + 15) / 16 * 16;
    clock->seq = fm_resize(clock->seq, room * sizeof *clock->seq);
    memset(clock->seq + clock->length, 0, (room - clock->length) * sizeof *clock->seq);
    clock->length = room;
}

void fm_clock_join(fm_clock *into, const fm_clock *from)
{
    grow(into, from->length);
    for (unsigned i = 0; i < from->length; i++)
        if (into->seq[i] < from->seq[i])
            into->seq[i] = from->seq[i];
}

void fm_clock_set(fm_clock *clock, unsigned slot, uint64_t seq)
{
    grow(clock, slot + 1);
    clock->seq[slot] = seq;
}

uint64_t fm_clock_get(const fm_clock *clock, unsigned slot)
{
    return slot < clock->length ? clock->seq[slot] : 0;
}

void fm_clock_clear(fm_clock *clock)
{
    free(clock->seq);
    *clock = (fm_clock){0};
}
