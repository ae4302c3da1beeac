"""Upgraded objects as arguments of compiled functions: the C table at apache-tvm-ffi.

tvm-ffi calls our C functions for a `Producer`; its function receives tensors that it owns.
"""

from __future__ import annotations

import gc
import itertools

import numpy as np
import pytest

import dlshim
from dlshim import _core

from . import libraries, producers, runner, versions
from .cases import DTYPES, LAYOUTS, truth

tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not in this environment")
if versions.of("apache-tvm-ffi") < (0, 1, 15):
    pytest.skip("this apache-tvm-ffi asks __dlpack__", allow_module_level=True)

#: These harm one another in one process (two protobufs; the collector clears the type of nanobind
#: 3.1 once a 2.2 has been at work).  The matrix has them, one by one.
APART = {"tensorflow-cpu", "paddlepaddle", "open3d-cpu", "mxnet", "nanobind"}
DTYPE, LAYOUT = DTYPES["float32"], LAYOUTS["contiguous-2d"]


@pytest.fixture(scope="module")
def made():
    """One array of every library that is installed here, and what it holds."""
    found = {}
    presence = runner.presence()
    for adapter in libraries.PRODUCERS:
        if adapter.name not in presence.producers or adapter.library in APART:
            continue
        producer = adapter() if isinstance(adapter, type) else adapter
        if producer.can(DTYPE, LAYOUT):
            try:
                found[producer.name] = producer.make(DTYPE, LAYOUT)
            except producers.Unmakeable:
                continue
    assert len(found) > 3, sorted(found)
    # A capsule is taken once; upgraded, it is taken as often as one likes.
    return {name: dlshim.upgrade(each.obj) for name, each in found.items()}


@pytest.fixture(autouse=True)
def books():
    gc.collect()
    before = _core._counters()["live"]
    yield
    gc.collect()
    assert _core._counters()["live"] <= before


def values(tensor) -> bytes:
    return np.ascontiguousarray(np.from_dlpack(tensor)).tobytes()


def test_every_producer_is_an_argument(made):
    seen = []
    function = tvm_ffi.convert(lambda x: seen.append((tuple(x.shape), values(x))))
    for name, wrapped in made.items():
        function(dlshim.upgrade(wrapped, readonly="share"))
        assert seen.pop() == (LAYOUT.shape, truth(DTYPE, LAYOUT)), name


def test_several_at_once(made):
    """Of different libraries, some of them twice."""
    got = []
    function = tvm_ffi.convert(lambda *tensors: got.extend(values(x) for x in tensors))
    wrapped = {name: dlshim.upgrade(obj, readonly="share") for name, obj in made.items()}
    for (name, one), (other, two) in itertools.combinations(wrapped.items(), 2):
        function(one, two, one, dlshim.from_dlpack(two))
        assert got == [truth(DTYPE, LAYOUT)] * 4, (name, other)
        got.clear()


def test_what_the_function_writes_is_seen():
    """The memory is the object's own."""

    def add(a, b, out):
        np.from_dlpack(out)[...] = np.from_dlpack(a) + np.from_dlpack(b)

    function = tvm_ffi.convert(add)
    a, b = np.arange(6.0).reshape(2, 3), np.full((2, 3), 10.0)
    out = np.zeros((2, 3))
    function(dlshim.upgrade(a), dlshim.upgrade(b), dlshim.upgrade(out))
    assert (out == a + b).all()


def test_mixed_with_torch():
    torch = pytest.importorskip("torch", reason="torch is not in this environment")
    function = tvm_ffi.convert(lambda a, b: float((np.from_dlpack(a) + np.from_dlpack(b)).sum()))
    x, t = np.ones(4, "f4"), torch.full((4,), 2.0)
    for arguments in ((dlshim.upgrade(x), t), (t, dlshim.upgrade(x)), (dlshim.upgrade(t), x)):
        assert function(*arguments) == 12.0


def test_parameters_pass_and_lazy_bits_do_not():
    """As torch's own table has it; the bits would be wrong numbers."""
    torch = pytest.importorskip("torch", reason="torch is not in this environment")
    function = tvm_ffi.convert(lambda x: values(x))
    parameter = torch.nn.Parameter(torch.ones(3))
    function(dlshim.upgrade(parameter))
    lazy = torch.ones(3, dtype=torch.complex64).conj()
    for x in (lazy, lazy.imag):
        with pytest.raises(BufferError, match="resolve_"):
            function(dlshim.upgrade(x))


def test_a_result_comes_home():
    """tvm-ffi turns results back by the table of the arguments; a Tensor is its own home (H1)."""
    echo = tvm_ffi.convert(lambda x: x)
    x = np.arange(6, dtype="f4").reshape(2, 3)
    result = echo(dlshim.upgrade(x))
    assert type(result) is np.ndarray and result.ctypes.data == x.ctypes.data
    again = echo(dlshim.from_dlpack(x))
    assert type(again) is dlshim.Tensor and again.data_ptr() == x.ctypes.data
    assert (np.from_dlpack(again) == x).all()


def test_refusals_reach_the_caller():
    function = tvm_ffi.convert(lambda x: None)
    with pytest.raises(BufferError, match="Python objects"):
        function(dlshim.upgrade(np.zeros((2, 3), "O")))


# ---- dtypes and devices as arguments -----------------------------------------------------------


def test_a_dtype_of_a_tensor_is_one_for_compiled_functions():
    """By __dlpack_data_type__, also where NumPy has no such dtype."""
    echo = tvm_ffi.get_global_func("testing.echo")
    for name in ("float32", "int8", "bfloat16", "float8_e4m3fn", "bool"):
        assert str(echo(dlshim.dtype(name))) == name
        assert dlshim.dtype(echo(dlshim.dtype(name))) == name


def test_a_device_and_a_dtype_of_theirs_are_taken():
    x = np.arange(3, dtype=np.uint16)
    tensor = dlshim.from_dlpack(
        x, device=tvm_ffi.device("cpu"), reinterpret=tvm_ffi.dtype("bfloat16")
    )
    assert tensor.device == (1, 0) and tensor.dtype == "bfloat16"
    with pytest.raises(dlshim.CopyRequiredError, match=r"\(2, 1\) is wanted"):
        dlshim.from_dlpack(x, device=tvm_ffi.device("cuda:1"), copy=False)
