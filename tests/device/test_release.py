"""What happens to the memory when its consumer lets go of it while its kernels still run (rule
S22): nothing by default, as the standard has it; with on_release="guard" it is used again only
after them."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from typing import Any

import pytest

import dlshim
import sampling
from device import libraries, matrix
from device.libraries import source_of
from device.matrix_run import Calls
from dlshim import _core
from doubles import capsules as caps
from doubles import child
from doubles import device as fake
from doubles.producers import P2
from drivers import HIP_LIVE, Driver, HipDriver, built, checks, run_checks
from drivers.control import DriverError

#: cuCtxRecordEvent and cuCtxWaitEvent came with CUDA 12.5.
ABLE, UNABLE = ("12.5", "13.0"), ("9.2", "12.2")

MAKE: dict[str, Callable[..., Any]] = {
    "torch": fake.named(fake.TorchLike),
    "cupy": fake.named(fake.CupyLike),
    "warp": fake.WarpLike,
    "nanobind": fake.named(fake.Silent),
    "no keyword": fake.NoKw,
    "capsule": fake.RawFn,
    "toDlpack": fake.ToDlpack,
}
GUARDED = [
    "push C",
    "cuCtxRecordEvent C in C",
    "cuCtxWaitEvent",
    "pop",
]


class Case:
    """An array whose memory is used again on P as soon as it is given back."""

    def __init__(
        self, drv: Driver, producer: str = "no keyword", p: str = "N", s: str = "N", **fields: Any
    ) -> None:
        drv.reset()
        self.drv, self.producer = drv, producer
        self.device = fields.get("device", 0)
        self.context = drv.context(self.device)
        drv.set_current(drv.context(0))
        special = {"L": 1, "PTDS": 2}
        self.p = special.get(p) or drv.stream_new(self.device, p == "B", name="P")
        self.s = special.get(s) or drv.stream_new(self.device, s == "B", name="S")
        self.array = MAKE[producer](drv, self.p, rewrites=True, **fields)
        self.live = _core._counters()["live"]
        assert not self.array.write()

    def export(self, on_release: str, *, versioned: bool = True, **options: Any) -> caps.Import:
        source = source_of(self.producer, self.array)
        upgraded = dlshim.upgrade(source, on_release=on_release, **options)
        keywords = {"max_version": (1, 0)} if versioned else {}
        return caps.take(upgraded.__dlpack__(stream=self.s, **keywords))

    def read(self) -> None:
        """The consumer's kernel, which is still running when it lets go."""
        assert not self.drv.read(self.s, self.array.address, context=self.context)

    def effects(self) -> list[str]:
        """But for an event that had to be made first."""
        effects = Calls(self.drv, self.drv.context_number(self.context)).effects()
        return [line for line in effects if line != "cuEventCreate"]

    def end(self) -> None:
        # A toDlpack() is called once more, for the device.
        assert self.array.deletions == len(self.array.exports), self.array.deletions
        assert not self.drv.gil_held_calls(every=True)
        assert self.drv.live_events() <= 4
        caps.close_accounts()
        assert _core._counters()["live"] == self.live


# --- with and without ----


@checks.on_cuda
def check_by_default_the_memory_is_given_back_at_once(drv: Driver) -> None:
    """As the standard has it, whichever way it was said: the write on P races as S13 tells."""
    for producer, p, s in itertools.product(MAKE, matrix.P_KINDS, matrix.P_KINDS):
        case = Case(drv, producer, p, s)
        taken = case.export("contract")
        case.read()
        drv.clear_log()
        taken.release()
        assert bool(drv.races()) == matrix.racy("nothing", p, s), (producer, p, s, drv.races())
        assert drv.log(by="") == [], "nothing is called in a deleter"
        case.end()


@checks.only_on(*ABLE)
def check_guarded_memory_is_used_again_after_its_readers(drv: Driver) -> None:
    for producer, p, s, device in itertools.product(MAKE, matrix.P_KINDS, matrix.P_KINDS, (0, 1)):
        case = Case(drv, producer, p, s, device=device)
        taken = case.export("guard", versioned=(p < s))
        stack = drv.context_stack()
        case.read()
        drv.clear_log()
        assert case.array.exports[-1].deleted == 0
        taken.release()
        assert not drv.races(), (producer, p, s, drv.races())
        assert case.effects() == GUARDED, (producer, case.effects())
        assert drv.context_stack() == stack
        case.end()


@checks.only_on(*ABLE)
def check_any_stream_may_have_read(drv: Driver) -> None:
    """Also others than the one that the consumer named, and those of other exports."""
    case = Case(drv, "no keyword")
    first, second = case.export("guard"), case.export("guard")
    readers = [drv.stream_new(0, blocking) for blocking in (True, False, False)]
    for stream in readers:
        case.array.edge(case.s, stream)
        assert not drv.read(stream, case.array.address)
    first.release()
    second.release()
    assert not drv.races(), drv.races()
    assert case.array.deletions == 2
    caps.close_accounts()


@checks.only_on(*ABLE)
def check_every_way_of_letting_go(drv: Driver) -> None:
    for how in ("held", "released", "c-thread", "unconsumed", "fresh thread"):
        case = Case(drv, "no keyword")
        if how == "unconsumed":
            upgraded = dlshim.upgrade(case.array, on_release="guard")
            capsule = upgraded.__dlpack__(stream=case.s)
            case.read()
            del capsule, upgraded
        else:
            taken = case.export("guard")
            case.read()
            if how == "fresh thread":
                in_thread(taken.release)
            else:
                taken.release(how)
            del taken
        assert not drv.races(), (how, drv.races())
        case.end()


def in_thread(function: Callable[[], Any]) -> None:
    import threading

    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


@checks.only_on(*ABLE)
def check_tensors(drv: Driver) -> None:
    """The memory goes when the Tensor and all its exports have gone."""
    for producer in ("no keyword", "capsule", "torch"):
        case = Case(drv, producer)
        upgraded = dlshim.upgrade(source_of(producer, case.array), on_release="guard")
        tensor = dlshim.from_dlpack(upgraded, stream=case.s)
        taken = caps.take(tensor.__dlpack__(stream=case.s))
        del tensor, upgraded
        gc.collect()
        assert case.array.deletions == 0
        case.read()
        taken.release()
        assert not drv.races(), (producer, drv.races())
        case.end()


@checks.only_on(*ABLE)
def check_managed_memory(drv: Driver) -> None:
    for options in ({}, {"device": "cuda:0"}):
        case = Case(drv, "no keyword", kind="managed")
        taken = case.export("guard", **options)
        case.array.edge(case.p, case.s)
        case.read()
        taken.release()
        assert not drv.races(), (options, drv.races())
        case.end()


# --- where it is not needed, or cannot be ----


@checks.on_cuda
def check_where_nothing_can_still_be_running(drv: Driver) -> None:
    """Host memory, empty arrays, copies: on any driver, and without a call."""
    for source, options in (
        (P2(), {}),
        (caps.make(), {}),
        (caps.make((0, 3), device=(2, 0)), {}),
    ):
        drv.reset()
        upgraded = dlshim.upgrade(source, on_release="guard", **options)
        caps.take(upgraded.__dlpack__(max_version=(1, 0))).release()
        assert drv.log() == []
        del source, upgraded
    case = Case(drv, "no keyword")
    taken = case.export("guard", device="cpu")
    assert case.array.deletions == 1 and taken.view.device == (1, 0)
    drv.clear_log()
    taken.release()
    assert drv.log() == []
    case.end()


@checks.only_on(*UNABLE)
def check_drivers_that_cannot(drv: Driver) -> None:
    for producer in MAKE:
        case = Case(drv, producer)
        case.array.rewrites = False
        with pytest.raises(BufferError, match=r"guard.*12\.5") as raised:
            case.export("guard")
        del raised
        gc.collect()
        case.end()


@checks.on_cuda
def check_other_devices(drv: Driver) -> None:
    for device in ((10, 0), (14, 0), (8, 0)):
        source = P2(device=device, data=0x1000)
        with pytest.raises(BufferError, match=r"guard.*CUDA memory only"):
            dlshim.upgrade(source, on_release="guard").__dlpack__(max_version=(1, 0))
        deleted = [made.deleted for made in source.exports]
        assert set(deleted) == {1}, (device, deleted)
        caps.close_accounts()


@checks.on_hip
def check_guard_is_cudas(drv: HipDriver) -> None:
    """HIP has no event of a whole device: nothing that could be waited for at the release."""
    for producer in ("torch", "no keyword", "capsule"):
        drv.reset()
        x = libraries.ROCM.make[producer](drv, drv.stream_new(0, False, name="P"))
        assert not x.write()
        source = dlshim.upgrade(source_of(producer, x), on_release="guard")
        with pytest.raises(BufferError, match="on_release"):
            source.__dlpack__(stream=0)
        del source
    caps.close_accounts()


@checks.on_cuda
def check_the_option(drv: Driver) -> None:
    for wrong, error in (("never", ValueError), (1, TypeError), (True, TypeError)):
        with pytest.raises(error, match="on_release"):
            dlshim.upgrade(P2(), on_release=wrong)
    assert "guard" in repr(dlshim.upgrade(P2(), on_release="guard"))


# --- captures ----


@checks.only_on(*ABLE)
def check_memory_is_kept_while_a_graph_is_captured(drv: Driver) -> None:
    """It cannot be synced then: it is kept, and goes with the next that can."""
    case = Case(drv, "no keyword")
    taken, other = case.export("guard"), drv.stream_new(0, True, name="O")
    case.read()
    drv.capture_begin(other)
    taken.release()
    assert case.array.deletions == 0 and drv.capture_state(other) == "active"
    second = fake.NoKw(drv, case.p)
    caps.take(
        dlshim.upgrade(second, on_release="guard", producer_stream=case.p).__dlpack__(stream=case.s)
    ).release()
    assert case.array.deletions == second.deletions == 0, "the second waits, too"
    drv.capture_end(other)
    third = fake.NoKw(drv, case.p)
    caps.take(dlshim.upgrade(third, on_release="guard").__dlpack__(stream=case.s)).release()
    assert not drv.races(), drv.races()
    assert second.deletions == third.deletions == 1
    case.end()


@checks.only_on(*ABLE)
def check_a_capture_that_no_probe_can_see(drv: Driver) -> None:
    """A capture in a non-blocking stream ends (S14, S22); the memory stays safe."""
    case = Case(drv, "no keyword")
    taken, other = case.export("guard"), drv.stream_new(0, False, name="O")
    case.read()
    drv.capture_begin(other)
    taken.release()
    assert case.array.deletions == 0 and drv.capture_state(other) == "invalidated"
    with pytest.raises(DriverError):
        drv.capture_end(other)
    third = fake.NoKw(drv, case.p)
    caps.take(dlshim.upgrade(third, on_release="guard").__dlpack__(stream=case.s)).release()
    assert not drv.races() and third.deletions == 1
    case.end()


@checks.only_on(*ABLE)
def check_a_capture_on_another_device_is_no_matter(drv: Driver) -> None:
    case = Case(drv, "no keyword")
    taken, other = case.export("guard"), drv.stream_new(1, True, name="O")
    case.read()
    drv.capture_begin(other)
    taken.release()
    assert drv.capture_state(other) == "active" and not drv.races()
    case.end()


def test_what_waits_goes_in_its_own_interpreter() -> None:
    """The next guard that can be synced takes those along that wait, but not another
    interpreter's: their objects are not to die there."""
    pytest.importorskip("_testcapi", reason="this Python has no _testcapi")
    child.program("guards_of_interpreters", built("13.0"))


def test_forks_while_other_threads_sync() -> None:
    """Whatever a thread was doing when another one forked: the child has host memory and -1, is
    refused the driver, and waits for nobody."""
    child.program("forks_while_syncing", built("13.0"), sampling.fewer(40, 10))


# --- errors ----


@checks.only_on(*ABLE)
def check_a_driver_that_fails_in_the_deleter(drv: Driver) -> None:
    """Nobody could be told: the memory is let go, the context restored, no event lost."""
    names = ("cuCtxRecordEvent", "cuCtxWaitEvent", "cuCtxPushCurrent_v2", "cuPointerGetAttributes")
    for name, rc in itertools.product(names, (700, 4, 201)):
        case = Case(drv, "no keyword")
        case.array.rewrites = False
        taken = case.export("guard")
        case.array.exports[-1].on_delete = None
        stack, events = drv.context_stack(), drv.live_events()
        drv.fail_next(name, rc)
        taken.release()
        assert drv.context_stack() == stack and drv.live_events() <= events, (name, rc)
        case.end()


@checks.only_on(*ABLE)
def check_memory_that_runs_out_while_it_is_exported(drv: Driver) -> None:
    for n in itertools.count(1):
        case = Case(drv, "no keyword")
        case.array.rewrites = False
        _core._hook("fail_alloc", n)
        try:
            taken = case.export("guard")
        except MemoryError:
            _core._hook("fail_alloc", -1)
            assert case.array.deletions == len(case.array.exports)
            caps.close_accounts()
            continue
        _core._hook("fail_alloc", -1)
        taken.release()
        case.end()
        break
    assert n >= 3


# --- the tests ----


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), (*UNABLE, *ABLE, *HIP_LIVE)))
def test_release(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
