/* The parts of the CUDA driver API and of the HIP runtime API that dlshim uses,
 * declared by us: no toolkit is needed.  First the part that both have in common, with
 * the same parameters in the same order and the same numbers for the same meaning; then
 * the parts that only one has.
 *
 * Tests compile the lists beside the real headers of both, with the types of each, and
 * compare every prototype and number. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#ifndef GPU_STREAM /* else a test has named the types of one API */
#define GPU_STREAM void *
#define GPU_EVENT void *
#define GPU_CAPTURE_STATUS int
#define GPU_CAPTURE_MODE int
#define GPU_CAPTURE_ID unsigned long long
#endif

/* Constants.  X(name of ours, name in CUDA, name in HIP, value) */
#define DLS_GPU_CONSTANT_LIST(X)                                                    \
    X(GPU_OK, CUDA_SUCCESS, hipSuccess, 0)                                          \
    X(GPU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, hipErrorInvalidValue, 1)         \
    X(GPU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, hipErrorOutOfMemory, 2)          \
    X(GPU_NO_DEVICE, CUDA_ERROR_NO_DEVICE, hipErrorNoDevice, 100)                   \
    X(GPU_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE, hipErrorInvalidDevice, 101)    \
    X(GPU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT, hipErrorInvalidContext, 201) \
    X(GPU_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE, hipErrorInvalidHandle, 400)    \
    X(GPU_CONTEXT_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED,                       \
      hipErrorContextIsDestroyed, 709)                                              \
    X(GPU_CAPTURE_FIRST, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,                     \
      hipErrorStreamCaptureUnsupported, 900)                                        \
    X(GPU_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,                     \
      hipErrorStreamCaptureImplicit, 906)                                           \
    X(GPU_CAPTURE_LAST, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,                     \
      hipErrorStreamCaptureWrongThread, 908)                                        \
    X(GPU_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING, hipEventDisableTiming, 2)        \
    X(GPU_NON_BLOCKING, CU_STREAM_NON_BLOCKING, hipStreamNonBlocking, 1)            \
    X(GPU_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED, hipStreamCaptureModeRelaxed, 2)

enum {
#define DLS_GPU_CONSTANT(name, cuda, hip, value) name = value,
    DLS_GPU_CONSTANT_LIST(DLS_GPU_CONSTANT)
};

/* Functions; all return a result code.  MUST: every driver since CUDA 9.2 and every
 * runtime since ROCm 5.2 has it; MAY: it may be missing (NULL). X(MUST or MAY, member,
 * name in CUDA, name in HIP, parameters) */
#define DLS_GPU_CALL_LIST(X)                                                      \
    X(MUST, event_create, cuEventCreate, hipEventCreateWithFlags,                 \
      (GPU_EVENT *, unsigned int))                                                \
    X(MUST, event_record, cuEventRecord, hipEventRecord, (GPU_EVENT, GPU_STREAM)) \
    X(MUST, event_sync, cuEventSynchronize, hipEventSynchronize, (GPU_EVENT))     \
    X(MUST, event_destroy, cuEventDestroy_v2, hipEventDestroy, (GPU_EVENT))       \
    X(MUST, stream_create, cuStreamCreate, hipStreamCreateWithFlags,              \
      (GPU_STREAM *, unsigned int))                                               \
    X(MUST, stream_wait, cuStreamWaitEvent, hipStreamWaitEvent,                   \
      (GPU_STREAM, GPU_EVENT, unsigned int))                                      \
    X(MUST, stream_sync, cuStreamSynchronize, hipStreamSynchronize, (GPU_STREAM)) \
    X(MUST, device_sync, cuCtxSynchronize, hipDeviceSynchronize, (void))          \
    X(MAY, stream_is_capturing, cuStreamIsCapturing, hipStreamIsCapturing,        \
      (GPU_STREAM, GPU_CAPTURE_STATUS *))                                         \
    X(MAY, stream_capture_info, cuStreamGetCaptureInfo, hipStreamGetCaptureInfo,  \
      (GPU_STREAM, GPU_CAPTURE_STATUS *, GPU_CAPTURE_ID *))                       \
    X(MAY, exchange_capture_mode, cuThreadExchangeStreamCaptureMode,              \
      hipThreadExchangeStreamCaptureMode, (GPU_CAPTURE_MODE *))

/* CUDA's calling convention on 32-bit Windows, where no HIP exists. */
#if defined(_WIN32)
#define DLS_GPU_API __stdcall
#else
#define DLS_GPU_API
#endif

/* The functions of one library. */
typedef struct {
#define DLS_GPU_MEMBER(need, member, cuda, hip, parameters) \
    int(DLS_GPU_API * member) parameters;
    DLS_GPU_CALL_LIST(DLS_GPU_MEMBER)
} dls_gpu_calls;

/* --- CUDA ----------------------------------------------------------------- */
/* The names are those that the library exports (`_v2` where the plain name is an ABI
 * of 2010; never `_ptsz`).  The list is written with the toolkit's own type names, so
 * that a test can compile it beside the real cuda.h and compare every prototype. */

#ifndef CUDA_VERSION  /* else the real header is included, and declares these */
typedef int CUresult; /* an enum there */
typedef int CUdevice;
typedef int CUpointer_attribute;
typedef int CUdevice_attribute;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUarray_st *CUarray;

typedef struct {
    size_t srcXInBytes;
    size_t srcY;
    int srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    size_t srcPitch;
    size_t dstXInBytes;
    size_t dstY;
    int dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    size_t dstPitch;
    size_t WidthInBytes;
    size_t Height;
} CUDA_MEMCPY2D;
#endif

#if UINTPTR_MAX == UINT64_MAX
static_assert(sizeof(CUdeviceptr) == 8, "CUdeviceptr");
static_assert(sizeof(CUDA_MEMCPY2D) == 128, "CUDA_MEMCPY2D");
static_assert(offsetof(CUDA_MEMCPY2D, srcDevice) == 32, "srcDevice");
static_assert(offsetof(CUDA_MEMCPY2D, dstHost) == 80, "dstHost");
static_assert(offsetof(CUDA_MEMCPY2D, Height) == 120, "Height");
#endif

/* Constants.  X(name of ours, name there, value) */
#define DLS_CUDA_CONSTANT_LIST(X)                                               \
    X(CU_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED, 3)                        \
    X(CU_STUB, CUDA_ERROR_STUB_LIBRARY, 34)                                     \
    X(CU_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_CONTEXT, 1)                    \
    X(CU_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)            \
    X(CU_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED, 8)              \
    X(CU_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)      \
    X(CU_TYPE_HOST, CU_MEMORYTYPE_HOST, 1)                                      \
    X(CU_TYPE_DEVICE, CU_MEMORYTYPE_DEVICE, 2)                                  \
    X(CU_PAGEABLE_ACCESS, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 88)       \
    X(CU_CONCURRENT_MANAGED, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 89) \
    X(CU_HAS_POOLS, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 115)

enum {
#define DLS_CUDA_CONSTANT(name, theirs, value) name = value,
    DLS_CUDA_CONSTANT_LIST(DLS_CUDA_CONSTANT)
};

/* Functions that only CUDA has, or has in a shape of its own; all return CUresult.
 * MUST: every driver since 9.2 has it.  X(MUST or MAY, name, parameters) */
#define DLS_CUDA_CALL_LIST(X)                                                    \
    X(MUST, cuInit, (unsigned int))                                              \
    X(MUST, cuDeviceGet, (CUdevice *, int))                                      \
    X(MUST, cuDeviceGetAttribute, (int *, CUdevice_attribute, CUdevice))         \
    X(MUST, cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                   \
    X(MUST, cuDevicePrimaryCtxGetState, (CUdevice, unsigned int *, int *))       \
    X(MUST, cuCtxGetCurrent, (CUcontext *))                                      \
    X(MUST, cuCtxPushCurrent_v2, (CUcontext))                                    \
    X(MUST, cuCtxPopCurrent_v2, (CUcontext *))                                   \
    X(MUST, cuCtxGetDevice, (CUdevice *))                                        \
    X(MUST, cuStreamGetCtx, (CUstream, CUcontext *))                             \
    X(MUST, cuPointerGetAttributes,                                              \
      (unsigned int, CUpointer_attribute *, void **, CUdeviceptr))               \
    X(MUST, cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))       \
    X(MUST, cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream)) \
    X(MUST, cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream))  \
    X(MUST, cuMemcpyPeerAsync,                                                   \
      (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream))        \
    X(MUST, cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *, CUstream))               \
    X(MUST, cuMemAlloc_v2, (CUdeviceptr *, size_t))                              \
    X(MUST, cuMemFree_v2, (CUdeviceptr))                                         \
    X(MAY, cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream))                   \
    X(MAY, cuMemFreeAsync, (CUdeviceptr, CUstream))                              \
    X(MAY, cuDevicePrimaryCtxRelease, (CUdevice))                                \
    X(MAY, cuDriverGetVersion, (int *))                                          \
    X(MAY, cuGetErrorName, (CUresult, const char **))                            \
    X(MAY, cuCtxGetId, (CUcontext, unsigned long long *))                        \
    X(MAY, cuCtxRecordEvent, (CUcontext, CUevent))                               \
    X(MAY, cuCtxWaitEvent, (CUcontext, CUevent))

typedef struct {
    dls_gpu_calls calls;
#define DLS_CUDA_MEMBER(need, name, parameters) CUresult(DLS_GPU_API *name) parameters;
    DLS_CUDA_CALL_LIST(DLS_CUDA_MEMBER)
} dls_cuda_api;

/* --- HIP ------------------------------------------------------------------ */
/* Written with the real header's type names, as CUDA's list is.  HIP has no `_v2` names
 * and no contexts; ROCm 5.2 has all that is required here. */

#ifndef HIP_INCLUDE_HIP_HIP_RUNTIME_API_H /* else the real header declares these */
typedef int hipError_t;                   /* enums there */
typedef int hipMemcpyKind;
typedef struct ihipStream_t *hipStream_t;
/* The layout is the same in 5.x and 6.x; only the first five members are read. */
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
