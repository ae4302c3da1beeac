"""What libraries make of a Tensor, before it had items and a way to Arrow, and now.

Each call is made with a few elements, whose values are compared, and with two million of them, for
which the elements are counted that the library asks the Tensor for.  A call gives one of these:

    RIGHT    the values
    WALKS    the values, but the library asks for the elements one by one
    LATER    an object that fails when it is used
    OTHER    another shape or other values: most often a column with the Tensor in one cell
    REFUSED  an exception

A library that is not installed is skipped.  Each has a process of its own.
"""

from __future__ import annotations

import importlib
import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import dlshim

LATER, OTHER, REFUSED, WALKS, RIGHT = "later", "other", "refused", "walks", "right"
WORSE_FIRST = (LATER, OTHER, REFUSED, WALKS, RIGHT)
MANY = 2_000_000
FEW_ASKED = MANY // 1000  # zarr asks for each chunk
LINE, GRID = [0, 1, 2], [[0, 1, 2], [3, 4, 5]]


class Call(NamedTuple):
    text: str
    """t is a Tensor, m the library."""
    before: str
    now: str
    read: str = "r"
    """How its values are read; r is the result."""
    values: list[Any] = LINE
    grid: bool = False
    many: bool = True
    """Whether it is called with two million elements."""


def same(*texts: str, read: str = "r", **more: Any) -> list[Call]:
    """Calls that have always been right."""
    return [Call(text, RIGHT, RIGHT, read, **more) for text in texts]


def refused(*texts: str) -> list[Call]:
    """Calls that want more than a Tensor is, and take ``numpy.asarray(t)``."""
    return [Call(text, REFUSED, REFUSED, many=False) for text in texts]


def cured(*texts: str, read: str = "r", before: str = REFUSED, **more: Any) -> list[Call]:
    return [Call(text, before, RIGHT, read, **more) for text in texts]


#: By module: what is called.
CALLS: dict[str, list[Call]] = {
    "numpy": [
        *same("m.asarray(t)", "m.array(t)", "m.from_dlpack(t)", "m.sort(t)", "m.add(t, 0)"),
        *same(
            "m.stack([t, t])[1]", "m.concatenate([t, t])[:3]", "m.broadcast_to(t, (2, *t.shape))[0]"
        ),
        Call("m.fromiter(t, float)", REFUSED, WALKS),
    ],
    "torch": [
        *same("m.as_tensor(t)", "m.from_dlpack(t)", "m.tensor(t)"),
        *refused("m.Tensor(t)", "m.asarray(t)", "m.tensor([t, t])", "m.ones(3).add(t)"),
        *cured("[*m.utils.data.DataLoader(t, batch_size=3)][0]", many=False),
    ],
    "jax": [
        *same("m.numpy.asarray(t)", "m.numpy.array(t)", "m.numpy.from_dlpack(t)"),
        *refused("m.device_put(t)", "m.jit(lambda x: x)(t)", "m.numpy.sum(t)"),
    ],
    "tensorflow": [
        *same("m.constant(t)", "m.convert_to_tensor(t)", "m.Variable(t)", read="r.numpy()"),
        *same("m.reduce_sum(t)", read="[r.numpy()]", values=[3]),
        *same("m.data.Dataset.from_tensor_slices(t)", read="[*r.as_numpy_iterator()]"),
    ],
    "pyarrow": [
        *cured("m.array(t)", "m.chunked_array([t])", read="r.to_pylist()"),
        *cured("m.table({'a': t})", "m.record_batch({'a': t})", read="r['a'].to_pylist()"),
        *cured("m.table([t], ['a'])", read="r['a'].to_pylist()"),
        *cured("m.array(t)", read="r.to_pylist()", values=GRID, grid=True),
        *same("m.Array.from_dlpack(t)", read="r.to_pylist()"),
        *same("m.Tensor.from_dlpack(t)", read="r.to_numpy()"),
        *refused("m.py_buffer(t)", "m.scalar(t)", "m.Tensor.from_numpy(t)"),
    ],
    "pandas": [
        *cured("m.Series(t)", "m.concat([m.Series(t)])", before=OTHER),
        *cured("m.DataFrame({'a': range(t.size)}).assign(b=t)", before=OTHER, read="r['b']"),
        *cured("m.DataFrame({'a': t})", read="r['a']"),
        *cured("m.DataFrame(t)", read="r[0]"),
        *cured("m.Series(t, dtype='float32')", "m.Series.from_arrow(t)"),
        *cured("m.DataFrame(t)", read="r.to_numpy()", values=GRID, grid=True),
        *same("m.Index(t)", "m.array(t)", "m.Series(np.zeros(t.size)) + t"),
        Call("m.Series([0, 1]).isin(t)", REFUSED, WALKS, values=[True, True]),
        Call("m.Categorical(t)", REFUSED, WALKS),
        *refused("m.unique(t)", "m.factorize(t)"),
    ],
    "polars": [
        *cured("m.Series(t)", "m.from_arrow(t)", "m.Series('a', t)", read="r.to_list()"),
        *cured("m.Series(t)", read="r.to_list()", values=GRID, grid=True),
        *cured("m.DataFrame({'a': t})", before=OTHER, read="r['a'].to_list()"),
        *refused("m.lit(t)", "m.DataFrame({'a': [1]}).with_columns(b=t)", "m.from_numpy(t)"),
        *refused("m.DataFrame({'a': [1.0]}).filter(m.col('a').is_in(t))"),
    ],
    "xarray": [
        *same("m.DataArray(t)", "m.DataArray(range(t.size)) * 0 + t", read="r.values"),
        *same("m.Variable(('x',), t)", "m.IndexVariable('x', t)", read="r.values"),
        *same("m.Dataset({'a': (('x',), t)})", read="r['a'].values"),
        *cured("m.DataArray(range(t.size), {'x': t}, 'x')", read="r['x'].values"),
        *cured("m.as_variable(t, name='a')", read="r.values"),
    ],
    "dask.array": [
        *cured(
            "m.asarray(t)",
            "m.array(t)",
            "m.from_array(t)",
            "m.concatenate([t, t])[:3]",
            "m.asanyarray(t) + 0",
            before=LATER,
            read="r.compute()",
        ),
        *cured("m.from_array(t, chunks=2)", before=LATER, read="r.compute()", many=False),
        *cured("m.asarray(t)", before=LATER, read="r.compute()", values=GRID, grid=True),
    ],
    "zarr": [
        *cured("m.create_array({}, data=t)", read="r[:]"),
        *refused("m.array(t)", "m.zeros(t.shape).__setitem__(slice(None), t)"),
    ],
    "numba": [
        *same("m.njit(lambda x: x[2])(t)", read="[r]", values=[2]),
        Call("m.typed.List(t)", REFUSED, WALKS),
        *refused("m.njit(lambda x: x.sum())(t)"),
    ],
    "h5py": same(
        "m.File(io.BytesIO(), 'w').create_dataset('a', data=t)",
        read="r[:]",
    ),
    "nanoarrow": [
        *same("m.Array(t)", "m.ArrayStream(t).read_all()", read="r.to_pylist()"),
        *same("m.c_buffer(t)", read="[*r.elements()]"),
        # The buffer, which nanoarrow took before, is flat.
        *cured("m.Array(t)", before=OTHER, read="r.to_pylist()", values=GRID, grid=True),
    ],
    "duckdb": [
        *cured("m.from_arrow(t)", "m.sql('select * from t')", read="[x for x, in r.fetchall()]"),
        *refused("m.execute('select ?', [t])", "m.from_df(t)"),
    ],
    "scipy": [
        *same("m.fft.ifft(m.fft.fft(t)).real.round(9)", "m.ndimage.gaussian_filter(t, 0)"),
        *same("m.linalg.norm(t)", read="[r * r]", values=[pytest.approx(5)]),
        *same("m.sparse.coo_array(t)", read="r.toarray()"),
        *cured("m.sparse.diags_array(t)", read="r.diagonal()"),
    ],
    "sklearn": [
        *same("m.utils.check_array(t)", values=GRID, grid=True),
        *cured("m.utils.shuffle(t, random_state=0)", read="sorted(r)"),
        *cured("m.utils.resample(t, replace=False, random_state=0)", read="sorted(r)"),
    ],
    "safetensors.numpy": refused("m.save({'a': t})"),
    "xgboost": refused("m.DMatrix(t)", "m.DMatrix([[1], [2], [3]], label=t)"),
}
#: Their parts, which are modules.
PARTS = {
    "scipy": ("fft", "ndimage", "linalg", "sparse"),
    "sklearn": ("utils",),
    "jax": ("numpy",),
    "torch": ("utils.data",),
}


# --- in a process for each library ----------------------------------------------------------


def plain(values: Any) -> Any:
    """As lists of numbers."""
    return np.asarray(values).tolist()


class Watch:
    """Counts the elements and parts that are asked for by ``t[i]`` and ``iter(t)``."""

    def __init__(self) -> None:
        from dlshim import arrays

        self.asked = 0
        self.getitem, self.iterate = arrays.getitem, arrays.iterate
        arrays.getitem, arrays.iterate = self.counted_getitem, self.counted_iterate

    def counted_getitem(self, tensor: dlshim.Tensor, key: Any) -> Any:
        self.asked += 1
        return self.getitem(tensor, key)

    def counted_iterate(self, tensor: dlshim.Tensor) -> Iterator[Any]:
        for element in self.iterate(tensor):
            self.asked += 1
            yield element


def outcome(call: Call, evaluate: Callable[..., Any]) -> str:
    """What the call gives for a few elements."""
    array = np.array(GRID if call.grid else LINE, "float64")
    t = dlshim.from_dlpack(array)
    try:
        r = evaluate(call.text, t=t)
    except Exception as error:
        print("     ", type(error).__name__, str(error)[:90].replace("\n", " "))
        return REFUSED
    try:
        values = plain(evaluate(call.read, r=r, t=t))
    except Exception as error:
        print("     ", type(error).__name__, str(error)[:90].replace("\n", " "))
        return LATER
    return RIGHT if values == call.values else OTHER


def walks(call: Call, evaluate: Callable[..., Any], watch: Watch) -> bool:
    shape = (MANY // 2, 2) if call.grid else (MANY,)
    t = dlshim.from_dlpack(np.arange(MANY, dtype="float64").reshape(shape))
    watch.asked = 0
    evaluate(call.text, t=t)
    return watch.asked > FEW_ASKED


def check(name: str) -> None:
    module = importlib.import_module(name)
    for part in PARTS.get(name, ()):
        importlib.import_module(f"{name}.{part}")
    watch = Watch()

    def evaluate(text: str, **names: Any) -> Any:
        globals().update(names)  # duckdb looks for `t` there
        return eval(text, globals() | {"m": module, "io": io})

    for call in CALLS[name]:
        found = outcome(call, evaluate)
        if found == RIGHT and call.many and walks(call, evaluate, watch):
            found = WALKS
        print(f"{found}: {call.text}")
        assert found == call.now, (name, call.text, found)


# --- the tests --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CALLS)
def test_what_a_library_makes_of_a_tensor(name: str) -> None:
    if find_spec(name.split(".")[0]) is None:
        pytest.skip(f"{name} is not installed here")
    done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": ") >= len(CALLS[name])


@pytest.mark.parametrize("name", CALLS)
def test_none_became_worse(name: str) -> None:
    """By the table, of which the test above proves the last column."""
    rank = WORSE_FIRST.index
    assert [call for call in CALLS[name] if rank(call.now) < rank(call.before)] == []


def library(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} is not installed here", exc_type=ImportError)


STRUCTS = {
    ("arrow_schema", "ArrowSchema"): "format name metadata flags n_children children dictionary "
    "release private_data",
    ("arrow_array", "ArrowArray"): "length null_count offset n_buffers n_children buffers children "
    "dictionary release private_data",
}


def test_the_structs_are_those_of_pyarrows_header(tmp_path: Path) -> None:
    from project.tree import SRC, compiler  # not on the path of the processes above

    include = Path(library("pyarrow").get_include())
    lines = ["#include <stddef.h>", '#include "arrow/c/abi.h"', '#include "abi/arrow_abi.h"']
    for (ours, theirs), members in STRUCTS.items():
        pairs = [(f"sizeof({ours})", f"sizeof(struct {theirs})")]
        for name in members.split():
            pairs.append((f"offsetof({ours}, {name})", f"offsetof(struct {theirs}, {name})"))
        lines += [f'_Static_assert({a} == {b}, "{a}");' for a, b in pairs]
    (tmp_path / "both.c").write_text("\n".join(lines))
    folders = [f"-I{include}", f"-I{SRC}"]
    command = [
        compiler(),
        "-std=c11",
        "-Werror",
        "-fsyntax-only",
        *folders,
        str(tmp_path / "both.c"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_nanoarrow_does_not_take_a_tensor_without_its_dtype_or_shape() -> None:
    """By its buffer, which it took before, booleans were uint8 and a scalar a column of one."""
    na = library("nanoarrow")
    flags, scalar = np.array([True, False]), np.array(2.0)
    for array, words in ((flags, "booleans"), (scalar, "no axes")):
        with pytest.raises(TypeError, match=words):
            na.Array(dlshim.from_dlpack(array))
    cure = dlshim.from_dlpack(dlshim.from_dlpack(flags), reinterpret="uint8")
    assert na.Array(cure).to_pylist() == [1, 0]
    assert na.Array(dlshim.from_dlpack(scalar.reshape(1))).to_pylist() == [2]


def test_columns_have_the_memory_itself() -> None:
    pa, pl = library("pyarrow"), library("polars")
    before = dlshim.stats()["live"]
    array = np.arange(6.0)
    t = dlshim.from_dlpack(array)
    column, series = pa.array(t), pl.Series(t)
    column.validate(full=True)
    assert column.buffers()[1].address == array.ctypes.data == t.data_ptr()
    assert series.to_numpy(allow_copy=False).ctypes.data == array.ctypes.data
    del t
    array[0] = 7
    assert column.to_pylist()[0] == series[0] == 7, "who writes to the memory changes the column"
    del column, series
    assert dlshim.stats()["live"] == before


def test_nested_columns_have_the_types_of_pyarrows_own() -> None:
    pa = library("pyarrow")
    column = pa.array(dlshim.from_dlpack(np.arange(12, dtype="f4").reshape(2, 3, 2)))
    column.validate(full=True)
    assert column.type == pa.list_(pa.list_(pa.float32(), 2), 3)
    assert column.to_pylist() == np.arange(12.0).reshape(2, 3, 2).tolist()
    assert pa.concat_arrays([column, column.slice(1)]).to_pylist()[2] == column.to_pylist()[1]


def test_a_struct_of_ours_is_sliced_and_computed_with() -> None:
    pa = library("pyarrow")
    compute = library("pyarrow.compute")
    column = pa.chunked_array([dlshim.from_dlpack(np.arange(k, k + 3)) for k in (0, 3)])
    assert compute.sum(column).as_py() == 15 and column.null_count == 0
    assert column.slice(2, 3).to_pylist() == [2, 3, 4]
    assert column.chunk(0).is_null().to_pylist() == [False] * 3


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float16", "float32"])
def test_dtypes_of_columns(dtype: str) -> None:
    pa = library("pyarrow")
    column = pa.array(dlshim.from_dlpack(np.arange(3, dtype=dtype)))
    assert column.type == pa.from_numpy_dtype(dtype)
    assert np.asarray(column).tolist() == [0, 1, 2]


def test_the_cures_of_what_is_no_column() -> None:
    pa, pl = library("pyarrow"), library("polars")
    flags = dlshim.from_dlpack(np.array([True, False]))
    for take in (pa.array, pl.Series):
        with pytest.raises(BufferError, match=r"pass x\.numpy\(\)"):
            take(flags)
        assert plain(take(flags.numpy())) == [True, False]
        steps = dlshim.from_dlpack(np.arange(6)[::2])
        with pytest.raises(BufferError, match='order="C"'):
            take(steps)
        assert plain(take(dlshim.from_dlpack(steps, order="C"))) == [0, 2, 4]
        t = dlshim.from_dlpack(np.array([1 + 2j]))
        with pytest.raises(BufferError, match=r"x\.numpy\(\)\.real"):
            take(t)
        assert plain(take(dlshim.from_dlpack(t.numpy().real, order="C"))) == [1]


def test_rows_without_elements_are_no_column_of_polars() -> None:
    pa, pl = library("pyarrow"), library("polars")
    x = dlshim.from_dlpack(np.zeros((3, 0)))
    with pytest.raises(BufferError, match="its rows have no elements, and polars ends in a panic"):
        pl.Series(x)
    assert pl.Series(dlshim.from_dlpack(x.numpy().reshape(-1))).to_list() == []
    assert pa.array(x).to_pylist() == [[], [], []]
    assert pl.Series(dlshim.from_dlpack(np.zeros((0, 3)))).shape == (0,)


def test_another_type_is_asked_for_afterwards() -> None:
    pa = library("pyarrow")
    t = dlshim.from_dlpack(np.arange(3))
    assert pa.array(t).cast("float32").to_pylist() == [0, 1, 2]
    asked = t.__arrow_c_array__(pa.float32().__arrow_c_schema__())
    assert pa.Array._import_from_c_capsule(*asked).type == pa.int64()
    with pytest.raises(ValueError, match="requested_schema"):
        t.__arrow_c_array__(pa.list_(pa.int64()).__arrow_c_schema__())


if __name__ == "__main__":
    check(sys.argv[1])
