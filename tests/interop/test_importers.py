"""Results in the library of the arguments: the importer of each type, on the real library."""

from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
import sys

import numpy as np
import pytest

import dlshim
from dlshim import _core
from dlshim.importers import importer_of
from doubles import child

#: Library: an expression that makes an array, and whether its memory may be the Tensor's own.
ARRAYS = {
    "numpy": ("numpy.ones((2, 3), 'f4')", True),
    "torch": ("torch.ones(2, 3)", True),
    "jax": ("jax.numpy.ones((2, 3))", True),
    "tensorflow": ("tensorflow.ones((2, 3))", True),
    "paddle": ("paddle.ones((2, 3))", True),
    "mlx.core": ("mlx.core.ones((2, 3))", False),
    "warp": ("warp.ones((2, 3), dtype=float)", True),
    "array_api_strict": ("array_api_strict.ones((2, 3), dtype=array_api_strict.float32)", True),
    "pyarrow": ("pyarrow.Tensor.from_numpy(numpy.ones((2, 3), 'f4'))", True),
    "tvm_ffi": ("tvm_ffi.from_dlpack(numpy.ones((2, 3), 'f4'))", True),
}
#: The first release that takes arrays, and gives them on: distribution, release.
SINCE = {"pyarrow": ("pyarrow", "26"), "array_api_strict": ("array-api-strict", "2")}
#: In a process of its own: some of these libraries harm one another in one.
CHILD = """
import sys
sys.path[:0] = {path}
from interop.test_importers import check
check({library!r})
"""


def check(library):
    importlib.import_module(library)
    expression, shares = ARRAYS[library]
    mine = eval(expression, {**sys.modules, "numpy": np})
    before = _core._counters()["live"]
    memory = np.arange(6, dtype="f4").reshape(2, 3)
    tensor = dlshim.from_dlpack(memory, align=64)
    address, again = tensor.data_ptr(), None
    there = sys.modules.copy()
    importer = importer_of(type(mine))
    assert sys.modules == there and importer is not None
    made = importer(tensor)
    del tensor
    assert isinstance(made, type(mine)) and tuple(made.shape) == (2, 3)
    again = dlshim.from_dlpack(made)
    assert again.dtype == "float32" and (np.asarray(again) == memory).all()
    assert (again.data_ptr() == address) is shares
    del made, again
    import gc

    gc.collect()
    assert _core._counters()["live"] == before


@pytest.mark.parametrize("library", ARRAYS)
def test_the_library_makes_its_own_array(library):
    if importlib.util.find_spec(library.partition(".")[0]) is None:
        pytest.skip(f"{library} is not in this environment")
    name, since = SINCE.get(library, ("", ""))
    if name and int(importlib.metadata.version(name).partition(".")[0]) < int(since):
        pytest.skip(f"{name} before {since} does not take arrays, or gives none on")
    code = CHILD.format(path=sys.path, library=library)
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert child.returncode == 0, child.stderr[-2000:]


def column(library):
    module = pytest.importorskip(library, reason=f"{library} is not in this environment")
    return module.Series([1, 2, 3])


COLUMNS = pytest.mark.parametrize("library", ["polars", "pandas"])


@COLUMNS
def test_results_come_home_to_a_column(library):
    """Of a function in Python, in containers, and where a type and not an argument says so."""
    mine, made = column(library), np.arange(3.0)
    series = type(mine)
    results = [made, (dlshim.from_dlpack(made),), {"k": made[::-1]}, made > 0, made[:0], 3]
    for _ in range(2):
        a, (b,), keyed, booleans, empty, number = dlshim.kernel(lambda x: results)(mine)
        assert {type(x) for x in (a, b, keyed["k"], booleans, empty)} == {series} and number == 3
        assert a.to_list() == b.to_list() == [0, 1, 2] and keyed["k"].to_list() == [2, 1, 0]
        assert booleans.to_list() == [False, True, True] and empty.to_list() == []
        assert np.shares_memory(a.to_numpy(), made)
    assert dlshim.kernel(lambda x: x)(mine) is mine
    for takes in (None, "tensor"):
        kernel = dlshim.kernel(lambda x: made, takes=takes, returns=series)
        assert type(kernel(made)) is series
    assert type(dlshim.kernel(lambda x: x * 2, takes="numpy")(mine)) is series
    assert type(dlshim.kernel(lambda x: x, takes=library, returns=None)(made)) is series


@COLUMNS
def test_what_is_no_column_stays_a_tensor(library):
    """Numbers without axes, and dtypes that the library has not."""
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not in this environment")
    mine = column(library)
    results = [np.ones(()), np.ones(2, ml_dtypes.bfloat16), np.ones((2, 0))]
    results += [np.ones(2, "c8")] if library == "polars" else [np.ones((2, 3))]
    made = dlshim.kernel(lambda x: results)(mine)
    assert [type(x) for x in made] == [dlshim.Tensor] * 4
    assert [x.shape for x in made] == [x.shape for x in results]


def test_rows_come_home_to_polars():
    mine, made = column("polars"), np.arange(6.0).reshape(2, 3)
    for x in (made, made[:, ::-1], np.asfortranarray(made)):
        rows = dlshim.kernel(lambda _, x=x: x)(mine)
        assert type(rows) is type(mine) and rows.to_list() == x.tolist()


@COLUMNS
def test_outputs_of_compiled_functions_come_home_to_a_column(library):
    tvm_ffi = pytest.importorskip("tvm_ffi", reason="tvm_ffi is not in this environment")
    mine, echo = column(library), tvm_ffi.get_global_func("testing.echo")
    for x in (mine, mine):
        for made in (dlshim.kernel(echo)(x), echo(dlshim.upgrade(x))):
            assert type(made) is type(mine) and made.to_list() == [1, 2, 3]


def test_tensorflow_computes_with_what_it_is_given():
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("tensorflow is not in this environment")
    child.program("unaligned_in_tensorflow")


def test_cupy_s_function_is_found_without_a_device():
    """It takes device memory alone: an array of its own needs a GPU."""
    cupy = pytest.importorskip("cupy", reason="CuPy is not in this environment")
    importer = importer_of(cupy.ndarray)
    assert importer is cupy.from_dlpack
    with pytest.raises(TypeError, match="CPU arrays"):
        importer(dlshim.from_dlpack(np.ones(3)))
