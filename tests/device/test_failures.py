"""Every driver call of every exchange fails once, with every kind of error; memory runs out at
every allocation.

Whatever happens: the right class of exception (rule S24), or an export that is
synced all the same; the context stack as before, nothing leaked, and the next export works.
"""

from __future__ import annotations

import ctypes as C
import gc
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

import dlshim
import sampling
from device import libraries
from device.libraries import source_of
from device.matrix import PRODUCERS
from device.matrix_run import warm
from dlshim import _core
from doubles import capsules as caps
from doubles import device as fake
from doubles import vendors
from drivers import ALL_LIVE, Driver, HipDriver, checks, run_checks

#: rc -> the class: sticky errors of the program are never taken for a refusal (S24).
ERRORS = {
    700: RuntimeError,  # ILLEGAL_ADDRESS
    2: RuntimeError,  # OUT_OF_MEMORY
    201: BufferError,  # INVALID_CONTEXT
    400: BufferError,  # INVALID_HANDLE
    900: BufferError,  # CAPTURE_UNSUPPORTED
    905: BufferError,  # CAPTURE_ISOLATION
    908: BufferError,  # CAPTURE_WRONG_THREAD
}
#: Their results are not looked at: the pop, and what becomes of an event that is not needed.
UNHEARD = frozenset(("cuCtxPopCurrent_v2", "cuEventDestroy_v2"))
#: Here a failure shows as the refusal of torch, whose device could not be made the current one.
PASSED_ON = "passed on, another device"


class Case:
    """A fresh array with unfinished work on P, a consumer's stream S."""

    held: Any = None

    def __init__(self, drv: Any, producer: str, device: int = 0, **fields: Any) -> None:
        self.drv, self.producer = drv, producer
        self.context = drv.context(device)
        self.p = drv.stream_new(device, False, name="P")
        self.s = drv.stream_new(device, False, name="S")
        self.array = libraries.of(drv).make[producer](drv, self.p, device=device, **fields)
        assert not self.array.write()

    def source(self) -> Any:
        """Held here: a capsule that dies with an exception pending would hide it, for its
        destructor is Python."""
        self.held = source_of(self.producer, self.array)
        return self.held

    def upgraded(self, **options: Any) -> Any:
        return dlshim.upgrade(self.source(), **options)


class Exchange(NamedTuple):
    """How something is exported, and who reads it then: S ("S"), the host where the memory lies
    ("host"), or the host a copy ("copy")."""

    producer: str
    go: Callable[[Case], Any]
    reader: str = "S"
    device: int = 0
    kind: str = "device"
    strides: tuple[int, ...] | None = None


def with_p(**options: Any) -> Callable[[Case], Any]:
    return lambda case: case.upgraded(producer_stream=case.p, **options).__dlpack__(stream=case.s)


def unknown(**options: Any) -> Callable[[Case], Any]:
    return lambda case: case.upgraded(**options).__dlpack__(stream=case.s)


def to_none(**options: Any) -> Callable[[Case], Any]:
    return lambda case: case.upgraded(**options).__dlpack__()


def interface(case: Case) -> Any:
    """A Tensor whose P is unknown brings it into L before it says so."""
    tensor = dlshim.from_dlpack(case.source(), stream=-1)
    case.s = tensor.__cuda_array_interface__["stream"]
    return tensor


def from_tensor(case: Case) -> Any:
    first = case.drv.stream_new(0, False, name="T")
    tensor = dlshim.from_dlpack(case.source(), stream=first)
    return tensor.__dlpack__(stream=case.s)


EXCHANGES: dict[str, Exchange] = {
    "edge": Exchange("capsule", with_p()),
    "edge, asked": Exchange("no keyword", with_p()),
    "edge, another device": Exchange("nanobind", with_p(), device=1),
    "edge from L": Exchange("table", unknown(), device=1),
    "whole device": Exchange("capsule", unknown()),
    "whole device, asked": Exchange("nanobind", unknown(), device=1),
    "a pool's memory": Exchange("capsule", unknown(), kind="pool"),
    "interface dict": Exchange("cai 2", unknown()),
    "interface dict, P": Exchange("cai 3", unknown()),
    "two hops": Exchange("torch", lambda case: hop(case)),
    PASSED_ON: Exchange("torch", unknown(), device=1),
    "managed, modern": Exchange("warp", to_none(), "host", kind="managed"),
    "managed, unknown": Exchange("no keyword", to_none(), "host", kind="managed"),
    "managed, P": Exchange("cai 3", to_none(), "host", kind="managed"),
    "pinned": Exchange("cai 3", to_none(), "host", kind="pinned"),
    "copy": Exchange("no keyword", to_none(device="cpu"), "copy"),
    "copy, P": Exchange("cai 3", to_none(device="cpu"), "copy"),
    "copy, another device": Exchange("capsule", to_none(device="cpu"), "copy", device=1),
    "copy, pitched": Exchange("no keyword", to_none(device="cpu"), "copy", strides=(8, 1)),
    "copy, slabs": Exchange("no keyword", to_none(device="cpu", order="C"), "copy", strides=(1, 2)),
    "interface of a Tensor": Exchange("capsule", interface),
    "from a Tensor": Exchange("capsule", from_tensor),
}


def exchanges(drv: Any) -> dict[str, Exchange]:
    """Those that the vendor has."""
    if not vendors.of(drv).is_hip:
        return EXCHANGES
    make, ours = libraries.ROCM.make, ("managed", "interface of", "two hops")
    return {
        name: exchange
        for name, exchange in EXCHANGES.items()
        if exchange.producer in make and not name.startswith(ours)
    }


def hop(case: Case) -> Any:
    case.s = 2
    return case.upgraded().__dlpack__(stream=2)


class Attempt:
    """One export, and whether all is in order afterwards."""

    def __init__(self, drv: Any, name: str) -> None:
        drv.reset()
        drv.make_current(0)
        self.drv, self.exchange = drv, EXCHANGES[name]
        fields: dict[str, Any] = {"kind": self.exchange.kind}
        if self.exchange.strides is not None:
            fields["strides"] = self.exchange.strides
        self.case = Case(drv, self.exchange.producer, self.exchange.device, **fields)
        self.current, self.events = drv.now_current(), drv.live_events()
        self.live = _core._counters()["live"]
        self.result: Any = None
        self.error: Exception | None = None
        drv.clear_log()

    def go(self) -> None:
        try:
            self.result = self.exchange.go(self.case)
        except Exception as error:
            self.error = error

    def is_racy(self) -> bool:
        drv, case = self.drv, self.case
        if self.exchange.reader == "S":
            return drv.read(case.s, case.array.address, context=case.context)
        if self.exchange.reader == "host":
            return drv.host_read(case.array.address)
        view = caps.look(self.result)
        plain = caps.numbers((2, 3), "float32", self.exchange.strides)
        assert view.device == (1, 0) and view.values() == plain
        return drv.host_read(view.data, 24) or bool(drv.races())

    def check(self, told: object, new_events: int = 0) -> None:
        drv = self.drv
        if self.error is None:
            assert not self.is_racy(), (told, "went through unsynced", drv.races())
        assert drv.now_current() == self.current, (told, drv.now_current())
        assert drv.live_events() <= self.events + new_events, (told, drv.live_events())
        assert not drv.gil_held_calls(every=True), told
        self.error = self.result = self.case.held = None
        gc.collect(0)
        wrong = caps.accounts()
        assert not wrong, (told, wrong)
        caps.close_accounts()
        assert _core._counters()["live"] == self.live, told


def recorded(drv: Driver, name: str) -> list[tuple[str, int]]:
    """dlshim's calls in this exchange: the name, and how many of that name come before."""
    attempt = Attempt(drv, name)
    attempt.go()
    assert attempt.error is None, (name, attempt.error)
    entries = [entry for entry in drv.entries() if not entry.is_mark]
    assert not attempt.is_racy(), (name, drv.races())
    seen: dict[str, int] = {}
    calls = []
    for entry in entries:
        if entry.by == "":
            calls.append((entry.name, seen.get(entry.name, 0)))
        seen[entry.name] = seen.get(entry.name, 0) + 1
    attempt.check(name, new_events=1)
    return calls


def failures(drv: Driver) -> Iterator[tuple[str, str, int, int]]:
    for name in EXCHANGES:
        for function, skip in recorded(drv, name):
            for rc in ERRORS:
                yield name, function, skip, rc


@checks.on_cuda
def check_every_call_that_fails(drv: Driver) -> None:
    for name in EXCHANGES:
        recorded(drv, name)  # pools are warm, ways are known
    told_of: set[str] = set()
    for name, function, skip, rc in sampling.every(7, failures(drv)):
        attempt = Attempt(drv, name)
        drv.fail_next(function, rc, skip)
        attempt.go()
        told = (name, function, skip, rc, repr(attempt.error))
        if attempt.error is None:
            # A context is pushed for the producer's sake too, or to ask about captures; that all
            # is synced is judged below.
            pushed = function == "cuCtxPushCurrent_v2" and PRODUCERS[attempt.case.producer].called
            # Where an event cannot stand for the whole device, the host waits.
            waited = function == "cuCtxRecordEvent" and "cuCtxSynchronize" in drv.calls(by="")
            unheard = function in vendors.CUDA.queries | UNHEARD
            assert pushed or waited or unheard, (told, "nobody noticed")
        else:
            told_of.add(function)
            text, aside = str(attempt.error), function in vendors.CUDA.queries or name == PASSED_ON
            assert type(attempt.error) in (ERRORS[rc], *[BufferError] * aside), told
            assert aside or (str(rc) in text and function[:12] in text), told
        if function == "cuCtxPopCurrent_v2":
            drv.set_current(drv.context(0))  # nobody could have popped it
        # One that replaces the last failure's; and where a context's id was not told, nobody can
        # know that it has a pool.
        attempt.check(told, new_events=3 if function == "cuCtxGetId" else 1)
        if rc == 700:
            attempt = Attempt(drv, name)
            attempt.go()
            attempt.check((told, "the next"), new_events=1)
    essential = {"cuStreamWaitEvent", "cuEventRecord", "cuCtxPushCurrent_v2", "cuStreamSynchronize"}
    assert essential <= told_of, told_of


def of_another_context(drv: Driver, **fields: Any) -> Any:
    """With unfinished work, in a context that is not its device's own; nobody names its stream."""
    drv.reset()
    context = drv.context_new(0)
    p = drv.stream_new(0, False, context=context, name="P")
    x = fake.NoKw(drv, p, context=context, **fields)
    assert not x.write()
    return x


@checks.on_cuda
def check_that_a_question_about_a_pointer_fails(drv: Driver) -> None:
    """Whatever the code is, nobody takes "no answer" for "of no context"."""
    roads: dict[str, Callable[[Any, int], Any]] = {
        "any stream": lambda x, s: dlshim.to_capsule(x),
        "S": lambda x, s: dlshim.upgrade(x).__dlpack__(stream=s),
        "wait": lambda x, s: dlshim.upgrade(x, stream="wait").__dlpack__(),
    }
    for (name, road), rc in itertools.product(roads.items(), (2, 201, 700, 999)):
        for skip in itertools.count():
            x = of_another_context(drv)
            drv.make_current(0)
            s = drv.stream_new(0, False, context=x.context)
            drv.fail_next("cuPointerGetAttributes", rc, skip)
            told, racy, taken = (name, rc, skip), False, None
            try:
                taken = caps.take(road(x, s))
            except (BufferError, MemoryError, RuntimeError):
                pass
            else:
                racy = drv.read(s, taken.view.data, context=x.context)
                taken.release()
            assert not racy, (told, drv.races())
            if not any(" -> " in line for line in drv.log() if "Pointer" in line):
                break
        assert skip, name
    caps.close_accounts()


@checks.on_cuda
def check_that_a_driver_tells_of_pointers_inside_a_context_alone(drv: Driver) -> None:
    """With none current: it is asked again inside one that lives."""
    for wanted, kind in itertools.product((1, 2), ("device", "managed")):
        x = of_another_context(drv, kind=kind)
        drv.set_current(None)
        drv.option("pointer_needs_context", wanted)
        taken = caps.take(dlshim.to_capsule(x))
        s = drv.stream_new(0, False, context=x.context)
        assert not drv.read(s, x.address, context=x.context), (wanted, kind)
        taken.release()
        assert drv.context_stack() == ()
    caps.close_accounts()


@checks.on_cuda
def check_that_the_first_event_and_stream_cannot_be_made(drv: Driver) -> None:
    """In a context where there is none yet."""
    for function, rc, copied in itertools.product(
        ("cuEventCreate", "cuStreamCreate"), ERRORS, (False, True)
    ):
        drv.reset()
        context = drv.context_new(0)
        drv.set_current(context)
        p = drv.stream_new(blocking=False, context=context)
        s = drv.stream_new(blocking=False, context=context)
        x = fake.NoKw(drv, p, context=context)
        source = dlshim.upgrade(x, producer_stream=p, **({"device": "cpu"} if copied else {}))
        drv.fail_next(function, rc)
        if function == "cuStreamCreate" and not copied:
            continue
        with pytest.raises(ERRORS[rc], match=f"{function}.*{rc}") as raised:
            source.__dlpack__(stream=s)
        del raised
        assert len(drv.context_stack()) == 1
        caps.take(source.__dlpack__(stream=s)).release()
        assert not drv.races()
        del source
        assert not caps.accounts(), (function, rc, copied)
        caps.close_accounts()


@checks.only_on(*ALL_LIVE[1:])
def check_that_a_refused_record_loses_no_event(drv: Any) -> None:
    """A failed edge's event is not used again; the pool makes another."""
    vendor = vendors.of(drv)
    for function in (vendor.record, vendor.wait):
        warm(drv)
        for _ in range(5):
            attempt = Attempt(drv, "edge")
            drv.fail_next(function, 700)
            attempt.go()
            assert type(attempt.error) is RuntimeError
            destroyed = [e for e in drv.entries() if e.name == vendor.destroy_event]
            assert len(destroyed) == 1 and destroyed[0].rc == 0
            attempt.check(function)
        attempt = Attempt(drv, "edge")
        attempt.go()
        attempt.check(function, new_events=1)


def check_that_memory_runs_out(drv: Any) -> None:
    """The n-th allocation fails, for every n: MemoryError, and all is given back."""
    for name in exchanges(drv):
        for n in itertools.count(1):
            attempt = Attempt(drv, name)
            _core._hook("fail_alloc", n)
            attempt.go()
            _core._hook("fail_alloc", -1)
            told = (name, n, repr(attempt.error))
            assert attempt.error is None or type(attempt.error) is MemoryError, told
            through = attempt.error is None
            attempt.check(told, new_events=1)
            if through and n > 3:
                break


@checks.on_cuda
def check_that_memory_runs_out_in_a_fresh_context(drv: Driver) -> None:
    """Pools, too: an event that finds no place is destroyed, and that is no error."""
    for n, copied in itertools.product(range(1, 12), (False, True)):
        drv.reset()
        context = drv.context_new(0)
        drv.set_current(context)
        p = drv.stream_new(blocking=False, context=context)
        s = drv.stream_new(blocking=False, context=context)
        x = fake.NoKw(drv, p, context=context)
        assert not x.write()
        events = drv.live_events()
        source = dlshim.upgrade(x, producer_stream=p, **({"device": "cpu"} if copied else {}))
        _core._hook("fail_alloc", n)
        try:
            taken = caps.take(source.__dlpack__(stream=s, max_version=(1, 0)))
        except MemoryError:
            taken = None
        _core._hook("fail_alloc", -1)
        if taken is not None:
            where = taken.view.data
            assert not (drv.host_read(where, 24) if copied else drv.read(s, x.address))
            taken.release()
        assert drv.live_events() <= events + 1 and len(drv.context_stack()) == 1
        assert not drv.races()
        del source, taken
        assert not caps.accounts(), (n, copied)
        caps.close_accounts()


def check_that_a_producer_which_fails_is_left_alone(drv: Any) -> None:
    """Its own error is told as the cause; it is asked once, in the context that was pushed for
    it, which is popped again.  JAX says by a RuntimeError that it cannot sync, so it is asked once
    more without a stream (N2)."""
    names = [n for n in ("torch", "cupy", "warp", "jax") if n in libraries.of(drv).make]
    for producer, device in itertools.product(names, (0, 1)):
        for error in (fake.DriverFailure("CUDA error: 700"), MemoryError(), KeyboardInterrupt()):
            drv.reset()
            drv.make_current(0)
            case = Case(drv, producer, device)
            case.upgraded().__dlpack__(stream=case.s)
            calls, current = len(case.array.calls), drv.now_current()
            case.array.answer = raising(error)
            try:
                case.upgraded().__dlpack__(stream=case.s)
            except BaseException as told:
                assert told is error or told.__cause__ is error, (producer, told)
                assert type(told) in (BufferError, type(error))
            else:
                raise AssertionError("went through")
            again = producer == "jax" and isinstance(error, RuntimeError)
            assert len(case.array.calls) == calls + 1 + again, producer
            assert drv.now_current() == current
            caps.close_accounts()


def raising(error: BaseException) -> Callable[..., Any]:
    def answer(**_: Any) -> Any:
        raise error

    return answer


@checks.on_cuda
def check_a_context_that_was_destroyed(drv: Driver) -> None:
    """Its memory is gone; the program hears of it and goes on with others."""
    drv.reset()
    context = drv.context_new(0)
    p = drv.stream_new(blocking=False, context=context)
    x = fake.NoKw(drv, p, context=context)
    s = drv.stream_new(0, False)
    drv.context_end(context)
    for options in ({"producer_stream": p}, {}):
        with pytest.raises((RuntimeError, BufferError)) as raised:
            dlshim.upgrade(x, **options).__dlpack__(stream=s)
        assert "709" in str(raised.value)
        del raised
    caps.close_accounts()
    attempt = Attempt(drv, "edge")
    attempt.go()
    attempt.check("after a context has gone")


# --- HIP ----

#: The class, and a word of the message (S24).
ERRORS_OF_HIP: dict[int, tuple[type[Exception], str]] = {
    100: (BufferError, "finds no device"),
    101: (BufferError, "finds no device"),
    400: (BufferError, "belongs to another device or was destroyed"),
    709: (RuntimeError, "second HIP runtime"),
    700: (RuntimeError, "hipErrorIllegalAddress"),
    719: (RuntimeError, "hipErrorLaunchFailure"),
    **dict.fromkeys(range(900, 909), (BufferError, "capture")),
}
#: Whoever cannot tell is believed to know nothing.
UNHEARD_BY_HIP = vendors.ROCM.queries - {"hipGetDeviceCount", "hipGetDevice"}


def exchanges_of_hip(drv: HipDriver) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each with a fresh array on device 1, device 0 being current."""
    p, s = drv.stream_new(1, False, name="P"), drv.stream_new(1, False, name="S")

    def upgraded(**options: Any) -> Any:
        x = fake.NoKw(drv, p, device=1)
        x.write()
        return dlshim.upgrade(x, **options)

    yield "edge", lambda: upgraded(producer_stream=p).__dlpack__(stream=s)
    yield "whole device", lambda: upgraded().__dlpack__(stream=s)
    yield "copy", lambda: upgraded(device="cpu", producer_stream=p).__dlpack__()
    x = fake.PinnedBuffer(drv, p, device=1)
    yield "pinned", lambda: dlshim.upgrade(x, producer_stream=p).__dlpack__()


def outcome(go: Callable[[], Any]) -> BaseException | None:
    try:
        caps.take(go()).release()
    except Exception as error:
        return error
    return None


def heard(drv: HipDriver) -> Iterator[tuple[str, int]]:
    """The calls that must not fail in silence: (name, how many of that name came before).

    Not what is done for the producer's sake, before the sync begins with a look at the
    pointer, nor what puts the device back; see below.
    """
    seen: dict[str, int] = {}
    serious = False
    for entry in drv.entries():
        before = seen.setdefault(entry.name, 0)
        seen[entry.name] += 1
        serious |= entry.name == "hipPointerGetAttributes"
        back = entry.name == "hipSetDevice" and entry.args["set"] == "0"
        if serious and not back and entry.name not in UNHEARD_BY_HIP:
            yield entry.name, before


@checks.on_hip
def check_every_call_of_hip_that_fails(drv: HipDriver) -> None:
    """The right class, the device as before, nothing kept; and the next export works."""
    drv.set_device(0)
    for name, go in exchanges_of_hip(drv):
        caps.take(go()).release()
        drv.clear_log()
        caps.take(go()).release()
        called = list(heard(drv))
        assert len(called) >= 4, (name, called)
        fails = sampling.every(7, itertools.product(called, ERRORS_OF_HIP.items()))
        for (function, skip), (code, (kind, word)) in fails:
            events = drv.live_events()
            drv.fail_next(function, code, skip)
            error = outcome(go)
            told = (name, function, code, error)
            assert type(error) is kind and word in str(error) and str(code) in str(error), told
            assert drv.device() == 0 and drv.live_events() <= events, told
            del error, told
            caps.take(go()).release()
            assert not drv.gil_held_calls(every=True)
    caps.close_accounts()


@checks.on_hip
def check_what_cannot_be_put_back_is_no_error(drv: HipDriver) -> None:
    """The export has been synced; only the device is not as it was, and no call can help it."""
    drv.reset()
    p, s = drv.stream_new(1, False), drv.stream_new(1, False)
    x = fake.NoKw(drv, p, device=1)
    x.write()
    drv.fail_next("hipSetDevice", 700, skip=1)
    caps.take(dlshim.upgrade(x, producer_stream=p).__dlpack__(stream=s)).release()
    assert not drv.read(s, x.address)
    caps.close_accounts()


@checks.only_on("hip5", "hip6")
def check_a_stream_that_the_runtime_does_not_know(drv: HipDriver) -> None:
    """As that of another runtime; HIP 7 dies of it, before anybody can say a word."""
    for gone_p, word in ((True, "second HIP runtime"), (False, "another device or was destroyed")):
        drv.reset()
        p, s = drv.stream_new(0, False), drv.stream_new(0, False)
        drv.set_device(0)
        x = fake.NoKw(drv, p)
        drv.stream_end(p if gone_p else s)
        kind = RuntimeError if gone_p else BufferError
        with pytest.raises(kind, match=word):
            dlshim.upgrade(x, producer_stream=p).__dlpack__(stream=s)
    caps.close_accounts()


@checks.on_cuda
def check_a_question_that_fails_is_no_answer(drv: Driver) -> None:
    """Memory of a context of its own: where the driver fails to tell which, waiting for another one
    would sync nothing."""
    for code in (2, 700, 999):
        drv.reset()
        own = drv.context_new(0)
        p, s = drv.stream_new(0, False, context=own), drv.stream_new(0, False)
        at = drv.alloc(24, 0, context=own)
        drv.set_current(own)
        assert not drv.write(p, at, 24, context=own)
        drv.make_current(0)
        stack = drv.context_stack()

        def source(at: int = at) -> Any:
            return caps.make(device=(2, 0), data=at, memory=(C.c_char * 24).from_address(at))

        held = source()  # its destructor would hide the exception
        drv.fail_next("cuPointerGetAttributes", code)
        with pytest.raises(RuntimeError, match=rf"CUDA: looking for a context failed.*\({code}\)"):
            dlshim.to_capsule(held)
        assert drv.context_stack() == stack, code
        taken = caps.take(dlshim.to_capsule(source()))
        assert not drv.read(s, at, 24), drv.races()
        taken.release()
    caps.close_accounts()


@checks.on_hip
def check_a_device_that_is_not_there(drv: HipDriver) -> None:
    drv.reset()
    for device in (2, 77):
        block = caps.filled((2, 3), "float32")
        capsule = caps.make(device=(10, device), data=C.addressof(block))
        with pytest.raises(BufferError, match=f"finds no device {device}"):
            dlshim.upgrade(capsule).__dlpack__(stream=0)
        assert drv.last_error() == 0 and drv.device() == 0
        del capsule
    caps.close_accounts()


@checks.on_hip
def check_that_no_error_is_left_by_failures(drv: HipDriver) -> None:
    drv.reset()
    for name, go in exchanges_of_hip(drv):
        drv.clear_log()
        caps.take(go()).release()
        for function in ("hipEventRecord", "hipStreamWaitEvent", "hipStreamSynchronize"):
            if function not in drv.calls(by=""):
                continue
            drv.fail_next(function, 400)
            assert outcome(go) is not None and drv.last_error() == 0, (name, function)


# --- the tests ----


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), ALL_LIVE))
def test_failures(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
