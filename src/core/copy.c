/* The traversal of strided memory, and the copy of host memory: rows, blocks of
 * transposed planes, and which axes make planes.  Called as copy.h says.  Allocates the
 * axes where there are many.  Tests: tests/core/test_copy.py,
 * tests/device/test_copies.py. */
#include "core/copy.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/base.h"

/* --- rows ----------------------------------------------------------------- */

/* Rows x columns items.  The columns of a row are dense in the destination. */
typedef struct {
    int64_t rows, columns; /* at least 1 */
    int64_t row_step;      /* bytes in the source, any sign */
    int64_t column_step;
    int64_t row_pitch; /* bytes in the destination */
    int64_t itemsize;
} dls_plane;

/* Vectors of 16 bytes, where the compiler has them (clang; GCC from 12 on).  It makes
 * code for every processor of the family, also for those without vectors.  Without them
 * the loops are plain C. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define DLS_VECTORS
#endif
#endif
#ifdef DLS_VECTORS
#define DLS_VECTOR __attribute__((vector_size(16)))
typedef uint8_t dls_vector_1 DLS_VECTOR;
typedef uint16_t dls_vector_2 DLS_VECTOR;
typedef uint32_t dls_vector_4 DLS_VECTOR;
typedef uint64_t dls_vector_8 DLS_VECTOR;
#endif

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

/* The first `unit` of `total` bytes are there; fill the others with them, over and
 * over. */
static void
copy_repeat(char *to, int64_t unit, int64_t total)
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
fill_run(char *to, const char *from, int64_t n, int64_t step, int64_t size)
{
    uint64_t pattern[2];
    int64_t total = n * size;
    (void)step;
    if (total < 16 || total > REPEATED || size > 16 || 16 % size != 0) {
        memcpy(to, from, (size_t)size);
        copy_repeat(to, size, total);
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

/* Row by row, each by the loop for its step and the size of its items. */
static void
copy_rows(char *to, const char *from, const dls_plane *p)
{
    if (copy_few(to, from, p)) {
        return;
    }
    row_copy *special = certain_step(p->column_step, p->itemsize);
    row_copy *row = p->column_step == 0 && p->columns > 1 ? fill_run
                    : special != NULL                     ? special
                                                          : any_step(p->itemsize);
    for (int64_t i = 0; i < p->rows; i++) {
        row(to, from, p->columns, p->column_step, p->itemsize);
        to += p->row_pitch;
        from += p->row_step;
    }
}

/* --- square blocks ------------------------------------------------------------ */

/* A tile is so many bytes wide and high: some cache lines, and few enough that both
 * sides of it stay in the first cache. */
#define TILE 256

/* Copy one block of the tile's items from the source's columns, which are `step` bytes
 * apart, to the destination's rows, which are `pitch` bytes apart. */
#ifdef DLS_VECTORS

#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#define ZIP_LOW_1(a, b)                                                               \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, \
                            23)
#define ZIP_HIGH_1(a, b)                                                            \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, \
                            30, 15, 31)
#define ZIP_LOW_2(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define ZIP_HIGH_2(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define ZIP_LOW_4(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define ZIP_HIGH_4(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define ZIP_LOW_8(a, b) __builtin_shufflevector(a, b, 0, 2)
#define ZIP_HIGH_8(a, b) __builtin_shufflevector(a, b, 1, 3)

/* A block of `side` vectors: the source's even columns, then its odd ones, because all
 * of them do not fit in the registers.  Zipping the first half of either with its
 * second half, as often as it can be halved, and at last the two with each other, turns
 * columns into rows. */
#define DEFINE_BLOCK(kind, size_, side)                                              \
    kind void block_##size_(char *to, const char *from, int64_t pitch, int64_t step) \
    {                                                                                \
        dls_vector_##size_ columns[2][side / 2], zipped[side / 2];                   \
        UNROLL for (int odd = 0; odd < 2; odd++)                                     \
        {                                                                            \
            dls_vector_##size_ *v = columns[odd];                                    \
            UNROLL for (int i = 0; i < side / 2; i++)                                \
            {                                                                        \
                memcpy(&v[i], from + odd * step + i * (2 * step), 16);               \
            }                                                                        \
            UNROLL for (int halves = 1; halves < side / 2; halves *= 2)              \
            {                                                                        \
                UNROLL for (int i = 0; i < side / 4; i++)                            \
                {                                                                    \
                    zipped[2 * i] = ZIP_LOW_##size_(v[i], v[i + side / 4]);          \
                    zipped[2 * i + 1] = ZIP_HIGH_##size_(v[i], v[i + side / 4]);     \
                }                                                                    \
                UNROLL for (int i = 0; i < side / 2; i++)                            \
                {                                                                    \
                    v[i] = zipped[i];                                                \
                }                                                                    \
            }                                                                        \
        }                                                                            \
        UNROLL for (int i = 0; i < side / 2; i++)                                    \
        {                                                                            \
            zipped[0] = ZIP_LOW_##size_(columns[0][i], columns[1][i]);               \
            memcpy(to + i * (2 * pitch), &zipped[0], 16);                            \
            zipped[0] = ZIP_HIGH_##size_(columns[0][i], columns[1][i]);              \
            memcpy(to + pitch + i * (2 * pitch), &zipped[0], 16);                    \
        }                                                                            \
    }

#else

#define DEFINE_BLOCK(kind, size_, side)                                              \
    kind void block_##size_(char *to, const char *from, int64_t pitch, int64_t step) \
    {                                                                                \
        for (int row = 0; row < side; row++) {                                       \
            for (int column = 0; column < side; column++) {                          \
                memcpy(to + row * pitch + column * size_,                            \
                       from + column * step + row * size_, size_);                   \
            }                                                                        \
        }                                                                            \
    }

#endif

/* Larger ones are called: each tile has its block twice. */
DEFINE_BLOCK(static, 1, 16)
DEFINE_BLOCK(static, 2, 8)
DEFINE_BLOCK(static inline, 4, 4)
DEFINE_BLOCK(static inline, 8, 2)

static inline int64_t
least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Rows and columns from the first number to before the second, at least one side of
 * each.  A block that overlaps the one before does the rest at the end. */
#define DEFINE_TILE(size_, side)                                                 \
    static void tile_##size_(char *to, const char *from, const dls_plane *p,     \
                             const int64_t rows[2], const int64_t columns[2])    \
    {                                                                            \
        const int64_t step = p->column_step, pitch = p->row_pitch;               \
        const int64_t last = columns[1] - side, last_row = rows[1] - side;       \
        for (int64_t r = rows[0];; r = least(r + side, last_row)) {              \
            char *row = to + r * pitch;                                          \
            const char *first = from + r * size_;                                \
            int64_t c = columns[0];                                              \
            for (; c < last; c += side) {                                        \
                block_##size_(row + c * size_, first + c * step, pitch, step);   \
            }                                                                    \
            block_##size_(row + last * size_, first + last * step, pitch, step); \
            if (r == last_row) {                                                 \
                break;                                                           \
            }                                                                    \
        }                                                                        \
    }

DEFINE_TILE(1, 16)
DEFINE_TILE(2, 8)
DEFINE_TILE(4, 4)
DEFINE_TILE(8, 2)

typedef void tile_copy(char *to, const char *from, const dls_plane *p,
                       const int64_t rows[2], const int64_t columns[2]);

/* The end of a tile.  It is the end of the extent, if less than a block is left
 * there. */
static int64_t
tile_end(int64_t begin, int64_t tile, int64_t side, int64_t extent)
{
    return extent - begin < tile + side ? extent : begin + tile;
}

static void
copy_tiles(char *to, const char *from, const dls_plane *p, tile_copy *copy)
{
    const int64_t tile = TILE / p->itemsize, side = 16 / p->itemsize;
    int64_t rows[2], columns[2];
    for (columns[0] = 0; columns[0] < p->columns; columns[0] = columns[1]) {
        columns[1] = tile_end(columns[0], tile, side, p->columns);
        for (rows[0] = 0; rows[0] < p->rows; rows[0] = rows[1]) {
            rows[1] = tile_end(rows[0], tile, side, p->rows);
            copy(to, from, p, rows, columns);
        }
    }
}

/* True: done.  The items of a source's column must lie together. */
static bool
copy_blocks(char *to, const char *from, const dls_plane *p)
{
    static tile_copy *const copies[] = {
        [1] = tile_1, [2] = tile_2, [4] = tile_4, [8] = tile_8};
    int64_t size = p->itemsize;
    if (size > 8 || copies[size] == NULL || p->row_step != size
        || least(p->rows, p->columns) < (size < 4 ? 16 / size : 4)) {
        return false;
    }
    copy_tiles(to, from, p, copies[size]);
    return true;
}

/* --- strips ------------------------------------------------------------------- */

/* A strip has so many columns, or so many that they span so many bytes. */
#define STRIP_COLUMNS 16
#define STRIP_BYTES (16 << 10)

/* Copy a strip of columns of every row, then the next strip. */
static void
copy_strips(char *to, const char *from, const dls_plane *p)
{
    dls_plane strip = *p;
    int64_t near = STRIP_BYTES / llabs(p->column_step);
    int64_t width = near > STRIP_COLUMNS ? near : STRIP_COLUMNS;
    for (int64_t first = 0; first < p->columns; first += width) {
        strip.columns = least(width, p->columns - first);
        copy_rows(to + first * p->itemsize, from + first * p->column_step, &strip);
    }
}

/* Copy a plane whose rows are nearer to each other in the source than its columns: by
 * blocks, so that a cache line of either side is used up while it is there. */
static void
copy_across(char *to, const char *from, const dls_plane *plane)
{
    dls_plane p = *plane;
    if (p.row_step < 0) { /* from the last row to the first */
        to += (p.rows - 1) * p.row_pitch;
        from += (p.rows - 1) * p.row_step;
        p.row_pitch = -p.row_pitch;
        p.row_step = -p.row_step;
    }
    if (!copy_blocks(to, from, &p)) {
        copy_strips(to, from, &p);
    }
}

/* --- the traversal -------------------------------------------------------- */

/* An accepted shape has fewer than 2^63 elements, so at most 62 extents are 2 or more;
 * the others are dropped before anything is stored. */
#define AXES_MAX 62

/* Append an axis inside the others, merged with its neighbour where one step over
 * the outer equals a full walk over the inner. */
static void
add_axis(dls_traversal *walk, int64_t extent, int64_t step)
{
    if (walk->count > 0) {
        dls_axis *outer = &walk->axes[walk->count - 1];
        int64_t full;
        if (dls_mul(step, extent, &full) && outer->step == full) {
            outer->extent *= extent;
            outer->step = step;
            return;
        }
    }
    assert(walk->count < AXES_MAX);
    dls_axis *axis = &walk->axes[walk->count++];
    axis->extent = extent;
    axis->step = step;
    axis->index = 0;
}

/* Find the axes; walk->axes has room for all of them. */
static void
find_axes(dls_traversal *walk, const dl_tensor *tensor, int64_t itemsize)
{
    const int64_t *shape = tensor->shape, *strides = tensor->strides;
    assert(tensor->ndim >= 0 && itemsize > 0);
    walk->itemsize = itemsize;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        if (shape[i] != 1) {
            add_axis(walk, shape[i], strides[i] * itemsize);
        }
    }
    /* A dense innermost axis is one bigger item. */
    if (walk->count > 0 && walk->axes[walk->count - 1].step == itemsize) {
        walk->itemsize *= walk->axes[--walk->count].extent;
    }
}

int
dls_traversal_plan(dls_traversal *walk, const dl_tensor *tensor, int64_t itemsize)
{
    int32_t ndim = tensor->ndim;
    *walk = (dls_traversal){.itemsize = itemsize};
    if (tensor->strides == NULL) {
        for (int32_t i = 0; i < ndim; i++) {
            walk->itemsize *= tensor->shape[i];
        }
        return DLS_OK;
    }
    walk->axes = dls_alloc((size_t)(ndim < AXES_MAX ? ndim : AXES_MAX)
                           * sizeof *walk->axes);
    if (walk->axes == NULL) {
        return DLS_ENOMEM;
    }
    find_axes(walk, tensor, itemsize);
    return DLS_OK;
}

bool
dls_traversal_next(const dls_traversal *walk, const char **src)
{
    for (int i = walk->count - 1; i >= 0; i--) {
        dls_axis *outer = &walk->axes[i];
        if (++outer->index < outer->extent) {
            *src += outer->step;
            return true;
        }
        outer->index = 0;
        *src -= (outer->extent - 1) * outer->step;
    }
    return false;
}

/* --- the copy of host memory ---------------------------------------------- */

/* Step to the next index of all axes but the one that is skipped.  False at the end;
 * everything is then at the start again. */
static bool
next_plane(dls_axis *axes, int count, int skipped, char **to, const char **from)
{
    for (int i = count - 1; i >= 0; i--) {
        dls_axis *axis = &axes[i];
        if (i == skipped) {
            continue;
        }
        if (++axis->index < axis->extent) {
            *to += axis->pitch;
            *from += axis->step;
            return true;
        }
        axis->index = 0;
        *to -= (axis->extent - 1) * axis->pitch;
        *from -= (axis->extent - 1) * axis->step;
    }
    return false;
}

/* The axis whose items are nearest to each other in the source; the innermost of
 * several. */
static int
nearest_axis(const dls_axis *axes, int count)
{
    int nearest = count - 1;
    for (int i = nearest - 1; i >= 0; i--) {
        if (llabs(axes[i].step) < llabs(axes[nearest].step)) {
            nearest = i;
        }
    }
    return nearest;
}

/* No axis but the last is a broadcast.  The columns of the planes are the last axis,
 * which is dense in the destination; their rows are the axis that is densest in the
 * source, or else the last but one. */
static void
copy_planes(char *to, const char *from, dls_axis *axes, int count, int64_t itemsize)
{
    int last = count - 1, nearest = nearest_axis(axes, count);
    bool across = nearest != last;
    int rows = across ? nearest : last - 1;
    dls_plane plane = {.rows = 1,
                       .columns = axes[last].extent,
                       .column_step = axes[last].step,
                       .itemsize = itemsize};
    if (rows >= 0) {
        plane.rows = axes[rows].extent;
        plane.row_step = axes[rows].step;
        plane.row_pitch = axes[rows].pitch;
    }
    do {
        (across ? copy_across : copy_rows)(to, from, &plane);
    } while (next_plane(axes, last, rows, &to, &from));
}

/* The outermost broadcast: the items that it repeats are copied once. */
static void
copy_axes(char *to, const char *from, dls_axis *axes, int count, int64_t itemsize)
{
    int i = 0;
    if (count == 0) {
        memcpy(to, from, (size_t)itemsize);
        return;
    }
    while (i < count - 1 && axes[i].step != 0) {
        i++;
    }
    if (i == count - 1) {
        copy_planes(to, from, axes, count, itemsize);
        return;
    }
    const dls_axis *repeated = &axes[i];
    do {
        copy_axes(to, from, axes + i + 1, count - i - 1, itemsize);
        copy_repeat(to, repeated->pitch, repeated->pitch * repeated->extent);
    } while (next_plane(axes, i, -1, &to, &from));
}

void
dls_host_copy_walk(void *dst, const void *src, const dls_traversal *walk)
{
    int64_t pitch = walk->itemsize;
    for (int i = walk->count - 1; i >= 0; i--) {
        walk->axes[i].pitch = pitch;
        pitch *= walk->axes[i].extent;
    }
    copy_axes(dst, src, walk->axes, walk->count, walk->itemsize);
}

/* The number of axes up to which nothing is allocated. */
#define AXES_FEW 8

int
dls_host_copy(void *dst, const dl_tensor *tensor, int64_t itemsize)
{
    dls_axis few[AXES_FEW];
    dls_traversal walk = {.axes = few};
    bool many = tensor->ndim > AXES_FEW || tensor->strides == NULL;
    if (!many) {
        find_axes(&walk, tensor, itemsize);
    }
    else if (dls_traversal_plan(&walk, tensor, itemsize) != DLS_OK) {
        return DLS_ENOMEM;
    }
    dls_host_copy_walk(dst, (const char *)tensor->data + tensor->byte_offset, &walk);
    if (many) {
        dls_free(walk.axes);
    }
    return DLS_OK;
}

/* --- byte order ------------------------------------------------------------- */

/* Widths of the numbers of nearly all arrays, by moves that compilers make vectors of.
 */
#define DEFINE_SWAP(bits)                                              \
    static void swap_##bits(char *bytes, int64_t length)               \
    {                                                                  \
        uint##bits##_t number;                                         \
        for (int64_t i = 0; i < length; i += (int64_t)sizeof number) { \
            memcpy(&number, bytes + i, sizeof number);                 \
            number = __builtin_bswap##bits(number);                    \
            memcpy(bytes + i, &number, sizeof number);                 \
        }                                                              \
    }
DEFINE_SWAP(16)
DEFINE_SWAP(32)
DEFINE_SWAP(64)

static void
swap_any(char *bytes, int64_t length, int64_t width)
{
    for (char *end = bytes + length; bytes < end; bytes += width) {
        for (int64_t i = 0; i < width / 2; i++) {
            char byte = bytes[i];
            bytes[i] = bytes[width - 1 - i];
            bytes[width - 1 - i] = byte;
        }
    }
}

void
dls_swap_bytes(char *bytes, int64_t length, int64_t width)
{
    switch (width) {
    case 2:
        swap_16(bytes, length);
        return;
    case 4:
        swap_32(bytes, length);
        return;
    case 8:
        swap_64(bytes, length);
        return;
    default:
        swap_any(bytes, length, width);
    }
}

/* --- the values of booleans ------------------------------------------------- */

/* The first of n bytes that is above 1; 0: there is none. */
static uint8_t
above_one(const char *bytes, int64_t n)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t word = 0;
    int64_t i = 0;
    for (; i + 8 <= n && (word & ~ones) == 0; i += 8) {
        memcpy(&word, bytes + i, sizeof word);
    }
    i -= (word & ~ones) != 0 ? 8 : 0; /* it is in the last word */
    for (; i < n; i++) {
        if ((unsigned char)bytes[i] > 1) {
            return (uint8_t)bytes[i];
        }
    }
    return 0;
}

int
dls_host_find_above_one(const dl_tensor *tensor, int64_t itemsize, uint8_t *found)
{
    dls_traversal walk;
    if (dls_traversal_plan(&walk, tensor, itemsize) != DLS_OK) {
        return DLS_ENOMEM;
    }
    for (int i = 0; i < walk.count; i++) {
        if (walk.axes[i].step == 0) {
            walk.axes[i].extent = 1; /* it repeats what was seen */
        }
    }
    const char *src = (const char *)tensor->data + tensor->byte_offset;
    do {
        *found = above_one(src, walk.itemsize);
    } while (*found == 0 && dls_traversal_next(&walk, &src));
    dls_free(walk.axes);
    return DLS_OK;
}
