"""Exports as plain addresses, which another interpreter can read and give back."""

from __future__ import annotations

import array
import ctypes as C
from types import ModuleType

from . import capsules as caps


def give(addresses: list[int], held: bool) -> None:
    """Read and give back, by each generation in turn."""
    for k, address in enumerate(addresses):
        name = caps.VERSIONED if k % 2 else caps.LEGACY
        kind = caps.ManagedTensorVersioned if k % 2 else caps.ManagedTensor
        tensor = kind.from_address(address).dl_tensor
        data = (C.c_int * 6).from_address(tensor.data + tensor.byte_offset)
        assert list(data) == [0, 1, 2, 3, 4, 5], k
        caps.call_deleter(address, name, held=held)


def make(dlshim: ModuleType) -> list[int]:
    """Ten exports, of both generations in turn."""
    from .delegating import Source

    x = array.array("i", range(6))
    sources = (
        dlshim.upgrade(x, copy=True),
        dlshim.upgrade(x),
        dlshim.upgrade(Source()),
        dlshim.from_dlpack(x),
        dlshim.upgrade(Source(), copy=True),
    )
    addresses = []
    for source in sources:
        for version in (None, (1, 0)):
            capsule = source.__dlpack__(max_version=version)
            addresses.append(caps.pointer_of(capsule))
            caps.rename(capsule)
    return addresses
