"""A learned column goes out without a record, and as it would in full.

The columns of a type are learned by plain exports.  Then its next export is of a column that the
fast path must leave alone, or may take.  Without handing-on (the hook) the fast path is closed.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

import dlshim
from dlshim import _core
from doubles import columns as made
from doubles.columns import Count, array, bitmap, child, child_schema, numbers, schema

TENSOR = made.metadata(
    {
        "ARROW:extension:name": "arrow.fixed_shape_tensor",
        "ARROW:extension:metadata": '{"shape": [2, 3], "permutation": [1, 0]}',
    }
)


def of_numbers(count: Count, *values: int, format: str = "l", **more: Any) -> tuple[Any, Any]:
    data = more.pop("data", numbers(*values))
    return schema(count, format), array(count, len(values), data, **more)


def lists(count: Count, depth: int) -> tuple[Any, Any]:
    """One list of one item, `depth` times, around a number."""
    type_, memory = child_schema("l"), child(1, numbers(7))
    for _ in range(depth - 1):
        type_, memory = child_schema("+w:1", type_), child(1, None, memory)
    return schema(count, "+w:1", type_), array(count, 1, None, memory)


def permuted(count: Count) -> tuple[Any, Any]:
    type_ = schema(count, "+w:6", child_schema("l"), said=TENSOR)
    return type_, array(count, 2, None, child(12, numbers(*range(12))))


#: What the learned type gives next: a type and an array.
NEXT: dict[str, Callable[[Count], tuple[Any, Any]]] = {
    "numbers": lambda count: of_numbers(count, 4, 5, 6),
    "a slice": lambda count: of_numbers(count, 5, 6, data=numbers(4, 5, 6), offset=1),
    "one dimension of four": lambda count: lists(count, 3),
    "more dimensions than fit": lambda count: lists(count, 5),
    "no elements": lambda count: of_numbers(count, data=b""),
    "axes in another order": permuted,
    "nothing missing in a bitmap": lambda count: of_numbers(
        count, 4, 5, valid=bitmap([1, 1]), null_count=-1
    ),
    "a missing value": lambda count: of_numbers(count, 4, 5, valid=bitmap([1, 0]), null_count=1),
    "dates": lambda count: of_numbers(count, 4, 5, format="tdm"),
    "text": lambda count: of_numbers(count, 4, 5, format="u"),
    "a negative length": lambda count: of_numbers(count, 4, 5, length=-1),
}

ROADS = {
    "__arrow_c_array__": lambda count, pair: (
        made.capsule(pair[0], "arrow_schema", count),
        made.capsule(pair[1], "arrow_array", count),
    ),
    "__arrow_c_device_array__": lambda count, pair: (
        made.capsule(pair[0], "arrow_schema", count),
        made.capsule(made.ArrowDeviceArray(pair[1], -1, 1), "arrow_device_array", count),
    ),
    "__arrow_c_stream__": lambda count, pair: made.capsule(
        made.stream(count, pair[0], pair[1:]), "arrow_array_stream", count
    ),
}


class Learned:
    """A column whose type was learned by this road; `calls` counts how often it was asked since."""

    def __init__(self, road: str) -> None:
        self.count = Count()
        self.answer = lambda: ROADS[road](self.count, of_numbers(self.count, 1, 2, 3))
        self.calls = 0

        def give(column: Any, requested_schema: Any = None) -> Any:
            self.calls += 1
            return self.answer()

        self.column = type("Column", (), {road: give})()
        self.wrapper = dlshim.upgrade(self.column)
        for _ in range(2):
            assert facts(self.wrapper)["shape"] == (3,)
        self.calls = 0


def facts(wrapper: Any, **asked: Any) -> dict[str, Any]:
    """What a capsule says, which is dropped."""
    told = _core._peek(wrapper.__dlpack__(**{"max_version": (1, 0), **asked}))
    for address in ("data", "has_deleter"):
        told[address] = bool(told[address])
    return told


def outcome(road: str, give: Callable[[Count], Any], fast: bool, question: bool) -> Any:
    learned = Learned(road)
    learned.answer = lambda: ROADS[road](learned.count, give(learned.count))
    _core._hook("hand_on", fast)
    try:
        if question:
            learned.wrapper.__dlpack_device__()
        return facts(learned.wrapper), learned.calls
    except (BufferError, TypeError, ValueError) as error:
        return type(error), str(error), learned.calls
    finally:
        _core._hook("hand_on", True)
        gc.collect()
        assert learned.count.owed == 0


@pytest.mark.once
@pytest.mark.parametrize("question", [False, True], ids=["at once", "after the device"])
@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("give", NEXT.values(), ids=NEXT)
def test_a_learned_column_goes_out_as_in_full(give, road, question):
    fast, full = (outcome(road, give, each, question) for each in (True, False))
    assert fast == full
    if not question:
        assert fast[-1] == 1  # nobody is asked twice


def test_a_learned_column_needs_no_record():
    """Its struct is ours, read-only, and lives without the Producer."""
    learned = Learned("__arrow_c_array__")
    capsule = learned.wrapper.__dlpack__(max_version=(1, 3))
    told = _core._peek(capsule)
    assert (told["flags"], told["strides"], told["dtype"]) == (1, (1,), (0, 64, 1))
    learned.wrapper = None
    before = learned.count.released["array"]
    del capsule
    assert learned.count.released["array"] == before + 1


@pytest.mark.parametrize("error", [TypeError, ValueError, AttributeError, MemoryError])
def test_a_method_that_raises_is_called_once(error):
    learned = Learned("__arrow_c_array__")

    def answer() -> None:
        raise error("not now")

    learned.answer = answer
    with pytest.raises((BufferError, MemoryError), match="not now"):
        learned.wrapper.__dlpack__(max_version=(1, 0))
    assert learned.calls == 1


def test_several_chunks_are_refused_and_joined_on_request():
    learned = Learned("__arrow_c_stream__")

    def answer() -> Any:
        count = learned.count
        type_, memory = of_numbers(count, 1, 2)
        chunks = [memory, array(count, 1, numbers(3))]
        return made.capsule(made.stream(count, type_, chunks), "arrow_array_stream", count)

    learned.answer = answer
    with pytest.raises(BufferError, match="several chunks"):
        learned.wrapper.__dlpack__(max_version=(1, 0))
    joined = dlshim.upgrade(learned.column, order="C")
    assert facts(joined)["shape"] == (3,)
    gc.collect()
    assert learned.count.owed == 0


def test_a_method_that_an_object_hides_is_not_offered():
    """The method is called by its name, and None in its place is still no method."""
    learned = Learned("__arrow_c_array__")
    learned.column.__arrow_c_array__ = None
    with pytest.raises(BufferError, match="gave nothing through it"):
        learned.wrapper.__dlpack__(max_version=(1, 0))
    del learned.column.__arrow_c_array__
    assert facts(learned.wrapper)["shape"] == (3,)


def test_a_method_that_is_offered_once_keeps_its_own_words():
    """After an error the object is asked again, whether it has a method at all."""

    class Column:
        taken = False

        @property
        def __arrow_c_array__(self) -> Any:
            if self.taken:
                raise AttributeError("it was taken")
            self.taken = True
            return self.refuse

        def refuse(self) -> Any:
            raise TypeError("this is said once")

    with pytest.raises(BufferError, match="this is said once"):
        dlshim.from_dlpack(Column())


def test_a_device_stream_that_can_be_read_once_is_read_once() -> None:
    """The type was learned on the host; what comes of a device has its form in hand."""
    count = Count()

    class Once:
        def __init__(self, *device: int) -> None:
            self.device, self.read = device, 0

        def __arrow_c_device_stream__(self, requested_schema: Any = None, **_more: Any) -> Any:
            self.read += 1
            if self.read > 1:
                raise ValueError("the stream was read already")
            values = [array(count, 3, numbers(1, 2, 3))]
            stream = made.stream(
                count, schema(count, "l"), values, on_device=True, device=self.device
            )
            return made.capsule(stream, "arrow_device_array_stream", count)

    for device in ((1, -1), (1, -1), (12, 0), (12, 0)):
        column = Once(*device)
        capsule = dlshim.upgrade(column).__dlpack__(max_version=(1, 0))
        assert _core._peek(capsule)["shape"] == (3,) and column.read == 1
        del capsule
    gc.collect()
    assert count.owed == 0
