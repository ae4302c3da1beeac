"""Objects that speak only `__cuda_array_interface__`, as libraries spell it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from .older import InterfaceOnly, typestr_of


class LazyPair(Sequence):
    """cuDF's `DelayedPointerTuple`: no tuple, and the pointer is looked up when it is asked for.

    The look-up pins the buffer for good, so `asked` is a list of every index asked for.
    """

    def __init__(self, address: Any, readonly: Any = False) -> None:
        self.pair = (address, readonly)
        self.asked: list[int] = []

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        self.asked.append(index)
        return self.pair[index]


class CudaOnly:
    """`__cuda_array_interface__` and nothing else.

    Version 3 with the key `stream` is numba-cuda and CuPy, 2 torch, Warp and JAX, 0 rmm and
    cuDF.  `changes` replace entries of the dict; an entry set to DROP is left out.
    """

    DROP = InterfaceOnly.DROP

    def __init__(
        self,
        shape: Sequence[int] = (2, 3),
        dtype: str = "float32",
        *,
        address: int = 0,
        version: int = 3,
        strides: Sequence[int] | None = None,
        readonly: bool = False,
        stream: Any = DROP,
        changes: dict[str, Any] | None = None,
    ) -> None:
        self._entries: dict[str, Any] = {
            "shape": tuple(shape),
            "typestr": typestr_of(dtype),
            "data": (address, readonly),
            "strides": strides if strides is None else tuple(strides),
            "version": version,
            "stream": stream,
        }
        self._entries |= changes or {}
        self.times_asked = 0

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self.times_asked += 1
        return {key: value for key, value in self._entries.items() if value is not self.DROP}


class WithDevice(CudaOnly):
    """CuPy: `.device` is an object with an `id`."""

    def __init__(self, *arguments: Any, device_id: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.device = SimpleNamespace(id=device_id)


class WithDeviceId(CudaOnly):
    """`.device_id`, beside a `.device` that is a name."""

    def __init__(self, *arguments: Any, device_id: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.device = f"cuda:{device_id}"
        self.device_id = device_id


class WithDeviceInt(CudaOnly):
    """`.device` is the number."""

    def __init__(self, *arguments: Any, device_id: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.device = device_id


class Over:
    """Of an object that has it: a consumer that knows this protocol alone sees it like that."""

    def __init__(self, shown: Any) -> None:
        self.shown = shown

    @property
    def __cuda_array_interface__(self) -> Any:
        return self.shown.__cuda_array_interface__


def empty(cls: type[CudaOnly] = CudaOnly, shape: Sequence[int] = (0, 3), **keywords: Any) -> Any:
    """Of no elements: pointer 0, as version 2 has it."""
    assert 0 in shape
    return cls(shape, **keywords)
