"""stream="wait", and to_capsule without a stream (rule S25): ready for every stream (both vendors).

What stands here is written by hand; nothing is read from dlshim's own table.
"""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import pytest

import dlshim
import sampling
from device import libraries
from device.matrix import ABSENT, P_KINDS
from doubles import capsules as caps
from doubles import device as fake
from doubles import vendors
from drivers import HIP_LIVE, Driver, checks, run_checks

CUDA = ("9.2", "12.2", "13.0")
VARIANTS = (*CUDA, *HIP_LIVE)
CAPTURE = "this export would break it"

OWN = "a stream of dlshim's own"
#: By producer: what it is passed, and what the host then waits for.
WAITS: dict[str, tuple[object, list[str]]] = {
    **dict.fromkeys(
        ("torch", "torch 2.9", "torch 2.8", "cupy", "cupy 13", "old cupy", "warp", "unheard of"),
        (OWN, [OWN]),
    ),
    "jax": (None, []),  # waits itself for None
    "tensorflow": (ABSENT, []),
    "nanobind": (None, ["the device"]),
    **dict.fromkeys(("tvm-ffi", "cv-cuda"), (None, ["P"])),
    "no keyword": (ABSENT, ["the device"]),
    **dict.fromkeys(("capsule", "versioned capsule", "toDlpack"), (ABSENT, ["the device"])),
    **dict.fromkeys(("cai 0", "cai 1", "cai 2", "cudf"), (ABSENT, ["the device"])),
    **dict.fromkeys(
        (
            *("cupy's toDlpack", "table", "torch's cai 2", "warp's cai 2", "numba's cai 2"),
            *("cai 3", "numba"),
        ),
        (ABSENT, ["P"]),
    ),
    **dict.fromkeys(("pycuda", "rmm", "pylibcudf"), (ABSENT, ["L"])),
}
#: No stream in a dict of version 3 is the producer's word that nothing is unfinished: here a lie.
LIARS = ("cai 3, None", "cai 3, no key")
#: Taken for users of L, which is a convention and no proof (S11).
OF_L = ("pycuda", "rmm", "pylibcudf")


class Scene:
    """An array with unfinished work on P."""

    def __init__(
        self, drv: Any, producer: str, p: str = "N", device: int = 0, current: int | None = 0
    ) -> None:
        drv.reset()
        self.drv, self.device, its = drv, device, libraries.of(drv)
        drv.make_current(device)
        self.p = vendors.of(drv).stream(drv, p, device)
        its.stand_on(self.p)
        self.producer = producer
        self.array = its.make[producer](drv, self.p, device=device)
        self.address = self.array.address
        assert not self.array.write()
        drv.make_current(current)
        self.before = drv.now_current()
        drv.clear_log()

    def source(self) -> Any:
        return libraries.source_of(self.producer, self.array)

    def waits(self) -> list[str]:
        """What dlshim let the host wait for."""
        legacy = "L" if self.producer in OF_L else "P"
        named = {"L": legacy, "0": legacy, "PTDS": "P", "P": "P"}
        found = []
        for entry in self.drv.entries():
            if entry.by or entry.is_mark:
                continue
            if entry.name.endswith("StreamSynchronize"):
                found.append(named.get(entry.args["stream"], OWN))
            elif entry.name == vendors.of(self.drv).device_sync:
                found.append("the device")
        return found

    def passed(self) -> object:
        """`stream` as the producer got it; dlshim's own is none that this test made."""
        if not getattr(self.array, "keywords", []):
            return ABSENT
        value = self.array.keywords[-1].get("stream", ABSENT)
        is_own = isinstance(value, int) and value > 2 and value != self.p
        return OWN if is_own else value

    def is_ready(self) -> bool:
        """For a stream that exists only now, and waits for no other."""
        self.drv.make_current(self.device)
        stream = self.drv.stream_new(self.device, False, name="new")
        return not self.drv.read(stream, self.address)


def ask(how: str, source: Any, stream: int) -> Any:
    if how == "to_capsule":
        return dlshim.to_capsule(source)
    if how == "option of to_capsule":
        return dlshim.to_capsule(source, stream="wait", max_version=(1, 0))
    if how == "option of upgrade":
        return dlshim.upgrade(source, stream="wait").__dlpack__(stream=stream)
    return dlshim.from_dlpack(source, stream="wait")


HOW = ("to_capsule", "option of to_capsule", "option of upgrade", "from_dlpack")


def check_the_data_are_ready_for_every_stream(drv: Any) -> None:
    vendor, its = vendors.of(drv), libraries.of(drv)
    producers = [name for name in its.make if name not in LIARS]
    assert set(producers) <= set(WAITS)
    with libraries.of(drv).imported():
        ways = itertools.product(producers, P_KINDS, (0, 1), vendor.currents, HOW)
        for producer, p, device, current, how in sampling.every(7, ways):
            told = (producer, p, device, current, how)
            scene = Scene(drv, producer, p, device, current)
            if (producer, p) == ("tvm-ffi", "L") and vendor.is_hip:
                continue  # its 0 may mean that nobody has said a stream: the device is waited for
            if producer in OF_L and p == "N":
                continue
            given = ask(how, scene.source(), 99)
            passed, waits = WAITS[producer]
            assert scene.waits() == waits, (told, scene.waits())
            if passed is not ABSENT:
                assert scene.passed() == passed, (told, scene.passed())
            assert drv.now_current() == scene.before, told
            assert not drv.gil_held_calls(every=True), told
            assert scene.is_ready(), (told, drv.races())
            del given
    caps.close_accounts()


def check_a_stream_that_is_given_is_taken(drv: Any) -> None:
    """-1, None and a handle are what they are everywhere: the host does not wait for them."""
    with libraries.of(drv).imported():
        for producer, stream in itertools.product(("cupy", "no keyword"), (-1, None, "S")):
            scene = Scene(drv, producer)
            s = drv.stream_new(0, False, name="S")
            drv.clear_log()
            given = dlshim.to_capsule(scene.source(), stream=s if stream == "S" else stream,
                                      producer_stream=scene.p)  # fmt: skip
            assert scene.waits() == [], (producer, stream)
            if stream == "S":
                assert not drv.read(s, scene.address)
            del given
    caps.close_accounts()


def check_a_capture_is_left_alone(drv: Any) -> None:
    """P captures, or a blocking stream that L would wait for."""
    if isinstance(drv, Driver) and not drv.has("cuStreamIsCapturing"):
        return
    with libraries.of(drv).imported():
        for producer, how in itertools.product(("torch", "cupy", "nanobind", "capsule"), HOW):
            scene = Scene(drv, producer)
            drv.make_current(0)
            other = drv.stream_new(0, True, name="O")
            drv.capture_begin(other, "relaxed")
            drv.clear_log()
            with pytest.raises(BufferError, match=CAPTURE):
                ask(how, scene.source(), 99)
            assert drv.capture_state(other) == "active", (producer, how)
            assert scene.waits() == []
            drv.capture_end(other)
        for how in HOW:
            scene = Scene(drv, "torch")
            drv.capture_begin(scene.p, "relaxed")
            with pytest.raises(BufferError, match=CAPTURE):
                ask(how, scene.source(), 99)
            assert drv.capture_state(scene.p) == "active", how
            drv.capture_end(scene.p)
    caps.close_accounts()


def check_a_producer_that_nobody_can_ask_for_P_leaves_its_capture_alive(drv: Any) -> None:
    """It leads its capturing stream into dlshim's, which is seen before the host would wait."""
    if isinstance(drv, Driver) and not drv.has("cuStreamIsCapturing"):
        return
    scene = Scene(drv, "unheard of")
    drv.capture_begin(scene.p, "relaxed")
    with pytest.raises(BufferError):
        dlshim.to_capsule(scene.array)
    assert scene.waits() == []


def check_arrays_of_no_elements_are_not_waited_for(drv: Any) -> None:
    for kind in (libraries.of(drv).make["unheard of"], fake.NoKw):
        drv.reset()
        drv.make_current(0)
        array = kind(drv, drv.stream_new(0, False, name="P"), shape=(0, 3))
        drv.clear_log()
        dlshim.to_capsule(array, unknown_stream="error")
        assert not [e for e in drv.entries() if e.name.endswith("Synchronize")], kind
    caps.close_accounts()


def check_unknown_stream_decides_as_elsewhere(drv: Any) -> None:
    with pytest.raises(BufferError, match="unknown_stream="):
        dlshim.to_capsule(Scene(drv, "no keyword").array, unknown_stream="error")
    for policy, waits in (("same", []), ("legacy", ["P"])):
        scene = Scene(drv, "no keyword", "L")
        dlshim.to_capsule(scene.array, unknown_stream=policy)
        assert scene.waits() == waits, policy
    caps.close_accounts()


def check_inspect_waits_for_nothing(drv: Any) -> None:
    with libraries.of(drv).imported():
        for producer, passed in (("torch", -1), ("cupy", -1), ("nanobind", None)):
            scene = Scene(drv, producer)
            device = vendors.of(drv).device_of("device", 0)
            assert dlshim.inspect(scene.array, export=True).device == device
            assert scene.passed() == passed and scene.waits() == [], producer
            questions = {vendors.of(drv).pointer, "cuThreadExchangeStreamCaptureMode"}
            assert set(drv.calls(by="")) <= questions, producer  # whose memory it is (S26)
    caps.close_accounts()


@checks.only_on(*CUDA)
def check_a_context_that_only_the_address_tells(drv: Driver) -> None:
    """Before the call no context is known: the producer is passed -1, then P is waited for."""
    drv.reset()
    drv.set_current(None)
    context = drv.context_new(0)
    for kind, passed in ((fake.WarpLike, -1), (fake.NoKw, ABSENT)):
        drv.set_current(context)
        p = drv.get("cuStreamCreate", ctypes.c_void_p, 1)
        array = kind(drv, p, context=context)
        assert not array.write()
        drv.set_current(None)
        drv.primary_release(0)
        drv.clear_log()
        dlshim.to_capsule(array)
        assert array.keywords[-1].get("stream", ABSENT) == passed
        drv.set_current(context)
        new = drv.get("cuStreamCreate", ctypes.c_void_p, 1)
        assert not drv.read(new, array.address, context=context), kind
    caps.close_accounts()


@checks.only_on(*CUDA)
def check_managed_and_pinned_memory_is_ready_for_the_host_too(drv: Driver) -> None:
    for kind, option in itertools.product(("managed", "pinned"), (0, 1)):
        for make, modern in ((fake.named(fake.CupyLike), True), (fake.NoKw, False)):
            drv.reset()
            drv.set_current(drv.context(0))
            drv.option("concurrent_managed", option)
            p = drv.stream_new(0, False, name="P")
            array = make(drv, p, kind=kind, **({"current": {0: p}} if modern else {}))
            assert not array.write()
            more = {"producer_stream": p} if kind == "pinned" else {}
            given = dlshim.to_capsule(array, **more)
            told = (kind, option, make)
            assert not drv.host_read(array.address), told
            assert not drv.read(drv.stream_new(0, False), array.address), told
            del given
    drv.option("concurrent_managed", 1)
    caps.close_accounts()


@checks.only_on("13.0")
def check_a_tensor_that_was_waited_for_names_no_stream(drv: Driver) -> None:
    scene = Scene(drv, "no keyword")
    tensor = dlshim.from_dlpack(scene.array, stream="wait")
    drv.clear_log()
    assert tensor.__cuda_array_interface__["stream"] is None
    assert drv.log(by="") == []
    for again in (dlshim.to_capsule(tensor), tensor.__dlpack__(stream=1)):
        assert drv.log(by="") == [], again


@checks.only_on("13.0")
def check_a_tensor_is_waited_for_where_its_data_are(drv: Driver) -> None:
    scene = Scene(drv, "no keyword")
    tensor = dlshim.from_dlpack(scene.array, stream=drv.stream_new(0, False, name="S"))
    drv.clear_log()
    dlshim.to_capsule(tensor)
    waited = [e.args["stream"] for e in drv.entries() if e.name == "cuStreamSynchronize"]
    assert waited == ["S"]


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), VARIANTS))
def test_wait(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
