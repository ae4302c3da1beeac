/* One inner record for both flavours: read at the door, checked, made anew.
 *
 * A managed tensor is only looked at until its owner changed (the capsule was
 * renamed); the producer's struct is never modified and goes back to its own
 * deleter exactly once (T3).
 */
#ifndef DLS_CORE_TENSOR_H
#define DLS_CORE_TENSOR_H

#include <stdbool.h>

#include "abi/dlpack_abi.h"
#include "core/error.h"
#include "core/hold.h"

/* What one walk over the extents tells. */
typedef struct {
    int64_t count;    /* elements */
    int64_t itemsize; /* bytes an element, sub-byte ones rounded up */
    bool canonical;   /* strides are the row-major ones to the letter (T4) */
    bool contiguous;  /* row-major, loosely: extents below 2 do not count */
    bool negative;    /* a negative stride that means something (N9) */
    bool meaningless; /* a negative stride on an extent below 2 (T4) */
} dls_scan;

/* Is it host memory that could not be described better: device (1, 0), an address
 * without offset, extents above 0, row-major strides to the letter, elements of 8 bits
 * or more, and less than 2^38 of them?  Then dls_tensor_scan accepts it, and nothing
 * but flavour, flags and deleter can need a change (T3).  False says nothing: the scan
 * decides. */
bool dls_tensor_is_plain(const dl_tensor *tensor);

/* Check what a struct says before anything else is believed (T6, T11): ndim, NULL
 * shape, extents, products, byte span, dtype width, NULL data with elements.
 * (devices with addresses).  0, or DLS_EBUFFER with *err. */
int dls_tensor_scan(const dl_tensor *tensor, dls_scan *scan, dls_error *err);

/* How a consumer shall see the memory.  `tensor` holds final values of all fields but
 * strides: when `canonical` they are written row-major, else taken from
 * tensor.strides with meaningless negative ones replaced. */
typedef struct {
    dl_tensor tensor;
    uint64_t flags; /* versioned only */
    bool versioned;
    bool canonical;
} dls_delivery;

/* T5, T6: fold byte_offset on address devices, give empty host tensors a non-NULL
 * address.  Writes tensor->data and tensor->byte_offset; scan is of this tensor. */
void dls_tensor_settle_data(dl_tensor *tensor, const dls_scan *scan);

/* THE predicate of T3: would a translation of this struct alter anything?  `managed`
 * is the source's struct of the flavour that `what` wants (another flavour always
 * needs a change: do not ask). */
bool dls_tensor_needs_change(const dl_tensor *source, uint64_t source_flags,
                             bool has_deleter, const dls_scan *scan,
                             const dls_delivery *what);

/* Shape, then strides, into dims[2 * ndim] as T4 wants them: row-major to the letter
 * when `canonical`, else from->strides with meaningless negative ones replaced. */
void dls_copy_dims(const dl_tensor *from, int64_t *shape,
                   int64_t *strides); /* as they are */
void dls_tensor_write_dims(const dl_tensor *from, bool canonical, int64_t *dims);

/* A new managed tensor of the wanted flavour in one block: struct, hold, shape and
 * strides.  Returns dl_managed_tensor* or dl_managed_tensor_versioned*; NULL when out
 * of memory.  Its deleter (any thread, no GIL) drops the hold and frees the block.
 * The hold starts empty: dls_export_hold moves one in, as the last step. */
void *dls_export_new(const dls_delivery *what);
void dls_export_hold(void *managed, bool versioned, dls_hold *hold);
/* The same for a plain tensor.  *hold: where its empty hold is, to be filled in place.
 */
void *dls_export_plain(const dl_tensor *plain, bool versioned, dls_hold **hold);

/* The hold of a struct that dls_export_new made, borrowed; NULL for foreign structs. */
dls_hold *dls_export_own_hold(void *managed, bool versioned);

/* Call the deleter of a managed tensor of either flavour, NULL deleters tolerated. */
void dls_managed_delete(void *managed, bool versioned);

/* The same on a thread that is attached by contract (capsule destructors): exports of
 * ours then need not find out.  A pending exception is the caller's to save. */
void dls_managed_delete_attached(void *managed, bool versioned);

#endif
