"""Results of real compiled functions: each library's arrays, as torch's come back to torch (H1-H7).

A C++ function that allocates its results by `TVMFFIEnvTensorAlloc` is compiled here.
"""

from __future__ import annotations

import gc
import importlib
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import dlshim
from dlshim import _core

from . import versions

tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not in this environment")
if versions.of("apache-tvm-ffi") < (0, 1, 15):
    pytest.skip("this apache-tvm-ffi asks __dlpack__", allow_module_level=True)

SOURCE = Path(__file__).parents[1] / "programs" / "results.cpp"
NAMES = ["twice", "pair", "echo", "second", "callback", "add_one", "fails"]


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    ffi_cpp = pytest.importorskip("tvm_ffi.cpp", reason="this apache-tvm-ffi compiles nothing")
    folder = tmp_path_factory.mktemp("functions")
    return ffi_cpp.load_inline(
        "homes", cpp_sources=SOURCE.read_text(), functions=NAMES, build_directory=str(folder)
    )


class Mine:
    """A user's class with an old `__dlpack__` and a `from_dlpack`."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, *, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return 1, 0

    @classmethod
    def from_dlpack(cls, tensor):
        return cls(np.from_dlpack(tensor))

    def tolist(self):
        return self.array.tolist()


#: Library: how an array of it is made.
MAKERS = {
    "numpy": lambda: np.array([1, 2, 3], "f4"),
    "torch": lambda: sys.modules["torch"].tensor([1.0, 2, 3]),
    "jax": lambda: sys.modules["jax"].numpy.array([1, 2, 3], "float32"),
    "mlx.core": lambda: sys.modules["mlx.core"].array([1.0, 2, 3]),
    "pyarrow": lambda: sys.modules["pyarrow"].array([1, 2, 3], "float32"),
    "array_api_strict": lambda: sys.modules["array_api_strict"].asarray(
        [1, 2, 3], dtype=sys.modules["array_api_strict"].float32
    ),
    "paddle": lambda: sys.modules["paddle"].to_tensor([1.0, 2, 3]),
    "a user's class": lambda: Mine(np.array([1, 2, 3], "f4")),
}
#: It harms others in one process (two protobufs).
APART = ("paddle",)


@pytest.fixture(params=MAKERS)
def array(request):
    if request.param in APART and "torch" in sys.modules:
        pytest.skip(f"{request.param} harms torch in one process")
    if request.param != "a user's class":
        pytest.importorskip(request.param, reason=f"{request.param} is not in this environment")
    return MAKERS[request.param]()


def values(x):
    return x.tolist() if hasattr(x, "tolist") else np.asarray(x).tolist()


def test_H1_results_come_home(functions, array):
    home = type(array)
    assert isinstance(functions.echo(dlshim.upgrade(array)), home)
    made = functions.twice(dlshim.upgrade(array))
    assert isinstance(made, home) and values(made) == [2, 4, 6]
    both = functions.pair(dlshim.upgrade(array))
    assert [values(each) for each in both] == [[2, 4, 6]] * 2
    assert all(isinstance(each, home) for each in both)


def test_H1_what_a_callback_is_given_and_gives(functions, array):
    function = tvm_ffi.convert(lambda x: x)
    made = functions.callback(function, dlshim.upgrade(array))
    assert isinstance(made, type(array)) and values(made) == [2, 4, 6]


def test_H1_after_a_failure_the_next_call_is_right(functions, array):
    for _ in range(3):
        with pytest.raises(ValueError, match="after it has allocated"):
            functions.fails(dlshim.upgrade(array))
        assert isinstance(functions.twice(dlshim.upgrade(array)), type(array))
    with pytest.raises(RuntimeError, match="allocator is nullptr"):
        functions.twice(np.zeros(3, "f4"))  # the table is nobody's after a call


def test_H1_nested_calls_keep_their_homes(functions, array):
    """A callback calls another function with another library's array."""
    inner = []

    def call(x):
        inner.append(functions.twice(dlshim.upgrade(np.array([5], "f4"))))
        return x

    made = functions.callback(call, dlshim.upgrade(array))
    assert isinstance(made, type(array)) and type(inner[0]) is np.ndarray
    assert inner[0].tolist() == [10]


def test_H7_the_last_argument_decides_as_bare(functions, array):
    first, last = dlshim.upgrade(np.ones(3, "f4")), dlshim.upgrade(array)
    assert isinstance(functions.second(first, last), type(array))
    assert isinstance(functions.second(last, first), np.ndarray)


def test_H1_containers_are_read_later_on_another_thread(functions, array):
    """When the argument is gone, and other libraries have called in between.

    MLX computes lazily, on a stream that ends with its thread: the values are read there too.
    """
    home = type(array)
    both = functions.pair(dlshim.upgrade(array))
    del array
    functions.twice(dlshim.from_dlpack(np.ones(3, "f4")))
    gc.collect()
    seen = []
    thread = threading.Thread(target=lambda: seen.append((type(both[0]), values(both[0]))))
    thread.start()
    thread.join()
    assert issubclass(seen[0][0], home) and seen[0][1] == [2, 4, 6]
    assert isinstance(both[1], home)


def test_H1_a_Tensor_stays_with_dlshim(functions):
    tensor = dlshim.from_dlpack(np.array([1, 2, 3], "f4"))
    for argument in (tensor, dlshim.upgrade(tensor), dlshim.upgrade(bytearray(tensor))):
        assert type(functions.echo(argument)) is dlshim.Tensor
    assert np.asarray(functions.twice(tensor)).tolist() == [2, 4, 6]


def test_H4_an_array_that_is_written_is_the_callers(functions):
    array = np.array([1, 2, 3], "f4")
    functions.add_one(dlshim.upgrade(array))
    assert array.tolist() == [2, 3, 4]
    made = functions.twice(dlshim.upgrade(array))
    made += 1
    assert made.tolist() == [5, 7, 9]


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_H4_ten_thousand_calls_leave_nothing(functions, library):
    pytest.importorskip(library, reason=f"{library} is not in this environment")
    importlib.import_module(library)
    array = MAKERS[library]()

    def calls(times):
        for _ in range(times):
            functions.twice(dlshim.upgrade(array))
            functions.pair(dlshim.upgrade(array))[1]
            functions.echo(dlshim.upgrade(array))

    calls(100)
    gc.collect()
    before = sys.getallocatedblocks(), _core._counters()["live"], sys.getrefcount(array)
    calls(10_000)
    gc.collect()
    after = sys.getallocatedblocks(), _core._counters()["live"], sys.getrefcount(array)
    assert after[1:] == before[1:] and after[0] - before[0] < 100, (before, after)


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)], ids=str)
@pytest.mark.parametrize("dtype", ["bool", "int64", "complex64", "bfloat16"])
def test_H4_dtypes_and_shapes_come_home(functions, shape, dtype):
    """torch has all of them; NumPy has bfloat16 by ml_dtypes, else it keeps the Tensor."""
    torch = pytest.importorskip("torch", reason="torch is not in this environment")
    x = torch.ones(shape, dtype=getattr(torch, dtype))
    made = functions.echo(dlshim.upgrade(x))
    assert type(made) is torch.Tensor and made.dtype == x.dtype and made.shape == shape
    home = _core._home_of(np.zeros(3))
    made = functions.echo(_core._upgrade_into(home, x))
    assert type(made) is np.ndarray or (dtype == "bfloat16" and type(made) is dlshim.Tensor)
    assert tuple(made.shape) == shape
    assert type(functions.echo(dlshim.upgrade(torch.nn.Parameter(torch.ones(3))))) is torch.Tensor
