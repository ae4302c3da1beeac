/* Makes the host copy of an export, if it may be made.  Allocates its memory, and calls
 * the driver where the memory lies on a device.  Tests:
 * tests/core/test_readonly_and_copies.py, tests/device/test_copies.py. */
#include "export/resolve_copy.h"

#include "core/alloc.h"
#include "core/copy.h"
#include "core/counters.h"
#include "core/device.h"
#include "core/dtype.h"
#include "gpu/device_copy.h"
#include "python/errors.h"

/* From this size on a copy lets other threads run. */
#define COPY_WITHOUT_GIL 65536

/* May dlshim make the copy?  Not if copy=False was asked for, nor in device memory, nor
 * of elements that are no whole bytes. */
static int
check_copy(const dls_exchange *x, const dls_resolved *resolved)
{
    const dls_delivery *what = &resolved->delivery;
    const char *reason = resolved->reason;
    if (x->request.copy == 0) {
        return dls_refuse(
            x->state, DLS_ECOPY, x->source,
            "a copy is needed (%s), but copy=False was asked for; allow it with "
            "copy=None, or drop the option",
            reason);
    }
    if (!resolved->fetch && !dls_device_is_host(what->tensor.device.device_type)) {
        return dls_refuse(
            x->state, DLS_EBUFFER, x->source,
            "a copy is needed (%s), and dlshim allocates no device memory; pass its "
            ".copy() or .contiguous()",
            reason);
    }
    if (dls_dtype_bits(what->tensor.dtype) % 8 != 0
        && !(what->flags & DL_FLAG_SUBBYTE_PADDED)) {
        return dls_refuse(
            x->state, DLS_EBUFFER, x->source,
            "a copy is needed (%s), but its elements are no whole number of bytes; "
            "copy it with its own library",
            reason);
    }
    return 0;
}

/* The memory of the copy: 64-byte aligned, or more as align= says. */
static void *
copy_block(const dls_exchange *x, int64_t bytes, void **start)
{
    const dls_options *o = x->request.options;
    bool wider = dls_option_given(o, DLS_OPTION_align) && o->align > DLS_ALIGNMENT;
    return dls_alloc_aligned(bytes, wider ? o->align : DLS_ALIGNMENT, start);
}

/* Fill the copy.  The copy stream waits already for the work on device memory. */
static int
fill_copy(const dls_exchange *x, void *to, const dls_resolved *resolved, dls_error *err)
{
    const dl_tensor *tensor = &resolved->delivery.tensor;
    const char *from = (const char *)tensor->data + tensor->byte_offset;
    int64_t itemsize = resolved->scan.itemsize;
    if (!resolved->fetch) {
        return dls_host_copy(to, from, tensor->ndim, tensor->shape, tensor->strides,
                             itemsize);
    }
    return resolved->scan.count == 0
               ? DLS_OK
               : dls_copy_to_host(tensor->device.device_type, to, from, tensor->ndim,
                                  tensor->shape, tensor->strides, itemsize,
                                  x->acquired.copy.stream, err);
}

static int
make_copy(const dls_exchange *x, dls_resolved *resolved)
{
    dls_error err = {.code = DLS_ENOMEM};
    int64_t bytes = resolved->scan.count * resolved->scan.itemsize; /* scanned */
    void *start, *block = copy_block(x, bytes, &start);
    if (block == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    /* While the GIL is away another holder of the capsule could free host memory. */
    bool alone = resolved->fetch ? bytes != 0
                                 : bytes >= COPY_WITHOUT_GIL && !x->acquired.shared;
    PyThreadState *away = alone ? PyEval_SaveThread() : NULL;
    int code = fill_copy(x, start, resolved, &err);
    if (away != NULL) {
        PyEval_RestoreThread(away);
    }
    if (code != DLS_OK) {
        dls_free(block);
        return dls_refuse_error(x->state, x->source, &err);
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

/* The Producer keeps the memory too: mpi4py 3.1 to 4.0 drops the capsule at once and
 * reads on (T8). */
static int
share_copy(dls_exchange *x, dls_resolved *resolved)
{
    dls_shared *shared = dls_shared_new(&resolved->made);
    if (shared == NULL) {
        dls_hold_drop(&resolved->made, DLS_ATTACHED);
        PyErr_NoMemory();
        return -1;
    }
    dls_shared *before = x->kept;
    x->kept = dls_shared_add(shared);
    resolved->made = (dls_hold){.base = shared, .kind = DLS_HOLD_SHARED};
    dls_shared_drop(before, DLS_ATTACHED);
    return 0;
}

int
dls_resolve_copy(dls_exchange *x, dls_resolved *resolved)
{
    const dls_options *o = x->request.options;
    if (check_copy(x, resolved) < 0 || make_copy(x, resolved) < 0
        || (x->keeps && share_copy(x, resolved) < 0)) {
        return -1;
    }
    resolved->needs_keeping = false;
    resolved->delivery.flags |= DL_FLAG_IS_COPIED;
    if (dls_option_given(o, DLS_OPTION_readonly) && o->readonly) {
        resolved->delivery.flags |= DL_FLAG_READ_ONLY;
    }
    return 0;
}
