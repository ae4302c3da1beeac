/* Which driver serves a device.  Above the two drivers, which need gpu/driver. */
#pragma once

#include "core/base.h"
#include "gpu/driver.h"

DLS_EXTERN const dls_driver dls_cuda_driver;
DLS_EXTERN const dls_driver dls_hip_driver;

const dls_driver *dls_driver_of(int32_t device_type);
