"""Who frees what, when, on which thread, and who forgets it."""

from __future__ import annotations

import gc
import signal
import sys
from typing import Any

import pytest

import dlshim
from doubles import capsules as caps
from doubles.asking import bare, live, versioned
from doubles.producers import P1, P2, OneShot

from .running import alive, ends_with, needs
from .standin import Gives

CRASHES = (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS)


def test_a_consumer_that_never_calls_the_deleter() -> None:
    """NVIDIA/cudf#5212 and five others: nobody can free it, but it is seen."""
    x, before = P2(), live()
    imported = caps.take(dlshim.upgrade(x, copy=True).__dlpack__())
    assert live() == before + 1
    del x
    gc.collect()
    assert live() == before + 1
    imported.release()
    assert live() == before


@needs("paddlepaddle<3")
def test_paddle_forgets_what_it_refuses() -> None:
    """PaddlePaddle/Paddle#47171: renamed first, looked at then, never given back."""
    import paddle

    x = Gives((2,), "bool")
    with pytest.raises(Exception, match="illegal"):
        paddle.utils.dlpack.from_dlpack(x.__dlpack__())
    assert x.made[-1].deleted == 0
    with pytest.raises(Exception, match="illegal"):
        paddle.utils.dlpack.from_dlpack(dlshim.to_capsule(x))
    assert x.made[-1].deleted == 0, "no wrapper can free it"
    # What dlshim can do is to have it not refused.
    y = paddle.utils.dlpack.from_dlpack(dlshim.to_capsule(x, reinterpret="uint8"))
    assert y.numpy().tolist() == [0, 1]


# ---- the GIL --------------------------------------------------------------------------------


def array_on_an_object() -> Any:
    """Its memory belongs to a Python object, as in as_strided: freeing it runs Python code."""
    import numpy as np

    return np.lib.stride_tricks.as_strided(np.arange(1000.0), (500,), (16,))


def freed_without_the_gil(wrap: Any) -> None:
    x = array_on_an_object()
    imported = caps.take(wrap(x).__dlpack__())
    del x
    alive()
    for _ in range(3):  # the first free may still find what it needs
        imported.release("c-thread")
        imported = caps.take(wrap(array_on_an_object()).__dlpack__())
    imported.release("c-thread")


def freed_without_the_gil_bare() -> None:
    freed_without_the_gil(lambda x: x)


def freed_without_the_gil_upgraded() -> None:
    freed_without_the_gil(dlshim.upgrade)


@needs("numpy<1.24")
def test_a_numpy_whose_deleter_needs_the_gil() -> None:
    """numpy/numpy#22507: consumers free on threads of their own."""
    assert ends_with(freed_without_the_gil_bare) in CRASHES
    assert ends_with(freed_without_the_gil_upgraded) == 0


def freed_by_torch(wrap: Any) -> None:
    import torch

    x = array_on_an_object()
    y = torch.from_dlpack(wrap(x))
    del x
    alive()
    assert y[:3].tolist() == [0, 2, 4]
    del y


def freed_by_torch_bare() -> None:
    freed_by_torch(lambda x: x)


def freed_by_torch_upgraded() -> None:
    freed_by_torch(dlshim.upgrade)


@needs("numpy<1.24", "torch<2")
def test_torch_frees_without_the_gil() -> None:
    """pytorch/pytorch#88082: torch lets go of the array, and the process ends."""
    assert ends_with(freed_by_torch_bare) in CRASHES
    assert ends_with(freed_by_torch_upgraded) == 0


# ---- exported once ---------------------------------------------------------------------------


def test_an_array_that_gives_itself_away() -> None:
    """jax-ml/jax#4636: taken once, exported as often as wanted."""
    x = OneShot()
    with bare(x):
        pass
    with pytest.raises(RuntimeError, match="deleted/invalid buffer"):
        x.__dlpack__()
    x = OneShot()
    taken = dlshim.from_dlpack(x)
    for ask in (bare, versioned, bare):
        with ask(taken) as imported:
            assert imported.values() == x.values()
            assert imported.view.element_zero == x.element_zero
    assert len(x.exports) == 1


# ---- leaks ----------------------------------------------------------------------------------


@needs("torch<2.3")
def test_torch_leaks_what_has_no_address() -> None:
    """pytorch/pytorch#117058: NULL is right for no elements, and its deleter never runs."""
    import torch

    for wrap, deleted in ((lambda x: x, 0), (dlshim.upgrade, 1)):
        x = Gives((0, 3), data=None)
        y = torch.from_dlpack(wrap(x))
        assert tuple(y.shape) == (0, 3)
        del y
        assert x.made[-1].deleted == deleted


@needs("torch<2")
def test_torch_leaks_what_it_refuses_to_export() -> None:
    """pytorch/pytorch#171820: each failed export keeps its tensor; one exchange is one failure."""
    import torch

    times, size = 40, 1 << 20

    def kept(wrap: Any) -> int:
        before = caps.resident_bytes()
        for _ in range(times):
            x = torch.ones(size, dtype=torch.bool)
            with pytest.raises((RuntimeError, BufferError), match="Bool type is not supported"):
                wrap(x).__dlpack__(stream=None)
        return round((caps.resident_bytes() - before) / size)

    assert kept(lambda x: x) > times / 2, "the fault"
    assert kept(dlshim.upgrade) < times * 1.5, "not a tensor for each attempt"


# ---- exceptions -----------------------------------------------------------------------------


class Python(P1):
    """Its capsules have a destructor in Python, as those of warp and other ctypes users."""


def refused_by_numpy(wrap: Any) -> None:
    import numpy as np

    x = Python((4,), "bfloat16")
    alive()
    try:
        np.from_dlpack(wrap(x))
    except SystemError:
        sys.exit(3)
    except (RuntimeError, BufferError) as error:
        assert "nsupported dtype" in str(error) and x.last.deleted == 1
        sys.exit(4)


def refused_by_numpy_bare() -> None:
    refused_by_numpy(lambda x: x)


def refused_by_numpy_upgraded() -> None:
    refused_by_numpy(dlshim.upgrade)


@needs("numpy>=2.1")
def test_numpy_runs_a_destructor_with_its_error_set() -> None:
    """numpy/numpy#32697: SystemError instead of the reason."""
    assert ends_with(refused_by_numpy_bare) == 3
    assert ends_with(refused_by_numpy_upgraded) == 4


# ---- memory that the capsule does not own ---------------------------------------------------


def read_after_the_value_is_gone(wrap: Any) -> None:
    import numpy as np
    import onnxruntime

    # So large that its memory is a mapping of its own, which goes when it is freed.
    count = 1 << 24
    x = onnxruntime.OrtValue.ortvalue_from_numpy(np.full(count, 7.0))
    y = np.from_dlpack(wrap(x))
    del x
    gc.collect()
    alive()
    assert y[0] == y[-1] == 7.0 and y.shape == (count,)


def read_after_the_value_is_gone_bare() -> None:
    read_after_the_value_is_gone(lambda x: x._ortvalue)


def read_after_the_value_is_gone_upgraded() -> None:
    read_after_the_value_is_gone(dlshim.upgrade)


@needs("onnxruntime>=1.31,<1.32", "numpy>=1.23")
def test_onnxruntimes_capsules_do_not_keep_the_memory() -> None:
    """The value dies, and every array that was made of it reads what comes there next."""
    assert ends_with(read_after_the_value_is_gone_bare) in CRASHES
    assert ends_with(read_after_the_value_is_gone_upgraded) == 0
