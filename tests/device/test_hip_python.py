"""AMD's hip-python, unmodified, on the fake HIP runtimes, which run later
(``Driver.asynchronous``): its memory, streams and copies, judged by values.

It looks for ``libamdhip64.so`` by that name, so each child finds the fake there.  Its memory has
the CUDA array interface, which names the stream that its user has configured.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drivers import HIP_LIVE, built, run_with_driver

SETUP = """
import ctypes as C
import dlshim
from doubles import capsules as caps

drv.start()
drv.asynchronous()
from hip import hip

OLD, NEW, COUNT = 7, 42, 16
words = lambda value: (C.c_int32 * COUNT)(*[value] * COUNT)
to_device = hip.hipMemcpyKind.hipMemcpyHostToDevice
to_host = hip.hipMemcpyKind.hipMemcpyDeviceToHost

def ok(result):
    assert result[0] == hip.hipError_t.hipSuccess, result
    return result[1] if len(result) > 1 else None

p, s = (ok(hip.hipStreamCreateWithFlags(1)) for _ in "PS")
old, new = words(OLD), words(NEW)

def pending(stream):
    "Memory that is OLD, and will be NEW when P comes to it."
    x = ok(hip.hipMalloc(4 * COUNT))
    ok(hip.hipMemcpyAsync(x, C.addressof(old), 4 * COUNT, to_device, p))
    ok(hip.hipStreamSynchronize(p))
    ok(hip.hipMemcpyAsync(x, C.addressof(new), 4 * COUNT, to_device, p))
    return x.configure(typestr="<i4", itemsize=4, shape=(COUNT,), stream=stream)

def seen_on_s(taken):
    seen = words(0)
    ok(hip.hipMemcpyAsync(C.addressof(seen), taken.view.data, 4 * COUNT, to_host, s))
    ok(hip.hipDeviceSynchronize())
    return set(seen)
"""

CASES = {
    "the stream that its user configured is waited for": """
for asked, wanted in ((int(s), {NEW}), (-1, {OLD})):
    taken = caps.take(dlshim.upgrade(pending(p)).__dlpack__(stream=asked, max_version=(1, 0)))
    assert taken.view.device == (10, 0)
    assert seen_on_s(taken) == wanted, asked
    taken.release()
""",
    "a Tensor remembers it": """
tensor = dlshim.from_dlpack(pending(p), stream=int(s))
assert tensor.device == (10, 0)
assert seen_on_s(caps.take(tensor.__dlpack__(stream=int(s)))) == {NEW}
""",
    "the host waits for its copy": """
for stream in (None, -1):
    host = dlshim.upgrade(pending(p), device="cpu")
    taken = caps.take(host.__dlpack__(stream=stream, max_version=(1, 0)))
    assert set(taken.values()) == {NEW}, stream
""",
    "a copy on the device comes after it": """
for asked in (int(s), -1):
    copied = dlshim.upgrade(pending(p), copy=True)
    taken = caps.take(copied.__dlpack__(stream=asked, max_version=(1, 0)))
    assert taken.view.copied and seen_on_s(taken) == {NEW}, asked
""",
    "its stream is named by its handle": """
x = pending(p)
capsule = dlshim.upgrade(x, stream=-1).__dlpack__()
source = dlshim.upgrade(capsule, producer_stream=int(p))
assert seen_on_s(caps.take(source.__dlpack__(stream=int(s)))) == {NEW}
""",
    "memory that is not configured names its cure": """
try:
    dlshim.upgrade(ok(hip.hipMalloc(4))).__dlpack__()
except BufferError as error:
    assert "typestr" in str(error) and "DeviceArray" in str(error), error
else:
    raise AssertionError("typestr 'B' is none")
""",
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("variant", HIP_LIVE)
def test_hip_python(
    variant: str, case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("hip", reason="hip-python is not installed")
    (tmp_path / "libamdhip64.so").symlink_to(built(variant))
    paths = [str(tmp_path), os.environ.get("LD_LIBRARY_PATH", "")]
    monkeypatch.setenv("LD_LIBRARY_PATH", os.pathsep.join(filter(None, paths)))
    run_with_driver(variant, SETUP + case)
