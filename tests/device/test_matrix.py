"""The matrix of streams on every fake driver that works.

``device.matrix`` says what has to come of a cell, by hand; ``device.matrix_run`` carries it out:
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
from device import matrix
from device.matrix import Cell, Expected
from device.matrix_run import MAKE, Calls, Run, libraries, run, source_of, warm
from doubles import capsules as caps
from doubles import device as fake
from doubles import streams
from drivers import Driver, checks, run_checks, run_with_driver

LIVE = ("9.2", "12.2", "12.5", "13.0")
#: Captures came with CUDA 10.
WITH_CAPTURES = LIVE[1:]


#: The newest driver runs every cell of the large products; what the others lack, a third of the
#: cells shows, the same third each time.
WHOLE = "13.0"
LARGE = ("everywhere", "policies", "capturing", "objects")


def chosen(variant: str, name: str, told: str) -> bool:
    return variant == WHOLE or name not in LARGE or crc32(f"{name} {told}".encode()) % 3 == 0


def product(drv: Driver, name: str) -> None:
    variant, cells = variant_of(drv), matrix.in_generations(matrix.PRODUCTS[name]())
    run(drv, variant, (cell for cell in cells if chosen(variant, name, str(cell))))


def variant_of(drv: Driver) -> str:
    version = drv.option("driver_version", 0)
    drv.option("driver_version", version)
    return f"{version // 1000}.{version % 1000 // 10}"


# --- the products -------------------------------------------------------------------------


def check_every_producer_stream_device_and_context(drv: Driver) -> None:
    product(drv, "everywhere")


def check_the_options_about_unknown_streams(drv: Driver) -> None:
    product(drv, "policies")


def check_the_option_that_replaces_the_consumers_stream(drv: Driver) -> None:
    product(drv, "overridden")


@checks.only_on(*WITH_CAPTURES)
def check_captures(drv: Driver) -> None:
    product(drv, "capturing")


def check_arrays_of_no_elements(drv: Driver) -> None:
    product(drv, "empty")


def check_stream_objects(drv: Driver) -> None:
    product(drv, "objects")


def check_both_generations(drv: Driver) -> None:
    """The products ask each cell for one; here is a part of them for both."""
    for versioned in (False, True):
        cells = (c for c in matrix.everywhere() if (c.device, c.current) == (0, 0))
        cells = (replace(c, versioned=versioned) for c in cells if c.s in ("None", "-1", "N"))
        run(drv, variant_of(drv), cells)


def check_that_the_way_need_not_be_known(drv: Driver) -> None:
    """The first export of a type tries the call forms in turn: nobody is passed another
    stream on the way, and what is done to the driver is the same."""
    from dlshim import _core

    with libraries():
        warm(drv)
        for producer, s in itertools.product(matrix.PRODUCERS, ("None", "-1", "2", "N")):
            _core._hook("forget_plans")
            cell = Cell(producer, s=s)
            one = Run(drv, variant_of(drv), cell)
            one.set_up()
            one.export()
            one.judge_outcome()
            one.judge_calls()
            one.judge_read()
            one.judge_end()
            assert not one.problems, (str(cell), one.problems)
            if matrix.PRODUCERS[producer].called and one.wanted.passed != matrix.ABSENT:
                value = one.place.s if one.wanted.passed == matrix.ASKED else one.wanted.passed
                asked = {k["stream"] for k in one.array.keywords if "stream" in k}
                assert asked == {value}, (str(cell), asked)


# --- what the harness must be able to see -------------------------------------------------


class Wrong(Run):
    """A cell of which something false is expected."""

    def __init__(self, drv: Driver, cell: Cell, **wrong: Any) -> None:
        super().__init__(drv, variant_of(drv), cell)
        self.wanted = Expected(**{**self.wanted.__dict__, **wrong})


def check_that_a_wrong_expectation_is_a_problem(drv: Driver) -> None:
    wrong: dict[str, tuple[Cell, dict[str, Any]]] = {
        "racy": (Cell("capsule"), {"racy": True}),
        "called": (Cell("capsule"), {"effects": []}),
        "passed": (Cell("torch"), {"passed": 1}),
        "asked": (Cell("torch"), {"asked": 2}),
        "BufferError": (Cell("capsule", policy="error"), {"error": None}),
        "NoneType": (Cell("capsule"), {"error": matrix.UNKNOWN}),
    }
    with libraries():
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
    dlshim.upgrade(MAKE["warp"](drv, 1)).__dlpack__(stream=-1)
    for action, cell in cases.items():
        one = Run(drv, variant, cell)
        one.set_up()
        one.export()
        calls = Calls(drv, drv.context_number(one.place.context))
        lines = [text_of(entry, calls) for entry in calls.entries]
        lines = [a for a, b in itertools.pairwise((*lines, None)) if (a, b) != ("producer",) * 2]
        assert lines == matrix.golden(variant, action), (str(cell), lines)
        one.give_back()


# --- what is no stream --------------------------------------------------------------------


class Queue:
    """dpctl's SyclQueue: a stream object, but none of CUDA's."""

    def _get_capsule(self) -> object:
        raise AssertionError("nobody has asked for it")


def refusal(upgraded: Any, stream: Any) -> BaseException | None:
    try:
        upgraded.__dlpack__(stream=stream)
    except Exception as error:
        return error
    return None


def check_what_is_no_stream_is_refused_before_anybody_is_asked(drv: Driver) -> None:
    wrong: list[tuple[Any, type]] = [(value, TypeError) for value in (True, 1.5, "1", b"", [])]
    wrong += [(value, ValueError) for value in (-2, 2**64, -(2**80))]
    wrong += [(Queue(), TypeError)]
    wrong += [(streams.Broken(answer), TypeError) for answer in (None, (1, 5), (0,), "x", (0, "x"))]
    with libraries():
        for name, make in MAKE.items():
            drv.reset()
            x = make(drv, 1)
            upgraded = dlshim.upgrade(source_of(name, x))
            calls = len(getattr(x, "calls", ()))
            for value, kind in wrong:
                error = refusal(upgraded, value)
                assert type(error) is kind and "stream" in str(error), (name, value, error)
            # Of what only a function gives, the device is known when the capsule is there.
            assert len(getattr(x, "calls", ())) == calls or not matrix.PRODUCERS[name].called
            if not matrix.PRODUCERS[name].reads_dict:
                assert drv.log() == [], name
            upgraded = None
            caps.close_accounts()


def check_that_what_a_stream_object_raises_is_told(drv: Driver) -> None:
    for failure in (RuntimeError("driver gone"), ValueError("no"), KeyboardInterrupt()):
        x = fake.NoKw(drv, 1)
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


def check_a_tensor_syncs_from_the_stream_that_it_was_given(drv: Driver) -> None:
    variant = variant_of(drv)
    with libraries():
        warm(drv)
        for name in ("torch", "jax", "nanobind"):
            dlshim.upgrade(MAKE[name](drv, 1)).__dlpack__(stream=-1)
        for cell, second in chains():
            if chosen(variant, LARGE[0], f"{cell} {second}"):
                Chain(drv, variant, cell, second).run()


def check_a_tensor_says_its_stream_in_its_interface(drv: Driver) -> None:
    """v3 of the interface: the stream, never 0; unknown is first brought into L."""
    variant = variant_of(drv)
    unknown = "cuCtxRecordEvent C in C" if matrix.DEVICE_EVENTS[variant] else "cuCtxSynchronize C"
    with libraries():
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


def check_a_tensor_keeps_the_stream_object(drv: Driver) -> None:
    """The handle is good as long as the object lives."""
    for make in streams.FORMS:
        drv.reset()
        stream = make(drv.stream_new(0, False))
        alive = weakref.ref(stream)
        tensor = dlshim.from_dlpack(fake.NoKw(drv, 1), stream=stream)
        del stream
        gc.collect()
        assert alive() is not None, make
        del tensor
        gc.collect()
        assert alive() is None, make
    caps.close_accounts()


def check_empty_tensors(drv: Driver) -> None:
    for s in (None, -1, 1, 2):
        drv.reset()
        p = drv.stream_new(0, False)
        tensor = dlshim.from_dlpack(fake.RawFn(drv, p, shape=(0, 3))(), stream=s)
        drv.clear_log()
        tensor.__dlpack__(stream=drv.stream_new(0, False))
        assert tensor.__cuda_array_interface__["stream"] is None
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


def check_threads_without_a_context(drv: Driver) -> None:
    """No context is current in a fresh thread, and none is afterwards."""
    for name in ("torch", "nanobind", "no keyword"):
        for device in (0, 1):
            drv.reset()
            p = drv.stream_new(device, False, name="P")
            s = drv.stream_new(device, False, name="S")
            x = MAKE[name](drv, p, device=device)
            drv.write(p, x.address)

            def export(x: Any = x, s: int = s) -> tuple[Any, Any]:
                taken = caps.take(dlshim.upgrade(x).__dlpack__(stream=s))
                return taken, drv.context_stack()

            taken, stack = in_thread(export)
            assert stack == () and not drv.read(s, x.address), (name, device)
            taken.release()


# --- other contexts and devices -----------------------------------------------------------


def synced(drv: Driver, x: Any, s: int, context: int, **options: Any) -> list[str]:
    """Write on P, export to S, read there; what dlshim called, and all is as it was."""
    assert not x.write()
    stack = drv.context_stack()
    drv.clear_log()
    taken = caps.take(dlshim.upgrade(x, **options).__dlpack__(stream=s))
    effects = Calls(drv, drv.context_number(context)).effects()
    assert not drv.read(s, x.address), drv.races()
    assert drv.context_stack() == stack
    taken.release()
    return effects


def check_memory_of_a_pool_tells_no_context(drv: Driver) -> None:
    for device, current in itertools.product((0, 1), (0, 1, None)):
        for options, name in (({}, "cai 2"), ({"producer_stream": 1}, "capsule")):
            drv.reset()
            drv.set_current(None if current is None else drv.context(current))
            x = MAKE[name](drv, 1, device=device, kind="pool")
            s = drv.stream_new(device, False)
            source = source_of(name, x)
            assert not x.write()
            taken = caps.take(dlshim.upgrade(source, **options).__dlpack__(stream=s))
            assert not drv.read(s, x.address), (device, current, name)
            assert taken.view.device == (2, device)
            taken.release()


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


def check_a_consumers_stream_of_another_context_or_device(drv: Driver) -> None:
    """A wait may cross contexts and devices, a record may not."""
    for name, current in itertools.product(("nanobind", "no keyword"), (0, 1, None)):
        drv.reset()
        drv.set_current(None if current is None else drv.context(current))
        p = drv.stream_new(0, False, name="P")
        for s in (drv.stream_new(1, False), drv.stream_new(context=drv.context_new(0))):
            synced(drv, MAKE[name](drv, p), s, drv.context(0), producer_stream=p)
            synced(drv, MAKE[name](drv, p), s, drv.context(0))


def check_a_producers_stream_of_another_device(drv: Driver) -> None:
    """Peer access: P lies elsewhere; L and PTDS of the consumer are those of the memory."""
    for s in (1, 2, "N"):
        drv.reset()
        drv.set_current(None)
        p = drv.stream_new(1, False, name="P")
        x = fake.NoKw(drv, p, device=0)
        stream = drv.stream_new(0, False, name="S") if s == "N" else s
        effects = synced(drv, x, stream, drv.context(0), producer_stream=p)
        other = f"context {drv.context_number(drv.context(1))}"
        wait = f"cuStreamWaitEvent {('L', 'PTDS', 'S')[(1, 2, 'N').index(s)]} in "
        inner = ["push C", wait + "C", "pop"] if s != "N" else [wait + other]
        assert effects == [f"push {other}", f"cuEventRecord P in {other}", *inner, "pop"], effects


# --- the tests ----------------------------------------------------------------------------


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), LIVE))
def test_matrix(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]


# --- what needs a driver that nobody has used ---------------------------------------------


@pytest.mark.parametrize("variant", LIVE)
def test_events_wait_in_the_pool(variant: str) -> None:
    """Made once for each context, without timing (S16); never destroyed while sound."""
    code = """
        import dlshim
        from doubles import capsules as caps, device as fake
        drv.start()
        drv.set_current(drv.context(0))
        for device in (0, 0, 1, 1, 0):
            s = drv.stream_new(device, False)
            x = fake.NoKw(drv, 1, device=device)
            caps.take(dlshim.upgrade(x, producer_stream=1).__dlpack__(stream=s)).release()
        made = [entry for entry in drv.entries() if entry.name == "cuEventCreate"]
        assert [entry.args["flags"] for entry in made] == ["2", "2"]
        assert drv.live_events() == 2 and "cuEventDestroy_v2" not in drv.calls()
    """
    run_with_driver(variant, code)


def test_no_context_is_ever_made() -> None:
    """It would take a second and hundreds of megabytes (S15)."""
    code = """
        import dlshim
        from doubles import capsules as caps
        drv.call("cuInit", 0)
        for device in (0, 1):
            x = caps.make(device=(2, device), data=0x7F0000000000)
            for stream in (1, 2, None):
                try:
                    dlshim.upgrade(x).__dlpack__(stream=stream)
                except BufferError as error:
                    assert f"device {device} has no live context" in str(error), error
                    x = caps.make(device=(2, device), data=0x7F0000000000)
                else:
                    raise AssertionError("went through")
            assert not drv.primary_active(device)
        assert drv.context_stack() == () and "cuDevicePrimaryCtxRetain" not in drv.calls()
    """
    run_with_driver("13.0", code)
