/* What dlshim uses of the CUDA driver API, declared by us: no toolkit is needed.
 *
 * The names are those that the library exports (`_v2` where the plain name is an ABI of
 * 2010; never `_ptsz`).  The list is written with the toolkit's own type names, so that
 * a test can compile it beside the real cuda.h and compare every prototype.
 */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/gpu_calls.h"

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

static_assert(sizeof(dls_cuda_api) % sizeof(void *) == 0, "function pointers only");
