"""The doubles of ROCm's libraries do to the runtime what they say real libraries do."""

from __future__ import annotations

from typing import Any

import pytest

from doubles import capsules as caps
from doubles import device as fake
from doubles import rocm
from drivers import HipDriver, checks, run_checks

LIVE = ("hip5", "hip6", "hip7")
EDGE = ["hipEventCreateWithFlags", "hipEventRecord", "hipStreamWaitEvent", "hipEventDestroy"]
OMIT = object()

#: What each library does with omitted, None, -1, 0, 1, 2 and a handle.  Where 1 and 2 are taken
#: for handles that is what the library's own source does, and they are not tried.
TABLE = {
    "TorchRocm": "nothing edge nothing edge AssertionError AssertionError edge",
    "Torch29Rocm": "edge edge nothing edge AssertionError AssertionError edge",
    "TorchOldRocm": "nothing nothing nothing edge - - edge",
    "CupyRocm": "edge edge nothing edge ValueError ValueError edge",
    "CupyOldRocm": "edge edge nothing edge ValueError ValueError edge",
    "Careful": "edge edge nothing edge TypeError TypeError edge",
    "Silent": "nothing nothing nothing nothing nothing nothing nothing",
    "PinnedBuffer": "nothing nothing nothing nothing nothing nothing nothing",
    "NoKw": "nothing TypeError TypeError TypeError TypeError TypeError TypeError",
}
ARGUMENTS = (OMIT, None, -1, 0, 1, 2, "S")


def syncs(drv: HipDriver) -> list[str]:
    """What the producer called, devices left out."""
    names = drv.calls(by=fake.PRODUCER)
    return [name for name in names if name not in ("hipGetDevice", "hipSetDevice")]


def setting(drv: HipDriver, cls: type, device: int = 0) -> tuple[Any, int]:
    drv.reset()
    drv.set_device(device)
    p = drv.stream_new(device, False, name="P")
    s = drv.stream_new(device, False, name="S")
    x = cls(drv, p, device=device)
    assert not x.write()
    return x, s


def export(x: Any, stream: Any = OMIT, **keywords: Any) -> caps.Import:
    if stream is not OMIT:
        keywords["stream"] = stream
    return caps.take(x.__dlpack__(**keywords))


def outcome(drv: HipDriver, cls: type, stream: Any) -> str:
    x, s = setting(drv, cls)
    given = s if stream == "S" else stream
    try:
        taken = export(x, given)
    except Exception as refusal:
        assert syncs(drv) == []
        return type(refusal).__name__
    what = {(): "nothing", tuple(EDGE): "edge"}[tuple(syncs(drv))]
    reader = {OMIT: 0, None: 0, -1: s, 1: s, 2: s}.get(given, given)
    assert drv.read(int(reader), x.address) == (what == "nothing"), (stream, what, drv.log())
    assert drv.gil_held_calls() == {}
    device = (11, 0) if cls.KIND == "pinned" else (10, 0)
    assert x.__dlpack_device__() == taken.view.device == device
    assert taken.values() == x.values()
    taken.release()
    assert x.deletions == 1
    return what


def check_what_each_does_with_each_stream(drv: HipDriver) -> None:
    for name, cells in TABLE.items():
        for argument, wanted in zip(ARGUMENTS, cells.split(), strict=True):
            if wanted != "-":
                found = outcome(drv, getattr(rocm, name), argument)
                assert found == wanted, (name, argument, found, wanted)


def check_no_edge_to_the_stream_itself(drv: HipDriver) -> None:
    for cls in (rocm.TorchRocm, rocm.TorchOldRocm, rocm.CupyRocm, rocm.Careful):
        x, _ = setting(drv, cls)
        export(x, x.stream).release()
        assert syncs(drv) == [], cls
        drv.reset()
        export(cls(drv, 0), 0).release()
        assert syncs(drv) == [], cls


def check_another_device_is_current(drv: HipDriver) -> None:
    """torch refuses; older torch and CuPy record the wrong device's stream; others set it."""
    for cls in (rocm.TorchOldRocm, rocm.CupyRocm, rocm.CupyOldRocm):
        x, s = setting(drv, cls, device=1)
        drv.set_device(0)
        export(x, s).release()
        assert syncs(drv) == EDGE and drv.read(s, x.address), cls
    x, s = setting(drv, rocm.Careful, device=1)
    drv.set_device(0)
    export(x, s).release()
    assert not drv.read(s, x.address) and drv.device() == 0
    for cls in (rocm.TorchRocm, rocm.Torch29Rocm):
        x, s = setting(drv, cls, device=1)
        drv.set_device(0)
        for stream in (OMIT, None, -1, s):
            with pytest.raises(BufferError, match=r"Expected: 1\. Current device: 0\."):
                export(x, stream)
        drv.set_device(1)
        export(x, s).release()
        assert not drv.read(s, x.address)


def check_copies_to_the_host(drv: HipDriver) -> None:
    for cls in (rocm.TorchRocm, rocm.CupyRocm):
        x, _ = setting(drv, cls)
        taken = export(x, None if cls is rocm.CupyRocm else -1, dl_device=(1, 0))
        assert taken.view.device == (1, 0) and taken.values() == x.values()
        assert not drv.races() and "hipStreamSynchronize" in syncs(drv)
        taken.release()


def check_interfaces(drv: HipDriver) -> None:
    x, _ = setting(drv, rocm.Cai2)
    assert x.__cuda_array_interface__["version"] == 2
    assert "stream" not in x.__cuda_array_interface__
    for entry in (None, 1, 2, x.stream):
        says = rocm.Cai3(drv, x.stream, entry=entry).__cuda_array_interface__
        assert (says["version"], says["stream"]) == (3, entry)
    assert not hasattr(rocm.CupyRocm(drv, 0), "__cuda_array_interface__")
    assert drv.log() == []


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), LIVE))
def test_doubles(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
