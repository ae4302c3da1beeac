/* Tensors: checks structs of either generation, and makes new ones.
 *
 * Called by acquire/ (checks), by export/ (new structs, deleters) and by the Tensor
 * object.  A struct is only looked at until its capsule was renamed; a producer's
 * struct is never modified and goes back to its own deleter exactly once (T3).  Pure C:
 * no function here needs the GIL, unless it says so. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "abi/dlpack_abi.h"
#include "core/alloc.h"
#include "core/base.h"
#include "core/hold.h"

/* --- shapes and strides --------------------------------------------------- */
/* Pure functions, called by the readers of older protocols, too.  Strides count
 * elements, and may be NULL = row-major (DLPack before 1.2).  All products are checked
 * (T11). */

/* Number of elements of a shape.  DLS_EBUFFER for negative extents and for
 * products that overflow; a product that overflows beside a zero extent is 0
 * (T4).  ndim >= 0, shape non-NULL when ndim > 0. */
int dls_layout_count(int32_t ndim, const int64_t *shape, int64_t *count,
                     dls_error *err);

/* The next row-major stride outwards.  In a shape that dls_layout_count accepted it
 * overflows only beside a zero extent; from there on, all strides are 0 (T4). */
static inline int64_t
dls_layout_next_stride(int64_t stride, int64_t extent)
{
    int64_t next;
    return dls_mul(stride, extent, &next) ? next : 0;
}

/* Exact row-major strides, also across extents 0 and 1: (3,0,4) -> (0,4,1).
 * A product that overflows beside a zero extent is 0 (T4).  Call only after
 * dls_layout_count accepted the shape. */
void dls_layout_row_major(int32_t ndim, const int64_t *shape, int64_t *strides);

/* True if the tensor is row-major contiguous: strides of extents below 2 are ignored,
 * and empty tensors always are. */
bool dls_layout_is_contiguous(int32_t ndim, const int64_t *shape,
                              const int64_t *strides);

/* The bytes that a tensor of `count` elements (dls_layout_count) touches, relative to
 * element zero: *low <= 0 is the lowest, *high is one past the highest.  Both are 0 for
 * empty tensors.  DLS_EBUFFER on overflow. */
int dls_layout_span(int32_t ndim, const int64_t *shape, const int64_t *strides,
                    int64_t count, int64_t itemsize, int64_t *low, int64_t *high,
                    dls_error *err);

/* The facts that dls_tensor_scan finds about a tensor that it accepts. */
typedef struct {
    int64_t count;    /* number of elements */
    int64_t itemsize; /* bytes of an element, rounded up for sub-byte elements */
    bool canonical;   /* strides are exactly the row-major products (T4) */
    bool contiguous;  /* row-major, strides of extents below 2 ignored */
    bool negative;    /* a negative stride on an extent of 2 or more (N9) */
    bool meaningless; /* a negative stride on an extent below 2 (T4) */
} dls_scan;

/* Fewer than 2^38 elements overflow nothing, even of the widest dtype (bits times lanes
 * takes 24 bits), neither one after the other nor from the first to the last of them in
 * memory.  Tensors with more elements are not plain, and lose only time. */
#define DLS_PLAIN_COUNT_BITS 38

/* dls_tensor_is_plain_for of a tensor with strides, none of them negative, which are
 * not those of row-major order: the strides of a contiguous tensor become row-major
 * ones (T4), in the full record. */
bool dls_tensor_is_plain_strided(const dl_tensor *tensor);
/* As dls_tensor_is_plain_strided, of a tensor whose strides are NULL, which means
 * row-major order. */
bool dls_tensor_is_plain_in_rows(const dl_tensor *tensor);

/* True if `tensor` needs no further check: device (1, 0), a non-NULL address without
 * byte_offset, extents above 0, strides that nothing makes better (exact row-major
 * ones, or none below 0 of a tensor that is not contiguous), elements of 8 bits or
 * more, and fewer than 2^38 of them between the first and the last.  dls_tensor_scan
 * would accept it, and only generation, flags or deleter can call for a translation
 * (T3).  writes_strides: the strides will be written anew, so they may be NULL, as
 * NumPy up to 2.3 has them in row-major order.  False means unknown: call
 * dls_tensor_scan. */
DLS_INLINE bool
dls_tensor_is_plain_for(const dl_tensor *tensor, bool writes_strides)
{
    const int64_t *shape = tensor->shape, *strides = tensor->strides;
    static const dl_device host = {dl_kDLCPU, 0};
    if (memcmp(&tensor->device, &host, sizeof host) != 0 || tensor->byte_offset != 0
        || tensor->data == NULL || tensor->dtype.bits < 8 || tensor->dtype.lanes == 0) {
        return false;
    }
    /* Unsigned: one comparison finds a negative, a zero and a large ndim. */
    uint64_t last = (uint64_t)(uint32_t)tensor->ndim - 1;
    /* `seen` has the bits of all products, their signs too. */
    int64_t product = 1, seen = 0;
    if (last >= DLS_NDIM_INTERFACE) {
        return tensor->ndim == 0;
    }
    if (shape == NULL || strides == NULL) {
        return shape != NULL && writes_strides && dls_tensor_is_plain_in_rows(tensor);
    }
    for (int64_t i = (int64_t)last; i >= 0; i--) {
        if (strides[i] != product || !dls_mul(product, shape[i], &product)) {
            return dls_tensor_is_plain_strided(tensor);
        }
        seen |= product;
    }
    return (uint64_t)seen >> DLS_PLAIN_COUNT_BITS == 0 && product != 0;
}

/* As dls_tensor_is_plain_for, of a tensor that is handed on as it is. */
DLS_INLINE bool
dls_tensor_is_plain(const dl_tensor *tensor)
{
    return dls_tensor_is_plain_for(tensor, false);
}

/* Has a plain tensor strides where it needs some? */
static inline bool
dls_tensor_has_strides(const dl_tensor *plain)
{
    return plain->strides != NULL || plain->ndim == 0;
}

/* Are the strides of a plain tensor the row-major ones? */
static inline bool
dls_tensor_is_in_rows(const dl_tensor *tensor)
{
    int64_t product = 1;
    int64_t last = tensor->strides != NULL ? (int64_t)tensor->ndim - 1 : -1;
    for (int64_t i = last; i >= 0; i--) {
        if (tensor->strides[i] != product) {
            return false;
        }
        product *= tensor->shape[i]; /* plain: no overflow */
    }
    return true;
}

/* Check a struct before any member of it is used (T6, T11): ndim, NULL shape, extents,
 * products, byte span, width of the dtype, and NULL data with elements (on devices
 * whose `data` is an address).  0 and *scan, or DLS_EBUFFER and *err. */
int dls_tensor_scan(const dl_tensor *tensor, dls_scan *scan, dls_error *err);

/* Layouts that a consumer may be known to take; each takes less than the one before. */
typedef enum {
    DLS_LAYOUT_ANY,
    DLS_LAYOUT_NO_NEGATIVE, /* no negative strides */
    DLS_LAYOUT_COMPACT,     /* without gaps, in any order of the axes */
    DLS_LAYOUT_ROW_MAJOR
} dls_layout;

/* Has a tensor this layout?  `scan` is of this tensor. */
bool dls_tensor_has_layout(const dl_tensor *tensor, const dls_scan *scan,
                           dls_layout layout);

/* The struct that a consumer shall get.  `tensor` holds the final values of all members
 * but the strides, which are written as dls_tensor_write_dims says. */
typedef struct {
    dl_tensor tensor;
    uint64_t flags; /* versioned only */
    bool versioned;
    bool canonical;
} dls_delivery;

/* Fold byte_offset into the address (T5), and give empty host tensors a non-NULL
 * address (T6).  Writes tensor->data and tensor->byte_offset.  `scan` is of this
 * tensor. */
void dls_tensor_fold_data(dl_tensor *tensor, const dls_scan *scan);

/* The predicate of T3: would a translation of this struct change anything?  `managed`
 * is the producer's, in the generation that `what` wants, and `flags` are its flags.
 * (If the generations differ, translation is always needed: do not call this.) */
bool dls_tensor_needs_change(const void *managed, uint64_t flags, const dls_scan *scan,
                             const dls_delivery *what);

/* Write the shape, then the strides, into dims[2 * ndim] as T4 wants them: the
 * row-major products if `canonical`, else from->strides with meaningless negative ones
 * replaced by 1. */
void dls_tensor_write_dims(const dl_tensor *from, bool canonical, int64_t *dims);
/* Write shape and strides of a plain tensor into dims[2 * ndim].  Four at a time: this
 * takes a quarter of the instructions of a loop over single ones. */
DLS_INLINE void
dls_tensor_write_plain_dims(const dl_tensor *from, int64_t *dims)
{
    int32_t left = from->ndim;
    const int64_t *extent = from->shape, *stride = from->strides;
    int64_t *shape = dims, *strides = dims + left;
    if (stride == NULL) {
        dls_tensor_write_dims(from, true, dims);
        return;
    }
#define COPY(n)                                 \
    memcpy(shape, extent, (n) * sizeof *shape); \
    memcpy(strides, stride, (n) * sizeof *strides)
    for (; left >= 4; left -= 4) {
        COPY(4);
        shape += 4, extent += 4, strides += 4, stride += 4;
    }
    if (left & 2) {
        COPY(2);
        shape += 2, extent += 2, strides += 2, stride += 2;
    }
    if (left & 1) {
        COPY(1);
    }
#undef COPY
}

/* One block: the struct that the consumer gets, the hold, the shape and the strides. */
typedef struct {
    union {
        dl_managed_tensor legacy;
        dl_managed_tensor_versioned versioned;
    } managed;
    dls_hold hold;
    int64_t dims[];
} dls_export_block;

/* The deleters of such structs: any thread, no GIL. */
void dls_export_delete_legacy(dl_managed_tensor *self);
void dls_export_delete_versioned(dl_managed_tensor_versioned *self);

/* A new block with the members of `from`, and everything filled in but the dims, and
 * `more` bytes behind them.  NULL when out of memory. */
DLS_INLINE dls_export_block *
dls_export_block_new(const dl_tensor *from, bool versioned, uint64_t flags, size_t more)
{
    assert(from->ndim >= 0 && from->ndim <= DLS_NDIM_ABSURD);
    size_t room = 2 * sizeof(int64_t) * (uint32_t)from->ndim + more;
    dls_export_block *block = dls_alloc(sizeof *block + room);
    if (block == NULL) {
        return NULL;
    }
    dl_tensor *tensor = &block->managed.legacy.dl_tensor;
    if (versioned) {
        dl_managed_tensor_versioned *managed = &block->managed.versioned;
        managed->version = (dl_version){DL_MAJOR, DL_MINOR};
        managed->manager_ctx = block;
        managed->deleter = dls_export_delete_versioned;
        managed->flags = flags;
        tensor = &managed->dl_tensor;
    }
    else {
        block->managed.legacy.manager_ctx = block;
        block->managed.legacy.deleter = dls_export_delete_legacy;
    }
    *tensor = *from;
    tensor->shape = block->dims;
    tensor->strides = block->dims + from->ndim;
    block->hold = (dls_hold){0};
    DLS_COUNT_LIVE(1);
    return block;
}

/* A new managed tensor of the wanted generation in one block: struct, hold, shape and
 * strides.  Returns a dl_managed_tensor* or a dl_managed_tensor_versioned*, owned by
 * the caller; NULL when out of memory.  Its deleter (any thread, no GIL) drops the hold
 * and frees the block.  The hold (dls_export_own_hold) starts empty: the caller fills
 * it as the last step. */
void *dls_export_new(const dls_delivery *what);
/* As dls_export_new, for a tensor that dls_tensor_is_plain_for accepted.
 * flags: versioned only.  *hold points to the empty hold, which the caller fills in
 * place. */
DLS_INLINE void *
dls_export_plain(const dl_tensor *plain, bool versioned, uint64_t flags,
                 dls_hold **hold)
{
    assert(dls_tensor_is_plain_for(plain, true));
    dls_export_block *block = dls_export_block_new(plain, versioned, flags, 0);
    if (block == NULL) {
        return NULL;
    }
    dls_tensor_write_plain_dims(plain, block->dims);
    *hold = &block->hold;
    return &block->managed;
}

/* The hold of a struct that dls_export_new or dls_export_plain made, borrowed; NULL for
 * foreign structs. */
dls_hold *dls_export_own_hold(void *managed, bool versioned);

/* The hold of a Tensor that has just taken `managed`: if that is an export of ours
 * which holds nothing but a share, the share is moved to *hold and the struct is freed;
 * it must not be read afterwards.  So an export of an export of ... never becomes a
 * chain that is dropped by recursion.  False: nothing was done. */
bool dls_export_unwrap(void *managed, bool versioned, dls_hold *hold);

/* The tensor in a managed tensor of either generation, borrowed. */
static inline const dl_tensor *
dls_managed_tensor(const void *managed, bool versioned)
{
    return versioned ? &((const dl_managed_tensor_versioned *)managed)->dl_tensor
                     : &((const dl_managed_tensor *)managed)->dl_tensor;
}

/* The flags of a managed tensor; a legacy one has none. */
static inline uint64_t
dls_managed_flags(const void *managed, bool versioned)
{
    return versioned ? ((const dl_managed_tensor_versioned *)managed)->flags : 0;
}

/* Call the deleter, if any, of a managed tensor of either generation.  Any thread. */
void dls_managed_delete(void *managed, bool versioned);

/* As dls_managed_delete, on a thread that is attached by contract and has no exception
 * pending (the caller saves it): a struct of ours then need not find out how the thread
 * stands to Python.  An exception that is raised meanwhile is left pending. */
void dls_managed_delete_attached(void *managed, bool versioned);
