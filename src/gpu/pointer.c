/* Finds out whose the memory at an address is.  Called by the reader of
 * __cuda_array_interface__, without the GIL; makes driver calls, keeps nothing.  Tests:
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
dls_pointer_device(dls_memory *memory, dl_device *device, dls_error *err)
{
    if (dls_hip_is_mapped() && !dls_cuda_is_mapped()) {
        int child = dls_hip_check_child(err);
        if (child != DLS_OK) {
            return child;
        }
        dls_hip_ask_memory(memory);
        if (memory->owner != 0) {
            /* HIP has no managed type in DLPack: such memory counts as the device's. */
            bool pinned = memory->type == CU_TYPE_HOST;
            *device = (dl_device){pinned ? dl_kDLROCMHost : dl_kDLROCM,
                                  pinned || memory->device < 0 ? 0 : memory->device};
            return DLS_OK;
        }
    }
    int code = dls_cuda_load(err);
    if (code != DLS_OK) {
        return code;
    }
    dls_cuda_ask_memory(memory);
    *device = (dl_device){dl_kDLCUDA, memory->device};
    if (memory->type == 0) {
        int reaches = dls_cuda_system_memory_device();
        *device = (dl_device){reaches >= 0 ? dl_kDLCUDA : 0, reaches};
    }
    /* Before the host: the driver may call managed memory so while it lies there. */
    else if (memory->managed) {
        device->device_type = dl_kDLCUDAManaged;
    }
    else if (memory->type == CU_TYPE_HOST) {
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
ask_driver(dls_memory *memory, dl_device said, dl_device *found)
{
    dls_error err;
    if (said.device_type != dl_kDLROCM) {
        return dls_cuda_is_mapped()
               && dls_pointer_device(memory, found, &err) == DLS_OK;
    }
    if (!dls_hip_is_mapped()) {
        return false;
    }
    dls_hip_ask_memory(memory);
    bool host = memory->owner == 0 || memory->type == CU_TYPE_HOST;
    *found = (dl_device){host ? dl_kDLROCMHost : dl_kDLROCM, memory->device};
    return true;
}

bool
dls_pointer_mend_label(dls_memory *memory, dl_device *device)
{
    dl_device found, said = *device;
    if (!ask_driver(memory, said, &found)) {
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
