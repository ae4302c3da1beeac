/* The HIP runtime: the copy that is mapped already, its devices, its errors.
 *
 * Frameworks bring their own copies, and a second copy would know nothing of their
 * streams: none is ever loaded.  All functions are called without the GIL.  Reference
 * streams.md 2.
 */
#ifndef DLS_DEVICE_HIP_H
#define DLS_DEVICE_HIP_H

#include "abi/dlpack_abi.h"
#include "abi/hip_runtime.h"
#include "core/error.h"

/* What a runtime knows of an address. */
typedef struct {
    const dls_hip_api *api; /* the runtime that knows it; NULL: none does */
    int device;
    bool on_host; /* pinned */
} dls_hip_pointer;

/* Ask all mapped runtimes. */
void dls_hip_ask_pointer(const void *address, dls_hip_pointer *out);

/* Is any runtime mapped? */
bool dls_hip_is_mapped(void);

/* Make the device current if a runtime is mapped and another device is: 1 and *before is
 * owed to dls_hip_leave, else 0. */
int dls_hip_enter_device(int device_id, int *before);
void dls_hip_leave(int before);

#endif
