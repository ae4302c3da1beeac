/* Makes the host copy of an export, if it may be made.  Allocates its memory, and calls
 * the driver where the memory lies on a device.  Tests:
 * tests/core/test_readonly_and_copies.py, tests/device/test_copies.py. */
#include "export/resolve_copy.h"

#include "core/alloc.h"
#include "core/copy.h"
#include "core/dtype.h"
#include "export/resolve_device_copy.h"
#include "gpu/device_copy.h"
#include "older_protocols/older_protocols.h"
#include "python/errors.h"
#include "sync/sycl.h"
#include "sync/transfer.h"

/* May dlshim make the copy?  Not if copy=False was asked for, nor in device memory, nor
 * of elements that are no whole bytes. */
static int
check_copy(const dls_exchange *x, const dls_resolved *resolved)
{
    const dls_delivery *what = &resolved->delivery;
    int code = DLS_EBUFFER;
    const char *why_not;
    if (x->request.copy == 0) {
        code = DLS_ECOPY;
        why_not = "but copy=False was asked for; allow it with copy=None, or drop the "
                  "option";
    }
    else if (!resolved->fetch && !resolved->send
             && !dls_device_is_host(what->tensor.device.device_type)
             && !dls_transfer_can_allocate(what->tensor.device.device_type)) {
        why_not = "and dlshim makes no copies on such a device; pass its .copy() or "
                  ".contiguous()";
    }
    else if (dls_dtype_bits(what->tensor.dtype) % 8 != 0
             && !(what->flags & DL_FLAG_SUBBYTE_PADDED)) {
        why_not = "but its elements are no whole number of bytes; copy it with its own "
                  "library";
    }
    else {
        return 0;
    }
    return dls_refuse(x->state, code, x->source, "a copy is needed (%s), %s",
                      resolved->reason, why_not);
}

/* Fill the copy.  The copy stream waits already for the work on device memory. */
static int
fill_copy(const dls_exchange *x, void *to, const dls_resolved *resolved, dls_error *err)
{
    const dl_tensor *tensor = &resolved->delivery.tensor;
    int64_t itemsize = resolved->scan.itemsize;
    if (resolved->scan.count == 0) {
        return DLS_OK;
    }
    return resolved->fetch
               ? dls_copy_to_host(to, tensor, itemsize, x->acquired.copy.stream, err)
               : dls_host_copy(to, tensor, itemsize);
}

/* Fill the copy with oneAPI memory.  The host has waited for the work on it. */
static int
fill_from_oneapi(const dls_exchange *x, void *to, const dls_resolved *resolved)
{
    return resolved->scan.count == 0
               ? 0
               : dls_sycl_copy_to_host(
                     x->state, x->source, to, &resolved->delivery.tensor,
                     resolved->scan.itemsize, dls_syclobj_find(&x->acquired.hold));
}

/* Fill the copy, without the GIL where that is worth it.  0, or -1. */
static int
fill_from(const dls_exchange *x, void *to, const dls_resolved *resolved, int64_t bytes)
{
    dls_error err; /* its text is filled where it is read */
    err.code = DLS_ENOMEM;
    if (resolved->fetch
        && resolved->delivery.tensor.device.device_type == dl_kDLOneAPI) {
        return fill_from_oneapi(x, to, resolved);
    }
    /* Without the GIL, another holder of the capsule could free host memory meanwhile.
     */
    bool alone = resolved->fetch ? bytes != 0
                                 : bytes >= DLS_COPY_WITHOUT_GIL && !x->acquired.shared;
    PyThreadState *away = alone ? PyEval_SaveThread() : NULL;
    int code = fill_copy(x, to, resolved, &err);
    if (away != NULL) {
        PyEval_RestoreThread(away);
    }
    return code == DLS_OK ? 0 : dls_refuse_error(x->state, x->source, &err);
}

static int
make_copy(const dls_exchange *x, dls_resolved *resolved)
{
    int64_t bytes = resolved->scan.count * resolved->scan.itemsize; /* scanned */
    void *start;
    void *block = dls_alloc_aligned(bytes, dls_options_alignment(x->request.options),
                                    &start);
    if (block == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (fill_from(x, start, resolved, bytes) < 0) {
        dls_free(block);
        return -1;
    }
    DLS_COUNT(copied);
    resolved->made = (dls_hold){.base = block, .kind = DLS_HOLD_BLOCK};
    resolved->copied = true;
    resolved->delivery.tensor.data = start;
    resolved->delivery.tensor.byte_offset = 0;
    resolved->delivery.canonical = true;
    if (resolved->fetch) {
        resolved->delivery.tensor.device = (dl_device){dl_kDLCPU, 0};
    }
    return 0;
}

/* Send row-major host memory to the oneAPI device that is wanted. */
static int
send_to_oneapi(const dls_exchange *x, dls_resolved *resolved, int64_t bytes)
{
    dls_delivery *what = &resolved->delivery;
    dls_hold gathered = {0};
    dls_sycl_block block = {.bytes = bytes,
                            .alignment = dls_options_alignment(x->request.options),
                            .device_id = x->request.device.device_id};
    dls_hold_move(&resolved->made, &gathered);
    block.src = (const char *)what->tensor.data + what->tensor.byte_offset;
    int code = dls_sycl_copy_from_host(x->state, x->source, &block);
    if (!dls_hold_is_empty(&gathered)) {
        dls_hold_drop(&gathered, DLS_ATTACHED);
    }
    if (code < 0) {
        return -1;
    }
    resolved->made = (dls_hold){.py = block.hold, .flags = x->state->home};
    resolved->copied = true;
    what->tensor.data = block.data;
    what->tensor.byte_offset = 0;
    what->tensor.device = x->request.device;
    what->canonical = true;
    return 0;
}

/* Strided memory is gathered on the host first. */
static int
copy_to_oneapi(const dls_exchange *x, dls_resolved *resolved)
{
    int64_t bytes = resolved->scan.count * resolved->scan.itemsize;
    if (!resolved->scan.contiguous) {
        return make_copy(x, resolved) < 0 ? -1 : send_to_oneapi(x, resolved, bytes);
    }
    if (send_to_oneapi(x, resolved, bytes) < 0) {
        return -1;
    }
    DLS_COUNT(copied);
    return 0;
}

int
dls_resolve_copy(dls_exchange *x, dls_resolved *resolved)
{
    int32_t have = resolved->delivery.tensor.device.device_type;
    bool on_host = resolved->fetch || (!resolved->send && dls_device_is_host(have));
    bool to_oneapi = resolved->send && x->request.device.device_type == dl_kDLOneAPI;
    if (check_copy(x, resolved) < 0
        || (to_oneapi ? copy_to_oneapi(x, resolved)
            : on_host ? make_copy(x, resolved)
                      : dls_resolve_device_copy(x, resolved))
               < 0) {
        return -1;
    }
    resolved->needs_keeping = x->keeps;
    resolved->delivery.flags |= DL_FLAG_IS_COPIED;
    if (dls_options_readonly(x->request.options) == DLS_READONLY_TRUE) {
        resolved->delivery.flags |= DL_FLAG_READ_ONLY;
    }
    return 0;
}
