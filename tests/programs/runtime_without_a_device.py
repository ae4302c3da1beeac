"""The fake HIP runtime of a machine without a device.

sys.argv holds the runtime and the error that every function answers, but those that need no device.
"""

import ctypes as C
import sys

import drivers
from device.test_fake_hip import blank
from drivers.prototypes import HIP, TEXTS

drv, error = drivers.load_any(sys.argv[1]), int(sys.argv[2])
assert drv.start() == error
count = C.c_int(9)
assert drv.hip.hipGetDeviceCount(C.byref(count)) == 100 and count.value == 0
assert drv.get("hipRuntimeGetVersion", C.c_int) in (50221153, 60443484)
assert drv.hip.hipGetStreamDeviceId(None) == -1
others = {
    "hipGetDeviceCount",
    "hipRuntimeGetVersion",
    "hipDriverGetVersion",
    "hipGetStreamDeviceId",
    "hipGetLastError",
    "hipPeekAtLastError",
    *TEXTS,
}
for name in HIP:
    if drv.has(name) and name not in others:
        assert blank(drv, name) == error, name
