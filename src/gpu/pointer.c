/* Finds out whose memory an address is.  Called by the reader of
 * __cuda_array_interface__, without the GIL; makes driver calls, keeps nothing. Tests:
 * tests/device/test_cuda_interface.py, tests/device/test_work_stream.py,
 * tests/device/test_fake_driver.py, tests/device/test_fake_hip.py. */
#include "gpu/pointer.h"

#include "abi/gpu_calls.h"
#include "gpu/cuda.h"
#include "gpu/hip.h"

int32_t
dls_pointer_default_type(void)
{
    return !dls_cuda_is_found() && dls_hip_is_found() ? dl_kDLROCM : dl_kDLCUDA;
}

int
dls_pointer_current_device(void)
{
    return dls_cuda_is_mapped() ? dls_cuda_current_device() : 0;
}

int
dls_pointer_device(const void *address, dl_device *device, dls_error *err)
{
    if (dls_hip_is_mapped() && !dls_cuda_is_mapped()) {
        dls_hip_pointer known;
        int child = dls_hip_check_child(err);
        if (child != DLS_OK) {
            return child;
        }
        dls_hip_ask_pointer(address, &known);
        if (known.api != NULL) {
            /* HIP has no managed type in DLPack: such memory counts as the device's. */
            bool unnumbered = known.on_host || known.device < 0;
            *device = (dl_device){known.on_host ? dl_kDLROCMHost : dl_kDLROCM,
                                  unnumbered ? 0 : known.device};
            return DLS_OK;
        }
    }
    int code = dls_cuda_load(err);
    if (code != DLS_OK) {
        return code;
    }
    dls_cuda_pointer found;
    dls_cuda_ask_pointer(address, &found);
    *device = (dl_device){dl_kDLCUDA, found.ordinal};
    if (found.type == 0) {
        int reaches = dls_cuda_system_memory_device();
        *device = (dl_device){reaches >= 0 ? dl_kDLCUDA : 0, reaches};
    }
    /* Before the host: the driver may call managed memory so while it lies there. */
    else if (found.managed) {
        device->device_type = dl_kDLCUDAManaged;
    }
    else if (found.type == CU_TYPE_HOST) {
        *device = (dl_device){dl_kDLCUDAHost, 0};
    }
    return DLS_OK;
}

/* Memory that belongs to no driver is the host's, and pinned memory is the host's
 * too. */
static dl_device
true_label(dl_device said, dl_device found)
{
    bool host = found.device_type == 0 || found.device_type == dl_kDLCUDAHost
                || found.device_type == dl_kDLROCMHost;
    if (host) {
        return (dl_device){dl_kDLCPU, 0};
    }
    return (dl_device){said.device_type,
                       found.device_id >= 0 ? found.device_id : said.device_id};
}

/* Ask the driver in use that the label speaks of.  false: there is none. */
static bool
ask_driver(const void *address, dl_device said, dl_device *found)
{
    dls_error err;
    dls_hip_pointer known;
    if (said.device_type != dl_kDLROCM) {
        return dls_cuda_is_mapped()
               && dls_pointer_device(address, found, &err) == DLS_OK;
    }
    if (!dls_hip_is_mapped()) {
        return false;
    }
    dls_hip_ask_pointer(address, &known);
    bool host = known.api == NULL || known.on_host;
    *found = (dl_device){host ? dl_kDLROCMHost : dl_kDLROCM, known.device};
    return true;
}

bool
dls_pointer_mend_label(const void *address, dl_device *device)
{
    dl_device found, said = *device;
    if (!ask_driver(address, said, &found)) {
        return false;
    }
    *device = true_label(said, found); /* mutant: true label */
    return device->device_type != said.device_type
           || device->device_id != said.device_id;
}

/* --- which driver serves a device ----------------------------------------- */

const dls_driver *
dls_driver_of(int32_t device_type)
{
    return device_type == dl_kDLROCM || device_type == dl_kDLROCMHost
               ? &dls_hip_driver
               : &dls_cuda_driver;
}
