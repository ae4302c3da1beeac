"""Columns on devices without a driver: an event is refused, and what is ready goes through."""

import ctypes as C

import pytest

import dlshim
from doubles.arrow_device import DeviceColumn

memory = (C.c_int32 * 6)(*range(6))
event = C.c_void_p(0x7C2000000010)
for device in ((2, 0), (10, 0), (13, 0)):
    x = DeviceColumn(C.addressof(memory), device=device, event=C.addressof(event))
    for ask in (
        lambda x: dlshim.upgrade(x).__dlpack__(max_version=(1, 0)),
        lambda x: dlshim.upgrade(x).__dlpack__(max_version=(1, 0), stream=0x7C2000000020),
        lambda x: dlshim.to_capsule(x, max_version=(1, 0)),
    ):
        with pytest.raises(BufferError, match=r"driver|runtime"):
            ask(x)
    dlshim.upgrade(x).__dlpack__(max_version=(1, 0), stream=-1)
    x.event = None
    for stream in (None, 0x7C2000000020, -1):
        dlshim.upgrade(x).__dlpack__(max_version=(1, 0), stream=stream)
    dlshim.to_capsule(x, max_version=(1, 0))
    assert set(x.released) == {1}, x.released
with open("/proc/self/maps") as maps:
    assert "libamdhip64" not in maps.read()
