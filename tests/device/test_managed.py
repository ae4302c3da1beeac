"""Managed and pinned memory, which the host reads too (rules S4 and S5), and what dlshim
hands out under another device's label without copying."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dlshim
import sampling
from device import libraries, matrix
from device.libraries import source_of
from device.matrix_run import Calls, warm
from doubles import capsules as caps
from doubles import consumers, vendors
from doubles import device as fake
from drivers import ALL_LIVE, CUDA_LIVE, Driver, HipDriver, checks, run_checks

CPU, MANAGED = (1, 0), (13, 0)


def device_event(drv: Driver) -> bool:
    return drv.has("cuCtxRecordEvent")


class Case:
    """One array whose P has unfinished work, and a consumer's stream S."""

    def __init__(
        self,
        drv: Any,
        make: Callable[..., Any],
        *,
        kind: str = "managed",
        p: str = "N",
        s: str = "N",
        device: int = 0,
        current: int | None = 0,
        **fields: Any,
    ) -> None:
        drv.reset()
        self.drv, self.device, self.vendor = drv, device, vendors.of(drv)
        self.context = drv.context(device)
        self.p = self.stream(p, "P")
        self.s = self.stream(s, "S")
        self.array = make(drv, self.p, kind=kind, device=device, **fields)
        self.address = self.array.address
        assert not self.array.write()
        drv.make_current(current)
        self.current = drv.now_current()

    def stream(self, kind: str, name: str) -> int:
        return self.vendor.stream(self.drv, kind, self.device, name)

    def export(self, source: Any, **keywords: Any) -> caps.Import:
        self.drv.clear_log()
        self.taken = caps.take(source.__dlpack__(**keywords))
        self.effects = Calls.at(self.drv, self.device).effects()
        assert not self.drv.gil_held_calls(every=True)
        assert self.drv.now_current() == self.current
        return self.taken

    def host_reads(self) -> bool:
        """Whether it races when the host reads the memory now."""
        return self.drv.host_read(self.address)

    def end(self) -> None:
        self.taken.release()
        deleted = [made.deleted for made in getattr(self.array, "exports", ()) if made.handed_out]
        assert set(deleted) <= {1}, deleted
        caps.close_accounts()


#: Kind -> (how it is made, what it is passed for None and for -1, what it knows of P).
Make = Callable[..., Any]
KINDS: dict[str, tuple[Make, object, object, str]] = {
    "cupy": (fake.named(fake.CupyLike), 1, -1, "syncs"),
    "warp": (fake.WarpLike, 1, -1, "syncs"),
    "jax": (fake.named(fake.JaxLike), 1, None, "syncs"),
    "nanobind": (fake.named(fake.Silent), None, None, "unknown"),
    "no keyword": (fake.NoKw, matrix.ABSENT, matrix.ABSENT, "unknown"),
    "capsule": (fake.RawFn, matrix.ABSENT, matrix.ABSENT, "unknown"),
    "cai 2": (fake.Cai2, matrix.ABSENT, matrix.ABSENT, "unknown"),
    "cai 3": (fake.Cai3, matrix.ABSENT, matrix.ABSENT, "known"),
}
PLACES = ((0, 0), (0, None), (1, 0), (1, None))
NAMES = {"L": "L", "PTDS": "PTDS", "B": "P", "N": "P"}


def without_producer(effects: list[str]) -> list[str]:
    """dlshim's own part: what it did for the producer's sake is left out (see the matrix)."""
    lines: list[str] = []
    for line in effects:
        if line == "producer":
            if lines[-1:] == ["push C"]:
                lines[-1] = "for the producer"
            continue
        if line == "pop" and lines[-1:] == ["for the producer"]:
            lines.pop()
            continue
        lines.append(line)
    return lines


def waits_for(stream: str, vendor: vendors.Vendor = vendors.CUDA) -> list[str]:
    if vendor.is_hip:
        return [f"hipStreamSynchronize {vendor.shown if stream == 'L' else stream} on D"]
    return ["push C", f"cuStreamSynchronize {stream} in C", "pop"]


WAITS_FOR_ALL = ["push C", "cuCtxSynchronize C", "pop"]


def none_of(kind: str, p: str, named: bool, policy: str) -> list[str]:
    """What None costs on managed memory."""
    knows = KINDS[kind][3]
    if knows == "syncs":
        return [] if policy == "same" else waits_for("L")
    if knows == "known" or named:
        return waits_for(NAMES[p])
    return {"auto": WAITS_FOR_ALL, "legacy": waits_for("L"), "same": []}[policy]


def sources(drv: Driver, **fields: Any) -> Iterator[tuple[str, str, bool, Case]]:
    ways = itertools.product(KINDS, matrix.P_KINDS, (False, True), PLACES)
    for kind, p, named, (device, current) in sampling.every(5, ways):
        case = Case(drv, KINDS[kind][0], p=p, device=device, current=current, **fields)
        yield kind, p, named, case


def upgraded(kind: str, case: Case, named: bool, **options: Any) -> Any:
    if named:
        options["producer_stream"] = case.p
    return dlshim.upgrade(source_of(kind, case.array), **options)


def last_passed(array: Any) -> object:
    return array.keywords[-1].get("stream", matrix.ABSENT)


# --- managed memory -----------------------------------------------------------------------


@checks.on_cuda
def check_none_is_a_wait_of_the_host(drv: Driver) -> None:
    """NumPy takes managed memory, passes no stream and reads at once."""
    for kind, p, named, case in sources(drv):
        told = (kind, p, named, case.device, case.current)
        taken = case.export(upgraded(kind, case, named), max_version=(1, 0))
        assert taken.view.device == (13, case.device) and taken.view.data == case.address
        assert without_producer(case.effects) == none_of(kind, p, named, "auto"), told
        assert not case.host_reads(), told
        if hasattr(case.array, "__dlpack__"):
            assert last_passed(case.array) == KINDS[kind][1], told
        case.end()


@checks.on_cuda
def check_minus_one_waits_for_nothing(drv: Driver) -> None:
    for kind, p, named, case in sources(drv):
        case.export(upgraded(kind, case, named), stream=-1)
        told = (kind, p, case.effects)
        assert without_producer(case.effects) == [], told
        if hasattr(case.array, "__dlpack__"):
            assert last_passed(case.array) == KINDS[kind][2], told
        assert case.host_reads() == (kind != "jax"), told  # JAX waits for None
        case.end()


@checks.on_cuda
def check_a_stream_is_synced_and_the_host_does_not_wait(drv: Driver) -> None:
    for kind, p, s, named in itertools.product(
        KINDS, matrix.P_KINDS, matrix.P_KINDS, (False, True)
    ):
        case = Case(drv, KINDS[kind][0], p=p, s=s)
        case.export(upgraded(kind, case, named), stream=case.s)
        own = without_producer(case.effects)
        unknown = KINDS[kind][3] == "unknown" and not named
        blocks = [call for call in own if "Synchronize" in call]
        assert bool(blocks) == (unknown and not device_event(drv)), (kind, p, s, own)
        assert not drv.read(case.s, case.address), (kind, p, s, drv.races())
        assert case.host_reads() == (not blocks), (kind, p, s)
        case.end()


@checks.on_cuda
def check_the_policies(drv: Driver) -> None:
    for policy in ("legacy", "same"):
        for kind, p, named, case in sources(drv):
            case.export(upgraded(kind, case, named, unknown_stream=policy))
            wanted = none_of(kind, p, named, policy)
            assert without_producer(case.effects) == wanted, (policy, kind, p, named, case.effects)
            waited = wanted and (wanted != waits_for("L") or p != "N" or kind in ("cupy", "warp"))
            if kind != "jax":
                assert case.host_reads() == (not waited), (policy, kind, p, named)
            case.end()
    for kind in ("nanobind", "no keyword", "capsule", "cai 2"):
        case = Case(drv, KINDS[kind][0])
        with pytest.raises(BufferError, match="unknown_stream"):
            case.export(upgraded(kind, case, False, unknown_stream="error"))
        case.export(upgraded(kind, case, True, unknown_stream="error"))
        assert not case.host_reads()
        case.end()


@checks.on_cuda
def check_where_the_host_must_be_alone(drv: Driver) -> None:
    """Attribute 89 is 0 (Windows, WSL, Tegra): no kernel of the device may run while the host
    touches managed memory, so that all of them are waited for."""
    for kind, p, named, case in sources(drv):
        drv.option("concurrent_managed", 0)
        other = case.stream("N", "O")
        elsewhere = drv.alloc(64, case.device, "managed")
        drv.write(other, elsewhere)
        case.export(upgraded(kind, case, named))
        assert without_producer(case.effects) == WAITS_FOR_ALL, (kind, p, named, case.effects)
        assert not case.host_reads() and not drv.host_read(elsewhere), (kind, p, named)
        case.end()
        case.export(upgraded(kind, case, named), stream=case.s)
        assert "cuCtxSynchronize C" not in case.effects or not device_event(drv)
        case.end()


@checks.only_on(*CUDA_LIVE[1:])
def check_captures(drv: Driver) -> None:
    """A wait for what is being captured would break the capture."""
    for kind, p in (("nanobind", "B"), ("no keyword", "B"), ("capsule", "B"), ("cai 2", "B")):
        for named in (False, True):
            case = Case(drv, KINDS[kind][0], p=p)
            source = upgraded(kind, case, named)
            drv.capture_begin(case.p)
            with pytest.raises(BufferError, match="this export would break it"):
                case.export(source)
            assert drv.capture_state(case.p) == "active", (kind, named)
            case.export(source, stream=-1)
            del source
            case.end()
            drv.capture_end(case.p)
    for kind in ("capsule", "cai 3"):
        case = Case(drv, KINDS[kind][0])
        source, other = upgraded(kind, case, True), case.stream("B", "O")
        drv.capture_begin(other)
        case.export(source)
        assert not case.host_reads() and drv.capture_state(other) == "active"
        drv.capture_end(other)
        del source
        case.end()


@checks.on_cuda
def check_empty_managed_arrays(drv: Driver) -> None:
    for kind in KINDS:
        case = Case(drv, KINDS[kind][0], shape=(0, 3))
        case.export(upgraded(kind, case, False))
        assert without_producer(case.effects) == [], (kind, case.effects)
        case.end()


@checks.on_cuda
def check_a_managed_tensor(drv: Driver) -> None:
    """What from_dlpack waited for need not be waited for again; what it synced, must."""
    for kind in ("nanobind", "capsule", "cai 3", "cupy"):
        for stream in (None, -1, "S"):
            case = Case(drv, KINDS[kind][0])
            given = case.s if stream == "S" else stream
            tensor = dlshim.from_dlpack(source_of(kind, case.array), stream=given)
            case.export(tensor)
            waits = {None: [], -1: WAITS_FOR_ALL, "S": waits_for("S")}[stream]
            assert case.effects == waits, (kind, stream, case.effects)
            assert not case.host_reads(), (kind, stream)
            says = tensor.__cuda_array_interface__["stream"]
            assert says == {None: None, -1: 1, "S": case.s}[stream], (kind, stream)
            del tensor
            case.end()


# --- the host's label ---------------------------------------------------------------------


def host_consumers(case: Case) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """How memory is wanted on the host: options of upgrade, keywords of the consumer."""
    return {
        "option": ({"device": "cpu"}, {}),
        "keyword": ({}, {"dl_device": CPU}),
        "torch": ({}, {"dl_device": CPU, "stream": case.s}),  # passes its stream all the same
        "copy=False": ({}, {"dl_device": CPU, "copy": False}),
    }


@checks.on_cuda
def check_managed_memory_as_the_hosts(drv: Driver) -> None:
    """The same memory, after the wait; its library is not asked to move it."""
    for kind in KINDS:
        for how in host_consumers(Case(drv, fake.NoKw)):
            case = Case(drv, KINDS[kind][0])
            options, keywords = host_consumers(case)[how]
            source = upgraded(kind, case, False, **options)
            taken = case.export(source, max_version=(1, 0), **keywords)
            told = (kind, how, case.effects)
            assert taken.view.device == CPU and taken.view.data == case.address, told
            assert not taken.view.copied, told
            assert without_producer(case.effects) == none_of(kind, "N", False, "auto"), told
            assert not case.host_reads(), told
            assert not any("dl_device" in asked for asked in getattr(case.array, "keywords", ()))
            del source
            case.end()


@checks.on_cuda
def check_what_the_device_question_says(drv: Driver) -> None:
    for kind in ("cupy", "capsule", "no keyword"):
        case = Case(drv, KINDS[kind][0], device=1)
        plain = dlshim.upgrade(source_of(kind, case.array))
        host, cuda = (dlshim.upgrade(plain, device=device) for device in ("cpu", "cuda:1"))
        answers = [x.__dlpack_device__() for x in (plain, host, cuda)]
        assert answers == [(13, 1), CPU, (2, 1)]
        del plain, host, cuda
        caps.close_accounts()


@checks.on_cuda
def check_a_copy_of_managed_memory(drv: Driver) -> None:
    """By the host, after the wait; nothing of it is the driver's."""
    for kind in ("nanobind", "no keyword", "capsule", "cai 3", "cupy", "jax"):
        case = Case(drv, KINDS[kind][0])
        source = upgraded(kind, case, False, device="cpu", copy=True)
        taken = case.export(source, max_version=(1, 0))
        assert taken.view.device == CPU and taken.view.data != case.address
        assert taken.view.copied and taken.values() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        assert not case.host_reads() and not drv.races()
        del source
        case.end()


def of_the_host(drv: Any) -> tuple[str, ...]:
    """Kinds of memory that the host reads under the label of its own."""
    return ("pinned",) if vendors.of(drv).is_hip else ("managed", "pinned")


def check_numpy_over_managed_and_pinned_memory(drv: Any) -> None:
    """The real NumPy where there is one, else its way of asking."""
    for kind, memory in itertools.product(("nanobind", "no keyword", "cai 3"), of_the_host(drv)):
        case = Case(drv, KINDS[kind][0], kind=memory)
        source = upgraded(kind, case, named=memory == "pinned")
        drv.clear_log()
        case.taken = consumers.ask_like_numpy2(source)
        del source
        assert case.taken.values() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        assert not case.host_reads(), (kind, memory)
        case.end()
        numpy = pytest.importorskip("numpy") if _has_numpy() else None
        if numpy is not None:
            case = Case(drv, KINDS[kind][0], kind=memory)
            array = numpy.from_dlpack(upgraded(kind, case, named=memory == "pinned"))
            assert array.tolist() == [[0, 1, 2], [3, 4, 5]] and not case.host_reads()
            assert array.ctypes.data == case.address
            del array


def _has_numpy() -> bool:
    try:
        import numpy
    except ImportError:
        return False
    return tuple(map(int, numpy.__version__.split(".")[:2])) >= (2, 1)


# --- the device's label -------------------------------------------------------------------


@checks.on_cuda
def check_managed_memory_as_the_devices(drv: Driver) -> None:
    """None is then L, which the host does not wait for."""
    for kind, p, s, device in itertools.product(
        KINDS, matrix.P_KINDS, ("None", *matrix.P_KINDS), (0, 1)
    ):
        case = Case(drv, KINDS[kind][0], p=p, s="L" if s == "None" else s, device=device)
        source = upgraded(kind, case, True, device=f"cuda:{device}")
        taken = case.export(source, stream=None if s == "None" else case.s, max_version=(1, 0))
        told = (kind, p, s, case.effects)
        assert taken.view.device == (2, device) and taken.view.data == case.address, told
        assert not any("Synchronize" in line for line in without_producer(case.effects)), told
        assert not drv.read(case.s, case.address), told
        del source
        case.end()


@checks.on_cuda
def check_managed_memory_of_another_device_is_copied(drv: Driver) -> None:
    """The host waits for P and reads it, as it does for itself."""
    for kind in ("nanobind", "no keyword", "capsule"):
        case = Case(drv, KINDS[kind][0], device=1)
        case.export(upgraded(kind, case, False, device="cuda:0"))
        view = case.taken.view
        assert view.device == (2, 0) and view.data != case.address
        assert not drv.read(drv.stream_new(0, False), view.data) and not drv.races(), drv.races()
        case.taken.release()
        caps.close_accounts()


# --- pinned memory ------------------------------------------------------------------------

PINNED_KINDS = {
    "buffer": (fake.PinnedBuffer, "unknown"),
    "torch": (fake.named(fake.TorchPinned), "unknown"),
    "no keyword": (fake.NoKw, "unknown"),
    "capsule": (fake.RawFn, "unknown"),
    "cai 2": (fake.Cai2, "unknown"),
    "cai 3": (fake.Cai3, "known"),
}


def check_pinned_memory(drv: Any) -> None:
    """Nobody tracks copies into it: only a P that somebody named is waited for."""
    warm(drv)
    for kind, named in itertools.product(PINNED_KINDS, (False, True)):
        pinned(drv, kind, named)


#: Who reads: where S is one of these the host, else the stream.  HIP has handles alone for streams.
HOSTS = {"cuda": ("None", "0"), "rocm": ("None", "0", "1", "2")}


def pinned(drv: Any, kind: str, named: bool) -> None:
    vendor = vendors.of(drv)
    for p, s in itertools.product(matrix.P_KINDS, ("None", "-1", "0", "1", "2", "N")):
        make, knows = PINNED_KINDS[kind]
        if vendor.is_hip and named and p == "PTDS":
            continue  # 2 cannot be named
        numbers = {"None": None, "-1": -1, "0": 0, "1": 1, "2": 2}
        by_host = s in HOSTS[vendor.name]
        case = Case(drv, make, kind="pinned", p=p, s={"1": "L", "2": "PTDS"}.get(s, "N"))
        given = numbers.get(s, case.s)
        taken = case.export(upgraded(kind, case, named), stream=given)
        told = (kind, p, s, named, case.effects)
        # torch's capsule says that this is host memory like any other, and it decides (N5); that
        # unfinished work is in it, the user has said.
        label = CPU if kind == "torch" else vendor.device_of("pinned", 0)
        assert taken.view.device == label, told
        known = named or knows == "known"
        same = {"1": "L", "2": "PTDS"}.get(s) == p
        if not known or s == "-1" or (same and not by_host):
            wanted = []
        elif by_host:
            wanted = waits_for(NAMES[p], vendor)
        else:
            wanted = edge(vendor, NAMES[p], {"1": "L", "2": "PTDS"}.get(s, "S"))
        assert case.effects == wanted, (told, wanted)
        assert wanted or kind != "buffer" or drv.log(by="") == [], (told, drv.log())
        if hasattr(case.array, "__dlpack__"):
            assert last_passed(case.array) in (None, matrix.ABSENT), told
        if known and by_host:
            assert not case.host_reads(), told
        elif known and s != "-1":
            assert not drv.read(case.s, case.address), told
        case.end()


def edge(vendor: vendors.Vendor, p: str, s: str) -> list[str]:
    if vendor.is_hip:
        p = vendor.shown if p == "L" else p
        return [f"{vendor.record} {p} on D", f"{vendor.wait} {s} on D"]
    return ["push C", f"{vendor.record} {p} in C", f"{vendor.wait} {s} in C", "pop"]


def check_pinned_memory_as_the_hosts(drv: Any) -> None:
    for kind, named in itertools.product(PINNED_KINDS, (False, True)):
        for how in host_consumers(Case(drv, fake.NoKw)):
            make, knows = PINNED_KINDS[kind]
            case = Case(drv, make, kind="pinned")
            options, keywords = host_consumers(case)[how]
            source = upgraded(kind, case, named, **options)
            taken = case.export(source, max_version=(1, 0), **keywords)
            assert taken.view.device == CPU and taken.view.data == case.address, (kind, how)
            known = named or knows == "known"
            wanted = waits_for("P", case.vendor) if known else []
            assert case.effects == wanted, (kind, how, case.effects)
            assert case.host_reads() != known, (kind, how)
            del source
            case.end()


def check_a_pinned_tensor_of_a_synced_stream(drv: Any) -> None:
    """Ready on S is not ready for the host."""
    ways: dict[str, Callable[[Any], Any]] = {
        "None": lambda t: t.__dlpack__(),
        "dl_device": lambda t: t.__dlpack__(dl_device=CPU),
        "buffer": memoryview,
        "interface": lambda t: t.__array_interface__,
    }
    for name, way in ways.items():
        case = Case(drv, fake.Cai3, kind="pinned")
        tensor = dlshim.from_dlpack(case.array, stream=case.s)
        try:
            held = way(tensor)
        except (BufferError, AttributeError):
            continue  # refused is as good
        assert not case.host_reads(), name
        del held, tensor
    caps.close_accounts()


def check_a_pinned_tensor_that_the_host_waited_for(drv: Any) -> None:
    case = Case(drv, fake.Cai3, kind="pinned")
    tensor = dlshim.from_dlpack(case.array)
    drv.clear_log()
    view = memoryview(tensor)
    assert view.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]] and drv.log() == []
    assert not case.host_reads()


@checks.on_hip
def check_managed_memory_is_devices(drv: HipDriver) -> None:
    """CuPy says 10 of it; there is no label of its own."""
    drv.reset()
    x = libraries.ROCM.make["cupy"](drv, drv.stream_new(0, False), kind="managed")
    s = drv.stream_new(0, False)
    x.write()
    taken = caps.take(dlshim.upgrade(x).__dlpack__(stream=s))
    assert taken.view.device == (10, 0) and not drv.read(s, x.address)
    taken.release()
    caps.close_accounts()


# --- the tests ----------------------------------------------------------------------------


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), ALL_LIVE))
def test_managed(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
