"""Exports of memory of other devices look for no driver, not even one that is there."""

from core.test_other_devices import NAMED, SILENT, UNKNOWN

import dlshim
from doubles.asking import versioned

for device in [(code, 3) for code in (*NAMED.values(), *UNKNOWN.values())]:
    for make in SILENT.values():
        for stream in (None, -1, 77):
            try:
                versioned(dlshim.upgrade(make(device)), stream=stream).release()
            except BufferError:
                assert stream == 77
with open("/proc/self/maps") as maps:
    mapped = maps.read()
assert "libcuda" not in mapped and "libamdhip64" not in mapped
