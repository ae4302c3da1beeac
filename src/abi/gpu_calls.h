/* The calls and numbers that the CUDA driver API and the HIP runtime API have in
 * common: the same parameters in the same order, the same numbers for the same meaning.
 *
 * Tests compile the lists beside the real headers of both, with the types of each, and
 * compare every prototype and number.
 */
#pragma once

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
