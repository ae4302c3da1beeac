/* What dlshim uses of the HIP runtime API, declared by us: no ROCm is needed to build.
 *
 * Written with the real header's type names, so that a test can compile the list beside
 * hip/hip_runtime_api.h and compare every prototype.  HIP has no `_v2` names and no
 * contexts; ROCm 5.2 has all that is required here.
 */
#ifndef DLS_HIP_RUNTIME_H
#define DLS_HIP_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifndef HIP_INCLUDE_HIP_HIP_RUNTIME_API_H /* else the real header declares these */
typedef int hipError_t;                   /* enums there */
typedef int hipMemcpyKind;
typedef int hipStreamCaptureStatus;
typedef int hipStreamCaptureMode;
typedef struct ihipStream_t *hipStream_t;
typedef struct ihipEvent_t *hipEvent_t;
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
#define DLS_HIP_CONSTANT_LIST(X)                                \
    X(HIP_OK, hipSuccess, 0)                                    \
    X(HIP_NO_DEVICE, hipErrorNoDevice, 100)                     \
    X(HIP_INVALID_DEVICE, hipErrorInvalidDevice, 101)           \
    X(HIP_INVALID_CONTEXT, hipErrorInvalidContext, 201)         \
    X(HIP_INVALID_HANDLE, hipErrorInvalidHandle, 400)           \
    X(HIP_CONTEXT_DESTROYED, hipErrorContextIsDestroyed, 709)   \
    X(HIP_CAPTURE_FIRST, hipErrorStreamCaptureUnsupported, 900) \
    X(HIP_CAPTURE_IMPLICIT, hipErrorStreamCaptureImplicit, 906) \
    X(HIP_CAPTURE_LAST, hipErrorStreamCaptureWrongThread, 908)  \
    X(HIP_MODE_RELAXED, hipStreamCaptureModeRelaxed, 2)         \
    X(HIP_COPY_TO_HOST, hipMemcpyDeviceToHost, 2)               \
    X(HIP_DISABLE_TIMING, hipEventDisableTiming, 2)             \
    X(HIP_NON_BLOCKING, hipStreamNonBlocking, 1)

enum {
#define DLS_HIP_CONSTANT(name, theirs, value) name = value,
    DLS_HIP_CONSTANT_LIST(DLS_HIP_CONSTANT)
#undef DLS_HIP_CONSTANT
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

/* Functions that every release has.  X(result, name, parameters) */
#define DLS_HIP_REQUIRED_LIST(X)                                                    \
    X(hipError_t, hipGetDeviceCount, (int *))                                       \
    X(hipError_t, hipGetDevice, (int *))                                            \
    X(hipError_t, hipSetDevice, (int))                                              \
    X(hipError_t, hipDeviceSynchronize, (void))                                     \
    X(hipError_t, hipRuntimeGetVersion, (int *))                                    \
    X(hipError_t, hipEventCreateWithFlags, (hipEvent_t *, unsigned int))            \
    X(hipError_t, hipEventRecord, (hipEvent_t, hipStream_t))                        \
    X(hipError_t, hipEventDestroy, (hipEvent_t))                                    \
    X(hipError_t, hipStreamCreateWithFlags, (hipStream_t *, unsigned int))          \
    X(hipError_t, hipStreamWaitEvent, (hipStream_t, hipEvent_t, unsigned int))      \
    X(hipError_t, hipStreamSynchronize, (hipStream_t))                              \
    X(hipError_t, hipPointerGetAttributes, (hipPointerAttribute_t *, const void *)) \
    X(hipError_t, hipMemcpyAsync,                                                   \
      (void *, const void *, size_t, hipMemcpyKind, hipStream_t))                   \
    X(hipError_t, hipMemcpy2DAsync,                                                 \
      (void *, size_t, const void *, size_t, size_t, size_t, hipMemcpyKind,         \
       hipStream_t))

/* Functions that may be missing (NULL). */
#define DLS_HIP_OPTIONAL_LIST(X)                                                 \
    X(const char *, hipGetErrorName, (hipError_t))                               \
    X(hipError_t, hipGetLastError, (void))                                       \
    X(int, hipGetStreamDeviceId, (hipStream_t))                                  \
    X(hipError_t, hipStreamIsCapturing, (hipStream_t, hipStreamCaptureStatus *)) \
    X(hipError_t, hipStreamGetCaptureInfo,                                       \
      (hipStream_t, hipStreamCaptureStatus *, unsigned long long *))             \
    X(hipError_t, hipThreadExchangeStreamCaptureMode, (hipStreamCaptureMode *))

typedef struct {
#define DLS_HIP_MEMBER(result, name, parameters) result(*name) parameters;
    DLS_HIP_REQUIRED_LIST(DLS_HIP_MEMBER)
    DLS_HIP_OPTIONAL_LIST(DLS_HIP_MEMBER)
#undef DLS_HIP_MEMBER
} dls_hip_api;

#endif
