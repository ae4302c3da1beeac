"""TileLang's compiled functions with arrays of other libraries, as far as a CPU goes.

Its CPU kernels take tensors of torch alone: `takes="torch"`.
"""

from __future__ import annotations

import numpy as np
import pytest

import dlshim

tilelang = pytest.importorskip("tilelang", reason="TileLang is not in this environment")
torch = pytest.importorskip("torch", reason="torch is not in this environment")
T = pytest.importorskip("tilelang.cpu.language", reason="this TileLang has no kernels for the CPU")

N = 64


def compiled(**options):
    @T.prim_func
    def add(
        A: T.Tensor((N,), "float32"),
        B: T.Tensor((N,), "float32"),
        C: T.Tensor((N,), "float32"),
    ):
        with T.Kernel(1) as _:
            for i in T.serial(N):
                C[i] = A[i] + B[i]

    return tilelang.compile(add, target="c", **options)


def test_an_output_argument_is_written():
    add = compiled()
    a, b, out = np.ones(N, "f4"), np.arange(N, dtype="f4"), np.zeros(N, "f4")
    with pytest.raises(ValueError, match="Unsupported tensor type"):
        add(a, b, out)
    dlshim.kernel(add, takes="torch", writes=2)(a, b, out)
    assert (out == a + b).all()
    out.flags.writeable = False
    with pytest.raises(BufferError, match="read-only"):
        dlshim.kernel(add, takes="torch", writes=2)(a, b, out)


def test_a_result_comes_home():
    add = compiled(out_idx=[2])
    a = np.ones(N, "f4")
    result = dlshim.kernel(add, takes="torch")(a, a)
    assert type(result) is np.ndarray and (result == 2).all()
    tensor = torch.ones(N)
    assert type(dlshim.kernel(add, takes="torch")(tensor, tensor)) is torch.Tensor
