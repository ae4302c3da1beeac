#include "core/traversal.h"

#include "core/base.h"

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
    walk->axes[walk->count++] = (dls_axis){extent, step};
}

void
dls_traversal_plan(dls_traversal *walk, int32_t ndim, const int64_t *shape,
                   const int64_t *strides, int64_t itemsize)
{
    walk->count = 0;
    walk->itemsize = itemsize;
    for (int32_t i = 0; strides == NULL && i < ndim; i++) {
        walk->itemsize *= shape[i];
    }
    for (int32_t i = 0; strides != NULL && i < ndim; i++) {
        if (shape[i] != 1) {
            add_axis(walk, shape[i], strides[i] * itemsize);
        }
    }
    /* A dense innermost axis is one bigger item. */
    if (walk->count > 0 && walk->axes[walk->count - 1].step == itemsize) {
        walk->itemsize *= walk->axes[--walk->count].extent;
    }
}

bool
dls_traversal_next(const dls_traversal *walk, int64_t *index, const char **src)
{
    for (int i = walk->count - 1; i >= 0; i--) {
        const dls_axis *outer = &walk->axes[i];
        if (++index[i] < outer->extent) {
            *src += outer->step;
            return true;
        }
        index[i] = 0;
        *src -= (outer->extent - 1) * outer->step;
    }
    return false;
}
