"""Structs of Arrow that lie are refused, and each is given back once."""

from __future__ import annotations

import gc
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dlshim
from doubles import columns as made
from doubles.columns import Count, array, child, child_schema, numbers, schema

NO_DTYPE = "a type of Arrow that DLPack has no dtype for"
CORRECTED = "\n  the producer has to be corrected"
RELEASED = "a struct of it was released before"
UNFIT = "that do not fit"


def plain(count: Count, values: bytes | None = numbers(1, 2, 3), length: int = 3, **lies) -> tuple:
    return schema(count, "l"), array(count, length, values, **lies)


def typed(count: Count, format: str | None, *children: object, **lies: object) -> tuple:
    return schema(count, format, *children, **lies), array(count, 3, numbers(1, 2, 3))


def lists(count: Count, items: object, length: int = 2, format: str = "+w:2", **lies) -> tuple:
    return schema(count, format, child_schema("l")), array(count, length, None, items, **lies)


def fixed(count: Count, parameters: str | None, items: int = 6) -> tuple:
    entries = {"ARROW:extension:name": "arrow.fixed_shape_tensor"}
    if parameters is not None:
        entries["ARROW:extension:metadata"] = parameters
    values = child(items, numbers(*range(items)))
    type_ = schema(count, f"+w:{items}", child_schema("l"), said=made.metadata(entries))
    return type_, array(count, 1, None, values)


def endless(count: Count) -> tuple:
    """A list whose items are such lists."""
    type_ = schema(count, "+w:1", child_schema("+w:1", child_schema("l")))
    inner = child_schema("+w:1", child_schema("l"))
    inner.children = made.pointers([made.C.addressof(inner)])
    type_.children = made.pointers([made.C.addressof(inner)])
    return type_, array(count, 1, None, child(1, numbers(1)))


FOUR = numbers(1, 2, 3, 4)
#: What the message says, and how the pair of structs is made.
TYPES_THAT_LIE = {
    "no format": (CORRECTED, lambda c: typed(c, None)),
    "an empty format": (CORRECTED, lambda c: typed(c, "")),
    "a format of nobody's": (NO_DTYPE, lambda c: typed(c, "qq")),
    "a time stamp without a unit": (NO_DTYPE, lambda c: typed(c, "ts")),
    "a time stamp of nobody's unit": (NO_DTYPE, lambda c: typed(c, "tsx:")),
    "a time stamp that does not go on to its zone": (NO_DTYPE, lambda c: typed(c, "tss")),
    "lists of no size": (NO_DTYPE, lambda c: typed(c, "+w:")),
    "lists of a negative size": (NO_DTYPE, lambda c: typed(c, "+w:-1")),
    "lists of too many": (NO_DTYPE, lambda c: typed(c, "+w:" + 30 * "9")),
    "lists without a type": (CORRECTED, lambda c: typed(c, "+w:2")),
    "lists of two types": (
        CORRECTED, lambda c: typed(c, "+w:2", child_schema("l"), child_schema("l")),
    ),
    "lists whose types are NULL": (
        CORRECTED, lambda c: typed(c, "+w:2", child_schema("l"), children=None),
    ),
    "items of a released type": (
        RELEASED, lambda c: typed(c, "+w:2", child_schema("l", release=None)),
    ),
    "lists in each other without end": (CORRECTED, endless),
    "a negative count of metadata": (CORRECTED, lambda c: typed(c, "l", said=4 * b"\xff")),
    "a negative length in metadata": (
        CORRECTED, lambda c: typed(c, "l", said=b"\x01\0\0\0" + 4 * b"\xff"),
    ),
    "a tensor without parameters": (UNFIT, lambda c: fixed(c, None)),
    "a tensor of no JSON": (UNFIT, lambda c: fixed(c, "{shape")),
    "a tensor of no mapping": (UNFIT, lambda c: fixed(c, "[1]")),
    "a tensor without a shape": (UNFIT, lambda c: fixed(c, "{}")),
    "a tensor of another size": (UNFIT, lambda c: fixed(c, '{"shape": [2, 2]}')),
    "a tensor of a negative shape": (UNFIT, lambda c: fixed(c, '{"shape": [-2, -3]}')),
    "a tensor of floats": (UNFIT, lambda c: fixed(c, '{"shape": [2.0, 3.0]}')),
    "a tensor of bools": (UNFIT, lambda c: fixed(c, '{"shape": [6, true]}')),
    "a tensor of a text": (UNFIT, lambda c: fixed(c, '{"shape": "ab"}')),
    "a tensor of lists in each other": (UNFIT, lambda c: fixed(c, 90_000 * "[")),
    "a shape of lists in each other": (
        UNFIT, lambda c: fixed(c, '{"]": 0, "shape": ' + 90_000 * '["]",' + "0"),
    ),
    "a tensor of objects in each other": (UNFIT, lambda c: fixed(c, 90_000 * '{"shape":')),
    "a permutation twice": (
        UNFIT, lambda c: fixed(c, '{"shape": [2, 3], "permutation": [0, 0]}'),
    ),
    "a permutation of fewer axes": (
        UNFIT, lambda c: fixed(c, '{"shape": [2, 3], "permutation": [0]}'),
    ),
    "a permutation that is huge": (
        UNFIT, lambda c: fixed(c, f'{{"shape": [6], "permutation": [{2**70}]}}'),
    ),
}  # fmt: skip
#: The same of the array, or of both: a stream has given its array before they are found.
ARRAYS_THAT_LIE = {
    "a negative length": (CORRECTED, lambda c: plain(c, length=-1)),
    "a negative offset": (CORRECTED, lambda c: plain(c, offset=-1)),
    "an end beyond 64 bits": (CORRECTED, lambda c: plain(c, length=2, offset=2**63 - 1)),
    "bytes beyond 64 bits": (CORRECTED, lambda c: plain(c, length=2**61)),
    "one buffer": (CORRECTED, lambda c: plain(c, n_buffers=1)),
    "three buffers": (CORRECTED, lambda c: plain(c, n_buffers=3)),
    "no buffers": (CORRECTED, lambda c: plain(c, buffers=None)),
    "NULL with elements": (CORRECTED, lambda c: plain(c, values=None)),
    "a child of numbers": (CORRECTED, lambda c: plain(c, n_children=1)),
    "a dictionary of numbers": (CORRECTED, lambda c: plain(c, dictionary=1)),
    "nulls without a bitmap": (CORRECTED, lambda c: plain(c, null_count=1)),
    "fewer nulls than none": (CORRECTED, lambda c: plain(c, null_count=-2)),
    "lists without items": (CORRECTED, lambda c: lists(c, child(4, FOUR), n_children=0)),
    "lists whose items are NULL": (CORRECTED, lambda c: lists(c, child(4, FOUR), children=None)),
    "lists whose first items are NULL": (
        CORRECTED, lambda c: lists(c, child(4, b""), children=made.pointers([None])),
    ),
    "items that were released": (RELEASED, lambda c: lists(c, child(4, numbers(1), release=None))),
    "lists with more buffers": (CORRECTED, lambda c: lists(c, child(4, b""), n_buffers=2)),
    "fewer items than the lists have": (CORRECTED, lambda c: lists(c, child(3, numbers(1, 2, 3)))),
    "fewer items behind an offset": (CORRECTED, lambda c: lists(c, child(4, FOUR), offset=1)),
    "items beyond 64 bits": (
        CORRECTED, lambda c: lists(c, child(4, numbers(1)), length=2**62, format="+w:4"),
    ),
    "items at a negative offset": (CORRECTED, lambda c: lists(c, child(4, numbers(1), offset=-1))),
    "items with nulls without a bitmap": (
        CORRECTED, lambda c: lists(c, child(4, FOUR, null_count=1)),
    ),
    "a tensor of more axes than there are": (
        "dimensions", lambda c: fixed(c, json.dumps({"shape": [6] + 70 * [1]})),
    ),
}  # fmt: skip
LIES = TYPES_THAT_LIE | ARRAYS_THAT_LIE


def refused(x: object, said: str, count: Count, **options: object) -> None:
    with pytest.raises(BufferError, match=said) as error:
        dlshim.from_dlpack(x, **options)
    assert count.pending == 0, "given back before the exception left"
    assert all(count.released[name] == n for name, n in count.made.items())
    del error


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("way", ["array", "stream", "device array", "device stream"])
def test_a_struct_that_lies_is_refused(way, lie):
    said, make = LIES[lie]
    count = Count()
    type_, memory = make(count)
    if way == "array":
        x = made.of_array(count, type_, memory)
    elif way == "device array":
        x = made.of_device_array(count, type_, memory)
    else:
        on_device = way == "device stream"
        x = made.of_stream(count, made.stream(count, type_, [memory], on_device=on_device))
        if lie in TYPES_THAT_LIE:  # the chunk was never given away
            count.made["array"] -= 1
    refused(x, said, count)
    if "stream" not in way:  # its structs are used up
        with pytest.raises(BufferError, match=RELEASED):
            dlshim.from_dlpack(x)


def test_a_chunk_of_length_0_is_not_looked_at():
    count = Count()
    empty = array(count, 0, None, null_count=5)
    x = made.of_stream(count, made.stream(count, schema(count, "l"), [empty]))
    t = dlshim.from_dlpack(x)
    assert (t.shape, str(t.dtype)) == ((0,), "int64")
    assert count.pending == 0


@pytest.mark.parametrize("error", [b"the disk is full", b"\xff\xfe", None])
@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("where", ["schema", "first", "second"])
def test_a_callback_that_fails_is_told_and_all_is_given_back(where, error, on_device):
    count = Count()
    chunks = [array(count, 1, numbers(1)), 5] if where == "second" else [5]
    type_ = 5 if where == "schema" else schema(count, "l")
    x = made.of_stream(count, made.stream(count, type_, chunks, error=error, on_device=on_device))
    said = "error 5" if error is None else "the disk is full" if error[0] < 128 else "\ufffd\ufffd"
    refused(x, f"could not give the values: {said}", count, order="C")


@pytest.mark.parametrize("where", ["schema", "first"])
@pytest.mark.parametrize("on_device", [False, True])
def test_a_stream_without_a_text_of_errors_has_its_code(on_device, where):
    """That of a device was called, at address 0."""
    count = Count()
    type_ = 5 if where == "schema" else schema(count, "l")
    given = made.stream(count, type_, [5], on_device=on_device)
    given.get_last_error = None
    refused(made.of_stream(count, given), "could not give the values: error 5", count)


@pytest.mark.parametrize("missing", ["get_schema", "get_next"])
@pytest.mark.parametrize("on_device", [False, True])
def test_a_stream_that_lacks_a_function_is_refused(on_device, missing):
    count = Count()
    given = made.stream(count, schema(Count(), "l"), [], on_device=on_device)
    setattr(given, missing, None)
    said = f"its stream has no get_schema or get_next{CORRECTED}"
    refused(made.of_stream(count, given), said, count)


def test_a_stack_that_is_full_is_no_fault_of_the_parameters():
    """Near the limit of recursion they cannot be parsed, and the same array is right elsewhere."""
    count = Count()
    parameters = '{"shape": ' + 8 * "[" + "2, 3" + 8 * "]" + "}"
    x = made.of_array(count, *fixed(count, parameters))
    raised = []

    def deeper():
        try:
            deeper()
        except RecursionError:
            if not raised:
                try:
                    dlshim.from_dlpack(x)
                except BaseException as error:
                    raised.append(error)

    deeper()
    assert [type(error) for error in raised] == [RecursionError]


def test_a_stream_serves_once():
    x, count = made.chunked((1, 2))
    assert memoryview(dlshim.from_dlpack(x)).tolist() == [1, 2]
    with pytest.raises(BufferError, match=RELEASED):
        dlshim.from_dlpack(x)
    gc.collect()
    assert count.pending == 0


WRONG = {
    "nothing": lambda: None,
    "a pair of others": lambda: (1, 2),
    "one capsule": lambda: made.capsule(schema(Count(), "l"), "arrow_schema", Count()),
    "a list": list,
    "three": lambda: (1, 2, 3),
    "capsules of another name": lambda: (
        made.capsule(schema(Count(), "l"), "dltensor", Count()),
        made.capsule(array(Count(), 1, numbers(1)), "arrow_array", Count()),
    ),
    "the two exchanged": lambda: (
        made.capsule(array(Count(), 1, numbers(1)), "arrow_array", Count()),
        made.capsule(schema(Count(), "l"), "arrow_schema", Count()),
    ),
}


@pytest.mark.parametrize("answer", WRONG)
@pytest.mark.parametrize("name", ["array", "device_array", "stream", "device_stream"])
def test_an_answer_that_is_no_capsule_is_refused(name, answer):
    with pytest.raises(BufferError, match=f"__arrow_c_{name}__: .*{CORRECTED}"):
        dlshim.from_dlpack(made.method(f"__arrow_c_{name}__", WRONG[answer]))


def test_the_items_are_released_with_their_lists_only():
    items, inner = Count(), Count()
    count = Count()
    values = array(items, 4, numbers(1, 2, 3, 4))
    type_ = schema(count, "+w:2", schema(inner, "l"))
    t = dlshim.from_dlpack(made.of_array(count, type_, array(count, 2, None, values)))
    assert (t.shape, memoryview(t).tolist()) == ((2, 2), [[1, 2], [3, 4]])
    del t
    assert (count.pending, items.released, inner.released) == (0, {}, {})


# ---- any numbers in any member -------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(-2, 9), st.sampled_from([2**31, 2**32, 2**62, 2**63 - 1, -(2**63), 2**61 + 1])
)
FORMAT = st.one_of(
    st.sampled_from(["l", "c", "g", "w:3", "w:0", "tsu:", "d:5,1,64", "b", "u", "+s", "+l", ""]),
    st.builds("w:{}".format, NUMBERS),
    st.text("+w:,dtlbc0123456789", max_size=6),
)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Count, object, object]:
    """Lists of any size around any elements, in arrays that say anything.  Without a bitmap nothing
    is read, whatever the lengths say."""
    count = Count()
    depth = draw(st.integers(0, 3))
    type_, memory = child_schema(draw(FORMAT)), None
    for level in range(depth, -1, -1):
        owner = count if level == 0 else Count()
        lies = {
            name: draw(NUMBERS)
            for name in draw(st.sets(st.sampled_from(["n_buffers", "n_children"]), max_size=1))
        }
        children = [memory] if memory is not None else []
        memory = array(
            owner,
            draw(NUMBERS),
            b"12345678" if draw(st.booleans()) else None,
            *children,
            null_count=draw(st.sampled_from([0, 0, 0, -1, 1, -2])),
            offset=draw(st.sampled_from([0, 0, 1, 2, 2**62, 2**63 - 1, -1])),
            **lies,
        )
        if level == 0:
            type_ = (
                schema(count, f"+w:{draw(NUMBERS)}", type_)
                if depth
                else schema(count, draw(FORMAT))
            )
        elif level < depth:
            type_ = child_schema(f"+w:{draw(NUMBERS)}", type_)
    return count, type_, memory


@settings(deadline=None, max_examples=100, suppress_health_check=[*HealthCheck])
@given(pairs(), st.booleans(), st.sampled_from([{}, {"reinterpret": "int64"}]))
def test_whatever_a_struct_says_it_is_given_back_once(case, streams, options):
    count, type_, memory = case
    if streams:
        x = made.of_stream(count, made.stream(count, type_, [memory]))
    else:
        x = made.of_array(count, type_, memory)
    try:
        tensor = dlshim.from_dlpack(x, **options)
    except BufferError:
        pass
    else:
        assert all(0 <= extent < 2**63 for extent in tensor.shape)
        del tensor
    gc.collect()
    assert count.owed == 0 and max(count.released.values()) == 1
