/* The traversal of strided memory, and the copy of host memory: which axes make planes,
 * and in which order they are walked.  Called as copy.h says.  Allocates the axes where
 * there are many.  Tests: tests/core/test_copy.py, tests/device/test_copies.py. */
#include "core/copy.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/base.h"
#include "core/copy_blocks.h"
#include "core/copy_rows.h"
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
        (across ? dls_copy_across : dls_copy_rows)(to, from, &plane);
    } while (next_plane(axes, last, rows, &to, &from));
}

/* The outermost broadcast: what it repeats is copied once. */
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
        dls_copy_repeat(to, repeated->pitch, repeated->pitch * repeated->extent);
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

/* So many axes need no allocation. */
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
