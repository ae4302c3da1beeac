/* What dlshim uses of the HIP runtime API, declared by us: no ROCm is needed to build.
 *
 * Written with the real header's type names, so that a test can compile the list beside
 * hip/hip_runtime_api.h and compare every prototype.  HIP has no `_v2` names and no
 * contexts; ROCm 5.2 has all that is required here.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "abi/gpu_calls.h"

#ifndef HIP_INCLUDE_HIP_HIP_RUNTIME_API_H /* else the real header declares these */
typedef int hipError_t;                   /* enums there */
typedef int hipMemcpyKind;
typedef struct ihipStream_t *hipStream_t;
/* Its layout is the same in 5.x and 6.x; read by the first five members only. */
typedef struct {
    int type; /* HIP_5_* or HIP_6_* */
    int device;
    void *devicePointer;
    void *hostPointer;
    int isManaged;
    unsigned int allocationFlags;
} hipPointerAttribute_t;
#endif

/* Constants that all releases share.  X(name of ours, name there, value) */
#define DLS_HIP_CONSTANT_LIST(X)                    \
    X(HIP_COPY_TO_DEVICE, hipMemcpyHostToDevice, 1) \
    X(HIP_COPY_TO_HOST, hipMemcpyDeviceToHost, 2)   \
    X(HIP_COPY_WITHIN, hipMemcpyDeviceToDevice, 3)

enum {
#define DLS_HIP_CONSTANT(name, theirs, value) name = value,
    DLS_HIP_CONSTANT_LIST(DLS_HIP_CONSTANT)
};

/* hipPointerAttribute_t.type: the numbers changed with 6.0. */
enum {
    HIP_5_HOST = 0,
    HIP_5_DEVICE = 1,
    HIP_6_UNREGISTERED = 0,
    HIP_6_HOST = 1,
    HIP_6_DEVICE = 2
};
#define HIP_VERSION_6 \
    60000000 /* hipRuntimeGetVersion: major * 1e7 + minor * 1e5 + patch */

/* Functions that only HIP has, or has in a shape of its own.  MUST: every release
 * since 5.2 has it.  X(MUST or MAY, result, name, parameters) */
#define DLS_HIP_CALL_LIST(X)                                                \
    X(MUST, hipError_t, hipGetDeviceCount, (int *))                         \
    X(MUST, hipError_t, hipGetDevice, (int *))                              \
    X(MUST, hipError_t, hipSetDevice, (int))                                \
    X(MUST, hipError_t, hipRuntimeGetVersion, (int *))                      \
    X(MUST, hipError_t, hipPointerGetAttributes,                            \
      (hipPointerAttribute_t *, const void *))                              \
    X(MUST, hipError_t, hipMemcpyAsync,                                     \
      (void *, const void *, size_t, hipMemcpyKind, hipStream_t))           \
    X(MUST, hipError_t, hipMemcpy2DAsync,                                   \
      (void *, size_t, const void *, size_t, size_t, size_t, hipMemcpyKind, \
       hipStream_t))                                                        \
    X(MUST, hipError_t, hipMemcpyPeerAsync,                                 \
      (void *, int, const void *, int, size_t, hipStream_t))                \
    X(MUST, hipError_t, hipMalloc, (void **, size_t))                       \
    X(MUST, hipError_t, hipFree, (void *))                                  \
    X(MAY, const char *, hipGetErrorName, (hipError_t))                     \
    X(MAY, hipError_t, hipGetLastError, (void))                             \
    X(MAY, int, hipGetStreamDeviceId, (hipStream_t))

typedef struct {
    dls_gpu_calls calls;
#define DLS_HIP_MEMBER(need, result, name, parameters) result(*name) parameters;
    DLS_HIP_CALL_LIST(DLS_HIP_MEMBER)
} dls_hip_api;
