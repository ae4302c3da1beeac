#include "core/copy.h"

#include <stddef.h>
#include <string.h>

/* Columns read together when rows are nearer in memory than columns, so that each
 * cache line of the source is used up while it is still there. */
#define TILE 32

/* A plane of the source: rows x columns items, dense in the destination. */
typedef struct {
    dls_axis rows;
    dls_axis columns;
    int64_t itemsize;
} plane;

/* One tile: `width` columns of every row.  memcpy of a constant size is one or two
 * moves, whatever the alignment. */
#define DEFINE_COPY_TILE(name, size)                                               \
    static void name(char *dst, const char *src, const plane *what, int64_t width) \
    {                                                                              \
        const int64_t step = what->columns.step, rows = what->rows.extent;         \
        const int64_t dst_row = what->columns.extent * (int64_t)(size);            \
        for (int64_t row = 0; row < rows; row++) {                                 \
            char *to = dst + row * dst_row;                                        \
            const char *from = src + row * what->rows.step;                        \
            for (int64_t i = 0; i < width; i++) {                                  \
                memcpy(to + i * (int64_t)(size), from + i * step, (size_t)(size)); \
            }                                                                      \
        }                                                                          \
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

/* The innermost two axes as a plane; an absent one has a single item. */
static plane
take_plane(dls_traversal *walk)
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

void
dls_host_copy_walk(void *dst, const void *src, const dls_traversal *walk)
{
    dls_traversal rest = *walk;
    plane what = take_plane(&rest);
    int64_t index[DLS_AXES_MAX] = {0};
    int64_t size = what.rows.extent * what.columns.extent * what.itemsize;
    char *to = dst;
    const char *from = src;
    do {
        copy_plane(to, from, &what);
        to += size;
    } while (dls_traversal_next(&rest, index, &from));
}

void
dls_host_copy(void *dst, const void *src, int32_t ndim, const int64_t *shape,
              const int64_t *strides, int64_t itemsize)
{
    for (int32_t i = 0; i < ndim; i++) {
        if (shape[i] == 0) {
            return;
        }
    }
    dls_traversal walk;
    dls_traversal_plan(&walk, ndim, shape, strides, itemsize);
    if (walk.count == 0) {
        memcpy(dst, src, (size_t)walk.itemsize);
        return;
    }
    dls_host_copy_walk(dst, src, &walk);
}
