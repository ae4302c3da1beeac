/* The allocator of our C tables, for homes whose library has no C table: memory of the
 * host, or of a device through its driver.  Any thread, with or without the GIL, and
 * the caller's exception stays as it is: errors go through set_error alone.  Tests:
 * tests/core/test_ctable.py, tests/device/test_homes.py. */
#include "ctable/ctable_out.h"

#include <stdio.h>

#include "core/alloc.h"
#include "core/hold.h"
#include "core/tensor.h"
#include "export/export.h"
#include "gpu/device_copy.h"
#include "gpu/pointer.h"
#include "sync/work_stream.h"

typedef void (*set_error)(void *context, const char *kind, const char *message);

static const char *
kind_of_error(int code)
{
    return code == DLS_ENOMEM   ? "MemoryError"
           : code == DLS_EVALUE ? "ValueError"
                                : "BufferError";
}

/* Memory for the host: row-major elements, aligned for JAX. */
static int
on_host(int64_t bytes, dls_hold *hold, void **address, dls_error *err)
{
    *hold = (dls_hold){.kind = DLS_HOLD_BLOCK};
    hold->base = dls_alloc_aligned(bytes, DLS_ALIGNMENT, address);
    return hold->base != NULL ? DLS_OK : dls_fail(err, DLS_ENOMEM, "out of memory");
}

/* Memory that the driver allocates: for the stream that the kernel was answered.  If it
 * was answered none, on a stream of dlshim's own, for which the host waits, so that the
 * memory is good for every stream.  Freed as copies are (S19). */
static int
by_driver(dl_device device, int64_t bytes, dls_hold *hold, void **address,
          dls_error *err)
{
    dls_copy_target target;
    dls_device_memory *memory = NULL;
    uint64_t s = dls_driver_of(device.device_type)->legacy;
    bool answered = dls_work_stream_answered(device, &s);
    int code = dls_copy_target_find(device, s, NULL, &target, err);
    if (code == DLS_OK) {
        /* mutant: stream of allocated memory */
        uint64_t stream = answered ? s : target.stream;
        code = dls_device_memory_new(&target.place, stream, bytes, DLS_ALIGNMENT,
                                     &memory, address, err);
    }
    if (code == DLS_OK) {
        *hold = (dls_hold){.base = memory, .kind = DLS_HOLD_DEVICE};
        /* mutant: wait for allocated memory */
        code = answered ? DLS_OK : dls_copy_target_wait(&target, err);
    }
    return code;
}

/* CuPy's pool keeps memory that the driver cannot give to others. */
static int
on_device(dl_device device, int64_t bytes, dls_hold *hold, void **address,
          dls_error *err)
{
    if (device.device_type != dl_kDLCUDA && device.device_type != dl_kDLROCM) {
        return dls_fail(
            err, DLS_EBUFFER,
            "no allocator for device (%d, %d): its library has no C exchange table\n"
            "  pass the output to the function instead",
            (int)device.device_type, (int)device.device_id);
    }
    if (bytes == 0) {
        *address = NULL;
        return DLS_OK;
    }
    void *token;
    bool attached = dls_python_let_go(&token);
    int code = by_driver(device, bytes, hold, address, err);
    if (attached) {
        dls_python_take_back(token);
    }
    return code;
}

/* Make the struct around the memory.  The prototype's dtype and shape; row-major. */
static int
allocate_tensor(const dl_tensor *prototype, dl_managed_tensor_versioned **out,
                dls_error *err)
{
    dls_scan scan;
    dls_hold hold = {0};
    /* No data yet: any address that is not NULL will do for the scan. */
    dls_delivery what = {.tensor = {.data = &scan,
                                    .device = prototype->device,
                                    .ndim = prototype->ndim,
                                    .dtype = prototype->dtype,
                                    .shape = prototype->shape},
                         .versioned = true,
                         .canonical = true};
    bool host = prototype->device.device_type == dl_kDLCPU;
    if (dls_tensor_scan(&what.tensor, &scan, err) < 0) {
        return err->code = DLS_EVALUE;
    }
    int64_t bytes = scan.count * scan.itemsize;
    int code = host
                   ? on_host(bytes, &hold, &what.tensor.data, err)
                   : on_device(prototype->device, bytes, &hold, &what.tensor.data, err);
    dl_managed_tensor_versioned *managed = NULL;
    if (code == DLS_OK) {
        managed = dls_export_new(&what);
    }
    if (code == DLS_OK && managed == NULL) {
        code = dls_fail(err, DLS_ENOMEM, "out of memory");
    }
    if (code != DLS_OK) {
        dls_hold_drop(&hold, DLS_ATTACHMENT_UNKNOWN);
        return code;
    }
    dls_hold_move(&hold, dls_export_own_hold(managed, true));
    *out = managed;
    return DLS_OK;
}

int
dls_ctable_allocate(dl_tensor *prototype, dl_managed_tensor_versioned **out,
                    void *context, set_error tell)
{
    dls_error err;
    int code = allocate_tensor(prototype, out, &err);
    if (code != DLS_OK && tell != NULL) {
        tell(context, kind_of_error(code), err.text);
    }
    return code == DLS_OK ? 0 : -1;
}
