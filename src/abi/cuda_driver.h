/* What dlshim uses of the CUDA driver API, declared by us: no toolkit is needed.
 *
 * The names are those that the library exports (`_v2` where the plain name is an ABI of
 * 2010; never `_ptsz`).  The list is written with the toolkit's own type names, so that
 * a test can compile it beside the real cuda.h and compare every prototype.
 */
#ifndef DLS_CUDA_DRIVER_H
#define DLS_CUDA_DRIVER_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#ifndef CUDA_VERSION  /* else the real header is included, and declares these */
typedef int CUresult; /* an enum there */
typedef int CUdevice;
typedef int CUpointer_attribute;
typedef int CUdevice_attribute;
typedef int CUstreamCaptureStatus;
typedef int CUstreamCaptureMode;
typedef unsigned long long CUdeviceptr;
typedef uint64_t cuuint64_t;
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
#define DLS_CUDA_CONSTANT_LIST(X)                                          \
    X(CU_OK, CUDA_SUCCESS, 0)                                              \
    X(CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, 1)                       \
    X(CU_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED, 3)                   \
    X(CU_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED, 4)                       \
    X(CU_STUB, CUDA_ERROR_STUB_LIBRARY, 34)                                \
    X(CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE, 100)                             \
    X(CU_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE, 101)                   \
    X(CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT, 201)                 \
    X(CU_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE, 400)                   \
    X(CU_CONTEXT_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED, 709)          \
    X(CU_CAPTURE_FIRST, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900)        \
    X(CU_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906)        \
    X(CU_CAPTURE_LAST, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908)        \
    X(CU_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_CONTEXT, 1)               \
    X(CU_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)       \
    X(CU_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED, 8)         \
    X(CU_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9) \
    X(CU_TYPE_HOST, CU_MEMORYTYPE_HOST, 1)                                 \
    X(CU_TYPE_DEVICE, CU_MEMORYTYPE_DEVICE, 2)                             \
    X(CU_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING, 2)                       \
    X(CU_NON_BLOCKING, CU_STREAM_NON_BLOCKING, 1)                          \
    X(CU_CAPTURING, CU_STREAM_CAPTURE_STATUS_ACTIVE, 1)                    \
    X(CU_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED, 2)                  \
    X(CU_CONCURRENT_MANAGED, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 89)

enum {
#define DLS_CUDA_CONSTANT(name, theirs, value) name = value,
    DLS_CUDA_CONSTANT_LIST(DLS_CUDA_CONSTANT)
#undef DLS_CUDA_CONSTANT
};

/* Functions that every driver since 9.2 has.  X(name, parameters); all return CUresult.
 */
#define DLS_CUDA_REQUIRED_LIST(X)                                    \
    X(cuInit, (unsigned int))                                        \
    X(cuDeviceGet, (CUdevice *, int))                                \
    X(cuDeviceGetAttribute, (int *, CUdevice_attribute, CUdevice))   \
    X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))             \
    X(cuDevicePrimaryCtxGetState, (CUdevice, unsigned int *, int *)) \
    X(cuCtxGetCurrent, (CUcontext *))                                \
    X(cuCtxPushCurrent_v2, (CUcontext))                              \
    X(cuCtxPopCurrent_v2, (CUcontext *))                             \
    X(cuCtxGetDevice, (CUdevice *))                                  \
    X(cuCtxSynchronize, (void))                                      \
    X(cuEventCreate, (CUevent *, unsigned int))                      \
    X(cuEventRecord, (CUevent, CUstream))                            \
    X(cuEventDestroy_v2, (CUevent))                                  \
    X(cuStreamCreate, (CUstream *, unsigned int))                    \
    X(cuStreamWaitEvent, (CUstream, CUevent, unsigned int))          \
    X(cuStreamSynchronize, (CUstream))                               \
    X(cuStreamGetCtx, (CUstream, CUcontext *))                       \
    X(cuPointerGetAttributes,                                        \
      (unsigned int, CUpointer_attribute *, void **, CUdeviceptr))   \
    X(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream)) \
    X(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *, CUstream))

/* Functions that may be missing (NULL). */
#define DLS_CUDA_OPTIONAL_LIST(X)                                                \
    X(cuDriverGetVersion, (int *))                                               \
    X(cuGetErrorName, (CUresult, const char **))                                 \
    X(cuStreamIsCapturing, (CUstream, CUstreamCaptureStatus *))                  \
    X(cuStreamGetCaptureInfo, (CUstream, CUstreamCaptureStatus *, cuuint64_t *)) \
    X(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *))                \
    X(cuCtxGetId, (CUcontext, unsigned long long *))                             \
    X(cuCtxRecordEvent, (CUcontext, CUevent))                                    \
    X(cuCtxWaitEvent, (CUcontext, CUevent))

#if defined(_WIN32)
#define DLS_CUDA_CALL __stdcall
#else
#define DLS_CUDA_CALL
#endif

typedef struct {
#define DLS_CUDA_MEMBER(name, parameters) CUresult(DLS_CUDA_CALL *name) parameters;
    DLS_CUDA_REQUIRED_LIST(DLS_CUDA_MEMBER)
    DLS_CUDA_OPTIONAL_LIST(DLS_CUDA_MEMBER)
#undef DLS_CUDA_MEMBER
} dls_cuda_api;

static_assert(sizeof(dls_cuda_api) % sizeof(void *) == 0, "function pointers only");

#endif
