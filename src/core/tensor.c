/* Checks tensors, makes new structs and deletes them.  The deleters here run on any
 * thread, attached or not.  Tests: tests/core/test_bad_input.py,
 * tests/core/test_layout.py, tests/core/test_lifetime.py. */
#include "core/tensor.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "core/alloc.h"
#include "core/base.h"
#include "core/dtype.h"

/* --- shapes and strides --------------------------------------------------- */

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
                int64_t count, int64_t itemsize, int64_t *low, int64_t *high,
                dls_error *err)
{
    int64_t below = 0, above, span;
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

/* Empty host tensors point here.  It is never read (T6). */
static _Alignas(64) char nothing[64];

/* --- scan ----------------------------------------------------------------- */

/* The walk for the usual tensor.  False if an extent is not positive, a stride is
 * negative or a product overflows: scan_carefully decides then. */
static bool
scan_quickly(const dl_tensor *tensor, dls_scan *scan)
{
    const int64_t *shape = tensor->shape, *strides = tensor->strides;
    int64_t product = 1;
    bool canonical = strides != NULL || tensor->ndim == 0;
    bool contiguous = true;
    for (int32_t i = tensor->ndim - 1; i >= 0; i--) {
        int64_t extent = shape[i];
        if (extent <= 0) {
            return false;
        }
        if (strides != NULL && strides[i] != product) {
            canonical = false;
            if (strides[i] < 0) {
                return false;
            }
            if (extent != 1) {
                contiguous = false;
            }
        }
        if (!dls_mul(product, extent, &product)) {
            return false;
        }
    }
    scan->count = product;
    scan->canonical = canonical;
    scan->contiguous = contiguous;
    scan->negative = scan->meaningless = false;
    return true;
}

static int
scan_carefully(const dl_tensor *tensor, dls_scan *scan, dls_error *err)
{
    const int64_t *shape = tensor->shape, *strides = tensor->strides;
    int64_t expected = 1;
    int code = dls_layout_count(tensor->ndim, shape, &scan->count, err);
    scan->canonical = strides != NULL || tensor->ndim == 0;
    scan->contiguous = true;
    scan->negative = scan->meaningless = false;
    for (int32_t i = tensor->ndim - 1; code == DLS_OK && strides != NULL && i >= 0;
         i--) {
        /* A reader never steps along an extent below 2, or in an empty tensor. */
        bool steps = shape[i] >= 2 && scan->count != 0;
        bool negative = strides[i] < 0, same = strides[i] == expected;
        scan->canonical = scan->canonical && same;
        scan->contiguous = scan->contiguous && (same || !steps);
        scan->negative = scan->negative || (negative && steps);
        scan->meaningless = scan->meaningless || (negative && !steps);
        expected = dls_layout_next_stride(expected, shape[i]);
    }
    return code;
}

/* The bytes of all elements must not overflow, also where a broadcast (stride 0) has
 * fewer in memory: a copy would need them all. */
static int
check_span(const dl_tensor *tensor, const dls_scan *scan, dls_error *err)
{
    int64_t low, high;
    if (!dls_mul(scan->count, scan->itemsize, &high)) {
        return dls_fail(err, DLS_EBUFFER,
                        "its size in bytes overflows; the struct lies");
    }
    if (scan->contiguous) {
        return DLS_OK;
    }
    return dls_layout_span(tensor->ndim, tensor->shape, tensor->strides, scan->count,
                           scan->itemsize, &low, &high, err);
}

int
dls_tensor_scan(const dl_tensor *tensor, dls_scan *scan, dls_error *err)
{
    if (tensor->ndim < 0 || tensor->ndim > DLS_NDIM_ABSURD) {
        return dls_fail(err, DLS_EBUFFER, "ndim is %d; the struct lies",
                        (int)tensor->ndim);
    }
    if (tensor->ndim > 0 && tensor->shape == NULL) {
        return dls_fail(err, DLS_EBUFFER, "shape is NULL with ndim %d; the struct lies",
                        (int)tensor->ndim);
    }
    scan->itemsize = (dls_dtype_bits(tensor->dtype) + 7) / 8;
    if (scan->itemsize == 0) {
        return dls_fail(err, DLS_EBUFFER, "elements have no width (%d bits x %d lanes)",
                        (int)tensor->dtype.bits, (int)tensor->dtype.lanes);
    }
    int code = scan_quickly(tensor, scan) ? DLS_OK : scan_carefully(tensor, scan, err);
    if (code == DLS_OK) {
        code = check_span(tensor, scan, err);
    }
    if (code < 0 || !dls_device_has_addresses(tensor->device.device_type)) {
        return code;
    }
    if (tensor->byte_offset > INT64_MAX
        || tensor->byte_offset > UINTPTR_MAX - (uintptr_t)tensor->data) {
        return dls_fail(err, DLS_EBUFFER,
                        "its byte_offset leaves the address space; the "
                        "struct lies");
    }
    if (tensor->data == NULL && scan->count != 0) {
        return dls_fail(err, DLS_EBUFFER,
                        "its data are NULL though it has elements: no memory is behind "
                        "it (fake, deferred or freed)\n"
                        "  make real data of it first");
    }
    return DLS_OK;
}

bool
dls_tensor_is_plain_strided(const dl_tensor *tensor)
{
    int64_t product = 1, reach = 0, seen = 0;
    bool contiguous = true;
    for (int32_t i = tensor->ndim - 1; i >= 0; i--) {
        int64_t extent = tensor->shape[i], stride = tensor->strides[i], step;
        if (extent <= 0 || stride < 0 || !dls_mul(extent - 1, stride, &step)
            || !dls_add(reach, step, &reach)) {
            return false;
        }
        contiguous = contiguous && (extent == 1 || stride == product);
        if (!dls_mul(product, extent, &product)) {
            return false;
        }
        seen |= product | reach;
    }
    return (uint64_t)seen >> DLS_PLAIN_COUNT_BITS == 0 && !contiguous;
}

bool
dls_tensor_is_plain_in_rows(const dl_tensor *tensor)
{
    int64_t product = 1, seen = 0;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] <= 0 || !dls_mul(product, tensor->shape[i], &product)) {
            return false;
        }
        seen |= product;
    }
    return (uint64_t)seen >> DLS_PLAIN_COUNT_BITS == 0;
}

/* --- layouts -------------------------------------------------------------- */

/* Does some order of the axes make these `count` elements contiguous?  An axis whose
 * stride is the product of the extents before it is the next one in that order. */
static bool
is_compact(const dl_tensor *tensor, int64_t count)
{
    int64_t product = 1, before;
    do {
        before = product;
        for (int32_t i = 0; i < tensor->ndim; i++) {
            if (tensor->shape[i] > 1 && tensor->strides[i] == product) {
                product *= tensor->shape[i]; /* scanned: no overflow */
            }
        }
    } while (product != before);
    return product == count;
}

bool
dls_tensor_has_layout(const dl_tensor *tensor, const dls_scan *scan, dls_layout layout)
{
    return scan->contiguous || layout == DLS_LAYOUT_ANY
           || (layout == DLS_LAYOUT_NO_NEGATIVE && !scan->negative)
           || (layout == DLS_LAYOUT_COMPACT && is_compact(tensor, scan->count));
}

/* --- exports -------------------------------------------------------------- */

void
dls_tensor_fold_data(dl_tensor *tensor, const dls_scan *scan)
{
    int32_t type = tensor->device.device_type;
    /* dpctl refuses a folded address with negative strides. */
    bool keep = type == dl_kDLOneAPI && scan->negative;
    if (tensor->byte_offset != 0 && tensor->data != NULL && !keep
        && dls_device_has_addresses(type)) {
        tensor->data = (char *)tensor->data + tensor->byte_offset;
        tensor->byte_offset = 0;
    }
    if (tensor->data == NULL && dls_device_is_host(type)) {
        tensor->data = nothing;
        tensor->byte_offset = 0;
    }
}

bool
dls_tensor_needs_change(const void *managed, uint64_t flags, const dls_scan *scan,
                        const dls_delivery *what)
{
    const dl_tensor *source = dls_managed_tensor(managed, what->versioned);
    const dl_tensor *out = &what->tensor;
    bool has_deleter = what->versioned
                           ? ((const dl_managed_tensor_versioned *)managed)->deleter
                                 != NULL
                           : ((const dl_managed_tensor *)managed)->deleter != NULL;
    return (what->canonical && !scan->canonical) || scan->meaningless
           || source->data != out->data || source->byte_offset != out->byte_offset
           || !has_deleter || (what->versioned && flags != what->flags)
           || memcmp(&source->dtype, &out->dtype, sizeof out->dtype) != 0
           || memcmp(&source->device, &out->device, sizeof out->device) != 0
           || source->ndim != out->ndim;
}

/* Free a block whose hold was dropped or moved. */
static void
free_block(dls_export_block *block)
{
    DLS_COUNT_LIVE(-1);
    dls_free(block);
}

void
dls_export_delete_legacy(dl_managed_tensor *self)
{
    dls_export_block *block = self->manager_ctx;
    dls_hold_drop(&block->hold, DLS_ATTACHMENT_UNKNOWN);
    free_block(block);
}

void
dls_export_delete_versioned(dl_managed_tensor_versioned *self)
{
    dls_export_block *block = self->manager_ctx;
    dls_hold_drop(&block->hold, DLS_ATTACHMENT_UNKNOWN);
    free_block(block);
}

/* The block of a struct that we made. */
static dls_export_block *
block_of(void *managed, bool versioned)
{
    return versioned ? ((dl_managed_tensor_versioned *)managed)->manager_ctx
                     : ((dl_managed_tensor *)managed)->manager_ctx;
}

dls_hold *
dls_export_own_hold(void *managed, bool versioned)
{
    bool own = versioned ? ((dl_managed_tensor_versioned *)managed)->deleter
                               == dls_export_delete_versioned
                         : ((dl_managed_tensor *)managed)->deleter
                               == dls_export_delete_legacy;
    return own ? &block_of(managed, versioned)->hold : NULL;
}

/* Write shape and row-major strides in one walk.  The scan has checked the products, so
 * only a tensor with a zero extent needs dls_layout_row_major. */
static void
write_canonical(int32_t ndim, const int64_t *from, int64_t *shape, int64_t *strides)
{
    int64_t product = 1;
    bool empty = false;
    for (int32_t i = ndim - 1; i >= 0; i--) {
        int64_t extent = from[i];
        shape[i] = extent;
        strides[i] = product;
        empty |= extent == 0;
        product = (int64_t)((uint64_t)product * (uint64_t)extent);
    }
    if (empty) {
        dls_layout_row_major(ndim, shape, strides);
    }
}

void
dls_tensor_write_dims(const dl_tensor *from, bool canonical, int64_t *dims)
{
    int32_t ndim = from->ndim;
    assert(ndim >= 0 && (canonical || ndim == 0 || from->strides != NULL));
    if (canonical) {
        write_canonical(ndim, from->shape, dims, dims + ndim);
        return;
    }
    for (int32_t i = ndim - 1; i >= 0; i--) {
        int64_t extent = from->shape[i], stride = from->strides[i];
        dims[i] = extent;
        dims[ndim + i] = stride < 0 && extent < 2 ? 1 : stride;
    }
}

void *
dls_export_new(const dls_delivery *what)
{
    dls_export_block *block = dls_export_block_new(&what->tensor, what->versioned,
                                                   what->flags, 0);
    if (block == NULL) {
        return NULL;
    }
    dls_tensor_write_dims(&what->tensor, what->canonical, block->dims);
    return &block->managed;
}

bool
dls_export_unwrap(void *managed, bool versioned, dls_hold *hold)
{
    assert(hold->base == managed && hold->py == NULL); /* else something would leak */
    dls_hold *own = dls_export_own_hold(managed, versioned);
    if (own == NULL || own->kind != DLS_HOLD_SHARED || own->py != NULL) {
        return false;
    }
    dls_hold_move(own, hold);
    free_block(block_of(managed, versioned));
    return true;
}

void
dls_managed_delete(void *managed, bool versioned)
{
    dls_managed_run_deleter(managed, versioned);
}

void
dls_managed_delete_attached(void *managed, bool versioned)
{
    dls_hold *own = dls_export_own_hold(managed, versioned);
    if (own == NULL) {
        dls_managed_delete(managed, versioned);
        return;
    }
    if (!dls_hold_is_empty(own)) {
        dls_hold_drop(own, DLS_ATTACHED_QUIET);
    }
    free_block(block_of(managed, versioned));
}
