"""ROCm on the fake libamdhip64 of releases 5 to 7: the matrix, copies, pinned memory,
errors, and that another device than the array's is never left current."""

from __future__ import annotations

import ctypes as C
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dlshim
from device import rocm as spec
from device.matrix import Cell, Expected, in_generations
from device.rocm import MAKE, PRODUCTS, Run, effects, libraries, run, source_of, warm
from doubles import capsules as caps
from doubles import rocm, streams
from drivers import HipDriver, checks, run_checks, run_with_driver

LIVE = ("hip5", "hip6", "hip7")
CPU = (1, 0)


def product(drv: HipDriver, name: str, dicts: bool = False) -> None:
    """All cells but those of the CUDA array interface, or those alone."""
    cells = (c for c in PRODUCTS[name]() if spec.PRODUCERS[c.producer].reads_dict == dicts)
    assert run(drv, in_generations(cells)) > 20


# --- the products -------------------------------------------------------------------------


def check_every_producer_stream_and_device(drv: HipDriver) -> None:
    product(drv, "everywhere")


def check_the_options_about_unknown_streams(drv: HipDriver) -> None:
    product(drv, "policies")


def check_the_option_that_replaces_the_consumers_stream(drv: HipDriver) -> None:
    product(drv, "overridden")


def check_captures(drv: HipDriver) -> None:
    product(drv, "capturing")


def check_arrays_of_no_elements(drv: HipDriver) -> None:
    product(drv, "empty")


def check_interfaces_everywhere(drv: HipDriver) -> None:
    product(drv, "everywhere", dicts=True)


def check_interfaces_and_options(drv: HipDriver) -> None:
    product(drv, "policies", dicts=True)


def check_interfaces_and_captures(drv: HipDriver) -> None:
    product(drv, "capturing", dicts=True)


def check_interfaces_of_no_elements(drv: HipDriver) -> None:
    product(drv, "empty", dicts=True)


def check_that_no_error_is_left_for_others(drv: HipDriver) -> None:
    for name in ("everywhere", "capturing"):
        run(drv, in_generations(PRODUCTS[name]()), spec.Tidy)


def check_that_no_error_is_left_by_failures(drv: HipDriver) -> None:
    drv.reset()
    for name, go in exchanges(drv):
        drv.clear_log()
        caps.take(go()).release()
        for function in ("hipEventRecord", "hipStreamWaitEvent", "hipStreamSynchronize"):
            if function not in drv.calls(by=""):
                continue
            drv.fail_next(function, 400)
            assert outcome(go) is not None and drv.last_error() == 0, (name, function)


# --- what the harness must be able to see -------------------------------------------------


def check_that_a_wrong_expectation_is_a_problem(drv: HipDriver) -> None:
    wrong: dict[str, tuple[Cell, dict[str, Any]]] = {
        "racy": (Cell("capsule"), {"racy": True}),
        "called": (Cell("capsule"), {"effects": []}),
        "passed": (Cell("torch"), {"passed": 1}),
        "asked": (Cell("torch"), {"asked": 2}),
        "BufferError": (Cell("capsule", policy="error"), {"error": None}),
        "NoneType": (Cell("capsule"), {"error": spec.UNKNOWN}),
        "ValueError": (Cell("capsule", s="2"), {"error": None}),
    }
    with libraries():
        warm(drv)
        for word, (cell, expectation) in wrong.items():
            one = Run(drv, cell)
            one.wanted = Expected(**{**one.wanted.__dict__, **expectation})
            assert any(word in text for text in one.go()), word


# --- every call, in order -----------------------------------------------------------------

#: By action, for a raw capsule on device 1 while device 0 is current, and a handle S.
GOLDEN = {
    "edge(P,S)": [
        *("hipPointerGetAttributes", "hipGetStreamDeviceId P", "hipGetDeviceCount"),
        *("hipGetDevice", "hipSetDevice 1", "hipStreamIsCapturing S", "hipStreamIsCapturing P"),
        *("hipEventRecord P", "hipStreamWaitEvent S", "hipSetDevice 0"),
    ],
    "edge(L,S)": [
        *("hipPointerGetAttributes", "hipGetDeviceCount", "hipGetDevice", "hipSetDevice 1"),
        *("hipStreamIsCapturing S", "hipStreamIsCapturing 0"),
        *("hipEventRecord 0", "hipStreamWaitEvent S", "hipSetDevice 0"),
    ],
    "sync(device)": [
        *("hipPointerGetAttributes", "hipGetDeviceCount", "hipGetDevice", "hipSetDevice 1"),
        *("hipStreamIsCapturing S", "hipStreamIsCapturing 0"),
        *("hipDeviceSynchronize", "hipSetDevice 0"),
    ],
    "nothing": [],
}


def text_of(entry: Any) -> str:
    shown = {key: entry.args[key] for key in ("stream", "set") if key in entry.args}
    return " ".join([entry.name, *shown.values()])


def check_the_sequences_to_the_letter(drv: HipDriver) -> None:
    cases = {
        "edge(P,S)": Cell("capsule", device=1, named=True),
        "edge(L,S)": Cell("capsule", device=1, policy="legacy"),
        "sync(device)": Cell("capsule", device=1),
        "nothing": Cell("capsule", device=1, s="-1"),
    }
    warm(drv)
    for action, cell in cases.items():
        one = Run(drv, cell)
        one.set_up()
        one.export()
        lines = [text_of(entry) for entry in drv.entries()]
        assert lines == GOLDEN[action], (action, lines)
        assert {entry.args["dev"] for entry in drv.entries()} <= {"0", "1"}
        one.judge_end()
        assert not one.problems, one.problems


# --- what is no stream --------------------------------------------------------------------


def refusal(x: Any, given: Any, **options: Any) -> BaseException | None:
    try:
        dlshim.upgrade(x, **options).__dlpack__(stream=given)
    except Exception as error:
        return error
    return None


def check_what_is_no_stream_of_rocm(drv: HipDriver) -> None:
    """Nobody is asked, nothing is called; also the option and objects that stand for 1 and 2."""
    wrong: list[tuple[Any, type]] = [(value, TypeError) for value in (True, 1.5, "1", b"", [])]
    wrong += [(value, ValueError) for value in (-2, 2**64, 1, 2)]
    wrong += [(make(value), ValueError) for make in streams.FORMS for value in (1, 2)]
    for name in ("torch", "cupy", "nanobind", "no keyword"):
        drv.reset()
        x = MAKE[name](drv, 0)
        drv.clear_log()
        for value, kind in wrong:
            error = refusal(x, value)
            assert type(error) is kind and "stream" in str(error), (name, value, error)
            error = refusal(x, None, stream=value)
            assert type(error) is kind, (name, value, error)
        assert drv.log() == [] and x.calls == [], name
    for value in (1, 2):
        with pytest.raises(ValueError, match="pass 0 for the default stream"):
            dlshim.upgrade(rocm.NoKw(drv, 0), producer_stream=value).__dlpack__(stream=0)
    caps.close_accounts()


def check_stream_objects(drv: HipDriver) -> None:
    """HIP builds of torch and CuPy keep CUDA's names; 0 is the default stream."""
    warm(drv)
    for make, p, s in itertools.product(streams.FORMS, ("L", "N"), ("L", "N")):
        drv.reset()
        handles = [
            drv.stream_new(0, False, name=n) if k == "N" else 0 for k, n in (p + "P", s + "S")
        ]
        x = rocm.NoKw(drv, handles[0])
        assert not x.write()
        drv.clear_log()
        upgraded = dlshim.upgrade(x, producer_stream=make(handles[0]))
        caps.take(upgraded.__dlpack__(stream=make(handles[1]))).release()
        names = [name for name in drv.calls() if name not in spec.QUERIES]
        edge = ["hipEventRecord", "hipStreamWaitEvent"]
        assert names == ([] if p == s == "L" else edge), (make, p, s, names)
        assert not drv.read(handles[1], x.address)


# --- copies to the host -------------------------------------------------------------------

LAYOUTS: dict[str, dict[str, Any]] = {
    "dense": {"shape": (2, 3)},
    "one": {"shape": ()},
    "rows": {"shape": (3, 4), "strides": (8, 1)},
    "columns": {"shape": (3, 4), "strides": (1, 3)},
    "every second": {"shape": (5,), "strides": (2,)},
    "backwards": {"shape": (4,), "strides": (-1,), "start": 3},
    "broadcast": {"shape": (3, 2), "strides": (0, 1)},
    "cube": {"shape": (2, 3, 4), "strides": (40, 8, 1)},
    "late": {"shape": (2, 2), "start": 7},
}
MOVE = ("torch", "torch 2.9", "cupy")
COPIED = ("nanobind", "no keyword", "capsule", "versioned capsule", "toDlpack", "old cupy")


def unfinished(
    drv: HipDriver, producer: str, p: str = "N", device: int = 0, current: int = 0, **fields: Any
) -> Any:
    """An array with an unfinished kernel on P."""
    drv.reset()
    handle = {"L": 0, "PTDS": 2}.get(p)
    if handle is None:
        handle = drv.stream_new(device, p == "B", name="P")
    drv.set_device(device)
    x = MAKE[producer](drv, handle, device=device, **fields)
    assert not x.write()
    drv.set_device(current)
    drv.clear_log()
    return x


def judge_copy(drv: HipDriver, x: Any, taken: caps.Import, told: object, current: int) -> None:
    view = taken.view
    assert view.device == CPU and view.values() == x.values(), told
    size = max(1, len(x.values()) * 4)
    assert not drv.host_read(view.data, size) and not drv.races(), (told, drv.races())
    assert not drv.gil_held_calls(every=True) and not drv.marks(), (told, drv.marks())
    assert drv.device() == current, told
    taken.release()


def check_dlshim_copies_what_nobody_moves(drv: HipDriver) -> None:
    with libraries():
        for producer, p, (device, current) in itertools.product(
            COPIED, ("L", "PTDS", "B", "N"), spec.PLACES
        ):
            x = unfinished(drv, producer, p, device, current)
            source = dlshim.upgrade(source_of(producer, x), device="cpu")
            taken = caps.take(source.__dlpack__(max_version=(1, 0)))
            own = [entry for entry in drv.entries() if not entry.by]
            fetched = [e for e in own if e.name.startswith("hipMemcpy")]
            assert len(fetched) == 1 and fetched[0].args["dev"] == str(device), producer
            stream = fetched[0].args["stream"]
            assert stream.startswith("N"), (producer, stream, "one that blocks nobody")
            assert taken.view.copied and taken.view.data % 64 == 0
            judge_copy(drv, x, taken, (producer, p, device, current), current)
            del source
            caps.close_accounts()


def check_every_layout(drv: HipDriver) -> None:
    for (name, layout), device in itertools.product(LAYOUTS.items(), (0, 1)):
        x = unfinished(drv, "no keyword", device=device, **layout)
        taken = caps.take(dlshim.upgrade(x, device="cpu").__dlpack__(max_version=(1, 0)))
        judge_copy(drv, x, taken, name, 0)
    caps.close_accounts()


def check_the_producer_is_asked_first(drv: HipDriver) -> None:
    for producer, (device, current), stream in itertools.product(
        MOVE, spec.PLACES, (None, -1, "S")
    ):
        x = unfinished(drv, producer, device=device, current=current)
        given = drv.stream_new(device) if stream == "S" else stream
        drv.clear_log()
        taken = caps.take(dlshim.upgrade(x).__dlpack__(dl_device=CPU, stream=given))
        assert len(x.keywords) == 1 and x.keywords[0].get("stream") is None, x.keywords
        assert not [e for e in drv.entries() if not e.by and "emcpy" in e.name]
        judge_copy(drv, x, taken, (producer, device, current), current)
    caps.close_accounts()


def check_copies_that_are_not_allowed(drv: HipDriver) -> None:
    not_allowed(drv, [n for n in (*COPIED, *MOVE) if spec.PRODUCERS[n].called])


def check_copies_that_are_not_allowed_of_what_is_not_asked(drv: HipDriver) -> None:
    not_allowed(drv, [n for n in COPIED if not spec.PRODUCERS[n].called])


def not_allowed(drv: HipDriver, producers: list[str]) -> None:
    """Found out before anything was done."""
    for producer in producers:
        x = unfinished(drv, producer)
        source = dlshim.upgrade(source_of(producer, x), device="cpu", copy=False)
        with pytest.raises(dlshim.CopyRequiredError):
            source.__dlpack__()
        did = [name for name in drv.calls(by="") if name not in spec.QUERIES]
        assert not did, (producer, did)
        del source
        caps.close_accounts()


def check_a_copy_in_a_capture_of_p(drv: HipDriver) -> None:
    for producer in ("nanobind", "no keyword", "capsule"):
        x = unfinished(drv, producer)
        source = dlshim.upgrade(source_of(producer, x), device="cpu", producer_stream=x.stream)
        drv.capture_begin(x.stream, "relaxed")
        with pytest.raises(
            BufferError, match="a graph capture is running, and this export would break it; "
        ):
            source.__dlpack__()
        assert drv.capture_state(x.stream) == "active"
        drv.capture_end(x.stream)
        del source
    caps.close_accounts()


def check_a_copy_of_nothing(drv: HipDriver) -> None:
    for producer in ("capsule", "toDlpack"):
        x = unfinished(drv, producer, shape=(0, 3))
        taken = caps.take(dlshim.upgrade(source_of(producer, x), device="cpu").__dlpack__())
        assert taken.view.device == CPU and not drv.calls(), (producer, drv.calls())
        taken.release()
    caps.close_accounts()


# --- pinned and managed memory ------------------------------------------------------------


def check_pinned_memory(drv: HipDriver) -> None:
    """S5: nobody tracks copies into it; only a P that was named is waited for, by who reads:
    the host of None, the stream of a handle."""
    for stream, named in itertools.product((None, -1, 0, 1, 2, "S"), (False, True)):
        drv.reset()
        p, s = drv.stream_new(0, False, name="P"), drv.stream_new(0, False, name="S")
        x = rocm.PinnedBuffer(drv, p)
        assert not x.write()
        drv.clear_log()
        options = {"producer_stream": p} if named else {}
        given = s if stream == "S" else stream
        taken = caps.take(dlshim.upgrade(x, **options).__dlpack__(stream=given))
        assert taken.view.device == (11, 0) and x.keywords[-1].get("stream") is None
        wanted = ["hipStreamSynchronize"] if named and stream != -1 else []
        if named and stream == "S":
            wanted = ["hipEventRecord", "hipStreamWaitEvent"]
        names = [n for n in drv.calls() if n not in spec.QUERIES and not n.startswith("hipEventC")]
        assert names == wanted, (stream, named, names)
        racy = drv.read(s, x.address) if stream == "S" else drv.host_read(x.address)
        assert racy == (not wanted), (stream, named)
        if not wanted:
            assert drv.calls() == []
        taken.release()
    caps.close_accounts()


def check_pinned_memory_for_numpy(drv: HipDriver) -> None:
    try:
        import numpy
    except ImportError:
        return  # checked where it is installed
    drv.reset()
    p = drv.stream_new(0, False, name="P")
    x = rocm.PinnedBuffer(drv, p)
    x.write()
    array = numpy.from_dlpack(dlshim.upgrade(x, producer_stream=p))
    assert array.ravel().tolist() == x.values(), (array, x.values())
    assert not drv.host_read(x.address)
    del array
    caps.close_accounts()


def check_managed_memory_is_devices(drv: HipDriver) -> None:
    """CuPy says 10 of it; there is no label of its own."""
    drv.reset()
    x = MAKE["cupy"](drv, drv.stream_new(0, False), kind="managed")
    s = drv.stream_new(0, False)
    x.write()
    taken = caps.take(dlshim.upgrade(x).__dlpack__(stream=s))
    assert taken.view.device == (10, 0) and not drv.read(s, x.address)
    taken.release()
    caps.close_accounts()


# --- the CUDA array interface -------------------------------------------------------------


def check_what_the_interface_says_of_its_stream(drv: HipDriver) -> None:
    """1 is the null stream, for 0 is forbidden; 2 is hipStreamPerThread; on the memory's device."""
    warm(drv)
    for entry, device, current in itertools.product((1, 2, "P"), (0, 1), (0, 1)):
        drv.reset()
        s = drv.stream_new(device, False, name="S")
        p = {1: 0, 2: 2}.get(entry) if entry != "P" else drv.stream_new(device, False, name="P")
        drv.set_device(device)
        x = rocm.Cai3(drv, p, entry=p if entry == "P" else entry, device=device)
        x.write()
        drv.set_device(current)
        drv.clear_log()
        taken = caps.take(dlshim.upgrade(x).__dlpack__(stream=s))
        assert taken.view.device == (10, device)
        name = {1: "0", 2: "PTDS", "P": "P"}[entry]
        assert effects(drv, device) == spec.moved(
            Cell("cai 3", device=device, current=current),
            [f"hipEventRecord {name} on D", "hipStreamWaitEvent S on D"],
        )
        assert not drv.read(s, x.address) and drv.device() == current
        taken.release()
    x = rocm.Cai3(drv, 0, entry=0)
    with pytest.raises(BufferError, match="must not be 0"):
        dlshim.upgrade(x).__dlpack__(stream=s)


def check_the_device_of_an_interface(drv: HipDriver) -> None:
    for device in (0, 1):
        for kind, label in (("device", (10, device)), ("pool", (10, device)), ("pinned", (11, 0))):
            drv.reset()
            x = rocm.Cai3(drv, 0, entry=None, device=device, kind=kind)
            assert dlshim.upgrade(x).__dlpack_device__() == label
            taken = caps.take(dlshim.upgrade(x).__dlpack__(stream=-1))
            assert taken.view.device == label and taken.view.data == x.address
            taken.release()


def check_an_interface_is_copied_to_the_host(drv: HipDriver) -> None:
    for producer, p in itertools.product(("cai 2", "cai 3"), ("L", "B", "N")):
        x = unfinished(drv, producer, p, device=1)
        taken = caps.take(dlshim.upgrade(x, device="cpu").__dlpack__(max_version=(1, 0)))
        assert taken.view.device == CPU and taken.view.values() == caps.numbers((2, 3), "float32")
        assert not drv.host_read(taken.view.data, 24) and not drv.races(), drv.races()
        assert drv.device() == 0
        taken.release()


def check_cupys_arrays_have_no_interface(drv: HipDriver) -> None:
    """The property is an AttributeError on ROCm: nobody asks for it twice."""
    drv.reset()
    x = MAKE["cupy"](drv, 0)
    taken = caps.take(dlshim.upgrade(x).__dlpack__(stream=-1))
    assert taken.view.device == (10, 0)
    taken.release()
    caps.close_accounts()


def check_a_tensor_of_rocm_has_no_interface_of_cuda(drv: HipDriver) -> None:
    """Whoever reads it would ask libcuda for the pointer."""
    drv.reset()
    tensor = dlshim.from_dlpack(rocm.NoKw(drv, 0), stream=-1)
    with pytest.raises(AttributeError, match="__cuda_array_interface__"):
        _ = tensor.__cuda_array_interface__
    assert not hasattr(dlshim.upgrade(rocm.NoKw(drv, 0)), "__cuda_array_interface__")
    del tensor
    caps.close_accounts()


def check_guard_is_cudas(drv: HipDriver) -> None:
    """HIP has no event of a whole device: nothing that could be waited for at the release."""
    for producer in ("torch", "no keyword", "capsule"):
        x = unfinished(drv, producer)
        source = dlshim.upgrade(source_of(producer, x), on_release="guard")
        with pytest.raises(BufferError, match="on_release"):
            source.__dlpack__(stream=0)
        del source
    caps.close_accounts()


# --- a Tensor remembers -------------------------------------------------------------------


class DefaultStream:
    """The object of HIP's default stream, as torch's: its handle is 0, not 1 as L's on CUDA."""

    cuda_stream = 0


def check_a_tensor_syncs_from_the_stream_that_it_was_given(drv: HipDriver) -> None:
    warm(drv)
    for producer, first, second in itertools.product(
        ("torch", "nanobind", "capsule"), (None, 0, -1, "A", "default"), (None, 0, -1, "A", "B")
    ):
        drv.reset()
        p, a, b = (drv.stream_new(0, False, name=n) for n in "PAB")
        x = MAKE[producer](drv, p)
        x.write()
        given = {None: None, 0: 0, -1: -1, "A": a, "B": b, "default": DefaultStream()}
        tensor = dlshim.from_dlpack(source_of(producer, x), stream=given[first])
        drv.clear_log()
        taken = caps.take(tensor.__dlpack__(stream=given[second]))
        names = [n for n in drv.calls() if n not in spec.QUERIES]
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


# --- errors -------------------------------------------------------------------------------

#: The class, and a word of the message (S24).
ERRORS: dict[int, tuple[type[Exception], str]] = {
    100: (BufferError, "finds no device"),
    101: (BufferError, "finds no device"),
    400: (BufferError, "belongs to another device or was destroyed"),
    709: (RuntimeError, "second HIP runtime"),
    700: (RuntimeError, "hipErrorIllegalAddress"),
    719: (RuntimeError, "hipErrorLaunchFailure"),
    **dict.fromkeys(range(900, 909), (BufferError, "capture")),
}
#: Whoever cannot tell is believed to know nothing.
UNHEARD = spec.QUERIES - {"hipGetDeviceCount", "hipGetDevice"}


def exchanges(drv: HipDriver) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each with a fresh array on device 1, device 0 being current."""
    p, s = drv.stream_new(1, False, name="P"), drv.stream_new(1, False, name="S")

    def upgraded(**options: Any) -> Any:
        x = rocm.NoKw(drv, p, device=1)
        x.write()
        return dlshim.upgrade(x, **options)

    yield "edge", lambda: upgraded(producer_stream=p).__dlpack__(stream=s)
    yield "whole device", lambda: upgraded().__dlpack__(stream=s)
    yield "copy", lambda: upgraded(device="cpu", producer_stream=p).__dlpack__()
    x = rocm.PinnedBuffer(drv, p, device=1)
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
        if serious and not back and entry.name not in UNHEARD:
            yield entry.name, before


def check_every_call_that_fails(drv: HipDriver) -> None:
    """The right class, the device as before, nothing kept; and the next export works."""
    drv.set_device(0)
    for name, go in exchanges(drv):
        caps.take(go()).release()
        drv.clear_log()
        caps.take(go()).release()
        called = list(heard(drv))
        assert len(called) >= 4, (name, called)
        for (function, skip), (code, (kind, word)) in itertools.product(called, ERRORS.items()):
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


def check_what_cannot_be_put_back_is_no_error(drv: HipDriver) -> None:
    """The export has been synced; only the device is not as it was, and no call can help it."""
    drv.reset()
    p, s = drv.stream_new(1, False), drv.stream_new(1, False)
    x = rocm.NoKw(drv, p, device=1)
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
        x = rocm.NoKw(drv, p)
        drv.stream_end(p if gone_p else s)
        kind = RuntimeError if gone_p else BufferError
        with pytest.raises(kind, match=word):
            dlshim.upgrade(x, producer_stream=p).__dlpack__(stream=s)
    caps.close_accounts()


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


# --- threads ------------------------------------------------------------------------------


def check_threads_begin_on_device_0(drv: HipDriver) -> None:
    for name, device in itertools.product(("torch", "cupy", "nanobind", "no keyword"), (0, 1)):
        drv.reset()
        p, s = drv.stream_new(device, False), drv.stream_new(device, False)
        x = MAKE[name](drv, p, device=device)
        x.write()
        seen: list[int] = []

        def export(x: Any = x, s: int = s, seen: list[int] = seen) -> None:
            caps.take(dlshim.upgrade(x).__dlpack__(stream=s)).release()
            seen.append(drv.device())

        drv.set_device(1)
        thread = threading.Thread(target=export)
        thread.start()
        thread.join()
        assert seen == [0] and drv.device() == 1, name
        assert not drv.read(s, x.address), name
    caps.close_accounts()


def check_many_threads_on_both_devices(drv: HipDriver) -> None:
    """Each with its own streams, and each other call on the other device."""
    drv.reset()
    places = [(n % 2, drv.stream_new(n % 2, False), drv.stream_new(n % 2, False)) for n in range(6)]
    arrays = [rocm.NoKw(drv, p, device=device) for device, p, _ in places]
    racy: list[int] = []
    ended: list[int] = []

    def work(n: int) -> None:
        (device, p, s), x = places[n], arrays[n]
        for turn in range(100):
            drv.set_device(turn % 2)
            drv.write(p, x.address)
            options = {"producer_stream": p} if turn % 3 else {}
            target = {"device": "cpu"} if turn % 10 == 9 else {}
            caps.take(dlshim.upgrade(x, **options, **target).__dlpack__(stream=s)).release()
            racy.append(drv.read(s, x.address) and not target)
            drv.call("hipStreamSynchronize", s)
            drv.call("hipStreamSynchronize", p)
            assert drv.device() == turn % 2
        ended.append(device)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(places))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ended) == len(places) and not any(racy), drv.races()[:3]
    assert drv.live_events() <= len(places) + 2 and not drv.marks(), drv.marks()[:3]
    caps.close_accounts()


def check_a_consumers_stream_of_the_other_device(drv: HipDriver) -> None:
    """A wait may cross devices, a record may not."""
    for named, current in itertools.product((False, True), (0, 1)):
        drv.reset()
        p, s = drv.stream_new(0, False), drv.stream_new(1, False)
        x = rocm.NoKw(drv, p)
        x.write()
        drv.set_device(current)
        options = {"producer_stream": p} if named else {}
        caps.take(dlshim.upgrade(x, **options).__dlpack__(stream=s)).release()
        assert not drv.read(s, x.address) and drv.device() == current, (named, current)
    caps.close_accounts()


def check_a_producers_stream_of_the_other_device(drv: HipDriver) -> None:
    """Peer access: P lies elsewhere; the default stream of the consumer is the memory's."""
    for s_kind, current in itertools.product((0, "S"), (0, 1)):
        drv.reset()
        p = drv.stream_new(1, False)
        s = drv.stream_new(0, False) if s_kind == "S" else 0
        x = rocm.NoKw(drv, p, device=0)
        x.write()
        drv.set_device(current)
        caps.take(dlshim.upgrade(x, producer_stream=p).__dlpack__(stream=s)).release()
        assert not drv.read(s, x.address) and drv.device() == current, (s, current)
    caps.close_accounts()


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), LIVE))
def test_rocm(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]


@pytest.mark.parametrize("variant", LIVE)
def test_events_and_streams_are_made_while_others_capture(variant: str) -> None:
    """In the relaxed mode, which is put back: a capture of another thread is not to be ended.
    Made once for each device, without timing, and kept."""
    code = """
        import dlshim
        from doubles import capsules as caps, rocm
        drv.start()
        for device in (0, 0, 1, 1, 0):
            p, s = drv.stream_new(device, False), drv.stream_new(device, False)
            x = rocm.NoKw(drv, p, device=device)
            for options in ({}, {"device": "cpu"}):
                upgraded = dlshim.upgrade(x, producer_stream=p, **options)
                caps.take(upgraded.__dlpack__(stream=s)).release()
        lines = [entry.text.split(" dev=")[0] for entry in drv.entries()]
        for made in ("hipEventCreateWithFlags flags=2", "hipStreamCreateWithFlags flags=1"):
            places = [n for n, line in enumerate(lines) if line.startswith(made)]
            assert len(places) == 2, (made, lines)
            for at in places:
                modes = [lines[at - 1], lines[at + 1]]
                assert modes == [f"hipThreadExchangeStreamCaptureMode mode={m}" for m in (2, 0)]
        assert drv.live_events() == 2 and "hipEventDestroy" not in drv.calls()
    """
    run_with_driver(variant, code)
