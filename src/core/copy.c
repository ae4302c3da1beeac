/* The traversal of strided memory, and the copy of host memory that walks it.  Pure C.
 * Tests: tests/core/test_copy.py, tests/device/test_copies.py. */
#include "core/copy.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/base.h"
#include "core/error.h"

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
    walk->axes[walk->count++] = (dls_axis){.extent = extent, .step = step};
}

int
dls_traversal_plan(dls_traversal *walk, const dl_tensor *tensor, int64_t itemsize)
{
    int32_t ndim = tensor->ndim;
    const int64_t *shape = tensor->shape, *strides = tensor->strides;
    assert(ndim >= 0 && itemsize > 0);
    *walk = (dls_traversal){.itemsize = itemsize};
    if (strides == NULL) {
        for (int32_t i = 0; i < ndim; i++) {
            walk->itemsize *= shape[i];
        }
        return DLS_OK;
    }
    walk->axes = dls_alloc((size_t)(ndim < AXES_MAX ? ndim : AXES_MAX)
                           * sizeof *walk->axes);
    if (walk->axes == NULL) {
        return DLS_ENOMEM;
    }
    for (int32_t i = 0; i < ndim; i++) {
        if (shape[i] != 1) {
            add_axis(walk, shape[i], strides[i] * itemsize);
        }
    }
    /* A dense innermost axis is one bigger item. */
    if (walk->count > 0 && walk->axes[walk->count - 1].step == itemsize) {
        walk->itemsize *= walk->axes[--walk->count].extent;
    }
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

/* How many columns are read together when rows are nearer in memory than columns: each
 * cache line of the source is then read completely while it is in the cache. */
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
    static void (*const copies[])(char *, const char *, const plane *, int64_t) = {
        [1] = copy_tile_1, [2] = copy_tile_2,   [4] = copy_tile_4,
        [8] = copy_tile_8, [16] = copy_tile_16,
    };
    bool named = what->itemsize <= 16 && copies[what->itemsize] != NULL;
    (named ? copies[what->itemsize] : copy_tile_any)(dst, src, what, width);
}

static void
copy_plane(char *dst, const char *src, const plane *what)
{
    int64_t columns = what->columns.extent;
    bool across = llabs(what->rows.step) < llabs(what->columns.step);
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
    const dls_axis one = {.extent = 1};
    plane what = {one, one, walk->itemsize};
    if (walk->count > 0) {
        what.columns = walk->axes[--walk->count];
    }
    if (walk->count > 0) {
        what.rows = walk->axes[--walk->count];
    }
    return what;
}

void
dls_host_copy_walk(void *dst, const void *src, dls_traversal walk)
{
    plane what = take_plane(&walk);
    int64_t size = what.rows.extent * what.columns.extent * what.itemsize;
    char *to = dst;
    const char *from = src;
    do {
        copy_plane(to, from, &what);
        to += size;
    } while (dls_traversal_next(&walk, &from));
}

int
dls_host_copy(void *dst, const dl_tensor *tensor, int64_t itemsize)
{
    dls_traversal walk;
    if (dls_traversal_plan(&walk, tensor, itemsize) != DLS_OK) {
        return DLS_ENOMEM;
    }
    dls_host_copy_walk(dst, (const char *)tensor->data + tensor->byte_offset, walk);
    dls_free(walk.axes);
    return DLS_OK;
}
