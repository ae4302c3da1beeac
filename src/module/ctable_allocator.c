/* New host memory for the consumer of our C table.  Needs no Python: errors go through
 * the function that the consumer gave.  Tests: tests/core/test_ctable.py. */
#include "module/ctable_allocator.h"

#include "core/alloc.h"
#include "core/tensor.h"

static int
fail(dls_set_error tell, void *context, const char *kind, const char *message)
{
    if (tell != NULL) {
        tell(context, kind, message);
    }
    return -1;
}

int
dls_ctable_allocate(dl_tensor *prototype, dl_managed_tensor_versioned **out,
                    void *context, dls_set_error tell)
{
    dls_scan scan;
    dls_error err;
    dls_hold hold = {.kind = DLS_HOLD_BLOCK};
    dls_delivery what = {.versioned = true, .canonical = true};
    what.tensor.device = prototype->device;
    what.tensor.dtype = prototype->dtype;
    what.tensor.ndim = prototype->ndim;
    what.tensor.shape = prototype->shape;
    if (prototype->device.device_type != dl_kDLCPU) {
        return fail(
            tell, context, "BufferError",
            "dlshim allocates host memory only; use the allocator of the library "
            "whose device it is");
    }
    what.tensor.data = &scan; /* no data yet: any address that is not NULL will do */
    if (dls_tensor_scan(&what.tensor, &scan, &err) < 0) {
        return fail(tell, context, "ValueError", err.text);
    }
    hold.base = dls_alloc_aligned(scan.count * scan.itemsize, DLS_ALIGNMENT,
                                  &what.tensor.data);
    if (hold.base == NULL) {
        return fail(tell, context, "MemoryError", "out of memory");
    }
    dl_managed_tensor_versioned *managed = dls_export_new(&what);
    if (managed == NULL) {
        dls_free(hold.base);
        return fail(tell, context, "MemoryError", "out of memory");
    }
    dls_export_hold(managed, true, &hold);
    *out = managed;
    return 0;
}
