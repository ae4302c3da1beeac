/* A strided tensor as nested loops over dense runs: axes merged, units in bytes. */
#ifndef DLS_CORE_TRAVERSAL_H
#define DLS_CORE_TRAVERSAL_H

#include <stdbool.h>
#include <stdint.h>

/* An accepted shape has fewer than 2^63 elements, so at most 62 extents are 2 or
 * more; the others are dropped before anything is stored. */
#define DLS_AXES_MAX 64

typedef struct {
    int64_t extent;
    int64_t step; /* bytes in the source */
} dls_axis;

typedef struct {
    int count;
    int64_t
        itemsize; /* bytes that lie together in the source: a dense innermost axis */
    dls_axis axes[DLS_AXES_MAX]; /* outermost first */
} dls_traversal;

/* Axes of a tensor whose shape dls_layout_span accepted and that has elements.  strides
 * count elements, NULL = row-major. */
void dls_traversal_plan(dls_traversal *walk, int32_t ndim, const int64_t *shape,
                        const int64_t *strides, int64_t itemsize);

/* Step to the next index of the axes: the address moves, index[] counts; false at the
 * end (and all is at the start again). */
bool dls_traversal_next(const dls_traversal *walk, int64_t *index, const char **src);

#endif
