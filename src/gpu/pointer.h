/* The owner of the memory at an address, as the drivers of this process tell, and the
 * driver that serves a device.
 *
 * Used for protocols whose producers give an address without a device, as
 * __cuda_array_interface__ does.  torch and CuPy offer that protocol on ROCm too, so
 * both vendors are asked.  What a driver has answered stays in the dls_memory, so that
 * the rest of the exchange need not ask it again.  All functions may block and are
 * called without the GIL. */
#pragma once

#include "abi/dlpack_abi.h"
#include "core/base.h"
#include "gpu/driver.h"

/* The device of the memory.  A HIP runtime is asked where one is mapped
 * and no CUDA driver is; else the CUDA driver, which is started if it has to be.
 *
 * DLS_OK with *device, in one of three forms:
 *   1. type and number; the number is 0 for pinned host memory;
 *   2. type, and -1 as the number: the driver does not tell which device it is;
 *   3. 0 as the type: the driver knows no memory at this address, and kernels of the
 *      current device do not reach the system's.
 * Or DLS_EBUFFER with *err, and *device as it was: no driver can be asked. */
int dls_pointer_device(dls_memory *memory, dl_device *device, dls_error *err);

/* Is the label `*device` of CUDA or ROCm memory wrong, as far as the driver in use can
 * tell?  true: *device is now right, kDLCPU where the memory is the host's.  false: it
 * is as it was; also where no driver is in use. */
bool dls_pointer_mend_label(dls_memory *memory, dl_device *device);

/* kDLROCM where only a HIP runtime is mapped, else kDLCUDA: for arrays without
 * elements, which have no address to ask about.  No driver is called. */
int32_t dls_pointer_default_type(void);

/* The number of CUDA's current device; 0 where none is current or no driver is in use.
 */
int dls_pointer_current_device(void);

/* --- which driver serves a device ----------------------------------------- */

DLS_EXTERN const dls_driver dls_cuda_driver;
DLS_EXTERN const dls_driver dls_hip_driver;

const dls_driver *dls_driver_of(int32_t device_type);
