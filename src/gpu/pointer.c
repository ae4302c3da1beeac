/* Finds out whose memory an address is.  Called by the reader of
 * __cuda_array_interface__, without the GIL; makes driver calls, keeps nothing.
 * Tests: tests/device/test_cuda_interface.py, tests/device/test_rocm_work_stream.py.
 */
#include "gpu/pointer.h"

#include "abi/cuda_driver.h"
#include "gpu/cuda.h"
#include "gpu/hip.h"

int32_t
dls_pointer_default_type(void)
{
    bool rocm = dls_hip_is_mapped() && !dls_cuda_is_mapped();
    return rocm ? dl_kDLROCM : dl_kDLCUDA;
}

int
dls_pointer_current_device(void)
{
    return dls_cuda_is_mapped() ? dls_cuda_current_device() : 0;
}

/* HIP has no managed type in DLPack: managed memory counts as the device's. */
static bool
ask_rocm(const void *address, dl_device *device)
{
    dls_hip_pointer found;
    dls_hip_ask_pointer(address, &found);
    if (found.api != NULL) {
        *device = (dl_device){found.on_host ? dl_kDLROCMHost : dl_kDLROCM,
                              found.on_host || found.device < 0 ? 0 : found.device};
    }
    return found.api != NULL;
}

int
dls_pointer_device(const void *address, dl_device *device, dls_error *err)
{
    dls_cuda_pointer found;
    if (dls_pointer_default_type() == dl_kDLROCM && ask_rocm(address, device)) {
        return DLS_OK;
    }
    int code = dls_cuda_load(err);
    if (code != DLS_OK) {
        return code;
    }
    dls_cuda_ask_pointer(address, &found);
    if (found.type == 0) {
        *device = (dl_device){0, -1};
    }
    /* Before the host: the driver may call managed memory so while it lies there. */
    else if (found.managed) {
        *device = (dl_device){dl_kDLCUDAManaged, found.ordinal};
    }
    else if (found.type == CU_TYPE_HOST) {
        *device = (dl_device){dl_kDLCUDAHost, 0};
    }
    else {
        *device = (dl_device){dl_kDLCUDA, found.ordinal};
    }
    return DLS_OK;
}
