"""Columns of Arrow are arrays (rules C1 to C13), shown by columns made by hand."""

from __future__ import annotations

import gc
import re

import pytest

import dlshim
from doubles import columns as made


def shown(tensor: dlshim.Tensor) -> list[object]:
    """The elements, without NumPy."""
    return memoryview(tensor).tolist()


def values(x: object, **options: object) -> list[object]:
    return shown(dlshim.from_dlpack(x, **options))


def ended(count: made.Count) -> bool:
    gc.collect()
    return count.pending == 0 and max(count.released.values(), default=0) <= max(
        count.made.values()
    )


def test_an_array_goes_out_as_it_is():
    x, count = made.column(1, 2, 3)
    t = dlshim.from_dlpack(x)
    assert (shown(t), t.shape, str(t.dtype), t.device) == ([1, 2, 3], (3,), "int64", (1, 0))
    assert t.readonly
    assert count.released == {"schema": 1}
    del t
    assert ended(count)


def test_one_chunk_goes_out_as_it_is():
    x, count = made.chunked((1, 2, 3))
    t = dlshim.from_dlpack(x)
    assert (shown(t), t.readonly) == ([1, 2, 3], True)
    assert count.released == {"schema": 1, "stream": 1}
    del t
    assert ended(count)


@pytest.mark.parametrize("null_count", [1, -1])
def test_missing_values_are_refused(null_count):
    x, count = made.column(1, 2, 3, valid=made.bitmap([1, 0, 1]), null_count=null_count)
    with pytest.raises(BufferError, match=r"values are missing in it \(1\)"):
        dlshim.from_dlpack(x)
    assert ended(count)


CURED = {
    "pass order=": lambda: made.chunked((1,), (2, 3))[0],
    "pass copy=True": lambda: made.chunked((1,), (2, 3))[0],
    'reinterpret="int64"': lambda: made.column(1, 2, 3, format="tsu:")[0],
    'reinterpret="int32"': lambda: made.column(1, 2, 3, format="d:5,1,32", letter="i")[0],
    'reinterpret="bool"': lambda: made.column(0, 1, format="c", letter="b", said=made.BOOL8)[0],
}


@pytest.mark.parametrize("cure", CURED)
def test_the_cures_give_the_values(cure):
    given = {"copy": False} if "copy" in cure else {}
    with pytest.raises(BufferError, match=cure) as error:
        dlshim.from_dlpack(CURED[cure](), **given)
    said = re.search(r'(\w+)=(?:"(\w+)"|(True))[^"]*$', str(error.value).partition(" if ")[0])
    assert said
    option = {said[1]: said[2] or True}
    assert values(CURED[cure](), **option) == ([False, True] if "bool" in cure else [1, 2, 3])
