"""Stream objects as libraries make them, all standing for one handle.

``forms(handle)`` gives every form by name.  0 in an object is no ambiguity: it is how torch,
numba and Warp speak of the legacy default stream.
"""

from __future__ import annotations

import ctypes as C
from typing import Any


class _Stream:
    def __init__(self, handle: int) -> None:
        self._handle = handle


class TorchOldStream(_Stream):
    """`torch.cuda.Stream` up to 2.8: the attribute `cuda_stream`, and `_as_parameter_`."""

    @property
    def cuda_stream(self) -> int:
        return self._handle

    @property
    def _as_parameter_(self) -> Any:
        return C.c_void_p(self._handle)


class TorchStream(TorchOldStream):
    """`torch.cuda.Stream` since 2.9: `__cuda_stream__` besides."""

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self._handle)


class TorchPlainStream(_Stream):
    """`torch.Stream`, which `torch.accelerator.current_stream()` gives (`torch/csrc/Stream.cpp`,
    `THPStream_get_native_handle`).  Releases without `native_handle` name no handle at all
    (pytorch/pytorch@009851c1030b)."""

    stream_id, device_index, device_type = 3, 0, 1

    @property
    def native_handle(self) -> int:
        return self._handle


class CupyOldStream(_Stream):
    """`cupy.cuda.Stream` up to 13: `ptr`."""

    @property
    def ptr(self) -> int:
        return self._handle


class CupyStream(CupyOldStream):
    """`cupy.cuda.Stream` since 14: `__cuda_stream__` besides."""

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self._handle)


class NumbaOldStream(_Stream):
    """`numba.cuda` of old: `handle` is a `c_void_p`, None in it for 0."""

    @property
    def handle(self) -> Any:
        return C.c_void_p(self._handle)

    def __int__(self) -> int:
        return self._handle


class NumbaStream(NumbaOldStream):
    """numba-cuda 0.30: `__cuda_stream__`, and (0, 0) for its default."""

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self._handle)


class CudaCoreStream(_Stream):
    """cuda.core 1.2: `__cuda_stream__`, and `handle` is a `CUstream`, which `int()` reads."""

    class CUstream:
        def __init__(self, value: int) -> None:
            self._value = value

        def __int__(self) -> int:
            return self._value

    @property
    def handle(self) -> Any:
        return self.CUstream(self._handle)

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self._handle)


class AttributeStream(_Stream):
    """cuda.core 0.1: `__cuda_stream__` is the pair itself, not a method."""

    @property
    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self._handle)


class RmmStream(_Stream):
    """`rmm.pylibrmm.stream.Stream`: the protocol and nothing else."""

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self._handle)


class NvcvStream(_Stream):
    """CV-CUDA's `nvcv.cuda.Stream`: `handle` is an int (`python/mod_nvcv/Stream.cpp`)."""

    @property
    def handle(self) -> int:
        return self._handle

    def __int__(self) -> int:
        return self._handle


class WarpStream(_Stream):
    """`warp.Stream`: `cuda_stream`, None for the null stream."""

    @property
    def cuda_stream(self) -> int | None:
        return self._handle or None


class Queue:
    """dpctl's `SyclQueue`, a stream object and none of CUDA's: here nobody asks it for anything."""

    def _get_capsule(self) -> Any:
        raise AssertionError("nobody has asked for it")


class Index:
    """An int to whoever asks by `__index__`: numpy.uint64, ctypes-like pointer classes."""

    def __init__(self, number: Any) -> None:
        self.number = number

    def __index__(self) -> Any:
        return self.number


FORMS = (
    TorchOldStream,
    TorchStream,
    TorchPlainStream,
    CupyOldStream,
    CupyStream,
    NumbaOldStream,
    NumbaStream,
    CudaCoreStream,
    AttributeStream,
    RmmStream,
    WarpStream,
)


def forms(handle: int) -> dict[str, Any]:
    return {form.__name__: form(handle) for form in FORMS}


class Broken:
    """`__cuda_stream__` that gives back `answer`, whatever that is."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __cuda_stream__(self) -> Any:
        return self.answer


class Raises:
    """`__cuda_stream__` that fails."""

    def __init__(self, failure: BaseException) -> None:
        self.failure = failure

    def __cuda_stream__(self) -> Any:
        raise self.failure
