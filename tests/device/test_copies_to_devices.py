"""Copies to CUDA and ROCm devices (rule S19): from the host, from another device, on one device.

Each check runs on the fakes of both vendors.  The fake judges by its clocks: a read that does not
come after the copy, a copy that does not come after the producer's work, and memory that is freed
while a consumer still reads are races.
"""

from __future__ import annotations

import ctypes as C
import gc
import itertools
import struct
import sys
import threading
from typing import Any

import pytest

import dlshim
from device import libraries
from device import matrix as matrix_spec
from device.test_copies import LAYOUTS, filled_far
from dlshim import _core
from doubles import capsules as caps
from doubles import child, streams, vendors
from doubles import device as fake
from doubles.asking import versioned
from doubles.ctable import Table
from doubles.older import InterfaceOnly
from doubles.producers import P2, P0ToDlpack, P1a, P3TableOnly
from drivers import ALL_LIVE, built, checks, run_checks

REFUSED_CAPTURE = "a graph capture is running, and this export would break it\n  "


def has_pools(drv: Any) -> bool:
    """Memory is then given back in the order of a stream, without a wait of the host."""
    return drv.has("cuCtxRecordEvent")


class Case:
    """Something to copy, a consumer on the device `to`, and what is current."""

    def __init__(self, drv: Any, *, to: int = 0, current: int | None = 0) -> None:
        drv.reset()
        self.drv, self.vendor, self.to = drv, vendors.of(drv), to
        self.want = (self.vendor.device_type, to)
        self.drv.make_current(current)
        self.current = self.drv.now_current()
        self.live, self.memory = _core._counters()["live"], drv.live_memory()
        drv.clear_log()

    def take(self, source: Any, **keywords: Any) -> caps.Import:
        self.drv.clear_log()
        self.taken = caps.take(source.__dlpack__(**{"max_version": (1, 0), **keywords}))
        return self.taken

    def stream(self, blocking: bool = False, device: int | None = None) -> int:
        return self.drv.stream_new(self.to if device is None else device, blocking, name="S")

    def check(self, values: list[Any], s: int, told: object = "") -> None:
        """It is there, complete, a copy of its own, and in order for S and for any stream."""
        drv, view = self.drv, self.taken.view
        assert view.device == self.want and view.copied and not view.readonly, told
        assert view.data % 64 == 0 and view.byte_offset == 0, told
        assert (view.strides or ()) == caps.row_major(view.shape), told
        assert view.values() == values, (told, view.values())
        size = max(1, len(values) * caps.itemsize_of(view.dtype))
        for stream in (s, self.stream(True), self.stream(False), self.vendor.legacy):
            owner = {"context": drv.context(self.to)}
            assert not drv.read(stream, view.data, size, **owner), (told, drv.races())
        self.check_calls(told)

    def check_calls(self, told: object = "") -> None:
        drv = self.drv
        assert not drv.races() and not drv.gil_held_calls(every=True), (told, drv.races())
        assert self.drv.now_current() == self.current, told
        marks = [mark for mark in drv.marks() if not mark.startswith("PEER")]
        assert not marks, (told, marks)
        for entry in drv.entries():
            if entry.name.startswith(self.vendor.copies) and not entry.by:
                assert entry.args["stream"].startswith("N"), "on a stream of dlshim's own"

    def release(self, how: str = "held", told: object = "") -> None:
        self.drv.clear_log()
        self.taken.release(how)
        gc.collect(0)
        caps.close_accounts()
        self.check_calls(told)
        assert _core._counters()["live"] == self.live, told
        assert self.drv.live_memory() == self.memory, (told, "memory was not given back")


def host_sources() -> dict[str, Any]:
    return {
        "modern": P2,
        "legacy": P1a,
        "function": P0ToDlpack,
        "table": P3TableOnly,
        "buffer": lambda: memoryview((C.c_float * 6)(*range(6))),
        "capsule": lambda: caps.make((2, 3), "float32", version=(1, 0)),
        "Tensor": lambda: dlshim.from_dlpack(P2()),
    }


def s_of(case: Case, kind: str) -> tuple[dict[str, Any], int]:
    """How the consumer passes its stream, and on which stream it then reads."""
    legacy = case.vendor.legacy
    if kind in ("omitted", "None", "-1"):
        return {"omitted": {}, "None": {"stream": None}, "-1": {"stream": -1}}[kind], legacy
    if kind == "L":
        return {"stream": legacy}, legacy
    s = case.stream(kind == "B")
    return {"stream": streams.TorchStream(s) if kind == "object" else s}, s


STREAMS = ("omitted", "None", "-1", "L", "B", "N", "object")
#: Their dicts say that nothing is unfinished, which is not true in these tests.
NOT_SYNCED = ("cai 3, None", "cai 3, no key")
#: The device of the copy, and the current one.
PLACES = ((0, 0), (1, 0), (1, None), (0, None))


# --- from the host ----


def check_host_memory_by_any_way_in(drv: Any) -> None:
    for name, make in host_sources().items():
        case = Case(drv)
        source = make()
        values = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0] if name == "buffer" else P2().values()
        case.take(dlshim.upgrade(source, device=case.want))
        case.check(values, case.vendor.legacy, name)
        del source
        case.release(told=name)


def check_host_memory_for_any_stream_and_place(drv: Any) -> None:
    for kind, (to, current) in itertools.product(STREAMS, PLACES):
        case = Case(drv, to=to, current=current)
        keywords, s = s_of(case, kind)
        case.take(dlshim.upgrade(P2()), dl_device=case.want, **keywords)
        case.check(P2().values(), s, (kind, to, current))
        case.release(told=(kind, to, current))


def check_every_way_of_wanting_it(drv: Any) -> None:
    for way in range(6):
        case = Case(drv)
        s, named = case.stream(), case.vendor.name
        if way == 0:
            case.take(dlshim.upgrade(P2(), device=f"{named}:0"))
        elif way == 1:
            case.take(dlshim.upgrade(P2(), device="cpu"), dl_device=case.want, stream=s)
        elif way == 2:
            case.take(dlshim.upgrade(P2(), device=case.want, copy=True, stream=s), stream=-1)
        elif way == 3:
            # As torch.from_dlpack(x, device="cuda") asks: without a number it says 255.
            case.take(dlshim.upgrade(P2()), dl_device=(case.want[0], 255))
        elif way == 4:
            source = dlshim.upgrade(P2(), device=case.want)
            assert source.__dlpack_device__() == case.want
            drv.clear_log()
            case.taken = caps.take(dlshim.to_capsule(P2(), device=case.want, max_version=(1, 0)))
            del source
        else:
            case.take(dlshim.from_dlpack(P2(), device=case.want, stream=s))
            assert not case.taken.view.copied or case.taken.view.device == case.want
            assert case.taken.values() == P2().values()
            assert not drv.read(s, case.taken.view.data, 24) and not drv.races()
            case.release(told=way)
            continue
        case.check(P2().values(), s, way)
        case.release(told=way)


def check_cuda_without_a_number_is_the_current_device(drv: Any) -> None:
    for current, number in itertools.product((0, 1), (255, -1)):
        case = Case(drv, to=current, current=current)
        case.take(dlshim.upgrade(P2()), dl_device=(case.want[0], number))
        case.check(P2().values(), case.vendor.legacy, (current, number))
        case.release()


def check_legacy_consumers_and_flags(drv: Any) -> None:
    case = Case(drv)
    capsule = dlshim.upgrade(P2(readonly=True), device=case.want).__dlpack__()
    case.taken = caps.take(capsule)
    assert case.taken.view.name == caps.LEGACY and case.taken.values() == P2().values()
    case.release()
    for options, readonly in (
        ({}, False),
        ({"readonly": True}, True),
        ({"readonly": False}, False),
    ):
        case = Case(drv)
        case.take(dlshim.upgrade(P2(readonly=True), device=case.want, **options))
        assert case.taken.view.copied and case.taken.view.readonly is readonly, options
        case.release()


def check_a_tensor_of_the_copy_remembers_its_stream(drv: Any) -> None:
    """S20: the copy is complete, and what its user does next is on the stream that he named."""
    case = Case(drv)
    mine, theirs = case.stream(), case.stream()
    tensor = dlshim.from_dlpack(P2(), device=case.want, stream=mine)
    assert tensor.device == case.want and tensor.is_copied
    if not case.vendor.is_hip:
        assert tensor.__cuda_array_interface__["stream"] == mine
    drv.write(mine, tensor.data_ptr(), 24)
    case.taken = caps.take(tensor.__dlpack__(stream=theirs, max_version=(1, 0)))
    assert not drv.read(theirs, tensor.data_ptr(), 24), drv.races()
    del tensor
    case.release()


def check_a_tensor_of_a_copy_without_a_stream_is_on_the_default(drv: Any) -> None:
    case = Case(drv)
    tensor = dlshim.from_dlpack(P2(), device=case.want)
    default, theirs = (0 if case.vendor.is_hip else 1), case.stream()
    drv.write(default, tensor.data_ptr(), 24)
    case.taken = caps.take(tensor.__dlpack__(stream=theirs, max_version=(1, 0)))
    assert not drv.read(theirs, tensor.data_ptr(), 24), drv.races()
    del tensor
    case.release()


def check_a_tensor_of_a_copy_for_all_is_ready_for_all(drv: Any) -> None:
    case = Case(drv)
    tensor = dlshim.from_dlpack(P2(), device=case.want, stream="wait")
    drv.clear_log()
    case.taken = caps.take(tensor.__dlpack__(stream=case.stream(), max_version=(1, 0)))
    assert drv.log() == [] and case.taken.values() == P2().values()
    assert not drv.read(case.stream(), tensor.data_ptr(), 24), drv.races()
    del tensor
    case.release()


def check_layouts_of_the_host(drv: Any) -> None:
    for (name, (shape, strides, start, _)), dtype in itertools.product(
        LAYOUTS.items(), ("uint8", "complex128")
    ):
        case = Case(drv)
        source = P2(shape, dtype, strides=strides, start=start)
        case.take(dlshim.upgrade(source, device=case.want))
        case.check(source.values(), case.vendor.legacy, (name, dtype))
        del source
        case.release(told=(name, dtype))


def check_what_a_copy_mends(drv: Any) -> None:
    """Another byte order is mended on the host, and sent then; memory of a device never is."""
    other = ">f4" if sys.byteorder == "little" else "<f4"
    for options in ({"order": "C"}, {"order": "auto"}, {"copy": True, "align": 512}):
        case = Case(drv)
        source = InterfaceOnly((2, 3), "float32")
        swapped = struct.pack(f"{other[0]}6f", *source.values())
        C.memmove(source.memory, swapped, len(swapped))
        source.changes["typestr"] = other
        with pytest.raises(BufferError, match="byte order"):
            versioned(dlshim.upgrade(source, device=case.want))
        case.take(dlshim.upgrade(source, device=case.want, **options))
        case.check([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], case.vendor.legacy, options)
        del source
        case.release(told=options)


def check_alignment(drv: Any) -> None:
    for align in (1, 64, 512, 4096, 1 << 20):
        case = Case(drv)
        case.take(dlshim.upgrade(P2(), device=case.want, align=align))
        assert case.taken.view.data % align == 0
        case.check(P2().values(), case.vendor.legacy)
        case.release()


def check_pinned_memory_is_waited_for_where_somebody_works_on_it(drv: Any) -> None:
    vendor = vendors.of(drv)
    for device, named in itertools.product((0, 1), (True, False)):
        case = Case(drv, to=device)
        p = case.stream(device=0)
        x = fake.PinnedBuffer(drv, p)
        if named:
            assert not x.write()
        options = {"producer_stream": p} if named else {}
        case.take(dlshim.upgrade(x, device=case.want, **options))
        case.check(x.values(), vendor.legacy, named)
        drv.free(x.address)
        case.release()


@checks.on_cuda
def check_managed_memory_is_waited_for(drv: Any) -> None:
    for to, stream in itertools.product((0, 1), (False, True)):
        case = Case(drv, to=to)
        p = case.stream(device=1 - to)
        x = fake.NoKw(drv, p, kind="managed", device=1 - to)
        assert not x.write()
        s = case.stream()
        case.take(dlshim.upgrade(x, device=case.want), **({"stream": s} if stream else {}))
        case.check(x.values(), s)
        drv.free(x.address)
        case.release()


# --- from one device to another, and on one device ----


def on_device(case: Case, device: int, make: Any = fake.NoKw, **fields: Any) -> Any:
    """An array with unfinished work on P, and P."""
    p = case.drv.stream_new(device, False, name="P")
    x = make(case.drv, p, device=device, **fields)
    assert not x.write()
    return x


def check_device_memory_for_any_stream_and_place(drv: Any) -> None:
    """P is known, or not; the copy is on the device `to`, from its own or the other one."""
    for kind, (to, current), have, known in itertools.product(
        STREAMS, PLACES, (0, 1), (True, False)
    ):
        case = Case(drv, to=to, current=current)
        keywords, s = s_of(case, kind)
        x = on_device(case, have)
        told = (kind, to, current, have, known)
        options = {"producer_stream": x.stream} if known else {}
        case.take(dlshim.upgrade(x, copy=True, **options), dl_device=case.want, **keywords)
        assert case.taken.view.data != x.address
        case.check(x.values(), s, told)
        assert not x.write() and not drv.races(), (told, "the source is the producer's again")
        drv.free(x.address)
        case.release(told=told)


def check_every_kind_of_producer(drv: Any) -> None:
    """Those of the matrix: to another device, and a copy on its own."""
    its = libraries.of(drv)
    for producer, kind, to in itertools.product(its.make, ("L", "B", "N"), (0, 1)):
        if kind == "N" and getattr(matrix_spec.PRODUCERS.get(producer), "knows", "") == "L":
            continue  # it counts as working on L alone (S11)
        if producer in NOT_SYNCED or (producer == "jax" and to == 0):  # it copies, its double not
            continue
        with its.imported():
            case = Case(drv, to=to)
            legacy = case.vendor.legacy
            p = legacy if kind == "L" else drv.stream_new(0, kind == "B", name="P")
            its.stand_on(p)  # where the library works, and torch makes its clones
            x = its.make[producer](drv, p, device=0)
            assert not x.write()
            source = dlshim.upgrade(libraries.source_of(producer, x), copy=True)
            s = case.stream()
            told = (producer, kind, to)
            case.taken = caps.take(source.__dlpack__(dl_device=case.want, stream=s))
            view = case.taken.view
            assert view.device == case.want and view.data != x.address, told
            assert not drv.read(s, view.data, 24) and not drv.races(), (told, drv.races())
            assert not drv.gil_held_calls(every=True), told
            case.taken.release()
            del source, x
            caps.close_accounts()
            assert drv.live_memory() == case.memory, told


def check_without_a_copy_nothing_is_allocated(drv: Any) -> None:
    case = Case(drv)
    x = on_device(case, 0)
    case.take(dlshim.upgrade(x, device=case.want), stream=case.stream())
    assert case.taken.view.data == x.address
    assert not [name for name in drv.calls() if name in case.vendor.allocations]
    case.release()


#: Steps back, and rows that share memory: no copy of a driver knows them.
IMPOSSIBLE = (
    "backwards",
    "every other, backwards",
    "mirrored",
    "broadcast",
    "one for all",
    "overlapping",
)


def check_layouts_of_a_device(drv: Any) -> None:
    for (name, (shape, strides, start, _)), to in itertools.product(LAYOUTS.items(), (0, 1)):
        case = Case(drv, to=to)
        x = on_device(case, 0, shape=shape, strides=strides, start=start, dtype="float32")
        source = dlshim.upgrade(x, copy=True)
        if name in IMPOSSIBLE:
            with pytest.raises(BufferError, match=r"pass its \.contiguous\(\) or \.copy\(\)"):
                case.take(source, dl_device=case.want)
            assert not [call for call in drv.calls() if call in case.vendor.allocations]
            caps.close_accounts()
            continue
        case.take(source, dl_device=case.want)
        case.check(x.values(), case.vendor.legacy, (name, to))
        del source
        case.release(told=(name, to))


class StatesReadOnly(fake.NoKw):
    """Knows DLPack 1.x, but no streams."""

    TAKES = ("max_version",)

    def answer(self, max_version: Any = None) -> Any:
        return self._versioned()


def check_order_and_alignment_on_a_device(drv: Any) -> None:
    for options, stream in itertools.product(
        ({"order": "C"}, {"align": 64}, {"readonly": "copy"}),
        STREAMS,
    ):
        case = Case(drv)
        keywords, s = s_of(case, stream)
        # Element zero lies 4 bytes behind a multiple of 64.
        make = StatesReadOnly if "readonly" in options else fake.NoKw
        x = on_device(case, 0, make, shape=(4, 3), strides=(8, 1), start=1, readonly=True)
        case.take(dlshim.upgrade(x, **options), **keywords)
        view = case.taken.view
        assert view.data != x.address and view.values() == x.values(), options
        assert not drv.read(s, view.data, 48), (options, stream, drv.races())
        case.release(told=(options, stream))


def check_layouts_for_a_consumer_that_takes_few(drv: Any) -> None:
    """JAX takes device memory without gaps alone; order="auto" copies what has some (N9)."""
    space = {"__name__": "jax._src.dlpack"}
    exec("def ask(x, s):\n    x.__dlpack_device__()\n    return x.__dlpack__(stream=s)\n", space)
    for strides, stream in itertools.product(((1, 3), (8, 1)), STREAMS):
        case = Case(drv)
        s = s_of(case, stream)[1]
        x = on_device(case, 0, shape=(3, 4), strides=strides)
        if strides == (8, 1):
            with pytest.raises(BufferError, match="jax takes no such memory"):
                space["ask"](dlshim.upgrade(x), s)
            with pytest.raises(dlshim.CopyRequiredError, match='order="auto"'):
                space["ask"](dlshim.upgrade(x, order="auto", copy=False), s)
        case.taken = caps.take(space["ask"](dlshim.upgrade(x, order="auto"), s))
        view = case.taken.view
        assert view.values() == x.values()
        assert (view.data == x.address) is (strides == (1, 3))
        assert not drv.read(s, view.data, 48), (strides, stream, drv.races())
        case.release(told=(strides, stream))


def check_lazy_bits_are_resolved_by_their_library(drv: Any) -> None:
    """The kernel runs where torch works, and the consumer's stream waits for it (T12)."""

    class Tensor(fake.TorchLike):
        bit = True

        def is_conj(self) -> bool:
            return self.bit

        def is_neg(self) -> bool:
            return False

        def resolve_conj(self) -> Any:
            made = type(self)(self.drv, self.stream, device=self.index)
            made.bit, self.made = False, made
            assert not self.drv.read(self.stream, self.address, context=self.context)
            assert not made.write()
            return made

        def resolve_neg(self) -> Any:
            return self

        def answer(self, **asked: Any) -> Any:
            if self.bit:
                raise BufferError("Can't export tensors with the conjugate bit set")
            return super().answer(**asked)

    for kind in ("None", "L", "B", "N", "object"):
        case = Case(drv)
        keywords, s = s_of(case, kind)
        x = on_device(case, 0, fake.named(Tensor))
        with pytest.raises(BufferError, match="conjugate bit"):
            versioned(dlshim.upgrade(x), **keywords)
        taken = versioned(dlshim.upgrade(x, copy=True), **keywords)
        assert taken.view.data == x.made.address and taken.view.copied, kind
        assert not drv.read(s, taken.view.data, 24), (kind, drv.races())
        taken.release()
        drv.free(x.made.address)
        drv.free(x.address)


def check_producers_that_move_or_copy_are_asked_first(drv: Any) -> None:
    """What they gave is looked at; its stream is synced with the consumer's."""
    case = Case(drv, to=1)
    vendor = case.vendor

    class Moves(fake.NoKw):
        TAKES = ("stream", "max_version", "dl_device", "copy")
        MOVES = True

        def answer(self, stream: Any = None, dl_device: Any = None, **asked: Any) -> Any:
            if stream not in (None, -1):
                self.edge(self.stream, stream)  # before it moves anything, as torch does
            if not self.MOVES or dl_device is None:
                return self._legacy()
            there = fake.NoKw(drv, q, device=dl_device[1])
            assert not there.write()
            return there._legacy()

    q = drv.stream_new(1, False, name="Q")
    for moves in (True, False):
        x = Moves(drv, drv.stream_new(0, False, name="P"))
        assert not x.write()
        x.MOVES = moves
        s = case.stream()
        case.take(dlshim.upgrade(x), dl_device=case.want, stream=s)
        assert case.taken.view.device == case.want
        assert not drv.read(s, case.taken.view.data, 24), drv.races()
        assert bool([n for n in drv.calls() if n in vendor.allocations]) is not moves
        case.release()


def check_the_table_names_no_stream_of_another_device(drv: Any) -> None:
    """Its consumer asks for the stream afterwards: the copy is ready, whatever P was."""
    table = Table(dlshim.Producer)
    for have, copy, known in itertools.product((None, 0, 1), (None, True), (True, False)):
        case = Case(drv, to=1)
        source = P2() if have is None else on_device(case, have)
        options = {"producer_stream": source.stream} if known and have is not None else {}
        drv.clear_log()
        upgraded = dlshim.upgrade(source, device=case.want, copy=copy, **options)
        case.taken = table.owned(upgraded)
        stream = table.stream(case.want) or case.vendor.legacy
        told = (have, copy, known)
        if copy or have != 1:
            assert stream == case.vendor.legacy, told
            case.check(source.values(), case.vendor.legacy, told)
        else:
            assert not drv.read(stream, case.taken.view.data, 24), told
        del source, upgraded
        case.release(told=told)


# --- what takes no driver, and what is refused ----


def check_nothing_is_copied_without_a_call(drv: Any) -> None:
    for options in ({}, {"copy": True}, {"order": "C"}):
        for shape in ((0,), (2, 0, 3)):
            case = Case(drv, to=1)
            case.take(dlshim.upgrade(P2(shape), device=case.want, **options))
            view = case.taken.view
            assert (view.device, view.shape, view.data) == (case.want, shape, 0)
            assert drv.calls() == [], drv.calls()
            case.release()
            x = fake.NoKw(drv, 1 - case.vendor.is_hip, shape=shape)
            case.take(dlshim.upgrade(x, device=case.want, **options))
            view = case.taken.view
            assert (view.device, view.shape, view.data) == (case.want, shape, 0)
            assert not [name for name in drv.calls() if name in case.vendor.allocations]
            case.release()


def check_copies_that_are_not_allowed(drv: Any) -> None:
    for have in (None, 0):
        case = Case(drv, to=1)
        source = P2() if have is None else on_device(case, have)
        drv.clear_log()
        for options, keywords in (
            ({"device": case.want, "copy": False}, {}),
            ({"copy": False}, {"dl_device": case.want}),
            ({"device": case.want}, {"copy": False}),
        ):
            with pytest.raises(dlshim.CopyRequiredError, match="copy=None"):
                dlshim.upgrade(source, **options).__dlpack__(**keywords)
        assert not [name for name in drv.calls() if name in case.vendor.allocations]
        del source
        caps.close_accounts()


def check_devices_that_do_not_exist(drv: Any) -> None:
    for number in (2, 7, 64, 254, -2, 2**31 - 1, -(2**31)):
        for have in (None, 0):
            case = Case(drv)
            source = P2() if have is None else on_device(case, have)
            with pytest.raises(BufferError, match=f"there is no device {number} here"):
                dlshim.upgrade(source).__dlpack__(dl_device=(case.want[0], number))
            del source
            caps.close_accounts()


def check_streams_that_are_none_of_the_device(drv: Any) -> None:
    case = Case(drv, to=1)
    numbers = (1, 2) if case.vendor.is_hip else (0,)
    wrong = [*((number, ValueError) for number in numbers), ("x", TypeError), (True, TypeError)]
    for stream, error in wrong:
        with pytest.raises(error):
            dlshim.upgrade(P2()).__dlpack__(dl_device=case.want, stream=stream)
    other = drv.stream_new(0, False)
    with pytest.raises(BufferError, match="another device"):
        dlshim.upgrade(P2()).__dlpack__(dl_device=case.want, stream=other)
    caps.close_accounts()
    assert drv.live_memory() == case.memory


def check_other_kinds_of_memory_are_refused(drv: Any) -> None:
    case = Case(drv)
    for want in ((3, 0), (13, 0), (7, 0), (11, 0)):
        with pytest.raises(BufferError, match="copies to CUDA and ROCm devices only"):
            dlshim.upgrade(P2(), device=want).__dlpack__()
    del case
    caps.close_accounts()


def check_no_memory(drv: Any) -> None:
    """The error tells how much was wanted, and nothing is left."""
    for function in vendors.of(drv).allocations:
        case = Case(drv)
        for have in (None, 1):
            source = P2((1000,)) if have is None else on_device(case, have, shape=(1000,))
            before = drv.live_memory()
            for skip in (0, 1):
                drv.fail_next(function, 2, skip)
            try:
                case.take(dlshim.upgrade(source, device=case.want)).release()
            except BufferError as error:
                assert "no memory for the 4000 bytes" in str(error), error
            else:
                assert not drv.calls().count(function) or has_pools(drv)
            drv.reset()
            assert drv.live_memory() <= before
            del source
            caps.close_accounts()


# --- graph captures ----


@checks.only_on(*ALL_LIVE[1:])
def check_a_capture_is_not_broken_by_a_copy(drv: Any) -> None:
    for have, where, mode in itertools.product(
        (None, 0, 1), ("S", "blocking"), ("global", "thread", "relaxed")
    ):
        case = Case(drv, to=0)
        source = P2() if have is None else on_device(case, have)
        capturing = case.stream(where == "blocking")
        s = capturing if where == "S" else case.stream()
        drv.capture_begin(capturing, mode)
        with pytest.raises(BufferError, match=REFUSED_CAPTURE):
            case.take(dlshim.upgrade(source, copy=True), dl_device=case.want, stream=s)
        assert drv.capture_state(capturing) == "active", (have, where, mode)
        assert not [name for name in drv.calls() if name in case.vendor.allocations]
        drv.capture_end(capturing)
        del source
        caps.close_accounts()
        assert not drv.races()


@checks.only_on(*ALL_LIVE[1:])
def check_a_release_during_a_capture_waits_for_its_end(drv: Any) -> None:
    """Then it goes with the next release, or with the next copy."""
    for mode, how in itertools.product(("global", "thread", "relaxed"), ("release", "copy")):
        case = Case(drv)
        first = caps.take(dlshim.upgrade(P2()).__dlpack__(dl_device=case.want))
        second = caps.take(dlshim.upgrade(P2()).__dlpack__(dl_device=case.want))
        capturing = case.stream(True)
        drv.capture_begin(capturing, mode)
        first.release()
        assert drv.capture_state(capturing) == "active" and drv.live_memory() == case.memory + 2
        drv.capture_end(capturing)
        assert not drv.read(capturing, second.view.data)
        if how == "release":
            second.release()
        else:
            case.taken = caps.take(dlshim.upgrade(P2()).__dlpack__(dl_device=case.want))
            assert drv.live_memory() == case.memory + 2, "the first one is gone"
            second.release()
            case.taken.release()
        assert drv.live_memory() == case.memory and not drv.races(), drv.races()
        caps.close_accounts()


# --- the end ----


def check_memory_is_freed_after_all_that_reads_it(drv: Any) -> None:
    """On S, on streams that nobody has named, and on a stream that has ended since."""
    for how, ended, kind in itertools.product(
        ("held", "released", "c-thread"), (True, False), (True, False)
    ):
        case = Case(drv)
        s, other = case.stream(), case.stream(kind)
        case.take(dlshim.upgrade(P2(), device=case.want), stream=s)
        for stream in (s, other):
            assert not drv.read(stream, case.taken.view.data, 24)
        if ended:
            drv.stream_end(s)
        case.release(how, (how, ended, kind))


def check_the_host_does_not_wait_at_the_end(drv: Any) -> None:
    case = Case(drv)
    case.take(dlshim.upgrade(P2(), device=case.want))
    case.release()
    waits = [name for name in drv.calls() if "Synchronize" in name or name == "cuMemFree_v2"]
    assert not waits if has_pools(drv) else drv.calls().count(case.vendor.frees[0]) == 1


def check_memory_of_pools_only_where_it_can_be_freed_in_turn(drv: Any) -> None:
    case = Case(drv)
    case.take(dlshim.upgrade(P2(), device=case.want))
    made = [name for name in drv.calls() if name in case.vendor.allocations]
    assert made == [case.vendor.allocations[1 if has_pools(drv) else 0]]
    case.release()


@checks.only_on("12.5", "13.0")
def check_copies_do_not_queue_behind_what_is_freed(drv: Any) -> None:
    """The stream that waits for everything is not the one that copies."""
    case = Case(drv)
    case.take(dlshim.upgrade(P2(), device=case.want))
    (copy,) = [e for e in drv.entries() if e.name.startswith("cuMemcpy")]
    case.release()
    (end,) = [e for e in drv.entries() if e.name == "cuMemFreeAsync"]
    assert end.args["stream"] != copy.args["stream"]


def check_a_failing_end_leaves_the_rest_in_order(drv: Any) -> None:
    """The wait for everything fails: the host waits instead."""
    if not has_pools(drv):
        return
    for function in ("cuCtxRecordEvent", "cuStreamWaitEvent", "cuEventCreate"):
        case = Case(drv)
        s = case.stream()
        case.take(dlshim.upgrade(P2(), device=case.want), stream=s)
        assert not drv.read(s, case.taken.view.data)
        drv.fail_next(function, 700)
        case.release(told=function)


def check_threads(drv: Any) -> None:
    case = Case(drv)
    wrong: list[object] = []

    def copy_and_drop(number: int) -> None:
        try:
            for i in range(25):
                s = drv.stream_new(number % 2, bool(i % 2))
                want = (case.want[0], number % 2)
                taken = caps.take(dlshim.upgrade(P2(), device=want).__dlpack__(stream=s))
                racy = drv.read(s, taken.view.data, 24)
                if racy or taken.values() != P2().values():
                    wrong.append((number, i, drv.races()))
                taken.release("released" if i % 3 else "held")
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=copy_and_drop, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong
    assert not drv.races() and drv.live_memory() == case.memory
    caps.close_accounts()


# --- sizes ----


@checks.only_on("12.2", "13.0", "hip7")
def check_more_than_four_gigabytes(drv: Any) -> None:
    """No number on the way has 32 bits."""
    case = Case(drv)
    count = (5 << 30) + 3
    x = drv.alloc(count, 0)
    drv.put(x, b"first")
    drv.put(x + count - 4, b"last")
    for want, begin in ((case.want, 0), ((case.want[0], 1), 3)):
        number = count - begin
        capsule = caps.make(
            (number,), "uint8", device=case.want, data=x + begin, memory=bytearray(1)
        )
        source = dlshim.upgrade(capsule, copy=True)
        taken = caps.take(source.__dlpack__(dl_device=want, max_version=(1, 0)))
        assert drv.bytes_at(taken.view.data, 5 - begin) == b"first"[begin:]
        assert drv.bytes_at(taken.view.data + number - 4, 4) == b"last"
        (made,) = [e for e in drv.entries() if e.name in case.vendor.allocations]
        assert made.args["bytes"] == str(number)
        drv.clear_log()
        taken.release()
        del source, capsule
    drv.free(x)
    caps.close_accounts()


@checks.only_on("13.0", "hip6")
def check_rows_that_lie_far_apart(drv: Any) -> None:
    """Gaps that no copy has to cross: only the rows are copied."""
    case = Case(drv)
    for (shape, strides), to in itertools.product(
        (((3, 4), (5 << 20, 1)), ((2, 70, 3), (3 << 20, 40_000, 1))), (0, 1)
    ):
        base = drv.alloc(sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1)
        numbers = filled_far(drv, base, shape, strides)
        capsule = caps.make(
            shape, "uint8", strides=strides, device=(case.want[0], 0), data=base,
            memory=bytearray(1),
        )  # fmt: skip
        source = dlshim.upgrade(capsule, copy=True, unknown_stream="same")
        want = (case.want[0], to)
        taken = caps.take(source.__dlpack__(dl_device=want, max_version=(1, 0), stream=-1))
        assert taken.view.values() == numbers, (shape, to)
        taken.release()
        del source, capsule
        drv.free(base)
    caps.close_accounts()


# --- processes ----


@pytest.mark.parametrize("variant", ALL_LIVE)
def test_in_a_forked_child_nothing_is_freed(variant: str) -> None:
    child.program("copies_to_devices", "in_a_fork", built(variant))


@pytest.mark.parametrize("variant", ALL_LIVE)
def test_copies_that_live_until_the_end(variant: str) -> None:
    child.program("copies_to_devices", "at_the_end", built(variant))


@pytest.mark.parametrize("variant", ALL_LIVE)
def test_nothing_has_used_the_device_yet(variant: str) -> None:
    child.program("copies_to_devices", "first", built(variant))


@pytest.mark.parametrize(
    ("variant", "says"),
    [("stub", "toolkit's stub"), ("nodev", "finds no device"), ("hip-nodev5", "no device 0")],
)
def test_why_there_is_no_device(variant: str, says: str) -> None:
    told = child.program("copies_to_devices", "no_driver", built(variant))
    assert says in told and "stream=-1" not in told  # the data are on no device


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), ALL_LIVE))
def test_copies_to_devices(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
