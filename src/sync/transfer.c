/* Decides how memory gets to the device where it is wanted, and words the refusals.
 *
 * Called by acquire/ before a producer is asked to move memory, by sync_exchange, and
 * by export/ when it decides about a copy.  Touches nothing. Tests:
 * tests/device/test_copies.py, tests/core/test_devices.py.
 */
#include "sync/transfer.h"

#include "core/dtype.h"
#include "gpu/pointer.h"
#include "python/errors.h"
#include "sync/sycl.h"
#include "types/library.h"

/* Can dlshim copy from this device to the host? */
static bool
is_copied(dls_state *state, int32_t device_type)
{
    return device_type == dl_kDLCUDA || device_type == dl_kDLROCM
           || (device_type == dl_kDLOneAPI && dls_library_copies_sycl(state));
}

dls_transfer
dls_transfer_of(dls_state *state, const dls_request *request, dl_device have)
{
    dl_device to = request->want.device;
    bool same_id = to.device_id == have.device_id;
    bool managed = have.device_type == dl_kDLCUDAManaged;
    if (!request->want.has_device || (to.device_type == have.device_type && same_id)) {
        return DLS_TRANSFER_HERE;
    }
    if (to.device_type == dl_kDLCPU) {
        if (managed || dls_device_is_host(have.device_type)) {
            return DLS_TRANSFER_AS_HOST;
        }
        return is_copied(state, have.device_type) ? DLS_TRANSFER_TO_HOST
                                                  : DLS_TRANSFER_MOVE;
    }
    if (have.device_type == dl_kDLCPU && to.device_type == dl_kDLOneAPI
        && dls_library_copies_sycl(state)) {
        return DLS_TRANSFER_TO_ONEAPI;
    }
    if (!dls_transfer_can_allocate(to.device_type)) {
        return DLS_TRANSFER_MOVE;
    }
    if (managed && same_id && to.device_type == dl_kDLCUDA) {
        return DLS_TRANSFER_AS_CUDA;
    }
    if (managed || dls_device_is_host(have.device_type)) {
        return DLS_TRANSFER_TO_DEVICE;
    }
    return to.device_type == have.device_type ? DLS_TRANSFER_PEER : DLS_TRANSFER_MOVE;
}

void
dls_transfer_name_device(dls_request *request)
{
    dl_device *to = &request->want.device;
    if (request->want.has_device && dls_transfer_can_allocate(to->device_type)
        && (to->device_id == 255 || to->device_id == -1)) {
        Py_BEGIN_ALLOW_THREADS
        to->device_id = dls_driver_of(to->device_type)->current_device();
        Py_END_ALLOW_THREADS
    }
}

int
dls_transfer_check(dls_state *state, PyObject *source, const dls_request *request,
                   dl_device have)
{
    dls_transfer transfer = dls_transfer_of(state, request, have);
    bool refused = transfer == DLS_TRANSFER_MOVE
                   || (request->want.copy == 0
                       && (transfer == DLS_TRANSFER_TO_HOST
                           || transfer == DLS_TRANSFER_TO_DEVICE
                           || transfer == DLS_TRANSFER_PEER));
    return refused ? dls_transfer_raise(state, source, request, have, NULL) : 0;
}

int
dls_transfer_raise(dls_state *state, PyObject *source, const dls_request *request,
                   dl_device have, PyObject *kept)
{
    dl_device want = request->want.device;
    if (request->want.copy == 0) {
        dls_refuse_copy(state, source, "device",
                        ", but copy=False was asked for\n"
                        "  allow it with copy=None",
                        "it lies on device (%d, %d) and (%d, %d) is wanted, which "
                        "needs a copy",
                        have.device_type, have.device_id, want.device_type,
                        want.device_id);
    }
    else if (dls_device_is_host(have.device_type)) {
        dls_refuse(state, DLS_EBUFFER, source,
                   "it lies in host memory and device (%d, %d) is wanted, and dlshim "
                   "copies to CUDA and ROCm devices only\n"
                   "  move it with the consumer's own function first (torch's .to(), "
                   "cupy.asarray(), jax.device_put())",
                   want.device_type, want.device_id);
    }
    else {
        dls_refuse(state, DLS_EBUFFER, source,
                   "it lies on device (%d, %d) and (%d, %d) is wanted, and its library "
                   "did not move it\n"
                   "  move it with its library's own function first (torch's .cpu() or "
                   ".to(), cupy.asnumpy(), jax.device_put())",
                   have.device_type, have.device_id, want.device_type, want.device_id);
    }
    if (kept != NULL) {
        dls_refuse_with_cause(kept);
    }
    return -1;
}
