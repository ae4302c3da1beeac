"""How numba-cuda meets an argument of a kernel that is no array of NumPy: by DLPack, before the
CUDA array interface (`numba/cuda/typing/typeof.py`, `cudadrv/devicearray.py`); no driver is
needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlshim

typing: Any = pytest.importorskip(
    "numba.cuda.typing.typeof", reason="numba-cuda is not installed", exc_type=ImportError
)
arrays: Any = pytest.importorskip("numba.cuda.cudadrv.devicearray", exc_type=ImportError)


class Both:
    """An array that shows both ways, and notes which is taken."""

    def __init__(self, array: Any) -> None:
        self.array, self.asked = array, []

    def __dlpack__(self, **keywords: Any) -> Any:
        self.asked.append(keywords)
        return self.array.__dlpack__(max_version=keywords["max_version"])

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        raise AssertionError("DLPack comes first")


def test_it_asks_for_dlpack_first_and_with_a_version() -> None:
    x = Both(np.arange(4.0))
    assert typing.typeof(x, typing.Purpose.argument).ndim == 1
    arrays._to_strided_memory_view(x, stream=0)
    assert [each["max_version"][0] for each in x.asked] == [1, 1]
    assert all(set(each) == {"stream", "max_version"} for each in x.asked)


@pytest.mark.parametrize("readonly", [False, True])
def test_an_upgraded_array_is_met_as_the_array_is(readonly: bool) -> None:
    source = np.arange(6.0).reshape(2, 3)
    source.flags.writeable = not readonly
    met = typing.typeof(dlshim.upgrade(source), typing.Purpose.argument)
    assert (str(met.dtype), met.ndim, met.layout, met.mutable) == ("float64", 2, "C", not readonly)
    view, is_new = arrays._to_strided_memory_view(dlshim.upgrade(source))
    assert (view.ptr, view.shape, is_new) == (source.ctypes.data, (2, 3), False)
