"""Empty arrays load no driver, and others do: one lies where the loader looks."""

from pathlib import Path

import dlshim
from doubles.cuda_interface import CudaOnly, WithDevice, empty


def mapped():
    return "libcuda" in Path("/proc/self/maps").read_text()


for x in (empty(), empty(WithDevice, device_id=1)):
    for stream in (None, -1, 1, 2, 99):
        dlshim.upgrade(x).__dlpack__(stream=stream)
    assert dlshim.from_dlpack(x, stream=1).__cuda_array_interface__["stream"] is None
assert not mapped()
try:
    dlshim.upgrade(CudaOnly(address=4096)).__dlpack__()
except BufferError as error:
    assert "no CUDA memory" in str(error), error
else:
    raise AssertionError("that was no memory")
assert mapped()
