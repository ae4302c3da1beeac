/* Which driver serves a device.  Called by all that uses a driver; touches nothing.
 * Tests: tests/device/test_fake_driver.py, tests/device/test_fake_hip.py. */
#include "gpu/driver_of.h"

const dls_driver *
dls_driver_of(int32_t device_type)
{
    return device_type == dl_kDLROCM || device_type == dl_kDLROCMHost
               ? &dls_hip_driver
               : &dls_cuda_driver;
}
