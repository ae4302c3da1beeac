"""Devices that have streams of their own, or none: each by its name, and numbers without one.

`data` is a handle there: label, handle and byte_offset go through untouched.  A modern producer is
passed the consumer's stream as it is; None and -1 are all that anybody else can be asked for; every
other combination is a clear error.  No driver is loaded for any of it.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import dlshim
from doubles import capsules as caps
from doubles import child
from doubles.asking import ASKINGS, tells, versioned, walk
from doubles.producers import (
    P1,
    P2,
    P0ToDlpack,
    P1b,
    P2Torch,
    P3TableOnly,
    fresh,
    jax_like,
    masquerade,
)

BOTH = pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())

NAMED = {
    "kDLOpenCL": 4,
    "kDLVulkan": 7,
    "kDLMetal": 8,
    "kDLVPI": 9,
    "kDLExtDev": 12,
    "kDLWebGPU": 15,
    "kDLHexagon": 16,
    "kDLMAIA": 17,
    "kDLTrn": 18,
    "kDLTPU": 19,
    "kDLTPUHost": 20,
    "kDLAscend": 21,
}
#: Numbers that no DLPack has given away: small ones, those beyond any bit mask, the largest.
UNKNOWN = {f"unknown {code}": code for code in (5, 6, 22, 31, 32, 33, 64, 2**31 - 1)}
DEVICE = pytest.mark.parametrize(
    "device", [(code, 3) for code in (NAMED | UNKNOWN).values()], ids=[*NAMED, *UNKNOWN]
)

HANDLE, OFFSET = 0x1003, 24
#: What a consumer's stream can be: numbers of any kind, and objects that are streams elsewhere.
STREAMS: dict[str, Any] = {
    "0": 0,
    "1": 1,
    "2": 2,
    "handle": 0x7F00_0000_1000,
    "largest": 2**64 - 1,
    "CUDA stream": SimpleNamespace(__cuda_stream__=lambda: (0, 77)),
    "pointer": SimpleNamespace(ptr=0),
    "command queue": SimpleNamespace(handle="MTLCommandQueue"),
    "queue": SimpleNamespace(_get_capsule=lambda: 1 / 0),
}


def on(cls: Any, device: tuple[int, int], shape: tuple[int, ...] = (3,), **fields: Any) -> Any:
    return fresh(cls)(
        shape, "float32", device=device, **({"data": HANDLE, "byte_offset": OFFSET} | fields)
    )


def ignoring(device: tuple[int, int]) -> Any:
    """An array of nanobind's: takes `stream` and does nothing with it."""
    return on(masquerade(P2, "nb_ndarray", "nanobind"), device)


#: Producers that are told the stream.
MODERN = {"P2": P2, "torch-like": P2Torch, "without max_version": P1b}
#: Sources that nobody can tell a stream.
SILENT = {
    "no stream": lambda device: on(P0ToDlpack, device),
    "bare __dlpack__": lambda device: on(NoStream, device),
    "ignores it": ignoring,
    "table": lambda device: on(P3TableOnly, device),
    "legacy capsule": lambda device: on(P2, device).__dlpack__(),
    "versioned capsule": lambda device: on(P2, device).__dlpack__(max_version=(1, 0)),
    "Tensor": lambda device: dlshim.from_dlpack(on(P2, device), stream=-1),
}


class NoStream(P1):
    TAKES = ()


def test_the_names_are_those_of_the_header():
    families = {1, 2, 3, 10, 11, 13, 14}
    assert {d.name: d.value for d in dlshim.DLDeviceType if d not in families} == NAMED


# --- labels and handles -----------------------------------------------------------------------


@BOTH
@DEVICE
def test_label_and_handle_are_untouched(device, ask):
    def check(make):
        x = on(make, device) if isinstance(make, type) else make(device)
        upgraded = dlshim.upgrade(x)
        assert upgraded.__dlpack_device__() == device
        with ask(upgraded) as imported:
            view = imported.view
            assert (view.device, view.data, view.byte_offset) == (device, HANDLE, OFFSET)
            assert (view.shape, view.strides) == ((3,), (1,))

    walk(MODERN | SILENT, check)


@DEVICE
def test_a_tensor_shows_the_handle_and_nothing_that_would_follow_it(device):
    tensor = dlshim.from_dlpack(on(P2, device))
    assert (tensor.device, tensor.data_ptr(), tensor.byte_offset) == (device, HANDLE, OFFSET)
    for name in ("__array_interface__", "__cuda_array_interface__", "__sycl_usm_array_interface__"):
        assert not hasattr(tensor, name)
    with pytest.raises(BufferError):
        memoryview(tensor)
    report = dlshim.inspect(tensor)
    assert (report.device, report.byte_offset) == (device, OFFSET)


@BOTH
@DEVICE
def test_views_with_strides_of_any_sign_keep_their_offset(device, ask):
    x = on(P2, device, (2, 3), strides=(6, -2), start=4)
    with ask(dlshim.upgrade(x, order="K")) as imported:
        view = imported.view
        assert (view.data, view.byte_offset, view.strides) == (HANDLE, OFFSET, (6, -2))


@BOTH
@DEVICE
@pytest.mark.parametrize("data", [None, HANDLE], ids=["NULL", "handle"])
def test_of_no_elements(device, data, ask):
    with ask(dlshim.upgrade(on(P2, device, (0, 3), data=data)), stream=-1) as imported:
        view = imported.view
        assert (view.device, view.shape, view.data) == (device, (0, 3), data or 0)


@DEVICE
def test_flags_and_dtypes_go_through(device):
    x = on(P2, device, readonly=True)
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.view.readonly
    with versioned(dlshim.upgrade(x, reinterpret="int32", readonly=False)) as imported:
        assert (imported.view.dtype, imported.view.readonly) == ((0, 32, 1), False)
        assert (imported.view.data, imported.view.byte_offset) == (HANDLE, OFFSET)


@DEVICE
def test_a_wrong_label_can_be_replaced(device):
    with versioned(dlshim.upgrade(on(P2, (2, 0)), assume_device=device)) as imported:
        view = imported.view
        assert (view.device, view.data, view.byte_offset) == (device, HANDLE, OFFSET)


# --- streams ------------------------------------------------------------------------------------


@BOTH
@DEVICE
@pytest.mark.parametrize("cls", MODERN.values(), ids=MODERN.keys())
def test_a_modern_producer_is_passed_the_stream_as_it_is(device, cls, ask):
    def check(stream):
        for options, keywords in (({}, {"stream": stream}), ({"stream": stream}, {})):
            x = on(cls, device)
            with ask(dlshim.upgrade(x, **options), **keywords) as imported:
                assert imported.view.data == HANDLE
            assert x.keywords[-1]["stream"] is stream

    walk(STREAMS, check)


@BOTH
@DEVICE
@pytest.mark.parametrize("asked", [{}, {"stream": None}, {"stream": -1}], ids=str)
def test_none_and_minus_one_become_none(device, asked, ask):
    """None is the only portable value; -1 means nothing to a producer of these devices."""
    for cls in (*MODERN.values(), jax_like()):
        x = on(cls, device)
        ask(dlshim.upgrade(x), **asked).release()
        assert x.keywords[-1]["stream"] is None


@BOTH
@DEVICE
@pytest.mark.parametrize("make", SILENT.values(), ids=SILENT.keys())
def test_what_cannot_be_told_a_stream(device, make, ask):
    """None and -1 are taken; of another one the user must say that the data are ready there."""

    def check(stream):
        with pytest.raises((BufferError, TypeError)) as error:
            ask(dlshim.upgrade(make(device)), stream=stream)
        if isinstance(error.value, BufferError):
            tells(error.value, "cannot be synchronised", "stream=-1")
        else:  # that it is no stream of CUDA, before a function without a device is called
            assert make is SILENT["no stream"] and stream is STREAMS["command queue"]
            return
        for option in ({"unknown_stream": "same"}, {"producer_stream": -1}):
            with ask(dlshim.upgrade(make(device), **option), stream=stream) as imported:
                assert imported.view.device == device

    for stream in (None, -1):
        with ask(dlshim.upgrade(make(device)), stream=stream) as imported:
            assert imported.view.device == device
    walk(STREAMS, check)


@DEVICE
def test_a_stream_that_both_name_needs_no_sync(device):
    def check(stream):
        named = dlshim.upgrade(on(NoStream, device), producer_stream=stream)
        versioned(named, stream=stream).release()
        for other in (5, SimpleNamespace(handle=6)):
            with pytest.raises(BufferError, match="cannot be synchronised"):
                versioned(named, stream=other)

    walk(STREAMS, check)


@DEVICE
def test_a_tensor_remembers_the_stream_on_which_it_was_made_ready(device):
    def check(stream):
        tensor = dlshim.from_dlpack(on(P2, device), stream=stream)
        versioned(tensor, stream=stream).release()
        versioned(tensor, stream=-1).release()
        with pytest.raises(BufferError, match="cannot be synchronised"):
            versioned(tensor, stream=5)

    walk(STREAMS, check)


@DEVICE
def test_what_is_no_stream_anywhere_is_a_typeerror(device):
    for stream in (True, 1.0, "1", b"1", object()):
        with pytest.raises(TypeError, match="stream"):
            versioned(dlshim.upgrade(on(P2, device)), stream=stream)


@DEVICE
def test_dlshim_cannot_wait_there(device):
    """stream="wait" is refused; to_capsule without a stream does what None asks for (S8, S25)."""
    for cls in MODERN.values():
        x = on(cls, device)
        with pytest.raises(BufferError, match="cannot be synchronised"):
            dlshim.to_capsule(x, stream="wait")
        with pytest.raises(BufferError, match="cannot be synchronised"):
            versioned(dlshim.upgrade(x, stream="wait"), stream=5)
        caps.take(dlshim.to_capsule(x)).release()
        assert x.keywords[-1]["stream"] is None
        caps.take(dlshim.to_capsule(x, stream="wait", unknown_stream="same")).release()
    for make in SILENT.values():
        caps.take(dlshim.to_capsule(make(device))).release()


# --- every other combination ------------------------------------------------------------------


@BOTH
@DEVICE
def test_what_nobody_can_do_there_is_refused(device, ask):
    for options, words in (
        ({"device": "cpu"}, "move"),
        ({"device": "cuda:0"}, "move"),
        ({"device": (device[0], 9)}, "move"),
        ({"device": "cpu", "copy": False}, "copy=False"),
        ({"on_release": "guard"}, "CUDA memory only"),
    ):
        for make in (lambda: on(P2, device), lambda: on(P2, device).__dlpack__()):
            with pytest.raises(BufferError) as error:
                ask(dlshim.upgrade(make(), **options))
            tells(error.value, words)
    x = on(P2, device, (3, 2), strides=(1, 3))
    with pytest.raises(BufferError, match=r"\.contiguous\(\)"):
        ask(dlshim.upgrade(x, order="C"))
    for make in (m for m in SILENT.values() if m is not ignoring):  # which copies itself
        with pytest.raises(BufferError, match=r"\.copy\(\)|\.clone\(\)"):
            ask(dlshim.upgrade(make(device), copy=True))


@DEVICE
def test_the_host_moves_nothing_there(device):
    with pytest.raises(BufferError, match="host memory"):
        versioned(dlshim.upgrade(P2(), device=device))


@pytest.mark.once
def test_no_driver_is_looked_for():
    """Not even one that is there: these memories are none of its business."""
    child.program("devices_without_a_driver")
