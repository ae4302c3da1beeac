"""``like=``: an array says where, and by whose allocator (rule S19)."""

from __future__ import annotations

import ctypes as C
import gc
import weakref
from typing import Any

import pytest

import dlshim
from device.test_copies_to_devices import REFUSED_CAPTURE, Case, on_device
from doubles import capsules as caps
from doubles.ctable import SetError
from doubles.producers import P2, TableMixin, _Allocator, _CurrentStream, c_table, table_capsule
from drivers import ALL_LIVE, checks, run_checks


class Library:
    """A library with a caching allocator, as torch's is, and the stream on which it works.

    torch 2.10 and newer, `torch/csrc/Module.cpp`: `DLTensorAllocator` is an `at::empty` of the
    prototype's shape, dtype and device, and `CurrentWorkStream` the current stream.  A block that
    is handed out again may still be in use on that stream.
    """

    def __init__(self, drv: Any, stream: int) -> None:
        self.drv, self.stream = drv, stream
        self.made: list[caps.Made] = []
        self.asked: list[tuple[Any, ...]] = []
        self.fails: tuple[bytes, bytes] | None = None
        self.elsewhere = False

    def allocate(self, prototype: int, out: int, context: int, set_error: int) -> int:
        want = caps.DLTensor.from_address(prototype)
        device = (want.device_type, want.device_id)
        count = C.c_int64.from_address(want.shape).value
        self.asked.append((device, want.ndim, count, want.bits))
        if self.fails:
            SetError(set_error)(context, *self.fails)
            return -1
        address = self.drv.alloc(count, device[1])
        self.drv.write(self.stream, address, count, context=self.drv.context(device[1]))
        where = (device[0], 1 - device[1]) if self.elsewhere else device
        made = caps.Made(
            (count,), "uint8", device=where, data=address, memory=bytearray(1), version=(1, 3)
        )
        made.handed_out = True
        self.made.append(made)
        C.c_void_p.from_address(out).value = made.address
        return 0


current: list[Library] = []


@_Allocator
def _allocate(prototype: int, out: int, context: int, set_error: int) -> int:
    return current[-1].allocate(prototype, out, context, set_error)


@_CurrentStream
def _work_stream(device_type: int, device_id: int, out: int) -> int:
    stream = current[-1].stream
    C.c_void_p.from_address(out).value = stream if stream > 2 else None
    return 0


caps.keep_for_ever(_allocate, _work_stream)


class Like(TableMixin, P2):
    """An array of such a library."""

    __dlpack_c_exchange_api__ = table_capsule(
        c_table(
            managed_tensor_allocator=C.cast(_allocate, C.c_void_p).value,
            current_work_stream=C.cast(_work_stream, C.c_void_p).value,
        )
    )


def library(case: Case, kind: str = "N") -> tuple[Library, Like]:
    stream = case.vendor.legacy if kind == "L" else case.stream(kind == "B")
    current.append(Library(case.drv, stream))
    return current[-1], Like(device=case.want)


def check_memory_comes_from_the_library(drv: Any) -> None:
    for kind, to, have in ((k, t, h) for k in "NBL" for t in (0, 1) for h in (None, 0, 1)):
        case = Case(drv, to=to)
        its, y = library(case, kind)
        source = P2() if have is None else on_device(case, have)
        values = source.values()
        s = case.stream()
        case.take(dlshim.upgrade(source, like=y, copy=True), stream=s)
        assert case.taken.view.data - its.made[0].data < 64
        assert its.asked == [(case.want, 1, 24 + 63, 8)]
        assert not [name for name in drv.calls() if name in case.vendor.allocations]
        case.check(values, s, (kind, to, have))
        del source
        case.release()
        assert its.made[0].deleted == 1


def check_nothing_of_the_array_is_kept(drv: Any) -> None:
    case = Case(drv)
    _, y = library(case)
    source = dlshim.upgrade(P2(), like=y)
    gone = weakref.ref(y)
    calls = len(y.calls)
    del y
    gc.collect()
    assert gone() is None and calls == 0
    case.take(source)
    case.check(P2().values(), case.vendor.legacy)
    del source
    case.release()


def check_every_function_takes_it(drv: Any) -> None:
    case = Case(drv)
    its, y = library(case)
    tensor = dlshim.from_dlpack(P2(), like=y)
    assert tensor.device == case.want and len(its.made) == 1
    del tensor
    capsule = dlshim.to_capsule(P2(), like=y, max_version=(1, 0))
    assert caps.look(capsule).device == case.want and len(its.made) == 2
    del capsule
    source = dlshim.upgrade(P2(), like=y)
    assert source.__dlpack_device__() == case.want
    assert f"like={case.want}" in repr(source)
    assert f"like={case.want}" in repr(dlshim.upgrade(source, readonly=True))
    with pytest.raises(ValueError, match="disagree"):
        dlshim.from_dlpack(P2(), like=y, device="cpu")
    caps.close_accounts()


def check_on_its_own_device_nothing_is_made(drv: Any) -> None:
    case = Case(drv)
    its, y = library(case)
    x = on_device(case, 0)
    case.take(dlshim.upgrade(x, like=y), stream=case.stream())
    assert case.taken.view.data == x.address and its.asked == []
    case.release()


def check_arrays_without_an_allocator(drv: Any) -> None:
    """The driver allocates then."""
    case = Case(drv, to=1)
    tensor = dlshim.from_dlpack(P2(), device=case.want)
    for y in (on_device(case, 1), tensor, dlshim.upgrade(P2(), device=case.want)):
        drv.clear_log()
        case.taken = caps.take(dlshim.upgrade(P2(), like=y).__dlpack__(max_version=(1, 0)))
        assert [name for name in drv.calls() if name in case.vendor.allocations]
        case.check(P2().values(), case.vendor.legacy)
        case.taken.release()
    del y, tensor
    caps.close_accounts()


def check_host_arrays_mean_the_host(drv: Any) -> None:
    for y in (memoryview(b"x"), P2(), dlshim.from_dlpack(P2())):
        case = Case(drv)
        x = on_device(case, 0)
        case.take(dlshim.upgrade(x, like=y))
        assert case.taken.view.device == (1, 0) and case.taken.values() == x.values()
        case.taken.release()
        caps.close_accounts()


def check_the_consumers_device_goes_first(drv: Any) -> None:
    case = Case(drv, to=1)
    its, _ = library(case)
    y = Like(device=(case.want[0], 0))
    case.take(dlshim.upgrade(P2(), like=y), dl_device=case.want)
    assert its.asked == [], "its library allocates on the other device"
    case.check(P2().values(), case.vendor.legacy)
    case.release()


def check_devices_that_disagree(drv: Any) -> None:
    case = Case(drv)
    _, y = library(case)
    for options in ({"device": "cpu"}, {"device": (case.want[0], 1)}, {"device": (7, 0)}):
        with pytest.raises(ValueError, match="disagree\n  drop one"):
            dlshim.upgrade(P2(), like=y, **options)
        with pytest.raises(ValueError, match="disagree\n  drop one"):
            dlshim.upgrade(dlshim.upgrade(P2(), like=y), **options)
        with pytest.raises(ValueError, match="disagree\n  drop one"):
            dlshim.to_capsule(dlshim.upgrade(P2(), **options), like=y)
    dlshim.upgrade(P2(), like=y, device=case.want)
    dlshim.upgrade(P2(), like=P2(), device=(1, 5))
    dlshim.upgrade(P2(), like=None, device="cpu")
    for wrong in (3, "cuda:0", object()):
        with pytest.raises(TypeError):
            dlshim.upgrade(P2(), like=wrong)
    caps.close_accounts()


def check_what_the_library_cannot_give(drv: Any) -> None:
    case = Case(drv)
    its, y = library(case)
    its.fails = (b"RuntimeError", b"CUDA out of memory.")
    text = r"no memory for the 87 bytes of the copy \(RuntimeError: CUDA out of memory\.\)"
    with pytest.raises(BufferError, match=text):
        dlshim.upgrade(P2(), like=y).__dlpack__()
    its.fails, its.elsewhere = None, True
    with pytest.raises(BufferError, match="lies elsewhere"):
        dlshim.upgrade(P2(), like=y).__dlpack__()
    assert [made.deleted for made in its.made] == [1]
    caps.close_accounts()


@checks.only_on(*ALL_LIVE[1:])
def check_a_capture_on_the_librarys_stream(drv: Any) -> None:
    for kind in "NB":
        case = Case(drv)
        its, y = library(case, kind)
        drv.capture_begin(its.stream, "relaxed")
        with pytest.raises(BufferError, match=REFUSED_CAPTURE):
            dlshim.upgrade(P2(), like=y).__dlpack__(stream=case.stream())
        assert its.asked == [] and drv.capture_state(its.stream) == "active"
        drv.capture_end(its.stream)
        caps.close_accounts()


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), ALL_LIVE))
def test_like(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
