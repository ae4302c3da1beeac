"""Buffers of C objects, which may say of their memory what no memoryview would (T11)."""

from __future__ import annotations

import ctypes as C

import pytest

import dlshim
from doubles.exporter import Exporter

BLOCK = (C.c_int32 * 16)(*range(16))


def exporter(**changes: object) -> Exporter:
    said = {"buf": C.addressof(BLOCK), "len": 12, "itemsize": 4, "ndim": 1, "format": b"i"}
    return Exporter(**(said | {"shape": (3,), "strides": (4,)} | changes))


def test_a_buffer_of_c_is_held_as_long_as_it_is_used() -> None:
    x = exporter()
    tensor = dlshim.from_dlpack(x)
    assert (tensor.dtype, tensor.shape, x.views) == ((0, 32, 1), (3,), 1)
    assert memoryview(tensor).tolist() == [0, 1, 2]
    del tensor
    assert x.views == 0


@pytest.mark.parametrize("strides", [None, (0,)])
@pytest.mark.parametrize("letter", ["i", "b", "B", "Q"])
def test_T11_an_item_size_whose_bits_overflow_is_not_taken_for_a_small_one(letter, strides) -> None:
    """8 * (2**61 + 4) is 32 in 64 bits: such elements were taken for int32."""
    eighth = 2 ** (8 * C.sizeof(C.c_ssize_t) - 3)
    for small in (1, 4, 8):
        x = exporter(itemsize=eighth + small, format=letter.encode(), strides=strides)
        with pytest.raises(BufferError):
            dlshim.from_dlpack(x)
        assert x.views == 0
