#include "core/host_copy.h"

#include <stddef.h>
#include <string.h>

#include "core/base.h"

/* An accepted shape has fewer than 2^63 elements, so at most 62 extents are 2 or
 * more; the others are dropped before anything is stored. */
#define AXES_MAX 64

/* Columns read together when rows are nearer in memory than columns, so that each
 * cache line of the source is used up while it is still there. */
#define TILE 32

typedef struct {
    int64_t extent;
    int64_t step; /* bytes in the source */
} axis;

/* What is left to do once axes are merged.  The last two make a plane. */
typedef struct {
    int count;
    int64_t itemsize; /* bytes that lie together in the source */
    axis axes[AXES_MAX];
} traversal;

/* A plane of the source: rows x columns items, dense in the destination. */
typedef struct {
    axis rows;
    axis columns;
    int64_t itemsize;
} plane;

/* One tile: `width` columns of every row.  memcpy of a constant size is one or two
 * moves, whatever the alignment. */
#define DEFINE_COPY_TILE(name, size)                                           \
    static void name(char *dst, const char *src, const plane *what, int64_t width) \
    {                                                                          \
        const int64_t step = what->columns.step, rows = what->rows.extent;     \
        const int64_t dst_row = what->columns.extent * (int64_t)(size);        \
        for (int64_t row = 0; row < rows; row++) {                             \
            char *to = dst + row * dst_row;                                    \
            const char *from = src + row * what->rows.step;                    \
            for (int64_t i = 0; i < width; i++) {                              \
                memcpy(to + i * (int64_t)(size), from + i * step, (size_t)(size)); \
            }                                                                  \
        }                                                                      \
    }

DEFINE_COPY_TILE(copy_tile_1, 1)
DEFINE_COPY_TILE(copy_tile_2, 2)
DEFINE_COPY_TILE(copy_tile_4, 4)
DEFINE_COPY_TILE(copy_tile_8, 8)
DEFINE_COPY_TILE(copy_tile_16, 16)
DEFINE_COPY_TILE(copy_tile_any, what->itemsize)

static void
copy_tile(char *dst, const char *src, const plane *what, int64_t width)
{
    switch (what->itemsize) {
    case 1:
        copy_tile_1(dst, src, what, width);
        return;
    case 2:
        copy_tile_2(dst, src, what, width);
        return;
    case 4:
        copy_tile_4(dst, src, what, width);
        return;
    case 8:
        copy_tile_8(dst, src, what, width);
        return;
    case 16:
        copy_tile_16(dst, src, what, width);
        return;
    default:
        copy_tile_any(dst, src, what, width);
    }
}

static int64_t
magnitude(int64_t value)
{
    return value < 0 ? -value : value;
}

static void
copy_plane(char *dst, const char *src, const plane *what)
{
    int64_t columns = what->columns.extent;
    bool across = magnitude(what->rows.step) < magnitude(what->columns.step);
    int64_t tile = across && columns > TILE ? TILE : columns;
    for (int64_t first = 0; first < columns; first += tile) {
        int64_t width = columns - first < tile ? columns - first : tile;
        copy_tile(dst + first * what->itemsize, src + first * what->columns.step, what,
                  width);
    }
}

/* Append an axis inside the others, merged with its neighbour where one step over
 * the outer equals a full walk over the inner. */
static void
add_axis(traversal *walk, int64_t extent, int64_t step)
{
    if (walk->count > 0) {
        axis *outer = &walk->axes[walk->count - 1];
        int64_t full;
        if (dls_mul(step, extent, &full) && outer->step == full) {
            outer->extent *= extent;
            outer->step = step;
            return;
        }
    }
    walk->axes[walk->count++] = (axis){extent, step};
}

static void
plan_traversal(traversal *walk, int32_t ndim, const int64_t *shape,
               const int64_t *strides, int64_t itemsize)
{
    walk->count = 0;
    walk->itemsize = itemsize;
    for (int32_t i = 0; i < ndim; i++) {
        if (shape[i] != 1) {
            add_axis(walk, shape[i], strides[i] * itemsize);
        }
    }
    /* A dense innermost axis is one bigger item. */
    if (walk->count > 0 && walk->axes[walk->count - 1].step == itemsize) {
        walk->itemsize *= walk->axes[--walk->count].extent;
    }
}

/* The innermost two axes as a plane; an absent one has a single item. */
static plane
take_plane(traversal *walk)
{
    plane what = {{1, 0}, {1, 0}, walk->itemsize};
    if (walk->count > 0) {
        what.columns = walk->axes[--walk->count];
    }
    if (walk->count > 0) {
        what.rows = walk->axes[--walk->count];
    }
    return what;
}

/* Step to the next plane: the address moves, index[] counts; false at the end. */
static bool
next_plane(const traversal *walk, int64_t *index, const char **src)
{
    for (int i = walk->count - 1; i >= 0; i--) {
        const axis *outer = &walk->axes[i];
        if (++index[i] < outer->extent) {
            *src += outer->step;
            return true;
        }
        index[i] = 0;
        *src -= (outer->extent - 1) * outer->step;
    }
    return false;
}

void
dls_host_copy(void *dst, const void *src, int32_t ndim, const int64_t *shape,
              const int64_t *strides, int64_t itemsize)
{
    int64_t count = 1;
    for (int32_t i = 0; i < ndim; i++) {
        if (shape[i] == 0) {
            return;
        }
    }
    if (strides == NULL) {
        for (int32_t i = 0; i < ndim; i++) {
            count *= shape[i];
        }
        memcpy(dst, src, (size_t)(count * itemsize));
        return;
    }
    traversal walk;
    plan_traversal(&walk, ndim, shape, strides, itemsize);
    plane what = take_plane(&walk);
    int64_t index[AXES_MAX] = {0};
    int64_t size = what.rows.extent * what.columns.extent * what.itemsize;
    char *to = dst;
    const char *from = src;
    do {
        copy_plane(to, from, &what);
        to += size;
    } while (next_plane(&walk, index, &from));
}
