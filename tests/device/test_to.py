"""`dlshim.to` with memory of a device: it stays, moves with ``device=``, and is ordered."""

from __future__ import annotations

from typing import Any

import pytest

import dlshim
from doubles import capsules as caps
from doubles import device as fake
from drivers import ALL_LIVE, checks, run_checks


def library(stream: int) -> type:
    """A class whose arrays are read on a stream."""

    class Mine:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

        @classmethod
        def from_dlpack(cls, x: Any) -> Any:
            return cls(dlshim.from_dlpack(x, stream=stream))

    return Mine


def made(drv: Any, name: str = "P") -> Any:
    """An array with work pending on a stream of its own, which its library does not tell."""
    array = fake.NoKw(drv, drv.stream_new(0, False, name=name))
    array.own.fill(bytes(range(64)))
    assert not array.write()
    return array


def check_it_stays_and_is_ordered(drv: Any) -> None:
    s = drv.stream_new(0, False, name="S")
    x = made(drv)
    for options in ({}, {"copy": False}, {"device": x.device}):
        y = dlshim.to(x, library(s), **options)
        assert (y.tensor.device, y.tensor.data_ptr()) == (x.device, x.own.base)
        assert not drv.read(s, y.tensor.data_ptr()), drv.races()
        del y
    caps.close_accounts()


def check_a_copy_is_one_of_the_device(drv: Any) -> None:
    s = drv.stream_new(0, False, name="S")
    x = made(drv)
    before = dlshim.stats()["copied"]
    y = dlshim.to(x, library(s), copy=True)
    assert y.tensor.device == x.device and y.tensor.data_ptr() != x.own.base
    assert dlshim.stats()["copied"] == before + 1
    assert not drv.read(s, y.tensor.data_ptr()) and not drv.races()
    del y
    caps.close_accounts()


def check_it_moves_to_the_host(drv: Any) -> None:
    x = made(drv)
    for name in ("numpy", "array_api_strict", "polars", "pyarrow", "pandas"):
        try:
            dlshim.to(b"ab", name)
        except ModuleNotFoundError:
            continue
        with pytest.raises(BufferError, match=r'has host memory alone.*\n  .*pass device="cpu"$'):
            dlshim.to(x, name)
    made_there = dlshim.to(x, "numpy", device="cpu")
    assert not drv.host_read(made_there.ctypes.data, made_there.nbytes), drv.races()
    assert made_there.tobytes() == bytes(range(64))[: made_there.nbytes] and made_there.nbytes
    assert made_there.flags.writeable
    with pytest.raises(dlshim.CopyRequiredError):
        dlshim.to(x, "numpy", device="cpu", copy=False)
    del made_there
    caps.close_accounts()


def check_python_s_numbers_go_to_a_device(drv: Any) -> None:
    s = drv.stream_new(0, False, name="S")
    y = dlshim.to([1, 2, 3], library(s), device=fake.NoKw(drv, s).device)
    assert y.tensor.device[0] not in (1, 3) and y.tensor.shape == (3,)
    assert not drv.read(s, y.tensor.data_ptr())
    del y
    caps.close_accounts()


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), ALL_LIVE))
def test_to(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
