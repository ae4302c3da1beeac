/* What kind of memory a DLPack device is: one table in data (T5, T7). */
#ifndef DLS_CORE_DEVICE_H
#define DLS_CORE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/dlpack_abi.h"

#define DLS_DEVICE_BIT(code) (UINT32_C(1) << (code))

/* `data` is an address on these: offsets fold into it.  On all others, unknown
 * codes included, it is a handle and byte_offset is the only way to say a view. */
#define DLS_ADDRESS_DEVICES                                               \
    (DLS_DEVICE_BIT(dl_kDLCPU) | DLS_DEVICE_BIT(dl_kDLCUDA)               \
     | DLS_DEVICE_BIT(dl_kDLCUDAHost) | DLS_DEVICE_BIT(dl_kDLROCM)        \
     | DLS_DEVICE_BIT(dl_kDLROCMHost) | DLS_DEVICE_BIT(dl_kDLCUDAManaged) \
     | DLS_DEVICE_BIT(dl_kDLOneAPI))

/* The CPU may read `data` as it is, and nothing has to be waited for. */
#define DLS_HOST_DEVICES                                        \
    (DLS_DEVICE_BIT(dl_kDLCPU) | DLS_DEVICE_BIT(dl_kDLCUDAHost) \
     | DLS_DEVICE_BIT(dl_kDLROCMHost))

static inline bool
dls_device_in(int32_t device_type, uint32_t set)
{
    return (uint32_t)device_type < 32 && (set >> device_type & 1);
}

static inline bool
dls_device_has_addresses(int32_t device_type)
{
    return dls_device_in(device_type, DLS_ADDRESS_DEVICES);
}

static inline bool
dls_device_is_host(int32_t device_type)
{
    return dls_device_in(device_type, DLS_HOST_DEVICES);
}

/* User's word ("cpu", "cuda", "rocm:1", "oneapi") -> device.  1 = yes, 0 = no. */
int dls_device_from_name(const char *name, dl_device *out);

#endif
