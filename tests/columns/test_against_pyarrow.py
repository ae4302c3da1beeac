"""Columns of PyArrow that Hypothesis makes: types, offsets, nesting, chunks, missing values.  What
comes out is what PyArrow says by itself, element by element."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dlshim

np = pytest.importorskip("numpy", reason="NumPy is not in this environment")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not in this environment")
#: Before pyarrow 15, chunks have no Arrow stream.
CHUNKS = hasattr(pa.ChunkedArray, "__arrow_c_stream__")

#: Formats of numbers and of what needs reinterpret=: the type, and the option.
LEAVES: dict[str, tuple[Any, dict[str, str]]] = {
    **{
        name: (getattr(pa, name)(), {})
        for name in (
            *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float32", "float64"),
        )
    },
    "date32": (pa.date32(), {"reinterpret": "int32"}),
    "timestamp": (pa.timestamp("us"), {"reinterpret": "int64"}),
    "duration": (pa.duration("ms"), {"reinterpret": "int64"}),
}


@st.composite
def columns(draw: st.DrawFn) -> tuple[Any, Any, dict[str, str], bool]:
    """A column, the array that it is, the option that it needs; and whether a value is missing."""
    leaf, option = LEAVES[draw(st.sampled_from([*LEAVES]))]
    shape = draw(st.lists(st.integers(1, 3), max_size=3))
    items = int(np.prod(shape, dtype=int))
    rows = draw(st.integers(0, 40))
    numbers = np.arange(rows * items) % 100
    number = pa.int32() if option.get("reinterpret") == "int32" else pa.int64()
    lost = draw(st.sets(st.integers(0, max(rows * items - 1, 0)), max_size=2))
    mask = np.array([i in lost for i in range(rows * items)], bool)
    memory = pa.array(numbers, number, mask=mask).cast(leaf)
    for k in reversed(shape):
        memory = pa.FixedSizeListArray.from_arrays(memory, k)
    start = draw(st.integers(0, rows))
    stop = draw(st.integers(start, rows))
    shown = numbers.reshape(rows, *shape)[start:stop]
    missing = bool(mask.reshape(rows, items)[start:stop].any())
    part = memory[start:stop]
    cuts = sorted(draw(st.lists(st.integers(0, stop - start), max_size=3)))
    if not CHUNKS or draw(st.booleans()):
        return part, shown, option, missing
    chunks = [part[a:b] for a, b in zip([0, *cuts], [*cuts, stop - start], strict=True)]
    return pa.chunked_array(chunks, part.type), shown, option, missing


@settings(deadline=None, max_examples=300)
@given(columns())
def test_a_column_is_what_pyarrow_says(case):
    column, shown, option, missing = case
    if missing:
        with pytest.raises(BufferError, match="values are missing"):
            dlshim.from_dlpack(column, **option, order="C")
        return
    tensor = dlshim.from_dlpack(column, **option, order="C")
    array = np.asarray(tensor)
    assert array.shape == shown.shape and array.tolist() == shown.tolist()
    chunks = [chunk for chunk in getattr(column, "chunks", [column]) if len(chunk)]
    assert tensor.readonly == (len(chunks) < 2)
    if len(chunks) > 1:
        with pytest.raises(BufferError, match="several chunks"):
            dlshim.from_dlpack(column, **option)
    if not option:
        assert array.tolist() == column.to_pylist()
    del column, case, chunks
    assert array.tolist() == shown.tolist()


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 3), st.data())
def test_a_tensor_has_the_axes_that_arrow_says(shape, rows, data):
    """Axis i is axis permutation[i] of the memory.  The array itself goes out by PyArrow's own
    __dlpack__, which mistakes some permutations of four axes; Arrow's stream does not."""
    if not CHUNKS:
        pytest.skip("chunks of this pyarrow have no Arrow stream")
    order = data.draw(st.permutations(range(len(shape))))
    type_ = pa.fixed_shape_tensor(pa.int32(), shape, permutation=order)
    items = int(np.prod(shape))
    values = pa.array(np.arange(rows * items, dtype="i4"))
    storage = pa.FixedSizeListArray.from_arrays(values, items)
    column = pa.ExtensionArray.from_storage(type_, storage)
    start = data.draw(st.integers(0, rows))
    chunks = pa.chunked_array([column[start:]])
    array = np.asarray(dlshim.from_dlpack(chunks))
    wanted = np.arange(rows * items).reshape(rows, *shape)[start:]
    wanted = wanted.transpose(0, *(1 + axis for axis in order))
    assert array.shape == wanted.shape and array.tolist() == wanted.tolist()
