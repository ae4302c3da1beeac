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

/* Copies that one process may have: a framework's, another's, the system's. */
#define DLS_HIP_RUNTIMES 4

/* Make the device current in every mapped runtime, for nobody knows yet whose memory it
 * will be.  1 when one of them had another: dls_hip_leave is owed, before[] is for it
 * (-1: left as it was). */
int dls_hip_enter_device(int device_id, int before[DLS_HIP_RUNTIMES]);
void dls_hip_leave(const int before[DLS_HIP_RUNTIMES]);

#endif
