"""No context is made on a device that has none, by the driver sys.argv[1]."""

import sys

import dlshim
import drivers
from doubles import capsules as caps

drv = drivers.load_any(sys.argv[1])
drv.call("cuInit", 0)
for device in (0, 1):
    x = caps.make(device=(2, device), data=0x7F0000000000)
    for stream in (1, 2, None):
        try:
            dlshim.upgrade(x).__dlpack__(stream=stream)
        except BufferError as error:
            assert f"device {device} has no live context" in str(error), error
            x = caps.make(device=(2, device), data=0x7F0000000000)
        else:
            raise AssertionError("went through")
    assert not drv.primary_active(device)
assert drv.context_stack() == () and "cuDevicePrimaryCtxRetain" not in drv.calls()
