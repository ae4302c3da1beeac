"""Columns of Arrow are arrays (rules C1 to C13), shown by columns made by hand."""

from __future__ import annotations

import gc
import itertools
import json
import os
import re
import struct

import pytest

import dlshim
from core import test_c_interface
from dlshim import _core
from doubles import child
from doubles import columns as made
from doubles.asking import live, tells, versioned
from doubles.columns import Count, array, bitmap, child_schema, numbers, schema
from doubles.columns import child as inner
from doubles.differences import first_difference
from doubles.older import StructOnly
from doubles.producers import P2, masquerade
from doubles.threads import together

ext = test_c_interface.ext

#: Formats, their dtypes, and the letters of the struct module.
FORMATS = {
    "c": ("int8", "b"),
    "C": ("uint8", "B"),
    "s": ("int16", "h"),
    "S": ("uint16", "H"),
    "i": ("int32", "i"),
    "I": ("uint32", "I"),
    "l": ("int64", "q"),
    "L": ("uint64", "Q"),
    "e": ("float16", "e"),
    "f": ("float32", "f"),
    "g": ("float64", "d"),
}


def shown(tensor: dlshim.Tensor) -> list[object]:
    """The elements, without NumPy."""
    return memoryview(tensor).tolist()


def values(x: object, **options: object) -> list[object]:
    return shown(dlshim.from_dlpack(x, **options))


def of(count: Count, type_: object, *chunks: object) -> object:
    """An object with these chunks, or with one array."""
    if len(chunks) == 1:
        return made.of_array(count, type_, chunks[0])
    return made.of_stream(count, made.stream(count, type_, chunks))


def nested(*levels: tuple[str, int, int], data: bytes | None) -> object:
    """Lists in lists: the format, length and offset of each level, of which the last has data."""
    first, *lists, (format, length, offset) = levels
    type_, memory = child_schema(format), inner(length, data, offset=offset)
    for format, length, offset in reversed(lists):
        type_, memory = child_schema(format, type_), inner(length, None, memory, offset=offset)
    format, length, offset = first
    count = Count()
    array_ = array(count, length, None, memory, offset=offset)
    return of(count, schema(count, format, type_), array_)


def fixed_shape(**parameters: object) -> bytes:
    """The metadata of tensors."""
    return made.metadata(
        {
            "other": "x",
            "ARROW:extension:metadata": json.dumps(parameters),
            "ARROW:extension:name": "arrow.fixed_shape_tensor",
        }
    )


def ended(count: Count) -> bool:
    gc.collect()
    return count.pending == 0 and count.released == count.made


# ---- what goes out -----------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
def test_C5_each_format_of_numbers_has_its_dtype(format):
    dtype, letter = FORMATS[format]
    data = struct.pack(f"=3{letter}", 1, 2, 3)
    count = Count()
    t = dlshim.from_dlpack(of(count, schema(count, format), array(count, 3, data)))
    assert (str(t.dtype), t.shape, t.device, t.readonly) == (dtype, (3,), (1, 0), True)
    assert bytes(memoryview(t).cast("B")) == data
    assert count.released == {"schema": 1}, "the array is still needed"
    del t
    assert ended(count)


def test_C9_one_chunk_goes_out_as_it_is():
    x, count = made.chunked((1, 2, 3))
    t = dlshim.from_dlpack(x)
    assert (shown(t), t.readonly) == ([1, 2, 3], True)
    assert count.released == {"schema": 1, "stream": 1}
    del t
    assert ended(count)


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_C7_an_offset_is_counted_in_values(offset):
    x, _ = made.column(1, 2, 3, offset=offset, length=3 - offset)
    assert values(x) == [1, 2, 3][offset:]


@pytest.mark.parametrize("offset", [0, 1, 3])
@pytest.mark.parametrize("inside", [0, 1, 4])
def test_C7_offsets_of_lists_and_of_items_add_up(offset, inside):
    levels = ("+w:2", 4 - offset, offset), ("l", 8, inside)
    first = 2 * offset + inside
    assert values(nested(*levels, data=numbers(*range(12)))) == [
        [i, i + 1] for i in range(first, 8 + inside, 2)
    ]


def test_C5_lists_in_lists_are_axes():
    x = nested(("+w:1", 2, 1), ("+w:2", 3, 0), ("l", 6, 1), data=numbers(*range(7)))
    assert values(x) == [[[3, 4]], [[5, 6]]]
    x = nested(("+w:2", 2, 0), ("w:2", 4, 0), data=b"abcdefgh")
    assert values(x) == [[[97, 98], [99, 100]], [[101, 102], [103, 104]]]


def test_C5_63_lists_in_each_other_are_64_axes():
    x = nested(*[("+w:1", 3, 0)] * 63, ("l", 3, 0), data=numbers(1, 2, 3))
    assert dlshim.from_dlpack(x).shape == (3,) + 63 * (1,)


@pytest.mark.parametrize("length", [0, 2])
def test_C5_lists_without_items(length):
    x = nested(("+w:0", length, 0), ("l", 0, 0), data=None)
    assert dlshim.from_dlpack(x).shape == (length, 0)


def test_C5_bytes_of_a_fixed_number_are_an_axis_or_elements():
    def binary(width: int = 2) -> object:
        count = Count()
        return of(count, schema(count, f"w:{width}"), array(count, 2, b"abcd"[: 2 * width]))

    assert values(binary()) == [[97, 98], [99, 100]]
    assert values(binary(), reinterpret="uint8") == [[97, 98], [99, 100]]
    assert values(binary(), reinterpret="uint16") == [*struct.unpack("=2H", b"abcd")]
    half = dlshim.from_dlpack(binary(), reinterpret="bfloat16")
    assert (half.shape, str(half.dtype)) == ((2,), "bfloat16")
    assert dlshim.from_dlpack(binary(0)).shape == (2, 0)
    with pytest.raises(BufferError, match="needs elements of 64 bits"):
        dlshim.from_dlpack(binary(), reinterpret="int64")


TENSORS = {
    "in order": ({"shape": [2, 3]}, (2, 3), lambda a, b: 3 * a + b),
    "named": ({"shape": [2, 3], "dim_names": ["C", "D"]}, (2, 3), lambda a, b: 3 * a + b),
    "with brackets in the names": (
        {"shape": [2, 3], "dim_names": ["C[" * 9, "D[" * 9], "more": [{}, [[]]]},
        (2, 3),
        lambda a, b: 3 * a + b,
    ),
    "transposed": ({"shape": [2, 3], "permutation": [1, 0]}, (3, 2), lambda a, b: 3 * b + a),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_C5_a_tensor_has_the_axes_that_its_parameters_say(kind):
    parameters, shape, at = TENSORS[kind]
    count = Count()
    said = fixed_shape(**parameters)
    items = inner(12, numbers(*range(12)))
    x = of(count, schema(count, "+w:6", child_schema("l"), said=said), array(count, 2, None, items))
    t = dlshim.from_dlpack(x)
    assert t.shape == (2, *shape)
    rows = [[[6 * n + at(a, b) for b in range(shape[1])] for a in range(shape[0])] for n in (0, 1)]
    assert shown(t) == rows


@pytest.mark.parametrize(
    ("inside", "extents", "strides"),
    [(("+w:2",), (2,), (1,)), (("+w:1", "+w:2"), (1, 2), (2, 1))],
    ids=["lists", "lists in lists"],
)
def test_C5_the_items_of_a_tensor_may_be_lists(inside, extents, strides):
    """Their axes follow those of the tensor."""
    count = Count()
    type_, memory = child_schema("l"), inner(24, numbers(*range(24)))
    length = 24
    for format in reversed(inside):
        type_, length = child_schema(format, type_), length // int(format[-1])
        memory = inner(length, None, memory)
    said = fixed_shape(shape=[2, 3], permutation=[1, 0])
    x = of(count, schema(count, "+w:6", type_, said=said), array(count, 2, None, memory))
    t = dlshim.from_dlpack(x)
    assert (t.shape, t.strides) == ((2, 3, 2, *extents), (12, 2, 6, *strides))
    places = itertools.product(range(2), range(3), range(2), range(2))
    in_order = numbers(*[12 * n + 2 * a + 6 * b + i for n, a, b, i in places])
    assert memoryview(t).tobytes() == in_order
    del t
    assert ended(count)


def test_C5_other_extension_types_are_their_storage():
    said = made.metadata({"ARROW:extension:name": "geoarrow.point"})
    assert values(made.column(1, 2, said=said)[0]) == [1, 2]


def test_C5_two_bytes_whose_type_is_called_bfloat16_are_such_elements():
    """As lance has them; the name of any other type, or another width, says nothing."""

    def column(name, width):
        said = made.metadata({"ARROW:extension:name": name})
        count = Count()
        type_ = schema(count, f"w:{width}", said=said)
        return of(count, type_, array(count, 2, b"\x80\x3f\x00\x40\x00\x40"[: 2 * width]))

    t = dlshim.from_dlpack(column("lance.bfloat16", 2))
    assert (t.dtype.name, t.shape) == ("bfloat16", (2,))
    assert values(t, reinterpret="uint16") == [0x3F80, 0x4000]
    other = dlshim.from_dlpack(column("lance.bfloat16", 2), reinterpret="uint16")
    assert (other.dtype.name, values(other)) == ("uint16", [0x3F80, 0x4000])
    for name, width in (("lance.bfloat16", 1), (".bfloat16", 2), ("x.bfloat16s", 2)):
        t = dlshim.from_dlpack(column(name, width))
        assert (t.dtype.name, t.shape) == ("uint8", (2, width))


# ---- what is refused ---------------------------------------------------------------------------

REFUSED = {
    "b": "booleans are packed into bits",
    "n": "its type is null",
    "u": "text or bytes",
    "U": "text or bytes",
    "z": "text or bytes",
    "Z": "text or bytes",
    "vu": "text or bytes",
    "vz": "text or bytes",
    "+l": "may differ in length",
    "+L": "may differ in length",
    "+vl": "may differ in length",
    "+vL": "may differ in length",
    "+s": "fields or columns [(]'first' is the first",
    "+m": "its elements are maps",
    "+ud:1,2": "of several types",
    "+us:1,2": "of several types",
    "+r": "run-end encoded",
    "tiM": "spans of months and days",
    "tiD": "spans of months and days",
    "tin": "spans of months and days",
    "_pli128": "integers of 128 bits",
    "d:5,1": "its decimals have 128 bits",
    "d:40,1,256": "its decimals have 256 bits",
    "tsu:": "dates, times or durations",
    "d:5,1,64": "integers and a scale",
}


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("format", REFUSED)
def test_C5_what_is_no_array_is_refused_before_a_chunk_is_asked_for(format, listed):
    count, never = Count(), Count()
    type_ = schema(Count() if listed else count, format, child_schema("l", name="first"))
    memory: object = array(never, 1, numbers(1, 2))
    if listed:
        type_ = schema(count, "+w:1", type_)
        memory = array(never, 1, None, memory)
    x = made.of_stream(count, made.stream(count, type_, [memory]))
    with pytest.raises(BufferError, match=REFUSED[format]) as error:
        dlshim.from_dlpack(x)
    tells(error.value, "'test_columns.*Column' object: |'doubles.columns.Column' object: ")
    assert count.pending == 0, "given back before the exception left"
    assert (never.released == {}) == (format not in ("tsu:", "d:5,1,64"))


def never(self: object, *_: object) -> object:
    raise AssertionError("it is asked")


@pytest.mark.parametrize("table", ["columns", "column_names"])
def test_C10_what_is_a_table_by_its_type_is_not_asked(table):
    """Asked, a relation runs its query, and a DataFrame converts each column."""
    cls = type("Table", (), {"__arrow_c_stream__": never, table: property(never)})
    for x in (cls(), type("Below", (cls,), {})()):
        with pytest.raises(BufferError, match="fields or columns, each with memory of its own\n  "):
            dlshim.from_dlpack(x)
        dlshim.upgrade(x)


@pytest.mark.parametrize("name", ["columns", "column_names", "to_table", "read_all"])
def test_C10_who_gives_an_array_of_arrow_is_asked(name):
    """A table gives a stream alone; what an attribute of a user's class means is not known."""
    x, _ = made.column(1, 2)
    assert values(type("Column", (type(x),), {name: property(never)})()) == [1, 2]


def test_C10_a_name_of_the_object_alone_or_none_makes_no_table():
    x, _ = made.column(1, 2)
    made_of = type("Column", (type(x),), {"columns": None, "__dict__": {}})
    own = made_of.__new__(made_of)
    own.__dict__.update(vars(x), to_table=never) if hasattr(x, "__dict__") else None
    assert values(own) == [1, 2]


def test_C10_an_array_that_shows_arrow_a_table_is_not_asked():
    members = {"__module__": "xarray.core.dataarray", "__qualname__": "DataArray"}
    members |= {"__arrow_c_stream__": never, "data": property(never), "chunks": None}
    cls = type("DataArray", (), members)
    for x in (cls(), type("Below", (cls,), {"__module__": "own"})()):
        with pytest.raises(BufferError, match=r"it holds an array, .*\n  pass x\.data instead"):
            dlshim.from_dlpack(x)
    cls.chunks = ((2, 2),)
    with pytest.raises(BufferError, match=r"pass numpy.asarray\(x\) instead"):
        dlshim.from_dlpack(cls())


def test_C5_codes_of_a_dictionary_are_no_values():
    for options in ({}, {"reinterpret": "int64"}):
        count = Count()
        type_ = schema(count, "l", dictionary=made.C.addressof(child_schema("u")))
        x = made.of_stream(count, made.stream(count, type_, []))
        with pytest.raises(BufferError, match="its memory holds codes"):
            dlshim.from_dlpack(x, **options)
        assert count.pending == 0


# ---- missing values ----------------------------------------------------------------------------


@pytest.mark.parametrize("null_count", [1, -1])
def test_C6_missing_values_are_refused(null_count):
    x, count = made.column(1, 2, 3, valid=bitmap([1, 0, 1]), null_count=null_count)
    with pytest.raises(BufferError, match=r"values are missing in it \(1\)") as error:
        dlshim.from_dlpack(x)
    tells(error.value, r"pass pyarrow.array\(x\).fill_null\(0\) instead")
    assert count.pending == 0


@pytest.mark.parametrize("valid", [None, bitmap([1, 1, 1])])
@pytest.mark.parametrize("null_count", [0, -1])
def test_C6_nothing_is_missing_where_no_bit_says_so(valid, null_count):
    assert values(made.column(1, 2, 3, valid=valid, null_count=null_count)[0]) == [1, 2, 3]


def test_C6_bits_are_counted_in_the_window_alone():
    """Every window of a bitmap, over the edges of bytes and of words."""
    n = 150
    bits = [i not in (0, 7, 8, 63, 64, 71, 130, 149) for i in range(n)]
    for start in (*range(18), 63, 64, 65, 129, 131):
        for end in (start, start + 1, start + 7, 64, 71, 128, 130, 149, n):
            if end < start or end > n:
                continue
            x, _ = made.column(
                *range(n), offset=start, length=end - start, valid=bitmap(bits), null_count=-1
            )
            missing = bits[start:end].count(False)
            if missing:
                with pytest.raises(BufferError, match=rf"missing in it \({missing}\)"):
                    dlshim.from_dlpack(x)
            else:
                assert values(x) == [*range(start, end)]


def listed(count: Count, offset: int, length: int, **items: object) -> object:
    """Lists of two of four numbers."""
    memory = array(count, length, None, inner(4, numbers(1, 2, 3, 4), **items), offset=offset)
    return of(count, schema(count, "+w:2", child_schema("l")), memory)


@pytest.mark.parametrize("null_count", [1, -1])
def test_C6_items_outside_of_the_window_may_be_missing(null_count):
    """The count of the items is about more than the slice, as in slices of pyarrow."""
    lost = {"valid": bitmap([1, 0, 1, 1]), "null_count": null_count}
    assert values(listed(Count(), 1, 1, **lost)) == [[3, 4]]
    count = Count()
    with pytest.raises(BufferError, match=r"values are missing in its lists \(1\)"):
        dlshim.from_dlpack(listed(count, 0, 2, **lost))
    assert ended(count)


def test_C6_missing_lists_are_refused():
    count = Count()
    items = inner(4, numbers(1, 2, 3, 4))
    memory = array(count, 2, None, items, valid=bitmap([1, 0]), null_count=1)
    x = of(count, schema(count, "+w:2", child_schema("l")), memory)
    with pytest.raises(BufferError, match=r"values are missing in it \(1\)"):
        dlshim.from_dlpack(x)
    assert ended(count)


def test_C6_what_is_missing_is_told_before_what_reinterpret_names():
    x, _ = made.column(1, 2, format="tsu:", valid=bitmap([1, 0]), null_count=1)
    with pytest.raises(BufferError, match="values are missing"):
        dlshim.from_dlpack(x)


# ---- flags, copies, chunks ---------------------------------------------------------------------


def test_C8_a_column_is_read_only_unless_the_user_says_otherwise():
    assert versioned(dlshim.upgrade(made.column(1)[0])).flags & 1
    assert not dlshim.from_dlpack(made.column(1)[0], readonly=False).readonly
    with pytest.raises(BufferError, match="asked for a legacy capsule"):
        dlshim.upgrade(made.column(1)[0]).__dlpack__()
    taken = versioned(dlshim.upgrade(made.column(1, 2)[0], copy=True))
    assert (taken.flags & 3, taken.values()) == (2, [1, 2])
    taken.release()


def test_C9_no_chunk_is_an_empty_array():
    for chunks in ((), ((),), ((), ())):
        x, count = made.chunked(*chunks)
        t = dlshim.from_dlpack(x)
        assert (t.shape, str(t.dtype)) == ((0,), "int64")
        del t
        assert ended(count)


def test_C9_chunks_of_length_0_do_not_count():
    x, count = made.chunked((), (1, 2), ())
    t = dlshim.from_dlpack(x)
    assert (shown(t), t.readonly) == ([1, 2], True)
    assert count.released == {"schema": 1, "stream": 1, "array": 2}
    del t
    assert ended(count)


@pytest.mark.parametrize(
    "options",
    [{"copy": True}, {"order": "C"}, {"order": "C", "copy": None}, {"order": "auto"}],
)
def test_C9_chunks_are_joined_where_a_copy_is_wanted(options):
    x, count = made.chunked((1, 2), (), (3,), (4, 5, 6))
    before = _core._counters()["copied"]
    taken = versioned(dlshim.upgrade(x, **options))
    assert (taken.values(), taken.flags & 3) == ([1, 2, 3, 4, 5, 6], 2)
    assert _core._counters()["copied"] == before + 1
    assert ended(count), "the chunks were copied, and are not needed"
    taken.release()


def test_C9_a_capsule_and_a_consumer_that_asks_for_no_copy():
    """Without order="auto" a consumer of columns would have to know of chunks."""
    x, count = made.chunked((1, 2), (3,))
    taken = shown(dlshim.from_dlpack(dlshim.to_capsule(x, order="auto")))
    assert taken == [1, 2, 3] and ended(count)
    x, count = made.chunked((1, 2), (3,))
    with pytest.raises(dlshim.CopyRequiredError, match="several chunks"):
        dlshim.upgrade(x, order="auto").__dlpack__(max_version=(1, 0), copy=False)
    assert ended(count)
    x, count = made.chunked((1, 2))
    assert not dlshim.from_dlpack(x, order="auto").is_copied


def test_C9_joined_memory_takes_readonly_and_align():
    x, _ = made.chunked((1, 2), (3,))
    t = dlshim.from_dlpack(x, copy=True, readonly=True, align=4096)
    assert (shown(t), t.readonly, t.__array_interface__["data"][0] % 4096) == ([1, 2, 3], True, 0)


def test_C9_chunks_are_not_joined_unasked():
    for options, cure in (
        ({}, 'order="C"'),
        ({"copy": None}, 'order="C"'),
        ({"order": "K"}, 'order="C"'),
        ({"order": "C", "copy": False}, "pass copy=True"),
        ({"order": "auto", "copy": False}, "pass copy=True"),
        ({"copy": False}, "pass copy=True"),
    ):
        x, count = made.chunked((1, 2), (3,), (4,))
        with pytest.raises(BufferError, match=rf"several chunks of memory.*\n  .*{cure}") as raised:
            dlshim.from_dlpack(x, **options)
        forbidden = isinstance(raised.value, dlshim.CopyRequiredError)
        assert forbidden is (options.get("copy") is False)
        assert not forbidden or raised.value.reason == "chunks"
        assert count.pending == 1, "the third chunk was not asked for"


def test_C9_an_object_without_a_length_is_to_be_made_anew():
    """It gives its stream once, perhaps; one with a length keeps its values."""
    for options, cure in (({}, 'order="C"'), ({"copy": False}, "copy=True")):
        x, count = made.chunked((1, 2), (3,))
        with pytest.raises(
            BufferError, match=f"a stream is read once: make it anew, and pass {cure}"
        ):
            dlshim.from_dlpack(x, **options)
        assert ended(count)
        with pytest.raises(BufferError, match="the object was used up"):
            dlshim.from_dlpack(x, order="C")
        x, _ = made.chunked((1, 2), (3,))
        assert values(x, **({"copy": True} if options else {"order": "C"})) == [1, 2, 3]
        x, count = made.chunked((1, 2), (3,))
        type(x).__len__ = lambda self: 3
        with pytest.raises(BufferError, match=f"several chunks[^:]*\n  pass {cure}"):
            dlshim.from_dlpack(x, **options)
        assert ended(count)


def test_C9_a_stream_without_end_is_left_after_the_second_chunk():
    count = Count()

    def endless():
        while True:
            yield array(count, 1, numbers(1))

    x = made.of_stream(count, made.stream(count, schema(count, "l"), endless()))
    with pytest.raises(BufferError, match="several chunks"):
        dlshim.from_dlpack(x)
    assert ended(count)


def test_C9_chunks_of_tensors_are_joined_too():
    count = Count()
    said = fixed_shape(shape=[2, 3], permutation=[1, 0])
    chunks = [array(count, 1, None, inner(6, numbers(*range(k, k + 6)))) for k in (0, 6)]
    x = of(count, schema(count, "+w:6", child_schema("l"), said=said), *chunks)
    assert values(x, copy=True) == [[[0, 3], [1, 4], [2, 5]], [[6, 9], [7, 10], [8, 11]]]
    assert ended(count)


def test_C9_chunks_whose_bytes_do_not_fit_64_bits_are_a_memory_error():
    count = Count()  # 2 * 2**59 * 8 bytes
    chunks = [array(count, length, numbers(1)) for length in (1 << 59, 1 << 59)]
    with pytest.raises(MemoryError):
        dlshim.from_dlpack(of(count, schema(count, "l"), *chunks), copy=True)
    assert ended(count)


def test_C9_missing_values_of_a_later_chunk_are_seen():
    count = Count()
    chunks = [
        array(count, 1, numbers(1)),
        array(count, 1, numbers(1), valid=b"\0", null_count=-1),
    ]
    with pytest.raises(BufferError, match="values are missing"):
        dlshim.from_dlpack(of(count, schema(count, "l"), *chunks), copy=True)
    assert ended(count)


# ---- packed booleans ---------------------------------------------------------------------------

#: 20 of them, of no regular pattern.
TRUTHS = [bool(0b1011_0010_0111_0001_1101 >> i & 1) for i in range(20)]


def booleans(count: Count, start: int, end: int, **more: object) -> object:
    """The values from `start` to `end` of one bitmap."""
    return array(count, end - start, bitmap(TRUTHS), offset=start, **more)


@pytest.mark.parametrize("start", range(10))
def test_C5_a_copy_unpacks_booleans_from_any_bit_on(start):
    count = Count()
    for end in (start, start + 1, start + 7, 20):
        before = _core._counters()["copied"]
        x = of(count, schema(count, "b"), booleans(count, start, end))
        with versioned(dlshim.upgrade(x, copy=True)) as imported:
            assert imported.view.dtype == (6, 8, 1)
            assert imported.values() == TRUTHS[start:end]
            assert imported.view.flags == 2, "a copy, and writable"
            assert ended(count), "the bits are not needed"
        assert _core._counters()["copied"] == before + 1


@pytest.mark.parametrize("cuts", [(20,), (3, 20), (0, 3, 3, 11, 20)])
def test_C5_chunks_of_booleans_are_unpacked_in_the_same_copy(cuts):
    count = Count()
    chunks = [booleans(count, a, b) for a, b in zip((0, *cuts), cuts, strict=False)]
    x = made.of_stream(count, made.stream(count, schema(count, "b"), chunks))
    before = _core._counters()["copied"]
    assert values(x, copy=True) == TRUTHS
    assert _core._counters()["copied"] == before + 1 and ended(count)


def test_C5_booleans_in_lists_and_tensors_are_unpacked():
    count = Count()
    inside = array(Count(), 20, bitmap(TRUTHS), offset=0)
    x = of(count, schema(count, "+w:3", child_schema("b")), array(count, 4, None, inside, offset=1))
    assert values(x, copy=True) == [TRUTHS[i : i + 3] for i in range(3, 15, 3)]
    said = fixed_shape(shape=[2, 3], permutation=[1, 0])
    inside = array(Count(), 6, bitmap(TRUTHS[:6]))
    x = of(
        count,
        schema(count, "+w:6", child_schema("b"), said=said),
        array(count, 1, None, inside),
    )
    a, b, c, d, e, f = TRUTHS[:6]
    assert values(x, copy=True) == [[[a, d], [b, e], [c, f]]]
    assert ended(count)


def test_C5_the_copy_of_booleans_obeys_the_other_options():
    count = Count()

    def column() -> object:
        return of(count, schema(count, "b"), booleans(count, 1, 4))

    t = dlshim.from_dlpack(column(), copy=True, align=4096, readonly=True, order="C")
    assert (shown(t), t.readonly, t.data_ptr() % 4096) == (TRUTHS[1:4], True, 0)
    t = dlshim.from_dlpack(column(), copy=True, reinterpret="uint8")
    assert (shown(t), t.dtype.name) == ([*map(int, TRUTHS[1:4])], "uint8")
    t = dlshim.from_dlpack(dlshim.to_capsule(column(), copy=True))
    assert shown(t) == TRUTHS[1:4]
    asked = dlshim.upgrade(column()).__dlpack__(max_version=(1, 0), copy=True)
    assert shown(dlshim.from_dlpack(asked)) == TRUTHS[1:4]
    many = array(count, 100_000, bytes(range(256)) * 49)
    t = dlshim.from_dlpack(of(count, schema(count, "b"), many), copy=True)
    bits = [bool(i // 8 % 256 >> i % 8 & 1) for i in range(2056)]
    assert first_difference(shown(t)[:2056], bits) is None
    assert ended(count)


def test_C5_only_copy_unpacks_booleans():
    count = Count()
    for options in ({}, {"order": "C"}, {"order": "auto"}, {"copy": False}):
        x = of(count, schema(count, "b"), booleans(count, 0, 4))
        with pytest.raises(BufferError, match="booleans are packed into bits"):
            dlshim.from_dlpack(x, **options)
    assert ended(count)


def test_C6_missing_booleans_are_refused_before_they_are_unpacked():
    count = Count()
    x = of(count, schema(count, "b"), booleans(count, 0, 4, valid=b"\x0b", null_count=-1))
    with pytest.raises(BufferError, match=r"values are missing in it \(1\)"):
        dlshim.from_dlpack(x, copy=True)
    inside = array(Count(), 4, bitmap(TRUTHS), valid=b"\x0b", null_count=1)
    x = of(count, schema(count, "+w:2", child_schema("b")), array(count, 2, None, inside))
    with pytest.raises(BufferError, match=r"missing in its lists \(1\)"):
        dlshim.from_dlpack(x, copy=True)
    assert ended(count)


# ---- the negotiation ---------------------------------------------------------------------------


def test_C1_the_protocols_and_their_order():
    names = ["device_array", "array", "device_stream", "stream"]
    asked: list[str] = []

    def refuse(name: str, error: type[Exception]):
        def method(self, requested_schema=None, **kwargs):
            asked.append(name)
            raise error(name)

        return method

    errors = [TypeError, NotImplementedError, ValueError, AttributeError]
    members = {
        f"__arrow_c_{name}__": refuse(name, error)
        for name, error in zip(names, errors, strict=True)
    }
    x = type("Column", (), members)()
    assert _core._plan(x)["offers"] == [f"__arrow_c_{name}__" for name in names]
    with pytest.raises(BufferError, match="ValueError: device_stream"):
        dlshim.from_dlpack(x)
    assert asked == names
    type(x).__arrow_c_stream__ = lambda self, requested_schema=None: made.capsule(
        made.stream(count, schema(count, "l"), [array(count, 1, numbers(7))]),
        "arrow_array_stream",
        count,
    )
    count = Count()
    assert values(x) == [7]
    assert asked == names + names[:3]


def test_C1_a_method_that_raises_another_error_is_the_last():
    x = made.method("__arrow_c_array__", lambda: 1 / 0)
    type(x).__arrow_c_stream__ = lambda self: pytest.fail("asked")
    with pytest.raises(BufferError, match="ZeroDivisionError") as error:
        dlshim.from_dlpack(x)
    assert type(error.value.__cause__) is ZeroDivisionError


def test_C1_None_on_the_class_says_that_it_is_not_offered():
    x = made.column(1)[0]
    other = type("Other", (type(x),), {"__arrow_c_array__": None})()
    with pytest.raises(dlshim.UnsupportedObjectError, match="__arrow_c_array__"):
        dlshim.upgrade(other)


def test_C2_after_a_dlpack_that_refuses_the_error_of_arrow_is_shown():
    x, _ = made.column(1, 2, valid=b"\1", null_count=1)

    def refuse(self, **kwargs):
        raise TypeError("no nulls")

    type(x).__dlpack__ = refuse
    type(x).__dlpack_device__ = lambda self: (1, 0)
    with pytest.raises(BufferError, match="values are missing") as error:
        dlshim.from_dlpack(x)
    assert str(error.value.__cause__) == "no nulls"
    x, _ = made.column(1, 2)
    type(x).__dlpack__ = refuse
    assert values(x) == [1, 2]


def test_C3_types_without_arrow_are_never_asked_for_it():
    asked: list[str] = []

    class Source(P2):
        def __getattr__(self, name: str):
            asked.append(name)
            raise AttributeError(name)

    for x in (Source(), bytearray(b"abc")):
        for _ in range(3):
            dlshim.from_dlpack(x)
    assert not [name for name in asked if "arrow" in name]


def test_C3_upgrade_and_inspect_ask_nothing():
    x = made.method("__arrow_c_stream__", lambda: pytest.fail("asked"))
    assert dlshim.inspect(dlshim.upgrade(x)).plan == ("__arrow_c_stream__",)


def test_C4_without_a_device_method_the_host_is_known():
    x = made.method("__arrow_c_stream__", lambda: pytest.fail("asked"))
    assert dlshim.upgrade(x).__dlpack_device__() == (1, 0)


@pytest.mark.parametrize("device", [(1, -1), (1, 0), (1, 7)])
@pytest.mark.parametrize("streams", [False, True])
def test_C13_each_number_of_the_host_is_the_host(device, streams):
    count = Count()
    type_, memory = schema(count, "l"), array(count, 2, numbers(1, 2))
    if streams:
        stream = made.stream(count, type_, [memory], on_device=True, device=device)
        x = made.of_stream(count, stream)
    else:
        x = made.of_device_array(count, type_, memory, device)
    t = dlshim.from_dlpack(x)
    assert (t.device, shown(t)) == ((1, 0), [1, 2])
    del t
    assert ended(count)


def test_C1_a_learned_column_is_asked_once():
    class Column:
        asked = 0

        def __arrow_c_array__(self, requested_schema=None):
            type(self).asked += 1
            x, _ = made.column(self.asked)
            return x.__arrow_c_array__()

    x = Column()
    for n in range(1, 5):
        assert values(x) == [n] and x.asked == n
    assert versioned(dlshim.upgrade(x)).values() == [5]


# ---- the cures, typed in -------------------------------------------------------------------------

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
    if not given:
        assert error.value._option_helps


TIMES = {"tdD": 32, "tts": 32, "ttm": 32, "tdm": 64, "ttu": 64, "ttn": 64}
TIMES |= {"tsn:": 64, "tss:Europe/Berlin": 64, "tDs": 64, "tDm": 64, "tDu": 64, "tDn": 64}


@pytest.mark.parametrize("format", TIMES)
def test_C5_dates_and_times_are_integers_by_name_only(format):
    bits = TIMES[format]
    letter = "i" if bits == 32 else "q"
    with pytest.raises(BufferError, match=f'reinterpret="int{bits}"'):
        dlshim.from_dlpack(made.column(1, 2, format=format, letter=letter)[0])
    x = made.column(1, 2, format=format, letter=letter)[0]
    assert values(x, reinterpret=f"int{bits}") == [1, 2]


# ---- C code, threads, ends -----------------------------------------------------------------------


def test_C15_an_extension_takes_a_column(ext):
    x, count = made.column(1, 2, 3)
    capsule = ext.take(x)
    assert test_c_interface.values(capsule) == [1, 2, 3]
    del capsule
    assert ended(count)
    with pytest.raises(BufferError, match="values are missing in it"):
        ext.take(made.column(1, valid=b"\0", null_count=1)[0])
    x, count = made.chunked((1, 2), (3,))
    with pytest.raises(BufferError, match=r"several chunks.*\n.*order"):
        ext.take(x)
    assert ended(count)


def test_C12_why_the_values_of_a_pandas_column_are_refused_is_the_cause():
    """On a double; what pandas itself gives: tests/columns/test_kinds.py."""

    class Column:
        dtype = type("dtype", (), {"__module__": "numpy"})()

        def to_numpy(self):
            return StructOnly(changes={"typekind": b"O", "itemsize": 8})

    series = masquerade(Column, "Series", "pandas")
    for _ in range(2):
        with pytest.raises(BufferError, match="it has no dtype of DLPack\n  ") as error:
            versioned(dlshim.upgrade(series()))
        assert "Python objects" in str(error.value.__cause__)


def test_C15_what_an_extension_writes_is_seen_in_the_tensor_that_joined_the_chunks(ext):
    with pytest.raises(BufferError, match=r"several chunks.*\n  keep and pass dlshim.*copy=True"):
        ext.take(made.chunked((1, 2), (3,))[0], writable=1)
    kept = dlshim.from_dlpack(made.chunked((1, 2), (3,))[0], copy=True)
    assert test_c_interface.values(ext.take(kept, writable=1)) == [1, 2, 3]


def test_threads_release_what_they_export():
    columns = [made.chunked((1, 2), (3,)) if i % 2 else made.column(1, 2, 3) for i in range(400)]

    def work(part: list) -> None:
        for x, _ in part:
            assert values(x, order="C") == [1, 2, 3]

    together(*(lambda i=i: work(columns[i::8]) for i in range(8)), threads=8, rounds=1)
    gc.collect()
    assert sum(count.pending for _, count in columns) == 0


FORK = pytest.param(
    "fork", marks=pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
)


@pytest.mark.parametrize("how", ["exit", "a cycle at exit", "exit of a thread", FORK])
def test_C11_a_process_ends_with_columns_that_are_held(how):
    """Of a fork: its child drops them."""
    assert child.program("ends_with_held_columns", how, silent=True).split() == ["end"]


def test_C11_live_returns_to_where_it_was():
    before = live()
    for _ in range(3):
        values(made.column(1)[0])
        values(made.chunked((1,), (2,))[0], copy=True)
    gc.collect()
    assert live() == before
