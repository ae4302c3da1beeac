"""Two drivers in one process, each of which knows its own pointers (rule S7).

    python hip_runtimes.py CASE DRIVER OTHER        for tests/device/test_hip_runtimes.py

Both are started before the case, but where the other one comes later.
"""

import ctypes
import shutil
import sys
import tempfile
from pathlib import Path

import dlshim
import drivers
from device.loading import caps, edge, fake

#: Of a runtime that does not know the pointer: each has its own current device, and nobody can tell
#: before the export whose array it is.
ASKED = {
    "hipRuntimeGetVersion", "hipPointerGetAttributes", "hipGetLastError", "hipGetDevice",
    "hipSetDevice",
}  # fmt: skip


def the_one_that_knows_the_pointer(drv, other):
    for one, two in ((drv, other), (other, drv), (drv, other)):
        two.clear_log()
        called = edge(one)
        assert {"hipEventRecord", "hipStreamWaitEvent"} <= called, called
        assert set(two.calls()) <= ASKED, two.calls()
        assert two.device() == 0


def no_error_is_left(drv, other):
    for each in (drv, other):
        edge(each)
        errors = drv.last_error(), other.last_error()
        assert errors == (0, 0), errors


def copies(drv, other):
    for each in (drv, other, drv):
        p = each.stream_new(1, False, name="P")
        for cls in (fake.RawFn, fake.Cai3, fake.Cai2, fake.ToDlpack, fake.NoKw, fake.Careful):
            x = cls(each, p, device=1)
            assert not x.write()
            source = x() if cls is fake.RawFn else x
            taken = caps.take(dlshim.upgrade(source, device="cpu").__dlpack__())
            assert taken.view.device == (1, 0)
            assert taken.values() == caps.numbers((2, 3), "float32")
            assert not each.host_read(taken.view.data, 24) and not each.races(), each.races()
            taken.release()
            del source
        assert drv.device() == other.device() == drv.last_error() == other.last_error() == 0


def copies_to_devices(drv, other):
    for each, two in ((drv, other), (other, drv)):
        for to in (0, 1):
            for stream in (None, -1, each.stream_new(to, False)):
                p = each.stream_new(1, False, name="P")
                x = fake.RawFn(each, p, device=1)
                assert not x.write()
                two.clear_log()
                source = dlshim.upgrade(x(), copy=True, device=(10, to), producer_stream=p)
                taken = caps.take(source.__dlpack__(stream=stream))
                assert taken.view.device == (10, to)
                assert taken.values() == caps.numbers((2, 3), "float32")
                assert not {"hipMalloc", "hipMemcpyAsync"} & set(two.calls()), two.calls()
                assert not each.races(), each.races()
                taken.release()
                del source
    assert drv.device() == other.device() == drv.last_error() == other.last_error() == 0


def interfaces(drv, other):
    for each in (drv, other, drv):
        for named in (True, False):
            p, s = each.stream_new(1, False), each.stream_new(1, False)
            x = (fake.Cai3 if named else fake.Cai2)(each, p, device=1)
            assert not x.write()
            upgraded = dlshim.upgrade(x)
            assert upgraded.__dlpack_device__() == (10, 1)
            taken = caps.take(upgraded.__dlpack__(stream=s))
            assert taken.view.device == (10, 1)
            raced = each.read(s, x.address)
            assert not raced, each.races()
            taken.release()
            assert drv.device() == other.device() == 0


def producers_on_another_device(drv, other):
    """CuPy records on the current device's stream, which is another one: a race that nobody
    sees.  torch refuses."""
    for each in (drv, other):
        for cls in (fake.CupyRocm, fake.TorchLike):
            p, s = each.stream_new(1, False), each.stream_new(1, False)
            x = fake.named(cls)(each, p, device=1)
            assert not x.write()
            taken = caps.take(dlshim.upgrade(x).__dlpack__(stream=s))
            raced = each.read(s, x.address)
            assert not raced, each.races()
            taken.release()
            assert drv.device() == other.device() == 0


def two_copies_of_one_release(drv, other):
    for one, two in ((drv, other), (other, drv)):
        two.clear_log()
        assert "hipEventRecord" in edge(one)
        assert set(two.calls()) <= ASKED, two.calls()


def one_that_comes_later(drv, path):
    """It is looked for when no runtime that is known knows the pointer.  Whenever a library is
    mapped, the first one is found again, and must not take a second of the four places."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(5):
            ctypes.CDLL(shutil.copy(path, Path(folder, f"other-name-{number}.so")))
            edge(drv)
    other = drivers.load_hip(path)
    other.start()
    edge(other)
    edge(drv)


def the_stream_of_another_runtime(drv, other):
    x = fake.NoKw(drv, drv.stream_new(0, False))
    try:
        dlshim.upgrade(x, producer_stream=other.stream_new(0, False)).__dlpack__(stream=0)
    except RuntimeError as error:
        assert "second HIP runtime" in str(error) and "709" in str(error), error
    else:
        raise AssertionError("went through")
    assert drv.device() == 0


def cuda_and_rocm(drv, cuda):
    edge(drv)
    assert cuda.calls() == [], cuda.calls()
    drv.clear_log()
    p, s = cuda.stream_new(1, False), cuda.stream_new(1, False)
    x = fake.NoKw(cuda, p, device=1)
    x.write()
    caps.take(dlshim.upgrade(x).__dlpack__(stream=s)).release()
    raced = cuda.read(s, x.address)
    assert not raced and drv.calls() == [], drv.calls()


if __name__ == "__main__":
    case, first, second = sys.argv[1:]
    drv = drivers.load_any(first)
    later = case == "one_that_comes_later"
    other = second if later else drivers.load_any(second)
    for each in (drv,) if later else (drv, other):
        each.start()
    globals()[case](drv, other)
