"""The values, dtypes and layouts that a consumer reads."""

from __future__ import annotations

from typing import Any

from .catalogue import NotApplicable, check, insist
from .doubles import capsules as caps
from .imports import (
    EDITIONS,
    FEW,
    FLAGS,
    HOW,
    LAYOUTS,
    SIZES,
    SOME,
    SOURCES,
    VECTORS,
    Versioned,
    aligned,
    bound_by_from_dlpack,
    edition_is_taken,
    narrow,
    numbers,
    observe,
    read_rightly,
    same_values,
    trial,
    with_copy,
)
from .partner import DTYPES, ODD, Consumer, said


@check("consumer", "values", LAYOUTS, SOME, EDITIONS, risky=True)
def values(c: Consumer, layout: str, dtype: str, edition: str) -> None:
    read_rightly(c, EDITIONS[edition](**{"dtype": dtype} | LAYOUTS[layout]), layout)


@check("consumer", "values", LAYOUTS, SIZES, FLAGS, pairs=True, risky=True)
def values_with_flags(c: Consumer, layout: str, dtype: str, flags: str) -> None:
    read_rightly(c, FLAGS[flags](**{"dtype": dtype} | LAYOUTS[layout]), f"{flags}, {layout}")


@check("consumer", "values", LAYOUTS, SIZES, HOW, pairs=True, risky=True)
def values_whatever_was_before(c: Consumer, layout: str, dtype: str, how: str) -> None:
    array = Versioned(**{"dtype": dtype} | LAYOUTS[layout])
    trial(c, Versioned(**{"dtype": dtype} | LAYOUTS[layout])).taken()
    made = trial(c, array, how).taken()
    same_values(observe(made.result), array, f"{layout}, {how}")


#: What the same memory may be as well: another shape, order or dtype.
AGAIN: dict[str, dict[str, Any]] = {
    "another shape": {"shape": (3, 2)},
    "one dimension": {"shape": (6,)},
    "another order": {"strides": (1, 2)},
    "another dtype": {"dtype": "int32"},
    "a part": {"shape": (2,)},
}


@check("consumer", "values", ("the same memory",), AGAIN, EDITIONS, risky=True)
def values_of_the_same_memory(c: Consumer, which: str, again: str, edition: str) -> None:
    before = EDITIONS[edition]()
    before.again = True  # its memory is that of the next double
    first = trial(c, before).taken()
    array = EDITIONS[edition](**AGAIN[again])
    narrow(c, array)
    array.memory = before.memory
    seen = observe(trial(c, array).taken().result)
    told = f"memory that was imported before, as {again}"
    if array.dtype == before.dtype:
        same_values(seen, array, told)
    elif c.flat:
        raise NotApplicable("the consumer keeps no dtype")
    else:  # whose elements are read as other numbers
        wanted = caps.DTYPES[array.dtype]
        insist(seen.dtype == wanted, f"{told}: dtype {wanted} became {seen.dtype}")
    del first


@check("consumer", "values", [name for name in DTYPES if name not in SOME], EDITIONS)
def values_of_dtype(c: Consumer, dtype: str, edition: str) -> None:
    read_rightly(c, EDITIONS[edition](dtype=dtype), dtype)


#: An extent that 32 bits do not hold, of an array without elements.
LONG = {"shape": (0, 2**32 + 5)}


@check("consumer", "values", ("long",), FEW, EDITIONS, risky=True)
def values_of_a_long_extent(c: Consumer, which: str, dtype: str, edition: str) -> None:
    read_rightly(c, EDITIONS[edition](dtype=dtype, **LONG), "long")


def told_by(result: Any, what: str) -> Any:
    """Return the shape or the dtype that the result has in a capsule of its own."""
    try:
        capsule = result.__dlpack__()
        return getattr(caps.look(capsule), what)
    except Exception as error:
        raise NotApplicable(f"the result does not tell its {what}: {said(error)}") from error


#: One element that lies at more places than 32 bits count.
WIDE_SHAPE = (2**32 + 5,)


@check("consumer", "values", ("long broadcast",), EDITIONS, risky=True)
def values_of_a_long_broadcast(c: Consumer, which: str, edition: str) -> None:
    """Only the shape is looked at, and only where a short one is shared: nobody copies 4 GB."""
    memory = caps.filled((8,), "uint8")
    short = EDITIONS[edition]((5,), "uint8", strides=(0,), memory=memory)
    if observe(trial(c, short).taken().result).address != short.element_zero:
        raise NotApplicable("a broadcast array is copied")
    array = EDITIONS[edition](WIDE_SHAPE, "uint8", strides=(0,), memory=memory)
    shape = told_by(trial(c, array).taken().result, "shape")
    insist(shape == WIDE_SHAPE, f"shape {WIDE_SHAPE} became {shape}")


@check("consumer", "values", ("null strides",), ((2, 3), (2, 3, 4)), EDITIONS, risky=True)
def values_without_strides(c: Consumer, which: str, shape: tuple[int, ...], edition: str) -> None:
    array = EDITIONS[edition](shape, null_strides=True)
    read_rightly(c, array, f"NULL strides and shape {shape}")


@check("consumer", "values", ("neighbours",), EDITIONS, risky=True)
def neighbours_stay(c: Consumer, which: str, edition: str) -> None:
    """The import leaves what lies before and behind the elements as it was, and the elements."""
    array = EDITIONS[edition]((5,), start=4, memory=caps.filled((16,), "float32"))
    narrow(c, array)
    before = bytes(array.memory)
    made = trial(c, array).taken()
    if array.last.deleted:
        raise NotApplicable("the deleter was called already")
    after = bytes(array.memory)
    changed = [at for at, pair in enumerate(zip(before, after, strict=True)) if len({*pair}) > 1]
    insist(not changed, f"bytes {changed[:8]} of the memory around five elements were written")
    del made


#: Elements of less than a byte: two of 4 bits lie in one byte, four of 6 bits in three.
PACKED = ((17, 4, 1), (0, 4, 1), (15, 6, 1))


@check("consumer", "values", ("packed",), PACKED, EDITIONS, risky=True)
def values_of_packed_elements(
    c: Consumer, which: str, dtype: tuple[int, int, int], edition: str
) -> None:
    memory = caps.filled((16,), "uint8")
    made = trial(c, EDITIONS[edition]((8,), dtype, memory=memory)).taken()
    try:
        capsule = made.result.__dlpack__()
        told = caps.look(capsule).dtype
    except Exception as error:
        raise NotApplicable(f"the result does not tell its dtype: {said(error)}") from error
    size = told[1] * told[2]
    insist(size < 8, f"eight elements of {dtype[1]} bits became elements of {size} bits: {told}")
    del capsule


@check("consumer", "values", ("vectors",), EDITIONS, risky=True)
def values_of_vectors(c: Consumer, which: str, edition: str) -> None:
    made = trial(c, EDITIONS[edition](dtype=VECTORS)).taken()
    seen = observe(made.result)
    if seen.shape == (*made.array.shape, VECTORS[2]):
        raise NotApplicable("the lanes became an extent")
    same_values(seen, made.array, f"dtype {VECTORS}")


#: Numbers that no narrower dtype holds.
WIDE: dict[str, list[Any]] = {
    "int32": [2**31 - 1, -(2**31), 123456789],
    "int64": [2**63 - 1, -(2**63), 2**53 + 1],
    "uint32": [2**32 - 1, 2**31, 123456789],
    "uint64": [2**64 - 1, 2**63, 2**53 + 1],
    "float32": [1 + 2**-23, 2.0**-100, 3.0e38],
    "float64": [1 / 3, 1e300, 1e-300],
    "complex64": [complex(1 + 2**-23, 3.0e38)] * 3,
    "complex128": [complex(1 / 3, 1e300)] * 3,
}


@check("consumer", "exact", WIDE, EDITIONS)
def exact(c: Consumer, dtype: str, edition: str) -> None:
    bound_by_from_dlpack(c)
    if c.flat or (c.dtypes and dtype not in c.dtypes):
        raise NotApplicable("the consumer keeps no dtype, or is said not to take this one")
    wanted = [caps.encode(dtype, value) for value in WIDE[dtype]]
    memory = aligned(caps.C.create_string_buffer(b"".join(wanted)))
    made = trial(c, EDITIONS[edition]((len(wanted),), dtype, memory=memory)).taken()
    seen = observe(made.result)
    found, meant = numbers(seen.dtype, seen.elements), numbers(caps.DTYPES[dtype], wanted)
    insist(found == meant, f"{meant} of {dtype} became {found} of dtype {seen.dtype}")


@check("consumer", "exact", ("odd",), ODD, EDITIONS)
def odd_numbers_stay(c: Consumer, which: str, dtype: str, edition: str) -> None:
    bound_by_from_dlpack(c)
    bits_stay(c, dtype, EDITIONS[edition])


@check("consumer", "copy-true", ("odd",), ODD, SOURCES)
def odd_numbers_are_copied(c: Consumer, which: str, dtype: str, source: str) -> None:
    bound_by_from_dlpack(c)
    if trial(c, Versioned(), copy=True).refused:
        raise NotApplicable("the consumer does not know the keyword copy")
    bits_stay(c, dtype, SOURCES[source], copy=True)


def bits_stay(c: Consumer, dtype: str, kind: Any, **keywords: Any) -> None:
    if c.flat or (c.dtypes and dtype not in c.dtypes):
        raise NotApplicable("the consumer keeps no dtype, or is said not to take this one")
    memory = aligned(caps.C.create_string_buffer(b"".join(ODD[dtype])))
    made = trial(c, kind((len(ODD[dtype]),), dtype, memory=memory), **keywords).taken()
    seen = observe(made.result)
    if seen.dtype != caps.DTYPES[dtype]:
        raise NotApplicable("the result has another dtype, which another rule judges")
    found, meant = ([raw.hex() for raw in each] for each in (seen.elements, ODD[dtype]))
    insist(found == meant, f"of {dtype} the bytes {meant} became {found}")


@check("consumer", "dtype", DTYPES, EDITIONS)
def dtype_is_kept(c: Consumer, dtype: str, edition: str) -> None:
    bound_by_from_dlpack(c)
    made = trial(c, EDITIONS[edition](dtype=dtype)).taken()
    if c.flat or made.array.dtype != dtype:
        raise NotApplicable("the consumer keeps no dtype, or is said not to take this one")
    seen, meant = observe(made.result), caps.DTYPES[dtype]
    insist(seen.dtype == meant, f"{dtype}, which is {meant}, became {seen.dtype}")


#: Elements of whole bytes that few libraries have: opaque handles, two kinds of float8.
RARE = ((3, 64, 1), (10, 8, 1), (12, 8, 1))


@check("consumer", "dtype", ("rare",), RARE, EDITIONS)
def rare_dtype_is_kept(c: Consumer, which: str, dtype: tuple[int, int, int], edition: str) -> None:
    bound_by_from_dlpack(c)
    if c.flat:
        raise NotApplicable("the consumer keeps no dtype")
    memory = caps.filled((8,), "uint64")
    told = told_by(
        trial(c, EDITIONS[edition]((2, 3), dtype, memory=memory)).taken().result, "dtype"
    )
    insist(told == dtype, f"{dtype} became {told}")


OFFSETS = {
    "vector": {"shape": (5,), "start": 4},
    "rows": {"shape": (2, 3), "start": 8},
    "one element": {"shape": (5,), "start": 1},
    "three elements": {"shape": (5,), "start": 3},
    "every second": {"shape": (3,), "strides": (2,), "start": 4},
}


@check("consumer", "byte-offset", OFFSETS, dict.fromkeys((*SOME, *SIZES)), EDITIONS, risky=True)
def byte_offset(c: Consumer, layout: str, dtype: str, edition: str) -> None:
    fields = OFFSETS[layout]
    offset = fields["start"] * caps.itemsize_of(dtype)
    array = EDITIONS[edition](dtype=dtype, byte_offset=offset, **fields)
    read_rightly(c, array, f"byte_offset {offset}")


@check("consumer", "byte-offset", ("null strides",), EDITIONS, risky=True)
def byte_offset_without_strides(c: Consumer, which: str, edition: str) -> None:
    fields = {"shape": (5,), "start": 4, "byte_offset": 16, "null_strides": True}
    read_rightly(c, EDITIONS[edition](**fields), "byte_offset 16")


#: More bytes than sixteen bits hold.
FAR = {"shape": (5,), "start": 20000, "byte_offset": 80000}


@check("consumer", "byte-offset", ("far",), EDITIONS, risky=True)
def far_byte_offset(c: Consumer, which: str, edition: str) -> None:
    read_rightly(c, EDITIONS[edition](**FAR), "byte_offset 80000")


@check("consumer", "null-strides", ((5,), (2, 3), (2, 3, 4)), EDITIONS, risky=True)
def null_strides(c: Consumer, shape: tuple[int, ...], edition: str) -> None:
    edition_is_taken(c, edition)
    array = EDITIONS[edition](shape, null_strides=True)
    made = trial(c, array)
    if made.refused and c.one_dimension and len(shape) > 1:
        raise NotApplicable("the consumer takes one dimension alone")
    insist(not made.refused, f"shape {shape}: {made.refused and made.refused.text}")
    same_values(observe(made.result), array, f"NULL strides and shape {shape}")


@check("consumer", "empty", ((0,), (0, 3), (2, 0, 3)), EDITIONS, risky=True)
def empty(c: Consumer, shape: tuple[int, ...], edition: str) -> None:
    edition_is_taken(c, edition)
    made = trial(c, EDITIONS[edition](shape, data=None))
    insist(not made.refused, f"shape {shape}: {made.refused and made.refused.text}")


#: What any array may be: without dimensions, of many, and without elements but with an address.
SHAPES: dict[str, dict[str, Any]] = {
    "scalar": {"shape": ()},
    "vector": {"shape": (5,)},
    "cube": {"shape": (2, 3, 4)},
    "eight dimensions": LAYOUTS["eight dimensions"],
    "no elements": {"shape": (0, 3)},
}


@check("consumer", "shapes", SHAPES, EDITIONS, risky=True)
def shapes_are_taken(c: Consumer, which: str, edition: str) -> None:
    bound_by_from_dlpack(c)
    edition_is_taken(c, edition)
    made = trial(c, EDITIONS[edition](**SHAPES[which]))
    insist(not made.refused, f"{which}: {made.refused and made.refused.text}")


#: Row-major memory whose strides along extents of one, or of none, say nothing.
ROW_MAJOR: dict[str, dict[str, Any]] = {
    "one row": {"shape": (1, 3), "strides": (77, 1)},
    "one column": {"shape": (3, 1), "strides": (1, 77)},
    "one plane": {"shape": (2, 1, 3), "strides": (3, 77, 1)},
    "strides of one": {"shape": (2, 0, 3), "strides": (1, 1, 1)},
    "strides of zero": {"shape": (0, 3), "strides": (0, 0)},
}


@check("consumer", "row-major", ROW_MAJOR, EDITIONS, risky=True)
def row_major_is_taken(c: Consumer, layout: str, edition: str) -> None:
    edition_is_taken(c, edition)
    fields = ROW_MAJOR[layout]
    if trial(c, EDITIONS[edition](fields["shape"])).refused:
        raise NotApplicable("the shape is refused with strides of a row-major array, too")
    made = trial(c, EDITIONS[edition](**fields))
    insist(not made.refused, f"{fields}: {made.refused and made.refused.text}")


@check("consumer", "missing-data", EDITIONS, risky=True)
def missing_data(c: Consumer, edition: str) -> None:
    made = trial(c, EDITIONS[edition](data=None))
    insist(made.refused, "a struct with six elements and NULL for data is taken")


@check("consumer", "zero-copy", dict.fromkeys((*FEW, *SIZES)), EDITIONS)
def shares(c: Consumer, dtype: str, edition: str) -> None:
    made = trial(c, EDITIONS[edition](dtype=dtype)).taken()
    seen = observe(made.result)
    insist(seen.address == made.array.element_zero, "a plain row-major array was copied")


#: What has to be copied by a library that has nothing but row-major arrays.
STRIDED = ("strides of another order", "rows with gaps", "every second item", "broadcast")


@check("consumer", "strided", STRIDED, ("copy=None", "copy=True"), EDITIONS)
def strided_is_taken(c: Consumer, layout: str, which: str, edition: str) -> None:
    bound_by_from_dlpack(c)
    edition_is_taken(c, edition)
    fields = LAYOUTS[layout]
    if trial(c, EDITIONS[edition](fields.get("shape", (2, 3)))).refused:
        raise NotApplicable("the shape is refused with strides of a row-major array, too")
    array = EDITIONS[edition](**fields)
    made = with_copy(c, array, True) if which == "copy=True" else trial(c, array)
    if made.refused and issubclass(made.refused.kind, TypeError) and which == "copy=True":
        raise NotApplicable(f"the producer does not know the keyword copy: {made.refused.text}")
    insist(not made.refused, f"{layout}, {which}: {made.refused and made.refused.text}")
