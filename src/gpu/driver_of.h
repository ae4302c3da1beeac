/* Which driver serves a device.  Above the two drivers, which need gpu/driver. */
#pragma once

#include "gpu/driver.h"

extern const dls_driver dls_cuda_driver;
extern const dls_driver dls_hip_driver;

const dls_driver *dls_driver_of(int32_t device_type);
