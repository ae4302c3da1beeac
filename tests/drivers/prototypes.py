"""The driver functions' parameters, for ctypes: nothing is guessed, nothing is cut off.

Every function answers an int.  The list is longer than any variant's; what a variant lacks is
not looked up.
"""

from __future__ import annotations

import ctypes as C
from typing import Any

CTX = STREAM = EVENT = POINTER = POOL = C.c_void_p
DEVICEPTR = C.c_uint64
OUT = C.c_void_p  # a byref
INT, UINT, SIZE, U64 = C.c_int, C.c_uint, C.c_size_t, C.c_uint64


class Memcpy2D(C.Structure):
    _fields_ = [
        ("srcXInBytes", SIZE),
        ("srcY", SIZE),
        ("srcMemoryType", INT),
        ("srcHost", POINTER),
        ("srcDevice", DEVICEPTR),
        ("srcArray", POINTER),
        ("srcPitch", SIZE),
        ("dstXInBytes", SIZE),
        ("dstY", SIZE),
        ("dstMemoryType", INT),
        ("dstHost", POINTER),
        ("dstDevice", DEVICEPTR),
        ("dstArray", POINTER),
        ("dstPitch", SIZE),
        ("WidthInBytes", SIZE),
        ("Height", SIZE),
    ]


class Memcpy3D(C.Structure):
    _fields_ = [
        ("srcXInBytes", SIZE),
        ("srcY", SIZE),
        ("srcZ", SIZE),
        ("srcLOD", SIZE),
        ("srcMemoryType", INT),
        ("srcHost", POINTER),
        ("srcDevice", DEVICEPTR),
        ("srcArray", POINTER),
        ("reserved0", POINTER),
        ("srcPitch", SIZE),
        ("srcHeight", SIZE),
        ("dstXInBytes", SIZE),
        ("dstY", SIZE),
        ("dstZ", SIZE),
        ("dstLOD", SIZE),
        ("dstMemoryType", INT),
        ("dstHost", POINTER),
        ("dstDevice", DEVICEPTR),
        ("dstArray", POINTER),
        ("reserved1", POINTER),
        ("dstPitch", SIZE),
        ("dstHeight", SIZE),
        ("WidthInBytes", SIZE),
        ("Height", SIZE),
        ("Depth", SIZE),
    ]


assert C.sizeof(Memcpy2D) == 128 and C.sizeof(Memcpy3D) == 200

CUDA: dict[str, list[Any]] = {
    "cuInit": [UINT],
    "cuDriverGetVersion": [OUT],
    "cuGetErrorName": [INT, OUT],
    "cuGetErrorString": [INT, OUT],
    "cuGetProcAddress": [C.c_char_p, OUT, INT, U64],
    "cuGetProcAddress_v2": [C.c_char_p, OUT, INT, U64, OUT],
    "cuDeviceGet": [OUT, INT],
    "cuDeviceGetCount": [OUT],
    "cuDeviceGetName": [C.c_char_p, INT, INT],
    "cuDeviceGetAttribute": [OUT, INT, INT],
    "cuDeviceGetUuid": [OUT, INT],
    "cuDeviceGetPCIBusId": [C.c_char_p, INT, INT],
    "cuDeviceTotalMem_v2": [OUT, INT],
    "cuDevicePrimaryCtxRetain": [OUT, INT],
    "cuDevicePrimaryCtxRelease": [INT],
    "cuDevicePrimaryCtxRelease_v2": [INT],
    "cuDevicePrimaryCtxGetState": [INT, OUT, OUT],
    "cuCtxCreate_v2": [OUT, UINT, INT],
    "cuCtxDestroy_v2": [CTX],
    "cuCtxGetCurrent": [OUT],
    "cuCtxSetCurrent": [CTX],
    "cuCtxPushCurrent_v2": [CTX],
    "cuCtxPopCurrent_v2": [OUT],
    "cuCtxGetDevice": [OUT],
    "cuCtxGetDevice_v2": [OUT, CTX],
    "cuCtxGetId": [CTX, OUT],
    "cuCtxSynchronize": [],
    "cuCtxSynchronize_v2": [CTX],
    "cuCtxRecordEvent": [CTX, EVENT],
    "cuCtxWaitEvent": [CTX, EVENT],
    "cuStreamCreate": [OUT, UINT],
    "cuStreamCreateWithPriority": [OUT, UINT, INT],
    "cuStreamDestroy_v2": [STREAM],
    "cuStreamSynchronize": [STREAM],
    "cuStreamSynchronize_ptsz": [STREAM],
    "cuStreamQuery": [STREAM],
    "cuStreamQuery_ptsz": [STREAM],
    "cuStreamWaitEvent": [STREAM, EVENT, UINT],
    "cuStreamWaitEvent_ptsz": [STREAM, EVENT, UINT],
    "cuStreamGetCtx": [STREAM, OUT],
    "cuStreamGetCtx_v2": [STREAM, OUT, OUT],
    "cuStreamGetDevice": [STREAM, OUT],
    "cuStreamGetFlags": [STREAM, OUT],
    "cuStreamGetPriority": [STREAM, OUT],
    "cuStreamGetId": [STREAM, OUT],
    "cuStreamIsCapturing": [STREAM, OUT],
    "cuStreamGetCaptureInfo": [STREAM, OUT, OUT],
    "cuStreamGetCaptureInfo_v2": [STREAM, OUT, OUT, OUT, OUT, OUT],
    "cuStreamGetCaptureInfo_v3": [STREAM, OUT, OUT, OUT, OUT, OUT, OUT],
    "cuStreamBeginCapture_v2": [STREAM, INT],
    "cuStreamEndCapture": [STREAM, OUT],
    "cuThreadExchangeStreamCaptureMode": [OUT],
    "cuLaunchHostFunc": [STREAM, POINTER, POINTER],
    "cuEventCreate": [OUT, UINT],
    "cuEventDestroy_v2": [EVENT],
    "cuEventRecord": [EVENT, STREAM],
    "cuEventRecord_ptsz": [EVENT, STREAM],
    "cuEventRecordWithFlags": [EVENT, STREAM, UINT],
    "cuEventQuery": [EVENT],
    "cuEventSynchronize": [EVENT],
    "cuPointerGetAttribute": [OUT, INT, DEVICEPTR],
    "cuPointerGetAttributes": [UINT, POINTER, POINTER, DEVICEPTR],
    "cuMemAlloc_v2": [OUT, SIZE],
    "cuMemAllocManaged": [OUT, SIZE, UINT],
    "cuMemAllocAsync": [OUT, SIZE, STREAM],
    "cuMemFree_v2": [DEVICEPTR],
    "cuMemFreeAsync": [DEVICEPTR, STREAM],
    "cuMemHostAlloc": [OUT, SIZE, UINT],
    "cuMemAllocHost_v2": [OUT, SIZE],
    "cuMemFreeHost": [POINTER],
    "cuMemcpy": [DEVICEPTR, DEVICEPTR, SIZE],
    "cuMemcpyAsync": [DEVICEPTR, DEVICEPTR, SIZE, STREAM],
    "cuMemcpyDtoH_v2": [POINTER, DEVICEPTR, SIZE],
    "cuMemcpyHtoD_v2": [DEVICEPTR, POINTER, SIZE],
    "cuMemcpyDtoD_v2": [DEVICEPTR, DEVICEPTR, SIZE],
    "cuMemcpyDtoHAsync_v2": [POINTER, DEVICEPTR, SIZE, STREAM],
    "cuMemcpyHtoDAsync_v2": [DEVICEPTR, POINTER, SIZE, STREAM],
    "cuMemcpyDtoDAsync_v2": [DEVICEPTR, DEVICEPTR, SIZE, STREAM],
    "cuMemcpyPeerAsync": [DEVICEPTR, CTX, DEVICEPTR, CTX, SIZE, STREAM],
    "cuMemcpy2DAsync_v2": [C.POINTER(Memcpy2D), STREAM],
    "cuMemcpy2D_v2": [C.POINTER(Memcpy2D)],
    "cuMemcpy3DAsync_v2": [C.POINTER(Memcpy3D), STREAM],
    "cuMemsetD8Async": [DEVICEPTR, C.c_ubyte, SIZE, STREAM],
    "cuMemsetD16Async": [DEVICEPTR, C.c_ushort, SIZE, STREAM],
    "cuMemsetD32Async": [DEVICEPTR, UINT, SIZE, STREAM],
    "cuMemsetD8_v2": [DEVICEPTR, C.c_ubyte, SIZE],
    "cuMemsetD32_v2": [DEVICEPTR, UINT, SIZE],
}
