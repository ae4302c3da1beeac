"""The device and dtype codes of DLPack, with the header's own names.

Plain ints are accepted and returned everywhere; these classes give them names.
Codes that a newer DLPack defines pass through dlshim all the same.
"""

from enum import IntEnum


class DLDeviceType(IntEnum):
    """Where memory lives: the first number of ``__dlpack_device__()``."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17
    kDLTrn = 18
    # On DLPack's main branch, in no release up to 1.3.
    kDLTPU = 19
    kDLTPUHost = 20
    kDLAscend = 21


class DLDataTypeCode(IntEnum):
    """Kind of an element: the first number of a ``(code, bits, lanes)`` dtype."""

    kDLInt = 0
    kDLUInt = 1
    kDLFloat = 2
    kDLOpaqueHandle = 3
    kDLBfloat = 4
    kDLComplex = 5
    kDLBool = 6
    kDLFloat8_e3m4 = 7
    kDLFloat8_e4m3 = 8
    kDLFloat8_e4m3b11fnuz = 9
    kDLFloat8_e4m3fn = 10
    kDLFloat8_e4m3fnuz = 11
    kDLFloat8_e5m2 = 12
    kDLFloat8_e5m2fnuz = 13
    kDLFloat8_e8m0fnu = 14
    kDLFloat6_e2m3fn = 15
    kDLFloat6_e3m2fn = 16
    kDLFloat4_e2m1fn = 17
    # On DLPack's main branch, in no release up to 1.3.
    kDLBcomplex = 18
