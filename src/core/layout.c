/* Shapes and strides: products, row-major strides, byte spans.  Pure functions.  Tests:
 * tests/core/test_layout.py. */
#include "core/layout.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>

#include "core/base.h"

int
dls_layout_count(int32_t ndim, const int64_t *shape, int64_t *count, dls_error *err)
{
    assert(ndim >= 0 && (ndim == 0 || shape != NULL));
    int64_t product = 1;
    bool empty = false, overflow = false;
    for (int32_t i = 0; i < ndim; i++) {
        if (shape[i] < 0) {
            return dls_fail(err, DLS_EBUFFER,
                            "shape[%" PRId32 "] is negative: %" PRId64, i, shape[i]);
        }
        empty = empty || shape[i] == 0;
        overflow = overflow || !dls_mul(product, shape[i], &product);
    }
    if (overflow && !empty) {
        return dls_fail(err, DLS_EBUFFER,
                        "the number of elements of its shape overflows 64 bits");
    }
    *count = empty ? 0 : product;
    return DLS_OK;
}

void
dls_layout_row_major(int32_t ndim, const int64_t *shape, int64_t *strides)
{
    int64_t stride = 1;
    for (int32_t i = ndim - 1; i >= 0; i--) {
        strides[i] = stride;
        stride = dls_layout_next_stride(stride, shape[i]);
    }
}

bool
dls_layout_is_contiguous(int32_t ndim, const int64_t *shape, const int64_t *strides)
{
    int64_t stride = 1;
    bool dense = true, empty = false;
    for (int32_t i = ndim - 1; strides != NULL && i >= 0; i--) {
        dense = dense && (shape[i] < 2 || strides[i] == stride);
        empty = empty || shape[i] == 0;
        stride = dls_layout_next_stride(stride, shape[i]);
    }
    return dense || empty;
}

/* Elements below and above element zero that a non-empty tensor touches. */
static bool
reach(int32_t ndim, const int64_t *shape, const int64_t *strides, int64_t *below,
      int64_t *above)
{
    int64_t low = 0, high = 0, step;
    for (int32_t i = 0; i < ndim; i++) {
        if (!dls_mul(shape[i] - 1, strides[i], &step)
            || !(step < 0 ? dls_add(low, step, &low) : dls_add(high, step, &high))) {
            return false;
        }
    }
    *below = low;
    *above = high;
    return true;
}

int
dls_layout_span(int32_t ndim, const int64_t *shape, const int64_t *strides,
                int64_t itemsize, int64_t *low, int64_t *high, dls_error *err)
{
    int64_t count, below = 0, above, span;
    int code = dls_layout_count(ndim, shape, &count, err);
    if (code != DLS_OK) {
        return code;
    }
    *low = 0;
    *high = 0;
    if (count == 0) {
        return DLS_OK;
    }
    above = count - 1;
    if ((strides != NULL && !reach(ndim, shape, strides, &below, &above))
        || !dls_mul(below, itemsize, low) || !dls_mul(above, itemsize, high)
        || !dls_add(*high, itemsize, high) || *low < -INT64_MAX
        || !dls_add(*high, -*low, &span)) {
        return dls_fail(
            err, DLS_EBUFFER,
            "the bytes between its first and last element overflow 64 bits");
    }
    return DLS_OK;
}
