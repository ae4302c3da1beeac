/* Copies strided rows of host memory to dense ones.  Called by core/copy.c and
 * core/copy.c.  Of the source it reads nothing before the first item of a row
 * or behind the last, but perhaps what lies between two items.  Tests:
 * tests/core/test_copy.py. */
#include "core/copy_rows.h"

#include <string.h>

#include "core/base.h"

/* One row: n items of `size` bytes, `step` bytes apart. */
typedef void row_copy(char *to, const char *from, int64_t n, int64_t step,
                      int64_t size);

/* --- any step --------------------------------------------------------------- */

/* memcpy of a constant size is one or two moves, whatever the alignment. */
#define MOVE_1(to, from) memcpy(to, from, 1)
#define MOVE_2(to, from) memcpy(to, from, 2)
#define MOVE_4(to, from) memcpy(to, from, 4)
#define MOVE_8(to, from) memcpy(to, from, 8)
#define MOVE_16(to, from) memcpy(to, from, 16)

#define DEFINE_ROW(size_)                                                        \
    static void row_##size_(char *to, const char *from, int64_t n, int64_t step, \
                            int64_t DLS_UNUSED(size))                            \
    {                                                                            \
        for (; n >= 4; n -= 4, to += 4 * size_, from += 4 * step) {              \
            MOVE_##size_(to, from);                                              \
            MOVE_##size_(to + size_, from + step);                               \
            MOVE_##size_(to + 2 * size_, from + 2 * step);                       \
            MOVE_##size_(to + 3 * size_, from + 3 * step);                       \
        }                                                                        \
        for (; n > 0; n--, to += size_, from += step) {                          \
            MOVE_##size_(to, from);                                              \
        }                                                                        \
    }

DEFINE_ROW(1)
DEFINE_ROW(2)
DEFINE_ROW(4)
DEFINE_ROW(8)
DEFINE_ROW(16)

/* Items of other sizes in two halves of a constant size, which overlap. */
#define DEFINE_HALVES(half)                                                        \
    static void halves_##half(char *to, const char *from, int64_t n, int64_t step, \
                              int64_t size)                                        \
    {                                                                              \
        for (; n > 0; n--, to += size, from += step) {                             \
            memcpy(to, from, half);                                                \
            memcpy(to + size - half, from + size - half, half);                    \
        }                                                                          \
    }

DEFINE_HALVES(2)
DEFINE_HALVES(4)
DEFINE_HALVES(8)
DEFINE_HALVES(16)
DEFINE_HALVES(32)

static void
row_any(char *to, const char *from, int64_t n, int64_t step, int64_t size)
{
    for (; n > 0; n--, to += size, from += step) {
        memcpy(to, from, (size_t)size);
    }
}

static row_copy *
any_step(int64_t size)
{
    switch (size) {
    case 1:
        return row_1;
    case 2:
        return row_2;
    case 4:
        return row_4;
    case 8:
        return row_8;
    case 16:
        return row_16;
    default:
        return size < 4     ? halves_2
               : size < 8   ? halves_4
               : size < 16  ? halves_8
               : size <= 32 ? halves_16
               : size <= 64 ? halves_32
                            : row_any;
    }
}

/* --- one item, over and over ------------------------------------------------ */

/* From this size on, blocks that lie in the cache are copied. */
#define REPEATED (16 << 10)

void
dls_copy_repeat(char *to, int64_t unit, int64_t total)
{
    int64_t done = unit, block = unit;
    for (; done < total; done += block) {
        if (done < REPEATED) {
            block = done;
        }
        if (block > total - done) {
            block = total - done;
        }
        memcpy(to + done, to, (size_t)block);
    }
}

/* Items of 1, 2, 4 or 8 bytes: eight bytes full of them. */
static uint64_t
eight_bytes(const char *item, int64_t size)
{
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (size) {
    case 1:
        return 0x0101010101010101u * (uint8_t)*item;
    case 2:
        memcpy(&two, item, 2);
        return 0x0001000100010001u * two;
    case 4:
        memcpy(&four, item, 4);
        return 0x0000000100000001u * four;
    default:
        memcpy(&eight, item, 8);
        return eight;
    }
}

/* Writes 16 bytes at a time; the last overlap, in the same phase.  From 16 bytes on. */
static void
fill_pattern(char *to, int64_t total, const uint64_t pattern[2])
{
    int64_t i = 0;
    for (; i + 32 < total; i += 32) {
        memcpy(to + i, pattern, 16);
        memcpy(to + i + 16, pattern, 16);
    }
    if (i + 16 < total) {
        memcpy(to + i, pattern, 16);
    }
    memcpy(to + total - 16, pattern, 16);
}

static void
fill(char *to, const char *from, int64_t n, int64_t step, int64_t size)
{
    uint64_t pattern[2];
    int64_t total = n * size;
    (void)step;
    if (total < 16 || total > REPEATED || size > 16 || 16 % size != 0) {
        memcpy(to, from, (size_t)size);
        dls_copy_repeat(to, size, total);
        return;
    }
    memcpy(pattern, from, size == 16 ? 16 : 0);
    if (size != 16) {
        pattern[0] = pattern[1] = eight_bytes(from, size);
    }
    fill_pattern(to, total, pattern);
}

/* --- every second item, and backwards ---------------------------------------- */

#ifdef DLS_VECTORS

/* Two vectors are read, with a gap behind each item.  The gap behind the last item of a
 * row may be another's memory, so that item is copied singly. */
#define DEFINE_EVEN(size_, ...)                                                   \
    static void even_##size_(char *to, const char *from, int64_t n, int64_t step, \
                             int64_t size)                                        \
    {                                                                             \
        const int64_t lanes = 16 / size_;                                         \
        for (; n > lanes; n -= lanes, to += 16, from += 32) {                     \
            dls_vector_##size_ low, high;                                         \
            memcpy(&low, from, 16);                                               \
            memcpy(&high, from + 16, 16);                                         \
            low = __builtin_shufflevector(low, high, __VA_ARGS__);                \
            memcpy(to, &low, 16);                                                 \
        }                                                                         \
        row_##size_(to, from, n, step, size);                                     \
    }

DEFINE_EVEN(1, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
DEFINE_EVEN(2, 0, 2, 4, 6, 8, 10, 12, 14)
DEFINE_EVEN(4, 0, 2, 4, 6)

/* The items behind `from` in memory come first. */
#define DEFINE_BACK(size_, ...)                                                   \
    static void back_##size_(char *to, const char *from, int64_t n, int64_t step, \
                             int64_t size)                                        \
    {                                                                             \
        const int64_t lanes = 16 / size_;                                         \
        for (; n >= lanes; n -= lanes, to += 16, from -= 16) {                    \
            dls_vector_##size_ items;                                             \
            memcpy(&items, from - 16 + size_, 16);                                \
            items = __builtin_shufflevector(items, items, __VA_ARGS__);           \
            memcpy(to, &items, 16);                                               \
        }                                                                         \
        row_##size_(to, from, n, step, size);                                     \
    }

DEFINE_BACK(4, 3, 2, 1, 0)
DEFINE_BACK(8, 1, 0)

/* Not every processor shuffles single bytes, or pairs of them: they are swapped in
 * words. */
static void
back_2(char *to, const char *from, int64_t n, int64_t step, int64_t size)
{
    for (; n >= 8; n -= 8, to += 16, from -= 16) {
        dls_vector_4 items;
        memcpy(&items, from - 14, 16);
        items = __builtin_shufflevector(items, items, 3, 2, 1, 0);
        items = items << 16 | items >> 16;
        memcpy(to, &items, 16);
    }
    row_2(to, from, n, step, size);
}

static void
back_1(char *to, const char *from, int64_t n, int64_t step, int64_t size)
{
    for (; n >= 16; n -= 16, to += 16, from -= 16) {
        uint64_t items[2];
        memcpy(items, from - 15, 16);
        items[0] = __builtin_bswap64(items[0]);
        items[1] = __builtin_bswap64(items[1]);
        memcpy(to, &items[1], 8);
        memcpy(to + 8, &items[0], 8);
    }
    row_1(to, from, n, step, size);
}

static row_copy *
certain_step(int64_t step, int64_t size)
{
    static row_copy *const even[] = {[1] = even_1, [2] = even_2, [4] = even_4, [8] = 0};
    static row_copy *const back[] = {
        [1] = back_1, [2] = back_2, [4] = back_4, [8] = back_8};
    return size > 8           ? NULL
           : step == 2 * size ? even[size]
           : step == -size    ? back[size]
                              : NULL;
}

#else

static row_copy *
certain_step(int64_t step, int64_t size)
{
    (void)step, (void)size;
    return NULL;
}

#endif

/* --- planes ------------------------------------------------------------------ */

/* Rows of a few items: the loop goes over the rows. */
#define FEW 4
#define DEFINE_FEW(size_)                                                   \
    static void few_##size_(char *to, const char *from, const dls_plane *p) \
    {                                                                       \
        const int64_t one = p->column_step, two = 2 * one, three = 3 * one; \
        const int64_t step = p->row_step, pitch = p->row_pitch;             \
        int64_t rows = p->rows;                                             \
        if (p->columns == 2) {                                              \
            for (; rows > 0; rows--, to += pitch, from += step) {           \
                MOVE_##size_(to, from);                                     \
                MOVE_##size_(to + size_, from + one);                       \
            }                                                               \
        }                                                                   \
        else if (p->columns == 3) {                                         \
            for (; rows > 0; rows--, to += pitch, from += step) {           \
                MOVE_##size_(to, from);                                     \
                MOVE_##size_(to + size_, from + one);                       \
                MOVE_##size_(to + 2 * size_, from + two);                   \
            }                                                               \
        }                                                                   \
        else {                                                              \
            for (; rows > 0; rows--, to += pitch, from += step) {           \
                MOVE_##size_(to, from);                                     \
                MOVE_##size_(to + size_, from + one);                       \
                MOVE_##size_(to + 2 * size_, from + two);                   \
                MOVE_##size_(to + 3 * size_, from + three);                 \
            }                                                               \
        }                                                                   \
    }

DEFINE_FEW(1)
DEFINE_FEW(2)
DEFINE_FEW(4)
DEFINE_FEW(8)
DEFINE_FEW(16)

static bool
copy_few(char *to, const char *from, const dls_plane *p)
{
    static void (*const few[])(char *, const char *, const dls_plane *) = {
        [1] = few_1, [2] = few_2, [4] = few_4, [8] = few_8, [16] = few_16};
    if (p->columns < 2 || p->columns > FEW || p->itemsize > 16
        || few[p->itemsize] == NULL) {
        return false;
    }
    few[p->itemsize](to, from, p);
    return true;
}

void
dls_copy_rows(char *to, const char *from, const dls_plane *p)
{
    if (copy_few(to, from, p)) {
        return;
    }
    row_copy *special = certain_step(p->column_step, p->itemsize);
    row_copy *row = p->column_step == 0 && p->columns > 1 ? fill
                    : special != NULL                     ? special
                                                          : any_step(p->itemsize);
    for (int64_t i = 0; i < p->rows; i++) {
        row(to, from, p->columns, p->column_step, p->itemsize);
        to += p->row_pitch;
        from += p->row_step;
    }
}
