/* DLPack devices: whether `data` is an address there, whether the CPU may read it, and
 * the names that users give (T5, T7).  Pure functions. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/dlpack_abi.h"

#define DLS_DEVICE_BIT(code) (UINT32_C(1) << (code))

/* Devices where `data` is an address, into which an offset can be folded.  On all
 * others, unknown codes included, it is a handle, and only byte_offset can describe a
 * view. */
#define DLS_ADDRESS_DEVICES                                               \
    (DLS_DEVICE_BIT(dl_kDLCPU) | DLS_DEVICE_BIT(dl_kDLCUDA)               \
     | DLS_DEVICE_BIT(dl_kDLCUDAHost) | DLS_DEVICE_BIT(dl_kDLROCM)        \
     | DLS_DEVICE_BIT(dl_kDLROCMHost) | DLS_DEVICE_BIT(dl_kDLCUDAManaged) \
     | DLS_DEVICE_BIT(dl_kDLOneAPI))

/* Devices whose `data` the CPU may read as it is, without waiting for anything. */
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

/* Its name ("cpu", "cuda:1"), which dls_device_from_name reads where the type is known.
 * Writes at most size bytes with the NUL; returns text. */
const char *dls_device_name(dl_device device, char *text, size_t size);

/* The device that a name says ("cpu", "cuda", "rocm:1", "oneapi").  1 = yes, 0 = no. */
int dls_device_from_name(const char *name, dl_device *out);
