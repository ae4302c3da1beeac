"""The matrix of streams on every fake driver that works, of either vendor.

``device.matrix``, and for ROCm ``device.rocm``, say what has to come of a cell, by hand;
``device.matrix_run`` carries it out:
kernel on P, export through dlshim, kernel on S, and everything that the driver and the producer
saw in between.
"""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest

import dlshim
import sampling
from device import libraries, matrix, rocm
from device.libraries import source_of
from device.matrix import Cell, Expected
from device.matrix_run import Calls, Run, run, warm
from doubles import capsules as caps
from doubles import child, streams, vendors
from doubles import device as fake
from drivers import ALL_LIVE, HIP_LIVE, Driver, HipDriver, built, checks, run_checks

#: Captures came with CUDA 10.
WITH_CAPTURES = ALL_LIVE[1:]
CUDA = libraries.CUDA


#: The newest driver of CUDA and the newest runtime of HIP run every cell of the large products;
#: what the others lack, a third of the cells shows, the same third each time.  A sample has a
#: fifteenth.
WHOLE = ("13.0", HIP_LIVE[-1])
LARGE = ("everywhere", "policies", "capturing", "objects")


def chosen(variant: str, name: str, told: str) -> bool:
    parts = sampling.fewer(1 if variant in WHOLE else 3, 15)
    return name not in LARGE or crc32(f"{name} {told}".encode()) % parts == 0


def specified(drv: Any) -> Any:
    """What is written by hand of this vendor."""
    return rocm if vendors.of(drv).is_hip else matrix


def product(drv: Any, name: str) -> None:
    variant, cells = variant_of(drv), matrix.in_generations(specified(drv).PRODUCTS[name]())
    assert run(drv, variant, (cell for cell in cells if chosen(variant, name, str(cell)))) > 40


def variant_of(drv: Any) -> str:
    hip = vendors.of(drv).is_hip
    option = "runtime_version" if hip else "driver_version"
    version = drv.option(option, 0)
    drv.option(option, version)
    return f"hip{version // 10**7}" if hip else f"{version // 1000}.{version % 1000 // 10}"


# --- the products -------------------------------------------------------------------------


def check_every_producer_stream_device_and_context(drv: Any) -> None:
    product(drv, "everywhere")


def check_the_options_about_unknown_streams(drv: Any) -> None:
    product(drv, "policies")


def check_the_option_that_replaces_the_consumers_stream(drv: Any) -> None:
    product(drv, "overridden")


@checks.only_on(*WITH_CAPTURES)
def check_captures(drv: Any) -> None:
    product(drv, "capturing")


def check_arrays_of_no_elements(drv: Any) -> None:
    product(drv, "empty")


@checks.on_cuda
def check_stream_objects(drv: Any) -> None:
    product(drv, "objects")


def check_both_generations(drv: Any) -> None:
    """The products ask each cell for one; here is a part of them for both."""
    for versioned in (False, True):
        cells = (c for c in specified(drv).everywhere() if (c.device, c.current) == (0, 0))
        cells = (replace(c, versioned=versioned) for c in cells if c.s in ("None", "-1", "N"))
        run(drv, variant_of(drv), cells)


def check_that_the_way_need_not_be_known(drv: Any) -> None:
    """The first export of a type tries the call forms in turn: nobody is passed another
    stream on the way, and what is done to the driver is the same."""
    from dlshim import _core

    with libraries.of(drv).imported():
        warm(drv)
        for producer, s in itertools.product(specified(drv).PRODUCERS, ("None", "-1", "2", "N")):
            _core._hook("forget_plans")
            cell = Cell(producer, s=s)
            one = Run(drv, variant_of(drv), cell)
            one.set_up()
            one.export()
            one.judge_outcome()
            # A type that refuses -1 for the first time: captures are asked about (S10).
            if s != "-1" or "stream" in getattr(one.array, "TAKES", ("stream",)):
                one.judge_calls()
            one.judge_read()
            one.judge_end()
            assert not one.problems, (str(cell), one.problems)
            if one.producer.called and one.wanted.asked and one.wanted.passed != matrix.ABSENT:
                value = one.place.s if one.wanted.passed == matrix.ASKED else one.wanted.passed
                asked = {k["stream"] for k in one.array.keywords if "stream" in k}
                assert asked == {value}, (str(cell), asked)


# --- what the harness must be able to see -------------------------------------------------


class Wrong(Run):
    """A cell of which something false is expected."""

    def __init__(self, drv: Any, cell: Cell, **wrong: Any) -> None:
        super().__init__(drv, variant_of(drv), cell)
        self.wanted = Expected(**{**self.wanted.__dict__, **wrong})


@checks.on_hip
def check_that_no_error_is_left_for_others(drv: HipDriver) -> None:
    """Frameworks look at hipGetLastError after their own calls, and take for theirs what an export
    has left there: nothing else is judged."""

    class Tidy(Run):
        def export(self) -> None:
            super().export()
            self.last_error = drv.last_error()

        def go(self) -> list[str]:
            super().go()
            error = self.last_error
            return [f"{self.cell}: the error {error} is left for others to meet"] if error else []

    for name in ("everywhere", "capturing"):
        cells = sampling.every(7, matrix.in_generations(rocm.PRODUCTS[name]()))
        run(drv, variant_of(drv), cells, kind=Tidy)


def check_that_a_wrong_expectation_is_a_problem(drv: Any) -> None:
    wrong: dict[str, tuple[Cell, dict[str, Any]]] = {
        "racy": (Cell("capsule"), {"racy": True}),
        "called": (Cell("capsule"), {"effects": []}),
        "passed": (Cell("torch"), {"passed": 1}),
        "asked": (Cell("torch"), {"asked": 2}),
        "BufferError": (Cell("capsule", policy="error"), {"error": None}),
        "NoneType": (Cell("capsule"), {"error": matrix.UNKNOWN}),
    }
    if vendors.of(drv).is_hip:
        wrong["ValueError"] = (Cell("capsule", s="2"), {"error": None})
    with libraries.of(drv).imported():
        warm(drv)
        for word, (cell, expectation) in wrong.items():
            found = Wrong(drv, cell, **expectation).go()
            assert any(word in text for text in found), (word, found)


# --- every call, in order -----------------------------------------------------------------


def text_of(entry: Any, calls: Calls) -> str:
    shown = {
        "cuStreamGetCtx": lambda: f"{entry.name} {entry.args['stream']}",
        "cuStreamIsCapturing": lambda: f"{entry.name} {entry.args['stream']}",
        "cuThreadExchangeStreamCaptureMode": lambda: f"mode {entry.args['mode']}",
    }
    if entry.by:
        return "producer"
    return shown.get(entry.name, lambda: calls.line(entry))()


@checks.on_cuda
def check_the_sequences_to_the_letter(drv: Driver) -> None:
    variant = variant_of(drv)
    unknown = "edge(device,S)" if matrix.DEVICE_EVENTS[variant] else "sync(device)"
    cases = {
        "edge(P,S)": Cell("capsule", named=True),
        "edge(L,S)": Cell("capsule", policy="legacy"),
        unknown: Cell("capsule"),
        "nothing": Cell("capsule", s="-1"),
        "pass": Cell("warp"),
    }
    warm(drv)
    dlshim.upgrade(CUDA.make["warp"](drv, 1)).__dlpack__(stream=-1)
    for action, cell in cases.items():
        one = Run(drv, variant, cell)
        one.set_up()
        one.export()
        calls = Calls.at(drv, cell.device)
        lines = [text_of(entry, calls) for entry in calls.entries]
        lines = [a for a, b in itertools.pairwise((*lines, None)) if (a, b) != ("producer",) * 2]
        assert lines == matrix.golden(variant, action), (str(cell), lines)
        one.give_back()


def text_of_hip(entry: Any) -> str:
    shown = {key: entry.args[key] for key in ("stream", "set") if key in entry.args}
    return " ".join([entry.name, *shown.values()])


@checks.on_hip
def check_the_sequences_of_hip_to_the_letter(drv: HipDriver) -> None:
    cases = {
        "edge(P,S)": Cell("capsule", device=1, named=True),
        "edge(L,S)": Cell("capsule", device=1, policy="legacy"),
        "sync(device)": Cell("capsule", device=1),
        "nothing": Cell("capsule", device=1, s="-1"),
    }
    warm(drv)
    for action, cell in cases.items():
        one = Run(drv, "", cell)
        one.set_up()
        one.export()
        lines = [text_of_hip(entry) for entry in drv.entries()]
        assert lines == rocm.GOLDEN[action], (action, lines)
        assert {entry.args["dev"] for entry in drv.entries()} <= {"0", "1"}
        one.judge_end()
        assert not one.problems, one.problems


# --- what is no stream --------------------------------------------------------------------


def refusal(upgraded: Any, stream: Any) -> BaseException | None:
    try:
        upgraded.__dlpack__(stream=stream)
    except Exception as error:
        return error
    return None


def no_streams(drv: Any) -> list[tuple[Any, type]]:
    """Values, and how they are refused."""
    wrong: list[tuple[Any, type]] = [(value, TypeError) for value in (True, 1.5, "1", b"", [])]
    wrong += [(value, ValueError) for value in (-2, 2**64, -(2**80))]
    wrong += [(streams.Queue(), TypeError)]
    wrong += [(streams.Broken(answer), TypeError) for answer in (None, (1, 5), (0,), "x", (0, "x"))]
    if vendors.of(drv).is_hip:
        wrong += [(value, ValueError) for value in (1, 2)]
        wrong += [(make(value), ValueError) for make in streams.FORMS for value in (1, 2)]
    return wrong


def check_what_is_no_stream_is_refused_before_anybody_is_asked(drv: Any) -> None:
    """As the consumer's stream, and as the option."""
    its, producers = libraries.of(drv), specified(drv).PRODUCERS
    with its.imported():
        for name, make in its.make.items():
            drv.reset()
            x = make(drv, vendors.of(drv).legacy)
            upgraded = dlshim.upgrade(source_of(name, x))
            calls = len(getattr(x, "calls", ()))
            drv.clear_log()
            for value, kind in no_streams(drv):
                error = refusal(upgraded, value)
                assert type(error) is kind and "stream" in str(error), (name, value, error)
                if producers[name].called:
                    with pytest.raises(kind, match="stream"):
                        dlshim.upgrade(x, stream=value).__dlpack__(stream=None)
            # Of what only a function gives, the device is known when the capsule is there.
            assert len(getattr(x, "calls", ())) == calls or not producers[name].called
            if not producers[name].reads_dict:
                assert drv.log() == [], name
            upgraded = None
            caps.close_accounts()


@checks.on_hip
def check_a_producers_stream_that_is_none_of_rocm(drv: HipDriver) -> None:
    for value in (1, 2):
        with pytest.raises(ValueError, match="pass 0 for the default stream"):
            dlshim.upgrade(fake.NoKw(drv, 0), producer_stream=value).__dlpack__(stream=0)
    caps.close_accounts()


@checks.on_hip
def check_stream_objects_of_hip(drv: HipDriver) -> None:
    """HIP builds of torch and CuPy keep CUDA's names; 0 is the default stream."""
    warm(drv)
    for make, p, s in itertools.product(streams.FORMS, ("L", "N"), ("L", "N")):
        drv.reset()
        handles = [vendors.ROCM.stream(drv, kind, name=n) for kind, n in ((p, "P"), (s, "S"))]
        x = fake.NoKw(drv, handles[0])
        assert not x.write()
        drv.clear_log()
        upgraded = dlshim.upgrade(x, producer_stream=make(handles[0]))
        caps.take(upgraded.__dlpack__(stream=make(handles[1]))).release()
        names = [name for name in drv.calls() if name not in vendors.ROCM.queries]
        edge = ["hipEventRecord", "hipStreamWaitEvent"]
        assert names == ([] if p == s == "L" else edge), (make, p, s, names)
        assert not drv.read(handles[1], x.address)


def check_that_what_a_stream_object_raises_is_told(drv: Any) -> None:
    for failure in (RuntimeError("driver gone"), ValueError("no"), KeyboardInterrupt()):
        x = fake.NoKw(drv)
        try:
            dlshim.upgrade(x).__dlpack__(stream=streams.Raises(failure))
        except BaseException as error:
            told = error
            while told is not failure:
                told = told.__cause__
                assert told is not None, (failure, error)
            if isinstance(failure, KeyboardInterrupt):
                assert error is failure
        else:
            raise AssertionError("went through")
        assert [entry for entry in x.keywords if "stream" in entry] == []
        caps.close_accounts()


# --- a Tensor remembers -------------------------------------------------------------------

#: from_dlpack's own stream -> what the Tensor knows of its data: on which stream they are ready.
FIRST = ("omitted", "None", "-1", "1", "2", "B", "N", "P")


def chains() -> Iterator[tuple[Cell, str]]:
    """A cell for from_dlpack, and the stream of the export that follows ("T": the first's)."""
    for producer, p, first, second in itertools.product(
        ("torch", "jax", "nanobind", "capsule", "cai 3", "cai 2"),
        matrix.P_KINDS,
        FIRST,
        ("omitted", "None", "-1", "1", "2", "B", "N", "T"),
    ):
        yield Cell(producer, p, first), second


def kind_of_first(cell: Cell) -> str:
    """Where the data of the Tensor are ready: a kind of stream, or "unknown"."""
    return "unknown" if cell.s == "-1" else matrix.as_stream(cell.s, cell.p)


def second_action(variant: str, cell: Cell, second: str) -> str:
    """S20, as for raw capsules: P is what the Tensor remembers."""
    ready = kind_of_first(cell)
    if second == "-1":
        return "nothing"
    if ready == "unknown":
        return "edge(device,S)" if matrix.DEVICE_EVENTS[variant] else "sync(device)"
    same = second == "T" or (ready in ("L", "PTDS") and matrix.as_stream(second, "") == ready)
    return "nothing" if same else "edge(T,S)"


class Chain:
    """from_dlpack on one stream, then an export to another."""

    def __init__(self, drv: Driver, variant: str, cell: Cell, second: str) -> None:
        self.drv, self.variant, self.cell, self.second = drv, variant, cell, second
        self.one = Run(drv, variant, cell)
        self.one.set_up()
        self.first = self.one.place.s
        self.s = self.second_stream()

    def second_stream(self) -> int:
        known = {"omitted": 1, "None": 1, "1": 1, "2": 2, "T": self.first}
        kind = "N" if self.second == "-1" else self.second
        return known.get(self.second) or self.one.place.stream(kind, "S2")

    def tensor(self) -> Any:
        keywords = {k: v for k, v in self.one.keywords.items() if k == "stream"}
        return dlshim.from_dlpack(source_of(self.cell.producer, self.one.array), **keywords)

    def stream_argument(self) -> dict[str, Any]:
        numbers: dict[str, Any] = {"None": None, "-1": -1}
        if self.second == "omitted":
            return {}
        if self.second == "T" and self.cell.s == "-1":
            return {"stream": 1}
        return {"stream": numbers.get(self.second, self.s)}

    def run(self) -> None:
        drv = self.drv
        told = (str(self.cell), self.second)
        tensor = self.tensor()
        drv.clear_log()
        taken = caps.take(tensor.__dlpack__(**self.stream_argument()))
        action = self.action()
        effects = Calls(drv, drv.context_number(self.one.place.context)).effects()
        assert effects == self.effects(action), (told, effects)
        reader = 1 if self.stream_argument().get("stream") == 1 else self.s
        racy = drv.read(reader, self.one.address, context=self.one.place.context)
        assert racy == self.racy(action), (told, action, racy, drv.races())
        assert not drv.gil_held_calls(every=True) and drv.live_events() == 2, told
        del tensor
        taken.release()
        self.one.give_back()

    def action(self) -> str:
        second = "1" if self.second == "T" and self.cell.s == "-1" else self.second
        return second_action(self.variant, self.cell, second)

    def effects(self, action: str) -> list[str]:
        kind = {1: "L", 2: "PTDS"}
        own = {self.one.place.p: "P", self.one.place.s: "S"}
        name = kind.get(self.first) or own[self.first]
        if self.first == self.one.place.p and self.cell.s == "P":
            name = kind.get(self.first, "P")
        reader = 1 if self.stream_argument().get("stream") == 1 else self.s
        s = kind.get(reader) or ("S2" if reader != self.first else name)
        wait = f"cuStreamWaitEvent {s} in C"
        record = {"edge(T,S)": f"cuEventRecord {name} in C"}
        if action == "nothing":
            return []
        if action == "sync(device)":
            return ["push C", "cuCtxSynchronize C", "pop"]
        return ["push C", record.get(action, "cuCtxRecordEvent C in C"), wait, "pop"]

    def racy(self, action: str) -> bool:
        """The whole way: P to the first stream, and from there to the second."""
        if action != "nothing" or self.second not in ("-1",):
            return False
        # Nobody synced the reader; but the host may have been made to wait on the first leg.
        first = self.one.wanted.action
        producer = matrix.PRODUCERS[self.cell.producer]
        return not (first.startswith("sync") or self.cell.s in producer.waits)


@checks.on_cuda
def check_a_tensor_syncs_from_the_stream_that_it_was_given(drv: Driver) -> None:
    variant = variant_of(drv)
    with CUDA.imported():
        warm(drv)
        for name in ("torch", "jax", "nanobind"):
            dlshim.upgrade(CUDA.make[name](drv, 1)).__dlpack__(stream=-1)
        for cell, second in chains():
            if chosen(variant, LARGE[0], f"{cell} {second}"):
                Chain(drv, variant, cell, second).run()


class DefaultStream:
    """The object of HIP's default stream, as torch's: its handle is 0, not 1 as L's on CUDA."""

    cuda_stream = 0


@checks.on_hip
def check_a_tensor_of_hip_syncs_from_the_stream_that_it_was_given(drv: HipDriver) -> None:
    warm(drv)
    for producer, first, second in itertools.product(
        ("torch", "nanobind", "capsule"), (None, 0, -1, "A", "default"), (None, 0, -1, "A", "B")
    ):
        drv.reset()
        p, a, b = (drv.stream_new(0, False, name=n) for n in "PAB")
        x = libraries.ROCM.make[producer](drv, p)
        x.write()
        given = {None: None, 0: 0, -1: -1, "A": a, "B": b, "default": DefaultStream()}
        tensor = dlshim.from_dlpack(source_of(producer, x), stream=given[first])
        drv.clear_log()
        taken = caps.take(tensor.__dlpack__(stream=given[second]))
        names = [n for n in drv.calls() if n not in vendors.ROCM.queries]
        same = first == second or (first in (None, 0, "default") and second in (None, 0))
        told = (producer, first, second, names)
        if second == -1:
            assert drv.calls() == [], told
        elif first == -1:
            assert names == ["hipDeviceSynchronize"], told
        else:
            assert names == ([] if same else ["hipEventRecord", "hipStreamWaitEvent"]), told
        if second != -1:
            assert not drv.read(given[second] or 0, x.address), told
        del tensor
        taken.release()
    caps.close_accounts()


@checks.on_cuda
def check_a_tensor_says_its_stream_in_its_interface(drv: Driver) -> None:
    """v3 of the interface: the stream, never 0; unknown is first brought into L."""
    variant = variant_of(drv)
    unknown = "cuCtxRecordEvent C in C" if matrix.DEVICE_EVENTS[variant] else "cuCtxSynchronize C"
    with CUDA.imported():
        warm(drv)
        for producer, p, first in itertools.product(
            ("torch", "nanobind", "capsule", "cai 3"), matrix.P_KINDS, FIRST
        ):
            chain = Chain(drv, variant, Cell(producer, p, first), "None")
            tensor = chain.tensor()
            drv.clear_log()
            says = tensor.__cuda_array_interface__["stream"]
            effects = Calls(drv, drv.context_number(chain.one.place.context)).effects()
            told = (producer, p, first)
            if first == "-1":
                assert says == 1 and unknown in effects, told
            else:
                assert says == chain.first and effects == [], told
            assert not drv.read(says, chain.one.address), told
            assert not drv.gil_held_calls(every=True)
            del tensor
            chain.one.give_back()


def check_a_tensor_keeps_the_stream_object(drv: Any) -> None:
    """The handle is good as long as the object lives."""
    for make in streams.FORMS:
        drv.reset()
        stream = make(drv.stream_new(0, False))
        alive = weakref.ref(stream)
        tensor = dlshim.from_dlpack(fake.NoKw(drv), stream=stream)
        del stream
        gc.collect()
        assert alive() is not None, make
        del tensor
        gc.collect()
        assert alive() is None, make
    caps.close_accounts()


def check_empty_tensors(drv: Any) -> None:
    vendor = vendors.of(drv)
    for s in (None, -1, 0) if vendor.is_hip else (None, -1, 1, 2):
        drv.reset()
        p = drv.stream_new(0, False)
        tensor = dlshim.from_dlpack(fake.RawFn(drv, p, shape=(0, 3))(), stream=s)
        drv.clear_log()
        tensor.__dlpack__(stream=drv.stream_new(0, False))
        assert vendor.is_hip or tensor.__cuda_array_interface__["stream"] is None
        assert drv.log() == []
        del tensor
    caps.close_accounts()


# --- threads ------------------------------------------------------------------------------


def in_thread(function: Any) -> Any:
    result: list[Any] = []
    thread = threading.Thread(target=lambda: result.append(function()))
    thread.start()
    thread.join()
    assert result, "the thread ended with an exception"
    return result[0]


@checks.on_cuda
def check_the_per_thread_stream_of_another_thread(drv: Driver) -> None:
    """2 is another stream in every thread: what one made ready there, others wait for by way of
    L, which all per-thread streams sync themselves with."""
    for s in (1, 2, "B", "N"):
        drv.reset()
        drv.set_current(drv.context(0))
        stream = s if s in (1, 2) else drv.stream_new(0, s == "B", name="S")
        x = fake.NoKw(drv, 2)

        def make(x: Any = x) -> Any:
            drv.write(2, x.address)
            return dlshim.from_dlpack(dlshim.upgrade(x, producer_stream=2), stream=2)

        tensor = in_thread(make)
        taken = caps.take(tensor.__dlpack__(stream=stream))
        assert not drv.read(stream, x.address), (s, drv.races())
        says = tensor.__cuda_array_interface__["stream"]
        assert not drv.read(says, x.address), (s, says)
        del tensor
        taken.release()


@checks.on_cuda
def check_the_per_thread_stream_of_a_thread_that_has_ended(drv: Driver) -> None:
    """Another thread may get its ident, and has another stream all the same."""
    same = 0
    while same < 2:
        drv.reset()
        x = fake.NoKw(drv, 2)

        def make(x: Any = x) -> tuple[Any, int]:
            drv.write(2, x.address)
            known = dlshim.upgrade(x, producer_stream=2)
            return dlshim.from_dlpack(known, stream=2), threading.get_ident()

        tensor, first = in_thread(make)

        def use(x: Any = x, tensor: Any = tensor) -> tuple[bool, int]:
            caps.take(tensor.__dlpack__(stream=2)).release()
            return drv.read(2, x.address), threading.get_ident()

        racy, second = in_thread(use)
        assert not racy, drv.races()
        same += first == second
        del tensor, use


def check_threads_without_a_context(drv: Any) -> None:
    """No context is current in a fresh thread, of HIP device 0; so it is afterwards."""
    fresh = 0 if vendors.of(drv).is_hip else ()
    for name, device in itertools.product(("torch", "cupy", "nanobind", "no keyword"), (0, 1)):
        drv.reset()
        p = drv.stream_new(device, False, name="P")
        s = drv.stream_new(device, False, name="S")
        drv.make_current(1)
        x = libraries.of(drv).make[name](drv, p, device=device)
        drv.write(p, x.address)
        here = drv.now_current()

        def export(x: Any = x, s: int = s) -> tuple[Any, Any]:
            taken = caps.take(dlshim.upgrade(x).__dlpack__(stream=s))
            return taken, drv.now_current()

        taken, there = in_thread(export)
        assert there == fresh and drv.now_current() == here, (name, device)
        assert not drv.read(s, x.address), (name, device)
        taken.release()


# --- other contexts and devices -----------------------------------------------------------


def synced(drv: Any, x: Any, s: int, context: int, **options: Any) -> list[str]:
    """Write on P, export to S, read there; what dlshim called, and all is as it was."""
    assert not x.write()
    current = drv.now_current()
    drv.clear_log()
    taken = caps.take(dlshim.upgrade(x, **options).__dlpack__(stream=s))
    home = 0 if vendors.of(drv).is_hip else drv.context_number(context)
    effects = Calls(drv, home).effects()
    assert not drv.read(s, x.address), drv.races()
    assert drv.now_current() == current
    taken.release()
    return effects


@checks.on_cuda
def check_memory_of_a_pool_tells_no_context(drv: Driver) -> None:
    for device, current in itertools.product((0, 1), (0, 1, None)):
        for options, name in (({}, "cai 2"), ({"producer_stream": 1}, "capsule")):
            drv.reset()
            drv.set_current(None if current is None else drv.context(current))
            x = CUDA.make[name](drv, 1, device=device, kind="pool")
            s = drv.stream_new(device, False)
            source = source_of(name, x)
            assert not x.write()
            taken = caps.take(dlshim.upgrade(source, **options).__dlpack__(stream=s))
            assert not drv.read(s, x.address), (device, current, name)
            assert taken.view.device == (2, device)
            taken.release()


@checks.on_cuda
def check_contexts_that_a_program_made_itself(drv: Driver) -> None:
    """cuCtxCreate: the memory's own context is the one that counts, current or not."""
    for named, current in itertools.product((False, True), ("own", "primary", "other", None)):
        drv.reset()
        context = drv.context_new(0)
        chosen = {"own": context, "primary": drv.context(0), "other": drv.context(1), None: None}
        drv.set_current(chosen[current])
        p = drv.stream_new(blocking=False, context=context, name="P")
        s = drv.stream_new(blocking=False, context=context, name="S")
        options = {"producer_stream": p} if named else {}
        for stream in (s, 1, 2):
            synced(drv, fake.NoKw(drv, p, context=context), stream, context, **options)


def check_a_consumers_stream_of_another_context_or_device(drv: Any) -> None:
    """A wait may cross contexts and devices, a record may not."""
    vendor, make = vendors.of(drv), libraries.of(drv).make
    for name, current in itertools.product(("nanobind", "no keyword"), vendor.currents):
        drv.reset()
        drv.make_current(current)
        p = drv.stream_new(0, False, name="P")
        foreign = [drv.stream_new(1, False)]
        if not vendor.is_hip:
            foreign.append(drv.stream_new(context=drv.context_new(0)))
        for s in foreign:
            synced(drv, make[name](drv, p), s, drv.context(0), producer_stream=p)
            synced(drv, make[name](drv, p), s, drv.context(0))


def check_a_producers_stream_of_another_device(drv: Any) -> None:
    """Peer access: P lies elsewhere; L and PTDS of the consumer are those of the memory."""
    vendor = vendors.of(drv)
    kinds = ("L", "N") if vendor.is_hip else ("L", "PTDS", "N")
    for kind, current in itertools.product(kinds, vendor.currents):
        drv.reset()
        drv.make_current(current)
        p = drv.stream_new(1, False, name="P")
        x = fake.NoKw(drv, p, device=0)
        stream = vendor.stream(drv, kind, name="S")
        effects = synced(drv, x, stream, drv.context(0), producer_stream=p)
        if current is None:
            assert effects == from_another(drv, kind), effects


def from_another(drv: Driver, kind: str) -> list[str]:
    """What is called while no context is current."""
    other = f"context {drv.context_number(drv.context(1))}"
    wait = f"cuStreamWaitEvent {'S' if kind == 'N' else kind} in "
    inner = ["push C", wait + "C", "pop"] if kind != "N" else [wait + other]
    return [f"push {other}", f"cuEventRecord P in {other}", *inner, "pop"]


# --- the tests ----------------------------------------------------------------------------


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), ALL_LIVE))
def test_matrix(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]


# --- what needs a driver that nobody has used ---------------------------------------------


@pytest.mark.parametrize("variant", ALL_LIVE)
def test_events_and_streams_wait_in_their_pools(variant: str) -> None:
    """Made once for each device, without timing (S16); never destroyed while sound.  They are made
    in the relaxed mode, which is put back: a capture of another thread is not to be ended."""
    child.program("pools_of_events", built(variant))


def test_no_context_is_ever_made() -> None:
    """It would take a second and hundreds of megabytes (S15)."""
    child.program("devices_without_a_context", built("13.0"))
