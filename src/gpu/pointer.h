/* The CUDA driver: found at first need, its contexts, its errors.
 *
 * All functions here may block and are to be called without the GIL; none needs it.
 * Reference streams.md 1.
 */
#ifndef DLS_DEVICE_CUDA_H
#define DLS_DEVICE_CUDA_H

#include "abi/cuda_driver.h"
#include "abi/dlpack_abi.h"
#include "core/error.h"

/* The driver, started.  DLS_OK, or DLS_EBUFFER with *err saying what is missing: no
 * library, the toolkit's stub, no device (remembered, it costs 10 ms each time), too
 * old, a forked child. */
int dls_cuda_load(const dls_cuda_api **api, dls_error *err);

/* The driver if this process has it mapped and started, else NULL: for repairs that are
 * needed only then.  Makes no driver call but cuInit. */
const dls_cuda_api *dls_cuda_if_mapped(void);

/* Fill *err for a failed call.  `call` names it; device_id for messages, -1 unknown. */
int dls_cuda_fail(const dls_cuda_api *api, dls_error *err, int result, const char *call,
                  int device_id);

/* What the driver knows of an address.  type 0: nothing at all. */
typedef struct {
    CUcontext context; /* NULL: unknown, or the memory belongs to no context */
    int type;          /* CU_TYPE_HOST, CU_TYPE_DEVICE, 0 */
    int ordinal;       /* device, -1 unknown */
    bool managed;
} dls_cuda_pointer;

/* Never fails: what the driver does not answer stays at "unknown". */
void dls_cuda_ask_pointer(const dls_cuda_api *api, const void *address,
                          dls_cuda_pointer *out);

/* The context in which work on `stream` (1, 2 or a handle) over memory at `address` of
 * device `device_id` is to be done (reference 1.3, "ctx_of").  *guessed: the driver
 * does not say to which context the memory belongs.  DLS_OK or DLS_EBUFFER. */
int dls_cuda_context(const dls_cuda_api *api, uint64_t stream, int device_id,
                     const void *address, CUcontext *context, bool *guessed,
                     dls_error *err);

/* Where a pointer names no context, work on it may be pending in the current one and in
 * the primary one: the one of the two that is not `context`, or NULL. */
CUcontext dls_cuda_other_context(const dls_cuda_api *api, CUcontext context,
                                 int device_id, const void *address);

/* Push; every success is paired with dls_cuda_pop, on every exit. */
int dls_cuda_push(const dls_cuda_api *api, CUcontext context, dls_error *err);
void dls_cuda_pop(const dls_cuda_api *api);

/* Is the device of the current context another one (or is none current)?  Then the
 * device's own context, if it has a live one, is pushed: 1 and a pop is owed, else 0.
 */
int dls_cuda_enter_device(const dls_cuda_api *api, int device_id);

/* Some calls are refused during another thread's capture unless this thread says
 * "relaxed" (reference 1.5): the mode before, to be restored. */
CUstreamCaptureMode dls_cuda_relax(const dls_cuda_api *api);
void dls_cuda_restore(const dls_cuda_api *api, CUstreamCaptureMode mode);

/* May the host read managed memory of this device while its kernels run? */
bool dls_cuda_concurrent_managed(const dls_cuda_api *api, int device_id);

/* A stream handle as the driver takes it. */
static inline CUstream
dls_cuda_stream(uint64_t stream)
{
    return (CUstream)(uintptr_t)stream;
}

#endif
