"""Device memory wanted on the host (rule S18): who is asked, what is copied, and that
it is complete, synced with P, and never on the legacy stream."""

from __future__ import annotations

import itertools
import random
import sys
import types
from typing import Any
from unittest import mock

import pytest

import dlshim
import sampling
from device import libraries, matrix, rocm
from device.libraries import source_of
from device.matrix_run import Calls
from dlshim import _core
from doubles import capsules as caps
from doubles import child, consumers, vendors
from doubles import device as fake
from doubles.producers import P2, P0ToDlpack, P1a, P1aNoDevice, P2Torch, P3TableOnly, masquerade
from drivers import ALL_LIVE, CUDA_LIVE, Driver, built, checks, run_checks, run_with_driver

CPU = (1, 0)

#: Those that dlshim has to copy for: what they know of P.
COPIED = {
    "nanobind": "unknown",
    "no keyword": "unknown",
    "capsule": "unknown",
    "versioned capsule": "unknown",
    "toDlpack": "unknown",
    "cai 2": "unknown",
    "cai 3": "known",
    "cai 3, None": "ready",
    "tensorflow": "waited",
    "warp": "syncs",  # honours the stream, but knows no dl_device
    "cupy 13": "syncs",
    "old cupy": "syncs",
    "torch 2.8": "syncs",
    "unheard of": "syncs",
}
METHOD_LESS = ("capsule", "versioned capsule", "toDlpack")
#: Those that move it themselves when asked.
MOVE = ("torch", "torch 2.9", "cupy", "jax")


def copied(drv: Any) -> dict[str, str]:
    """Those of COPIED that the vendor has."""
    make = libraries.of(drv).make
    return {name: knows for name, knows in COPIED.items() if name in make}


def moving(drv: Any) -> list[str]:
    return [name for name in MOVE if name in libraries.of(drv).make]


def specified(drv: Any) -> Any:
    return rocm if vendors.of(drv).is_hip else matrix


class Case:
    """One array with unfinished work on P."""

    def __init__(
        self,
        drv: Any,
        producer: str,
        *,
        p: str = "N",
        device: int = 0,
        current: int | None = 0,
        **fields: Any,
    ) -> None:
        drv.reset()
        self.drv, self.producer, self.device = drv, producer, device
        self.vendor = vendors.of(drv)
        drv.make_current(device)
        self.p = self.vendor.stream(drv, p, device)
        self.array = libraries.of(drv).make[producer](drv, self.p, device=device, **fields)
        self.address = self.array.address
        assert not self.array.write()
        drv.make_current(current)
        self.current = drv.now_current()
        self.live = _core._counters()["live"]

    def source(self, **options: Any) -> Any:
        return dlshim.upgrade(source_of(self.producer, self.array), **options)

    def export(self, source: Any, **keywords: Any) -> caps.Import:
        self.drv.clear_log()
        keywords = {"max_version": (1, 0), **keywords}
        self.taken = caps.take(source.__dlpack__(**keywords))
        self.calls = Calls.at(self.drv, self.device)
        return self.taken

    def values(self) -> list[Any]:
        """What the elements are, where the producer keeps its layout to itself too."""
        if hasattr(self.array, "values"):
            return self.array.values()
        return caps.numbers((2, 3), "float32")

    def check(self, told: object = "") -> None:
        """Complete, synced, in order, a block of its own, and nothing is kept."""
        drv, view = self.drv, self.taken.view
        told = (self.producer, told)
        assert view.device == CPU and view.values() == self.values(), told
        size = max(1, len(self.values()) * caps.itemsize_of(view.dtype))
        assert not drv.host_read(view.data, size), (told, drv.races())
        assert not drv.races() and not drv.gil_held_calls(every=True), (told, drv.races())
        assert drv.now_current() == self.current, told
        assert not [mark for mark in drv.marks() if not mark.startswith("PEER")], told

    def check_block(self, told: object = "") -> None:
        """What dlshim copied."""
        view = self.taken.view
        assert view.data % 64 == 0 and view.byte_offset == 0, (self.producer, told)
        assert (view.strides or ()) == caps.row_major(view.shape), (self.producer, told)
        assert view.copied and not view.readonly, (self.producer, told)
        lengths = [made.deleted for made in getattr(self.array, "exports", ())]
        if self.producer not in ("capsule", "versioned capsule"):  # those can be asked again
            assert lengths == [] or set(lengths) == {1}, (self.producer, told, lengths)

    def end(self) -> None:
        self.taken.release()
        caps.close_accounts()
        assert _core._counters()["live"] == self.live


def effects(case: Case) -> list[str]:
    """dlshim's own calls, without what it did around the producer's; in HIP without what makes a
    device current, which is done only where another one is."""
    lines = case.calls.effects()
    if case.vendor.is_hip:
        return [line for line in lines if line not in ("producer", "set D", "back")]
    if "producer" in lines:
        at = len(lines) - lines[::-1].index("producer")
        lines = lines[at + (lines[at : at + 1] == ["pop"]) :]
    return [line for line in lines if line != "producer"]


def inside(case: Case, *lines: str) -> list[str]:
    """Calls in the array's context, on its device."""
    return [f"{line} on D" for line in lines] if case.vendor.is_hip else ["push C", *lines, "pop"]


def stream_of_the_copy(case: Case) -> str:
    """A stream of its own."""
    names = case.vendor.copies
    (stream,) = {e.args["stream"] for e in case.calls.own if e.name.startswith(names)}
    assert stream.startswith("N"), f"{stream} is no non-blocking stream of its own"
    return stream


def the_copy(case: Case) -> list[str]:
    """The calls in which the bytes are fetched: on a stream of its own, that is waited for."""
    stream, vendor = stream_of_the_copy(case), case.vendor
    if vendor.is_hip:
        return inside(case, f"{vendor.to_host} {stream}", f"{vendor.stream_sync} {stream}")
    return inside(case, vendor.to_host, f"{vendor.stream_sync} {stream} in C")


def sync_calls(case: Case, knows: str, p: str) -> list[str]:
    vendor, at = case.vendor, "" if case.vendor.is_hip else " in C"
    wait = f"{vendor.wait} {stream_of_the_copy(case)}{at}"
    if knows == "known":
        name = {"L": vendor.shown, "PTDS": "PTDS"}.get(p, "P")
        return inside(case, f"{vendor.record} {name}{at}", wait)
    if knows != "unknown":
        return []
    if case.drv.has("cuCtxRecordEvent"):
        return inside(case, "cuCtxRecordEvent C in C", wait)
    return inside(case, vendor.device_sync + ("" if vendor.is_hip else " C"))


def warm(drv: Any) -> None:
    """A copy stream and an event for either context, and every type's way learned."""
    for producer, device in itertools.product(copied(drv), (0, 1)):
        case = Case(drv, producer, device=device)
        case.export(case.source(device="cpu"))
        case.end()


# --- who copies ----


def check_the_producer_is_asked_first(drv: Any) -> None:
    """It knows its pools and streams; the host takes no stream, whatever the consumer says."""
    ways = itertools.product(moving(drv), specified(drv).PLACES, ("omitted", None, -1, "S"))
    for producer, (device, current), stream in sampling.every(5, ways):
        case = Case(drv, producer, device=device, current=current)
        keywords: dict[str, Any] = {"dl_device": CPU}
        if stream != "omitted":
            keywords["stream"] = drv.stream_new(device) if stream == "S" else stream
        case.export(case.source(), **keywords)
        case.check((device, current, stream))
        asked = case.array.keywords
        assert len(asked) == 1 and tuple(asked[0]["dl_device"]) == CPU
        assert asked[0].get("stream") is None, asked
        assert not [c for c in case.calls.own if "emcpy" in c.name or "Synchron" in c.name]
        case.end()


def check_what_the_producer_moved_is_a_private_copy(drv: Any) -> None:
    """It says so to consumers of 1.x, and is writable: torch flags none, JAX up to 0.11 neither."""
    ways = {"dl_device": ({}, {"dl_device": CPU}), "device=": ({"device": "cpu"}, {})}
    for producer, (how, (options, keywords)) in itertools.product(moving(drv), ways.items()):
        case = Case(drv, producer)
        case.export(case.source(**options), **keywords)
        case.check(how)
        assert case.taken.view.flags == caps.IS_COPIED, (producer, how)
        case.end()
        case = Case(drv, producer)
        case.export(case.source(**options), max_version=None, **keywords)
        assert case.taken.view.name == caps.LEGACY, (producer, how)
        case.check(how)
        case.end()
        case = Case(drv, producer)
        case.export(case.source(readonly=True, **options), **keywords)
        assert case.taken.view.flags == caps.IS_COPIED | caps.READ_ONLY, (producer, how)
        case.end()
        case = Case(drv, producer)
        taken = caps.take(case.source(copy=True).__dlpack__(max_version=(1, 0)))
        assert taken.view.flags == caps.IS_COPIED, (producer, "copy=True where it is")
        taken.release()
        case = Case(drv, producer)
        tensor = dlshim.from_dlpack(case.array, device="cpu")
        assert tensor.is_copied and not tensor.readonly, producer
        del tensor  # before the doubles end


class Jax12(fake.JaxLike):
    """JAX 0.12: 1.x where it is asked for, and what it moves or copies is marked READ_ONLY too."""

    def answer(self, stream: Any = None, max_version: Any = None, **asked: Any) -> Any:
        if max_version is None:
            return super().answer(stream, **asked)
        target = asked.get("dl_device")
        flags = caps.READ_ONLY
        if target is not None and tuple(target) != self.device:
            self.wait_for(self.stream)
            return self.to_host(max_version, self.stream, flags=flags | caps.IS_COPIED)
        self.edge(self.stream, stream) if stream else self.wait_for(self.stream)
        return self._versioned(flags=flags)


@checks.only_on(*CUDA_LIVE)
def check_arrays_of_JAX_before_and_from_0_12(drv: Any) -> None:
    """From 0.12 on the array says READ_ONLY, so that legacy consumers are refused it; what JAX has
    moved is writable and a copy in both, whatever it says itself."""
    for cls, stated in ((fake.JaxLike, False), (Jax12, True)):
        release = types.ModuleType("jax")
        release.__version__ = "0.12.0.1" if stated else "0.11.2"  # type: ignore[attr-defined]
        with mock.patch.dict(sys.modules, {"jax": release}):
            make = masquerade(cls, "ArrayImpl", "jaxlib._jax")
            for _ in range(2):
                drv.reset()
                array = make(drv, drv.stream_new(0, False, name="P"))
                s = drv.stream_new(0, False, name="S")
                assert not array.write()
                taken = caps.take(dlshim.upgrade(array).__dlpack__(stream=s, max_version=(1, 0)))
                assert taken.view.flags == caps.READ_ONLY, cls
                assert not drv.read(s, array.address), (cls, drv.races())
                taken.release()
                if stated:
                    with pytest.raises(BufferError, match="read-only"):
                        dlshim.upgrade(array).__dlpack__(stream=s)
                else:
                    caps.take(dlshim.upgrade(array).__dlpack__(stream=s)).release()
                for keywords in ({"max_version": (1, 0)}, {}):
                    moved = dlshim.upgrade(array).__dlpack__(dl_device=CPU, **keywords)
                    taken = caps.take(moved)
                    assert taken.view.device == CPU, cls
                    assert taken.view.values() == array.values(), cls
                    assert not keywords or taken.view.flags == caps.IS_COPIED, cls
                    taken.release()


def check_dlshim_copies_what_nobody_moves(drv: Any) -> None:
    warm(drv)
    for (producer, knows), p, (device, current) in itertools.product(
        copied(drv).items(), matrix.P_KINDS, specified(drv).PLACES
    ):
        case = Case(drv, producer, p=p, device=device, current=current)
        case.export(case.source(device="cpu"))
        told = (p, device, current)
        if knows != "ready":  # "None" in the dict was not true here
            case.check(told)
        case.check_block(told)
        assert effects(case) == sync_calls(case, knows, p) + the_copy(case), (
            producer,
            told,
            case.calls.effects(),
        )
        case.end()


def check_every_way_of_wanting_it(drv: Any) -> None:
    for producer in ("nanobind", "no keyword", "capsule", "cai 3", "unheard of"):
        for way in range(6):
            case = Case(drv, producer)
            stream = drv.stream_new(0, False, name="S")
            if way == 0:
                case.export(case.source(), dl_device=CPU)
            elif way == 1:
                case.export(case.source(), dl_device=CPU, stream=stream, copy=True)
            elif way == 2:
                case.export(case.source(device="cpu", copy=True), stream=-1)
            elif way == 3:
                case.export(case.source(device=(1, 0), stream=stream), stream=case.vendor.legacy)
            elif way == 4:
                case.export(dlshim.from_dlpack(case.source(device="cpu")))
            else:
                case.taken = consumers.ask_like_numpy2(case.source(), device=CPU)
            case.check(way)
            view = case.taken.view
            assert view.copied == (way != 4), "what others can be handed is no fresh copy"
            case.end()


def check_legacy_capsules(drv: Any) -> None:
    for producer in ("nanobind", "no keyword", "capsule", "cai 3"):
        case = Case(drv, producer)
        case.export(case.source(device="cpu"), max_version=None)
        assert case.taken.view.name == caps.LEGACY
        case.check()
        case.end()


def check_a_tensor_of_the_copy(drv: Any) -> None:
    for producer in ("torch", "cupy", "nanobind", "no keyword", "capsule", "cai 3"):
        case = Case(drv, producer)
        tensor = dlshim.from_dlpack(source_of(producer, case.array), device="cpu")
        assert tensor.device == CPU and caps.flat(memoryview(tensor).tolist()) == case.values()
        assert not hasattr(tensor, "__cuda_array_interface__")
        drv.clear_log()
        tensor.__dlpack__(stream=case.vendor.legacy)
        assert drv.log() == [] and not drv.races()
        del tensor
        caps.close_accounts()


def check_the_source_may_go_at_once(drv: Any) -> None:
    """Nothing of it is held: writing it again is no hazard for the copy."""
    case = Case(drv, "no keyword")
    case.export(case.source(device="cpu"))
    assert [made.deleted for made in case.array.exports] == [1]
    assert not case.array.write() and not drv.races()
    drv.free(case.address)
    case.check()
    case.end()


# --- what is refused ----


def check_copies_that_are_not_allowed(drv: Any) -> None:
    producers = specified(drv).PRODUCERS
    not_allowed(drv, [n for n in (*copied(drv), *moving(drv)) if producers[n].called])


def check_copies_that_are_not_allowed_of_what_is_not_asked(drv: Any) -> None:
    producers = specified(drv).PRODUCERS
    not_allowed(drv, [n for n in (*copied(drv), *moving(drv)) if not producers[n].called])


def not_allowed(drv: Any, producers: list[str]) -> None:
    """Found out before anything was done."""
    for producer in producers:
        for options, keywords in (
            ({"device": "cpu", "copy": False}, {}),
            ({}, {"dl_device": CPU, "copy": False}),
            ({"copy": False}, {"dl_device": CPU}),
        ):
            case = Case(drv, producer)
            source = case.source(**options)
            drv.clear_log()
            with pytest.raises(dlshim.CopyRequiredError) as raised:
                source.__dlpack__(**keywords)
            assert isinstance(raised.value, BufferError) and isinstance(raised.value, ValueError)
            assert "copy" in str(raised.value)
            names = {case.vendor.pointer, case.vendor.exchange_mode}
            if case.vendor.is_hip:
                names = set(case.vendor.queries)  # a device is asked, for the producer's sake
            assert set(drv.calls(by="")) <= names, (producer, drv.calls())
            del source, raised
            caps.close_accounts()


def check_other_devices(drv: Any) -> None:
    """Where dlshim makes no copies the message says whom to ask."""
    vendor = vendors.of(drv)
    other = vendors.CUDA if vendor.is_hip else vendors.ROCM
    for producer, kind in itertools.product(
        ("nanobind", "no keyword", "capsule"), (other.device_type, vendor.host_type)
    ):
        case, to, have = Case(drv, producer), (kind, 0), rf"\({vendor.device_type}, 0\)"
        with pytest.raises(BufferError, match=have + r" and \(\d+, \d\) is wanted.*\n  .*first"):
            case.source(device=to).__dlpack__()
        caps.close_accounts()


def check_unknown_streams(drv: Any) -> None:
    for producer in ("nanobind", "no keyword", "capsule", "cai 2"):
        case = Case(drv, producer)
        with pytest.raises(BufferError, match="unknown_stream"):
            case.export(case.source(device="cpu", unknown_stream="error"))
        case.export(case.source(device="cpu", unknown_stream="error", producer_stream=case.p))
        case.check()
        case.end()
        case = Case(drv, producer, p="B")
        case.export(case.source(device="cpu", unknown_stream="legacy"))
        assert effects(case) == sync_calls(case, "known", "L") + the_copy(case)
        case.check()
        case.end()
        case = Case(drv, producer, p="B")
        case.export(case.source(device="cpu", unknown_stream="same"))
        assert effects(case) == the_copy(case), "P is ready: so it was said"
        case.end()


@checks.only_on(*ALL_LIVE[1:])
def check_captures(drv: Any) -> None:
    """P in a capture cannot be synced before a copy that is made now; L is not used at all."""
    cases = [(producer, "B", False) for producer in ("nanobind", "capsule", "cai 2")]
    cases += [(producer, p, True) for producer in ("no keyword", "cai 3") for p in ("B", "N")]
    for producer, p, named in cases:
        case = Case(drv, producer, p=p)
        source = case.source(device="cpu", **({"producer_stream": case.p} if named else {}))
        drv.capture_begin(case.p, "relaxed")
        with pytest.raises(BufferError, match="this export would break it"):
            case.export(source)
        assert drv.capture_state(case.p) == "active", (producer, p)
        drv.capture_end(case.p)
        del source
        caps.close_accounts()
    for kind in ("B", "N"):  # another's capture, and P is known: nothing is in the way
        case = Case(drv, "cai 3")
        other = drv.stream_new(0, kind == "B", name="O")
        drv.capture_begin(other)
        case.export(case.source(device="cpu"))
        assert drv.capture_state(other) == "active"
        drv.capture_end(other)
        case.check()
        case.end()


# --- layouts ----

#: shape, strides in elements, position of element zero; how it is fetched (names of Vendor).
LAYOUTS: dict[str, tuple[tuple[int, ...], tuple[int, ...], int, list[str]]] = {
    "row-major": ((2, 3), (3, 1), 0, ["to_host"]),
    "scalar": ((), (), 0, ["to_host"]),
    "one element": ((1, 1), (7, 9), 0, ["to_host"]),
    "with an offset": ((2, 3), (3, 1), 5, ["to_host"]),
    "pitched": ((4, 3), (8, 1), 0, ["pitched"]),
    "a column": ((5,), (4,), 2, ["pitched"]),
    "three levels": ((2, 4, 3), (64, 8, 1), 0, ["pitched"] * 2),
    "column-major": ((3, 4), (1, 3), 0, []),
    "permuted": ((2, 3, 4), (1, 8, 2), 0, []),
    "backwards": ((6,), (-1,), 5, []),
    "every other, backwards": ((2, 3), (6, -2), 4, []),
    "mirrored": ((2, 3), (-3, -1), 5, []),
    "broadcast": ((3, 4), (0, 1), 0, []),
    "one for all": ((3, 4), (0, 0), 0, []),
    "overlapping": ((4, 3), (1, 1), 0, []),
}


#: Fetched to where they are to lie.
DENSE = ("row-major", "scalar", "one element", "with an offset")


def check_layouts(drv: Any) -> None:
    for (name, (shape, strides, start, copies)), dtype, producer, device in itertools.product(
        LAYOUTS.items(), ("uint8", "float32", "complex128"), ("no keyword", "capsule"), (0, 1)
    ):
        fields: dict[str, Any] = {"shape": shape, "strides": strides, "start": start}
        case = Case(drv, producer, device=device, dtype=dtype, **fields)
        case.export(case.source(device="cpu", order="C"))
        case.check((name, dtype))
        case.check_block((name, dtype))
        vendor = case.vendor
        made = [entry.name for entry in case.calls.own if entry.name.startswith(vendor.copies)]
        wanted = [getattr(vendor, way) for way in copies]
        assert (made == wanted or not copies) and made, (name, made)
        # A slab is read here before the next is fetched; and all is complete at the end.
        waits = [entry.name for entry in case.calls.own if entry.name == vendor.stream_sync]
        slabs = 0 if name in DENSE else made.count(vendor.to_host)
        assert len(waits) == slabs + 1, (name, made, waits)
        case.end()


def random_layout(pick: random.Random) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    shape = tuple(pick.choice((1, 2, 3, 5)) for _ in range(pick.randint(1, 4)))
    strides = tuple(pick.choice((0, 1, 1, 2, 3, 7, 30)) * pick.choice((1, 1, -1)) for _ in shape)
    start = sum((n - 1) * -s for n, s in zip(shape, strides, strict=True) if s < 0)
    return shape, strides, start


@checks.only_on("13.0", "hip6")
def check_any_layout(drv: Any) -> None:
    pick = random.Random(4)
    for _ in range(250):
        shape, strides, start = random_layout(pick)
        dtype = pick.choice(("uint8", "int16", "float32", "complex128"))
        case = Case(drv, "no keyword", shape=shape, strides=strides, start=start, dtype=dtype)
        case.export(case.source(device="cpu", order="C"))
        case.check((shape, strides, start, dtype))
        case.check_block()
        case.end()


def filled_far(drv: Any, x: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    """A number into each element of an array that is too wide to be filled as a whole."""
    numbers = []
    for k, offset in enumerate(caps.offsets(shape, strides)):
        drv.put(x + offset, bytes([k % 251 + 1]))
        numbers.append(k % 251 + 1)
    return numbers


@checks.only_on("13.0", "hip6")
def check_elements_that_lie_far_apart(drv: Any) -> None:
    """The span is fetched in pieces or not at all, never in a block out of all proportion."""
    for shape, strides in (
        ((3, 4), (5 << 20, 1 << 20)),
        ((2, 70, 3), (3 << 20, 40_000, 7)),
        ((65, 2, 2), (1 << 17, 1 << 16, 3)),
        ((4,), (-(3 << 20),)),
        ((2, 3), (-(3 << 20), 1 << 20)),
        ((2, 80, 2), (8 << 20, 100_000, -5)),
    ):
        drv.reset()
        low = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s < 0)
        high = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s > 0)
        base = drv.alloc(high - low + 1)
        address = base - low
        p = drv.stream_new(0, False, name="P")
        numbers = filled_far(drv, address, shape, strides)
        assert not drv.write(p, base, high - low + 1)
        where = {
            "device": (vendors.of(drv).device_type, 0),
            "data": address,
            "memory": bytearray(1),
        }
        capsule = caps.make(shape, "uint8", strides=strides, **where)
        drv.clear_log()
        source = dlshim.upgrade(capsule, device="cpu", producer_stream=p, order="C")
        taken = caps.take(source.__dlpack__(max_version=(1, 0)))
        assert taken.view.values() == numbers, (shape, strides)
        assert not drv.host_read(taken.view.data, len(numbers)) and not drv.races()
        copies = [entry for entry in drv.entries() if entry.name.startswith(vendors.of(drv).copies)]
        fetched = [int(entry.args.get("bytes", 0)) for entry in copies]
        assert len(copies) <= 2 * len(numbers) and max(fetched) <= 1 << 20, (shape, fetched)
        del source
        taken.release()
    caps.close_accounts()


def check_empty_arrays(drv: Any) -> None:
    """Nothing is called at all where it is known in time."""
    for producer in ("nanobind", "no keyword", "unheard of", *METHOD_LESS):
        case = Case(drv, producer, shape=(0, 3))
        case.export(case.source(device="cpu"))
        view = case.taken.view
        assert view.device == CPU and view.shape == (0, 3) and view.data
        assert not [c for c in case.calls.own if "emcpy" in c.name or "vent" in c.name]
        if producer in METHOD_LESS:
            assert case.calls.own == []
        case.end()


#: Arrays of no elements, by every way in that knows its device.
EMPTY: dict[str, Any] = {
    "modern": P2,
    "torch-like": P2Torch,
    "no keyword": P1a,
    "no device method": P1aNoDevice,
    "function": P0ToDlpack,
    "table": P3TableOnly,
    "capsule": lambda **fields: caps.make(**fields, version=(1, 0)),
    "legacy capsule": caps.make,
    "Tensor": lambda **fields: dlshim.from_dlpack(P2(**fields), stream=-1),
}


def check_nothing_is_moved_by_nobody(drv: Any) -> None:
    """The shape says it before anybody is asked; a context is current, or none."""
    vendor = vendors.of(drv)
    given: list[dict[str, Any]] = [{}, {"stream": vendor.legacy}, {"copy": True}]
    given += [{"max_version": (1, 0)}, *[{"stream": 2}] * (not vendor.is_hip)]
    for (name, make), keywords, current in itertools.product(EMPTY.items(), given, (None, 0)):
        source = dlshim.upgrade(make(shape=(2, 0, 3), device=(vendor.device_type, 1), data=None))
        drv.make_current(current)
        drv.clear_log()
        taken = caps.take(source.__dlpack__(dl_device=CPU, **keywords))
        assert (taken.view.device, taken.view.shape) == (CPU, (2, 0, 3))
        assert drv.calls() == [], (name, keywords, current, drv.calls())
        taken.release()
        del source
    caps.close_accounts()


class Liar(fake.NoKw):
    """Says that there is nothing, and exports something."""

    told = False

    def __getattribute__(self, name: str) -> Any:
        telling = name == "shape" and object.__getattribute__(self, "told")
        return (0, 3) if telling else object.__getattribute__(self, name)

    def __dlpack__(self, *args: Any, **keywords: Any) -> Any:
        self.told = False
        try:
            return super().__dlpack__(*args, **keywords)
        finally:
            self.told = True


def check_what_lies_about_its_shape_is_synced(drv: Any) -> None:
    for current in (None, 0):
        drv.reset()
        x = Liar(drv, drv.stream_new(blocking=False, name="P"))
        assert not x.write()
        x.told = True
        drv.make_current(current)
        taken = caps.take(dlshim.upgrade(x, device="cpu").__dlpack__(max_version=(1, 0)))
        assert taken.view.shape == (2, 3)
        assert not drv.host_read(taken.view.data, 24) and not drv.races(), drv.races()
        taken.release()
        x.told = False
        del x
    caps.close_accounts()


# --- streams and contexts ----


@checks.on_cuda
def check_contexts_that_a_program_made_itself(drv: Driver) -> None:
    """Memory of a driver-API context, whichever is current."""
    for current in ("own", "primary", "other device", "none"):
        drv.reset()
        context = drv.context_new(0)
        p = drv.stream_new(blocking=False, context=context, name="P")
        x = fake.NoKw(drv, p, context=context)
        assert not x.write()
        chosen = {"own": context, "primary": drv.context(0), "other device": drv.context(1)}
        drv.set_current(chosen.get(current))
        stack = drv.context_stack()
        taken = caps.take(dlshim.upgrade(x, device="cpu").__dlpack__(max_version=(1, 0)))
        assert taken.values() == x.values() and not drv.host_read(taken.view.data, 24)
        assert not drv.races() and drv.context_stack() == stack, current
        taken.release()
        caps.close_accounts()


def check_memory_of_pools(drv: Any) -> None:
    for device, current in specified(drv).PLACES:
        case = Case(drv, "no keyword", device=device, current=current, kind="pool")
        case.export(case.source(device="cpu"))
        case.check((device, current))
        case.end()


ONCE = """
    import dlshim
    from doubles import capsules as caps, device as fake, vendors
    drv.start()
    for device in (0, 1, 1, 0):
        drv.make_current(device)
        x = fake.NoKw(drv, device=device)
        caps.take(dlshim.upgrade(x, device="cpu").__dlpack__()).release()
    made = [entry for entry in drv.entries() if entry.name == vendors.of(drv).create_stream]
    assert [entry.args["flags"] for entry in made] == ["1", "1"], made
    assert drv.live_events() <= 2 and not any("StreamDestroy" in name for name in drv.calls())
"""


@pytest.mark.parametrize("variant", ALL_LIVE)
def test_one_stream_for_each_context_and_it_does_not_block(variant: str) -> None:
    run_with_driver(variant, ONCE)


#: How the memory of a context that a program made itself can come.
OF_A_CONTEXT = {
    "capsule": "caps.make(**fields, version=(1, 0))",
    "legacy capsule": "caps.make(**fields)",
    "modern": "P2(**fields)",
    "no keyword": "P1a(**fields)",
    "no device method": "P1aNoDevice(**fields)",
    "function": "P0ToDlpack(**fields)",
    "dict": "CudaOnly((2, 3), address=address, version=2)",
    "Tensor": "dlshim.from_dlpack(P2(**fields), stream=-1)",
}


@pytest.mark.parametrize("variant", CUDA_LIVE)
@pytest.mark.parametrize("how", OF_A_CONTEXT.values(), ids=OF_A_CONTEXT.keys())
def test_memory_of_a_context_while_no_primary_one_is_active(how: str, variant: str) -> None:
    """A program of the driver API alone, asked from a thread without a context: whose the memory
    is, its address tells, if need be when the producer has given it."""
    child.program("memory_of_a_context", built(variant), how)


# --- the tests ----


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), ALL_LIVE))
def test_copies(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
