/* Copies strided rows of host memory to dense ones.  Called by core/copy.c and
 * core/copy_blocks.c.  Of the source it reads nothing before the first item of a row
 * or behind the last, but perhaps what lies between two items.  Tests:
 * tests/core/test_copy.py. */
#include "core/copy_rows.h"

#include <string.h>

/* One row: n items of `size` bytes, `step` bytes apart. */
typedef void row_copy(char *to, const char *from, int64_t n, int64_t step,
                      int64_t size);

/* --- any step --------------------------------------------------------------- */

/* memcpy of a constant size is one or two moves, whatever the alignment. */
#define DEFINE_ROW(name, MOVE, SIZE)                                      \
    static void name(char *to, const char *from, int64_t n, int64_t step, \
                     int64_t size)                                        \
    {                                                                     \
        (void)size;                                                       \
        for (; n >= 4; n -= 4, to += 4 * (SIZE), from += 4 * step) {      \
            MOVE(to, from);                                               \
            MOVE(to + (SIZE), from + step);                               \
            MOVE(to + 2 * (SIZE), from + 2 * step);                       \
            MOVE(to + 3 * (SIZE), from + 3 * step);                       \
        }                                                                 \
        for (; n > 0; n--, to += (SIZE), from += step) {                  \
            MOVE(to, from);                                               \
        }                                                                 \
    }

#define MOVE_1(to, from) memcpy(to, from, 1)
#define MOVE_2(to, from) memcpy(to, from, 2)
#define MOVE_4(to, from) memcpy(to, from, 4)
#define MOVE_8(to, from) memcpy(to, from, 8)
#define MOVE_16(to, from) memcpy(to, from, 16)
/* Other sizes in two halves of a constant size, which overlap. */
#define HALVES(to, from, half) \
    (memcpy(to, from, half), memcpy((to) + size - (half), (from) + size - (half), half))
#define MOVE_3_TO_4(to, from) HALVES(to, from, 2)
#define MOVE_5_TO_8(to, from) HALVES(to, from, 4)
#define MOVE_9_TO_16(to, from) HALVES(to, from, 8)
#define MOVE_17_TO_32(to, from) HALVES(to, from, 16)
#define MOVE_33_TO_64(to, from) HALVES(to, from, 32)
#define MOVE_ANY(to, from) memcpy(to, from, (size_t)size)

DEFINE_ROW(row_1, MOVE_1, 1)
DEFINE_ROW(row_2, MOVE_2, 2)
DEFINE_ROW(row_4, MOVE_4, 4)
DEFINE_ROW(row_8, MOVE_8, 8)
DEFINE_ROW(row_16, MOVE_16, 16)
DEFINE_ROW(row_3_to_4, MOVE_3_TO_4, size)
DEFINE_ROW(row_5_to_8, MOVE_5_TO_8, size)
DEFINE_ROW(row_9_to_16, MOVE_9_TO_16, size)
DEFINE_ROW(row_17_to_32, MOVE_17_TO_32, size)
DEFINE_ROW(row_33_to_64, MOVE_33_TO_64, size)
DEFINE_ROW(row_any, MOVE_ANY, size)

static row_copy *
any_step(int64_t size)
{
    static row_copy *const small[] = {
        [1] = row_1,        [2] = row_2,        [3] = row_3_to_4,   [4] = row_4,
        [5] = row_5_to_8,   [6] = row_5_to_8,   [7] = row_5_to_8,   [8] = row_8,
        [9] = row_9_to_16,  [10] = row_9_to_16, [11] = row_9_to_16, [12] = row_9_to_16,
        [13] = row_9_to_16, [14] = row_9_to_16, [15] = row_9_to_16, [16] = row_16,
    };
    return size <= 16   ? small[size]
           : size <= 32 ? row_17_to_32
           : size <= 64 ? row_33_to_64
                        : row_any;
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

/* Items of 2, 4 or 8 bytes: eight bytes full of them. */
static uint64_t
eight_bytes(const char *item, int64_t size)
{
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (size) {
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
    if (size == 1) {
        memset(to, *from, (size_t)n);
        return;
    }
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
