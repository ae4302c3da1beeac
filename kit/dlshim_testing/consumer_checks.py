"""What is checked of a consumer, by doubles of producers whose every byte is known."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

from .catalogue import Broken, NotApplicable, check, insist
from .doubles import capsules as caps
from .doubles.structs import ANY
from .imports import (
    EDITIONS,
    NEVER_ASKS,
    SAY_HOST,
    USED,
    Legacy,
    LegacyAnswer,
    NoKeywords,
    Proxy,
    Trial,
    Versioned,
    VersionedAlways,
    WithTable,
    WithTableMajorTwo,
    WithTableNoBorrow,
    aligned,
    its_own,
    numbers,
    observe,
    same_values,
    trial,
)
from .partner import DTYPES, OF_THE_STANDARD, Consumer, akin, said

SOME = ("bool", "int32", "float32", "float64", "complex64")
FEW = ("float32", "int64")

#: What a struct may lawfully say; the fields of a double.
LAYOUTS: dict[str, dict[str, Any]] = {
    name: ANY[name]
    for name in (
        "plain", "scalar", "empty", "strides of another order", "broadcast", "rows with gaps",
        "every second item", "gaps around an extent of one", "odd stride on an extent of one",
    )
} | {
    "vector": {"shape": (5,)},
    "cube": {"shape": (2, 3, 4)},
    "cube of another order": {"shape": (2, 3, 4), "strides": (1, 8, 2)},
    "column": {"shape": (5, 1)},
    "reversed": {"shape": (5,), "strides": (-1,), "start": 4},
    "rows reversed": {"strides": (-3, 1), "start": 3},
    "all alike": {"strides": (0, 0)},
    "begins at the second element": {"shape": (5,), "start": 1},
    "one dimension without elements": {"shape": (0,)},
    "eight dimensions": {"shape": (1, 2, 1, 2, 1, 2, 1, 1)},
}  # fmt: skip


# ---- what is taken ------------------------------------------------------------------------


@check("consumer", "takes-any")
def takes_any(c: Consumer) -> None:
    try:
        takes(c, "float32")
    except NotApplicable as reason:
        if str(reason) != NEVER_ASKS:
            raise
        raise Broken(f"{reason}; no other rule judges it") from reason


@check("consumer", "takes", OF_THE_STANDARD)
def takes(c: Consumer, dtype: str) -> None:
    refusals, why = [], None
    for kind in (Versioned, Legacy):
        try:
            made = trial(c, kind(dtype=dtype))
        except NotApplicable as reason:
            why = reason
            continue
        if not made.refused:
            return
        refusals.append(made.refused.text)
    if why and not refusals:
        raise why
    raise Broken(f"{dtype}: {'; '.join(dict.fromkeys(refusals))}")


def edition_is_taken(c: Consumer, edition: str, dtype: str = "float32") -> None:
    """NotApplicable where not even a plain array of this edition is taken: other rules say so."""
    if refused := trial(c, EDITIONS[edition](dtype=dtype)).refused:
        raise NotApplicable(f"a plain {dtype} is refused, too: {refused.text}")


def is_taken(c: Consumer, array: Any, what: str) -> None:
    made = trial(c, array)
    insist(not made.refused, f"{what}: {made.refused and made.refused.text}")
    same_values(observe(made.result), array, what)


@check("consumer", "takes-legacy", FEW)
def takes_legacy(c: Consumer, dtype: str) -> None:
    is_taken(c, Legacy(dtype=dtype), "DLPack 0.x")


@check("consumer", "takes-versioned", FEW)
def takes_versioned(c: Consumer, dtype: str) -> None:
    array = VersionedAlways(dtype=dtype, version=(1, 0))
    made = trial(c, array)
    if c.wants == "object" and not any("max_version" in each for each in array.keywords):
        raise Broken("the consumer never asks for DLPack 1.x")
    insist(not made.refused, f"DLPack 1.x: {made.refused and made.refused.text}")


def objects_only(c: Consumer) -> None:
    if c.wants != "object":
        raise NotApplicable("the consumer takes capsules, and asks nobody")


@check("consumer", "retries", ("no new keyword",))
def retries(c: Consumer, which: str) -> None:
    objects_only(c)
    is_taken(c, Legacy(), f"a producer that knows {which}")


@check("consumer", "retries-bare")
def retries_bare(c: Consumer) -> None:
    objects_only(c)
    is_taken(c, NoKeywords(), "a producer that knows no keyword")


@check("consumer", "legacy-answer", FEW)
def legacy_answer(c: Consumer, dtype: str) -> None:
    objects_only(c)
    is_taken(c, LegacyAnswer(dtype=dtype), "a producer that takes max_version and answers 0.x")


@check("consumer", "wrong-answer", FEW, risky=True)
def wrong_answer(c: Consumer, dtype: str) -> None:
    objects_only(c)
    array = VersionedAlways(dtype=dtype)
    same_values(observe(trial(c, array).taken().result), array, "DLPack 1.x unasked")


# ---- how it asks -----------------------------------------------------------------------------


def bound_by_from_dlpack(c: Consumer) -> None:
    objects_only(c)
    if not c.is_from_dlpack:
        raise NotApplicable("the function is not the standard's from_dlpack")


def calls_of(c: Consumer, array: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    objects_only(c)
    trial(c, array)
    if not array.calls:
        raise NotApplicable("the consumer never calls __dlpack__")
    return array.calls


@check("consumer", "keywords-only", EDITIONS)
def keywords_only(c: Consumer, edition: str) -> None:
    positional = [each for each, _ in calls_of(c, EDITIONS[edition]()) if each]
    insist(not positional, f"__dlpack__ is called with {positional}")


@check("consumer", "stream-on-cpu", EDITIONS, FEW)
def no_stream_for_the_host(c: Consumer, edition: str, dtype: str) -> None:
    for positional, keywords in calls_of(c, EDITIONS[edition](dtype=dtype)):
        stream = positional[0] if positional else keywords.get("stream")
        insist(stream is None, f"stream={stream!r} is passed for host memory")


@check("consumer", "asks-device", EDITIONS)
def asks_for_the_device(c: Consumer, edition: str) -> None:
    array = EDITIONS[edition]()
    calls_of(c, array)
    insist(array.device_calls, "__dlpack_device__() is never called")


@check("consumer", "asks-version")
def asks_for_a_version(c: Consumer) -> None:
    _, keywords = calls_of(c, Versioned())[0]
    version = keywords.get("max_version")
    insist(isinstance(version, tuple), f"the first call has max_version={version!r}")


# ---- values ---------------------------------------------------------------------------------


def read_rightly(c: Consumer, array: Any, what: str) -> None:
    made = trial(c, array).taken()
    same_values(observe(made.result), array, what)


@check("consumer", "values", LAYOUTS, SOME, EDITIONS, risky=True)
def values(c: Consumer, layout: str, dtype: str, edition: str) -> None:
    read_rightly(c, EDITIONS[edition](**{"dtype": dtype} | LAYOUTS[layout]), layout)


@check("consumer", "values", [name for name in DTYPES if name not in SOME], EDITIONS)
def values_of_dtype(c: Consumer, dtype: str, edition: str) -> None:
    read_rightly(c, EDITIONS[edition](dtype=dtype), dtype)


#: An extent that 32 bits do not hold, of an array without elements.
LONG = {"shape": (0, 2**32 + 5)}


@check("consumer", "values", ("long",), FEW, EDITIONS, risky=True)
def values_of_a_long_extent(c: Consumer, which: str, dtype: str, edition: str) -> None:
    read_rightly(c, EDITIONS[edition](dtype=dtype, **LONG), "long")


@check("consumer", "values", ("null strides",), ((2, 3), (2, 3, 4)), EDITIONS, risky=True)
def values_without_strides(c: Consumer, which: str, shape: tuple[int, ...], edition: str) -> None:
    array = EDITIONS[edition](shape, null_strides=True)
    read_rightly(c, array, f"NULL strides and shape {shape}")


@check("consumer", "values", ("neighbours",), EDITIONS, risky=True)
def neighbours_stay(c: Consumer, which: str, edition: str) -> None:
    """The import leaves what lies before and behind the elements as it was, and the elements."""
    array = EDITIONS[edition]((5,), start=4, memory=caps.filled((16,), "float32"))
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


VECTORS = (2, 32, 4)  # four floats are one element


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
    made = trial(c, EDITIONS[edition]((2, 3), dtype, memory=memory)).taken()
    try:
        capsule = made.result.__dlpack__()
        told = caps.look(capsule).dtype
    except Exception as error:
        raise NotApplicable(f"the result does not tell its dtype: {said(error)}") from error
    insist(told == dtype, f"{dtype} became {told}")
    del capsule


OFFSETS = {
    "vector": {"shape": (5,), "start": 4},
    "rows": {"shape": (2, 3), "start": 8},
    "every second": {"shape": (3,), "strides": (2,), "start": 4},
}


@check("consumer", "byte-offset", OFFSETS, SOME, EDITIONS, risky=True)
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


@check("consumer", "zero-copy", FEW, EDITIONS)
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


# ---- who owns it -----------------------------------------------------------------------------


@check("consumer", "owns", DTYPES, EDITIONS, risky=True)
def owns(c: Consumer, dtype: str, edition: str) -> None:
    made = trial(c, EDITIONS[edition](dtype=dtype)).taken()
    early = made.made.deleted
    what = "after the deleter was called" if early else "while the deleter was not called"
    same_values(observe(made.result), made.array, what)


@check("consumer", "owns", ("producer gone",), EDITIONS, risky=True)
def owns_without_the_producer(c: Consumer, which: str, edition: str) -> None:
    made = trial(c, EDITIONS[edition]()).taken()
    array, made.array = made.array, None
    record = array.last
    record.owner = None
    insist(record.deleted <= 1, f"the deleter was called {record.deleted} times")
    same_values(observe(made.result), array, "with nothing but the result alive")


def gone(made: Trial, record: caps.Made) -> None:
    """Drops the result, and gives its memory time to go."""
    made.result = None
    record.owner = None
    gc.collect()


@check("consumer", "owns", ("slice",), EDITIONS, risky=True)
def slices_own(c: Consumer, which: str, edition: str) -> None:
    """A view of the result needs the memory as the result does."""
    made = trial(c, EDITIONS[edition]((5,))).taken()
    try:
        part = made.result[1:]
    except Exception as error:
        raise NotApplicable(f"the result gives no slice: {said(error)}") from error
    before = observe(part)
    gone(made, made.made)
    after = observe(part)
    same = (before.shape, before.elements) == (after.shape, after.elements)
    insist(same, "a slice has other elements after the array that it was taken of is gone")


@check("consumer", "owns", ("exported again",), EDITIONS, risky=True)
def exports_own(c: Consumer, which: str, edition: str) -> None:
    """What was imported may be exported again, and goes on then."""
    made = trial(c, EDITIONS[edition]()).taken()
    try:
        capsule = made.result.__dlpack__()
    except Exception as error:
        raise NotApplicable(f"the result exports nothing: {said(error)}") from error
    view = caps.look(capsule)
    if view.device[0] != 1:
        raise NotApplicable(f"the result is on device {view.device}")
    before = view.elements()
    gone(made, made.made)
    insist(
        view.elements() == before, "an export of the result has other elements when that is gone"
    )
    del capsule


@check("consumer", "gives-back", DTYPES, EDITIONS, risky=True)
def gives_back(c: Consumer, dtype: str, edition: str) -> None:
    made = trial(c, EDITIONS[edition](dtype=dtype)).taken()
    record = made.finish()
    insist(record.deleted == 1, f"the deleter was called {record.deleted} times")
    lost = sum(each.deleted != 1 for each in made.array.exports)
    insist(not lost, f"of {len(made.array.exports)} exports that it asked for, {lost} stay")


@check("consumer", "gives-back", LAYOUTS, ("float32",), EDITIONS, risky=True)
def gives_layouts_back(c: Consumer, layout: str, dtype: str, edition: str) -> None:
    fields = {"dtype": dtype} | LAYOUTS[layout]
    record = trial(c, EDITIONS[edition](**fields)).taken().finish()
    insist(record.deleted == 1, f"the deleter was called {record.deleted} times")


@check("consumer", "gives-back", ("copy=True",), ("plain", "rows with gaps"), EDITIONS, risky=True)
def gives_back_what_it_copied(c: Consumer, which: str, layout: str, edition: str) -> None:
    made = with_copy(c, EDITIONS[edition](**LAYOUTS[layout]), True).taken()
    record = made.finish()
    insist(record.deleted == 1, f"copy=True: the deleter was called {record.deleted} times")


@check("consumer", "producer-freed", EDITIONS)
def producer_goes(c: Consumer, edition: str) -> None:
    """The object itself goes, and not its memory alone."""
    objects_only(c)
    made = trial(c, EDITIONS[edition]()).taken()
    record, known = made.finish(), weakref.ref(made.array)
    if not record.deleted:
        raise NotApplicable("the memory stays, which another rule judges")
    record.owner = made.array = None
    gc.collect()
    insist(known() is None, "the result is gone, and the object that it was made of stays")


@check("consumer", "producer-freed", ("capsule",), EDITIONS)
def capsule_goes(c: Consumer, which: str, edition: str) -> None:
    """A capsule that was consumed is let go, at the latest with the result."""
    objects_only(c)
    capsules: list[Any] = []

    class Keeping(EDITIONS[edition]):  # type: ignore[misc]
        def __dlpack__(self, *arguments: Any, **keywords: Any) -> Any:
            capsules.append(super().__dlpack__(*arguments, **keywords))
            return capsules[-1]

    made = trial(c, Keeping()).taken()
    if not made.finish().deleted or not capsules:
        raise NotApplicable("the memory stays, which another rule judges")
    gc.collect()
    kept = any(sys.getrefcount(capsules[at]) > 2 for at in range(len(capsules)))
    insist(not kept, "the result is gone, and a capsule that was consumed stays")


@check("consumer", "gives-back", ("no data",), ((0,), (0, 3)), EDITIONS, risky=True)
def gives_nothing_back(c: Consumer, which: str, shape: tuple[int, ...], edition: str) -> None:
    record = trial(c, EDITIONS[edition](shape, data=None)).taken().finish()
    insist(record.deleted == 1, f"the deleter was called {record.deleted} times")


REFUSABLE: dict[str, dict[str, Any]] = {
    "vectors": {"dtype": VECTORS},
    "unknown code": {"dtype": (99, 8, 1)},
    "reversed": LAYOUTS["reversed"],
    "broadcast": LAYOUTS["broadcast"],
    "rows with gaps": LAYOUTS["rows with gaps"],
    "unknown device": {"device": (99, 0)},
    "opaque": {"dtype": (3, 64, 1)},
}


@check("consumer", "gives-back-refused", REFUSABLE, EDITIONS, risky=True)
def gives_back_what_it_refuses(c: Consumer, which: str, edition: str) -> None:
    made = trial(c, EDITIONS[edition](**REFUSABLE[which]))
    if not made.refused:
        raise NotApplicable("it is taken")
    record = made.finish()
    insist(
        record.deleted == 1,
        f"refused ({made.refused.text}), and the deleter was called {record.deleted} times",
    )


@check("consumer", "gives-back-refused", ("told by the capsule",), EDITIONS, risky=True)
def gives_back_another_device(c: Consumer, which: str, edition: str) -> None:
    """A device that only the capsule tells is seen when the capsule is there already."""
    objects_only(c)
    made = trial(c, SAY_HOST[edition](device=(99, 0)))
    if not made.refused:
        raise NotApplicable("it is taken")
    deleted = made.finish().deleted
    refused = made.refused.text
    insist(deleted == 1, f"refused ({refused}), and the deleter was called {deleted} times")


@check("consumer", "null-deleter", EDITIONS, risky=True)
def null_deleter(c: Consumer, edition: str) -> None:
    made = trial(c, EDITIONS[edition](deleter=False)).taken()
    same_values(observe(made.result), made.array, "a struct without a deleter")
    made.finish()


@check("consumer", "renames", EDITIONS)
def renames(c: Consumer, edition: str) -> None:
    made = trial(c, EDITIONS[edition]()).taken()
    insist(made.left[-1].startswith("used_"), f"the capsule is still named {made.left[-1]!r}")


@check("consumer", "renames-versioned", EDITIONS)
def renames_to_its_own_name(c: Consumer, edition: str) -> None:
    made = trial(c, EDITIONS[edition]()).taken()
    if not made.left[-1].startswith("used_"):
        raise NotApplicable("the capsule is not renamed, which another rule judges")
    meant = f"used_{made.made.name}"
    insist(made.left[-1] == meant, f"the capsule is named {made.left[-1]!r}, and not {meant!r}")


@check("consumer", "consumed-once", EDITIONS, risky=True)
def consumed_once(c: Consumer, edition: str) -> None:
    made = caps.Made(dtype=c.usual(), version=None if edition == "legacy" else (1, 0))
    capsule = made.capsule()
    try:
        first = c.consume(capsule)
    except Exception as error:
        raise NotApplicable("the consumer takes no such capsules") from error
    if caps.name_of(capsule) in (caps.LEGACY, caps.VERSIONED):
        raise NotApplicable("the capsule is not renamed, which another rule judges")
    try:
        second = c.consume(capsule)
    except Exception:
        del first, capsule
        gc.collect()
        insist(made.deleted == 1, f"the deleter was called {made.deleted} times")
        return
    raise Broken(f"a capsule that was consumed is taken again: {type(second).__name__}")


@check("consumer", "consumed-once", ("object",), EDITIONS, risky=True)
def consumed_once_by_an_object(c: Consumer, which: str, edition: str) -> None:
    """The struct is there still: who takes it reads nothing that is gone, and owns it twice."""
    objects_only(c)
    edition_is_taken(c, edition)
    made = trial(c, USED[edition]())
    insist(made.refused, f"a capsule that was consumed before ({made.left}) is taken")
    deleted = made.finish().deleted
    insist(not deleted, f"a used capsule is refused, and its deleter called {deleted} times")


@check("consumer", "struct-untouched", ("plain", "rows with gaps"), EDITIONS)
def struct_is_untouched(c: Consumer, layout: str, edition: str) -> None:
    untouched(trial(c, EDITIONS[edition](**LAYOUTS[layout])).taken())


@check("consumer", "struct-untouched", ("null strides",), EDITIONS)
def null_strides_are_untouched(c: Consumer, which: str, edition: str) -> None:
    untouched(trial(c, EDITIONS[edition](null_strides=True)).taken())


@check("consumer", "struct-untouched", ("byte_offset",), EDITIONS)
def offset_is_untouched(c: Consumer, which: str, edition: str) -> None:
    fields = {"shape": (5,), "start": 4, "byte_offset": 16}
    untouched(trial(c, EDITIONS[edition](**fields)).taken())


def untouched(made: Trial) -> None:
    record = made.made
    if record.deleted:
        raise NotApplicable("the deleter was called already")
    fields = type(record.struct.dl_tensor)._fields_
    now = {name: getattr(record.struct.dl_tensor, name) for name, _ in fields}
    fresh = made.array._export(None)
    was = {name: getattr(fresh.struct.dl_tensor, name) for name, _ in fields}
    caps.forget(fresh)
    was["shape"] = caps.C.addressof(record._shape)
    was["strides"] = record._strides and caps.C.addressof(record._strides)
    changed = [name for name in now if now[name] != was[name]]
    insist(not changed, f"the consumer wrote to {', '.join(changed)} of the producer's struct")


# ---- versions and flags ---------------------------------------------------------------------


class Unreadable(VersionedAlways):
    """A struct of another major version, with nothing readable behind its flags."""

    def _export(self, version: Any, **fields: Any) -> caps.Made:
        made = super()._export(version, **fields)
        caps.poison(made.struct.dl_tensor)
        return made


MAJORS = {"unreadable": Unreadable, "readable": VersionedAlways}


@check("consumer", "other-major", MAJORS, ((2, 0), (3, 1)), risky=True)
def other_major(c: Consumer, which: str, version: tuple[int, int]) -> None:
    if c.wants == "object" and "max_version" not in calls_of(c, Versioned())[0][1]:
        raise NotApplicable("the consumer never asks for DLPack 1.x")
    made = trial(c, MAJORS[which](version=version))
    insist(made.refused, f"a struct of DLPack {version} is taken")
    record = made.finish()
    insist(record.deleted == 1, f"it is refused, and the deleter called {record.deleted} times")


@check("consumer", "major-zero", risky=True)
def major_zero(c: Consumer) -> None:
    """A versioned struct that says 0.8 has a layout that nobody knows."""
    versioned_is_taken(c, Versioned(), "DLPack 1.x")
    made = trial(c, VersionedAlways(version=(0, 8)))
    insist(made.refused, "a versioned struct of DLPack (0, 8) is taken")


def raw(c: Consumer, **fields: Any) -> tuple[Any, caps.Made]:
    """(what comes of a raw versioned capsule, its record); NotApplicable where none is taken."""
    try:
        plain = caps.make((6,), c.usual(), version=(1, 0))
        if (result := c.consume(plain)) is plain:
            raise NotApplicable("the consumer keeps any object as it is")
        observe(result)
    except NotApplicable:
        raise
    except Exception as error:
        raise NotApplicable(f"the consumer takes no versioned capsules: {said(error)}") from error
    made = caps.Made((6,), c.usual(), **fields)
    capsule = made.capsule()
    try:
        return c.consume(capsule), made
    except Exception as error:
        return error, made


@check("consumer", "other-major", ("capsule",), ((2, 0),), risky=True)
def other_major_of_a_capsule(c: Consumer, which: str, version: tuple[int, int]) -> None:
    result, _ = raw(c, version=version)
    insist(isinstance(result, Exception), f"a capsule of DLPack {version} is taken")


@check("consumer", "read-only", ("capsule",))
def read_only_capsule_is_kept(c: Consumer, which: str) -> None:
    result, made = raw(c, version=(1, 0), flags=caps.READ_ONLY)
    if isinstance(result, Exception):
        raise NotApplicable(f"it is refused: {said(result)}")
    seen = observe(result)
    if seen.address != made.element_zero:
        return
    if seen.read_only is None:
        raise NotApplicable("the result has no way to say whether it may be written")
    insist(seen.read_only, "memory with the flag READ_ONLY became an array that may be written")


@check("consumer", "newer-minor", ((1, 1), (1, 3), (1, 99)))
def newer_minor(c: Consumer, version: tuple[int, int]) -> None:
    versioned_is_taken(c, Versioned(version=version), f"a struct of DLPack {version}")


def versioned_is_taken(c: Consumer, array: Any, what: str) -> Trial:
    """What only a struct of DLPack 1.x can say."""
    edition_is_taken(c, "versioned", array.dtype)
    made = trial(c, array)
    if not array.exports or array.last.name != caps.VERSIONED:
        raise NotApplicable("the consumer asks for DLPack 0.x")
    insist(not made.refused, f"{what}: {made.refused and made.refused.text}")
    return made


@check("consumer", "copied", FEW)
def copied(c: Consumer, dtype: str) -> None:
    made = versioned_is_taken(c, Versioned(dtype=dtype, flags=caps.IS_COPIED), "IS_COPIED")
    same_values(observe(made.result), made.array, "IS_COPIED")


@check("consumer", "read-only-taken", FEW)
def read_only_is_taken(c: Consumer, dtype: str) -> None:
    versioned_is_taken(c, Versioned(dtype=dtype, readonly=True), "READ_ONLY")


@check("consumer", "read-only", FEW)
def read_only_is_kept(c: Consumer, dtype: str) -> None:
    made = trial(c, Versioned(dtype=dtype, readonly=True)).taken()
    seen = observe(made.result)
    if seen.address != made.array.element_zero:
        return  # a copy, which may be written
    if seen.read_only is None:
        raise NotApplicable("the result has no way to say whether it may be written")
    insist(seen.read_only, "memory with the flag READ_ONLY became an array that may be written")


@check("consumer", "read-only", ("copy=False",))
def read_only_is_kept_uncopied(c: Consumer, which: str) -> None:
    array = Versioned(readonly=True)
    seen = observe(with_copy(c, array, False).taken().result)
    if seen.address != array.element_zero or seen.read_only is None:
        raise NotApplicable("a copy, or a result that cannot say whether it may be written")
    insist(seen.read_only, "memory with the flag READ_ONLY became an array that may be written")


@check("consumer", "writable", FEW)
def writable_stays(c: Consumer, dtype: str) -> None:
    bound_by_from_dlpack(c)
    made = versioned_is_taken(c, Versioned(dtype=dtype), "a writable array")
    seen = observe(made.result)
    if seen.address != made.array.element_zero or seen.read_only is None:
        raise NotApplicable("a copy, or a result that cannot say whether it may be written")
    insist(not seen.read_only, "memory without the flag READ_ONLY may not be written")


# ---- refusals -----------------------------------------------------------------------------


@check("consumer", "unknown-dtype", ((15, 8, 1), (16, 8, 1), (17, 8, 1)), EDITIONS, risky=True)
def unknown_dtype(c: Consumer, dtype: tuple[int, int, int], edition: str) -> None:
    edition_is_taken(c, edition)
    if c.flat:
        raise NotApplicable("the consumer keeps no dtype")
    made = trial(c, EDITIONS[edition](dtype=dtype))
    insist(made.refused, f"dtype {dtype} is taken")


ODD = ((99, 8, 1), (2, 7, 1), (2, 32, 0), (2, 0, 1), (6, 1, 1), (0, 128, 1))


@check("consumer", "odd-dtype", ODD, EDITIONS, risky=True)
def odd_dtype(c: Consumer, dtype: tuple[int, int, int], edition: str) -> None:
    made = trial(c, EDITIONS[edition](dtype=dtype))
    insist(made.refused, f"dtype {dtype} is taken")


#: Host memory under the names that drivers of devices have for it.
HOST_BY_OTHER_NAMES = ((3, 0), (11, 0), (13, 0))
UNKNOWN_DEVICES = ((7, 0), (9, 0), (16, 0), (99, 0))
OTHER_DEVICES = (*UNKNOWN_DEVICES, *HOST_BY_OTHER_NAMES)


@check("consumer", "other-device", OTHER_DEVICES, EDITIONS, risky=True)
def other_device(c: Consumer, device: tuple[int, int], edition: str) -> None:
    edition_is_taken(c, edition)
    made = trial(c, EDITIONS[edition](device=device))
    if not made.refused:
        raise NotApplicable(f"device {device} is taken")
    kind, text, _ = made.refused
    insist(issubclass(kind, BufferError), f"device {device}: {text}")


@check("consumer", "device-not-read", UNKNOWN_DEVICES, EDITIONS, risky=True)
def other_device_is_not_read(c: Consumer, device: tuple[int, int], edition: str) -> None:
    edition_is_taken(c, edition)
    made = trial(c, EDITIONS[edition](device=device))
    if made.refused:
        return
    same = observe(made.result).address == made.array.element_zero  # it reads host memory
    insist(not same, f"memory of device {device} is taken for the host's")


@check("consumer", "device-of-the-capsule", ((7, 0), (99, 0)), EDITIONS, risky=True)
def device_of_the_capsule(c: Consumer, device: tuple[int, int], edition: str) -> None:
    objects_only(c)
    edition_is_taken(c, edition)
    made = trial(c, SAY_HOST[edition](device=device))
    if made.refused:
        return
    same = observe(made.result).address == made.array.element_zero
    insist(not same, f"memory of device {device} is taken for the host's, as the method tells it")


class Failed(Exception):
    """An exception that no library knows."""


ERRORS = {
    error.__name__: error
    for error in (BufferError, ValueError, RuntimeError, MemoryError, NotImplementedError, Failed)
}


@check("consumer", "propagates", ERRORS, ("__dlpack__", "__dlpack_device__"))
def propagates(c: Consumer, name: str, method: str) -> None:
    bound_by_from_dlpack(c)
    error = ERRORS[name]
    asked = []

    class Failing(Versioned):
        pass

    def fail(self: Any, **_: Any) -> None:
        asked.append(method)
        self.calls.append(((), {}))
        raise error("made to fail")

    setattr(Failing, method, fail)
    made = trial(c, Failing())
    if not asked:
        raise NotApplicable(f"the consumer never calls {method}")
    insist(made.refused, f"{method} raises {name}, and the consumer goes on")
    assert made.refused
    kind, text, cause = made.refused
    reaches = issubclass(kind, error) or isinstance(cause, error)
    insist(reaches, f"{method} raises {name}, the consumer {text}")


#: Errors that no producer raises to say that it does not know a keyword.
UNHEARD = {name: ERRORS[name] for name in ("MemoryError", "Failed")}


@check("consumer", "propagates", ("first call",), UNHEARD)
def first_error_propagates(c: Consumer, which: str, name: str) -> None:
    """Whoever asks again without keywords, whatever the error, hides a failure of the producer."""
    bound_by_from_dlpack(c)
    error = UNHEARD[name]

    class FailsOnce(Versioned):
        def __dlpack__(self, **keywords: Any) -> Any:
            if not self.calls:
                self.calls.append(((), keywords))
                raise error("made to fail")
            return super().__dlpack__(**keywords)

    made = trial(c, FailsOnce())
    insist(made.refused, f"the first call of __dlpack__ raises {name}, and the consumer goes on")


IN_C = "a capsule whose destructor is in C is made by dlshim"


class Dropped(Versioned):
    """Nobody but the consumer has its capsules. Their destructor is dlshim's, written in C, which
    saves the exception that is on its way, as every destructor must."""

    def __dlpack__(self, *, max_version: Any = None, **keywords: Any) -> Any:
        dlshim, give = its_own(IN_C), super().__dlpack__

        class Inner:
            def __dlpack__(self, **inner: Any) -> Any:
                return give(**keywords | inner)

            __dlpack_device__ = self.__dlpack_device__

        capsule = dlshim.to_capsule(Inner(), max_version=max_version)
        self.given.clear()
        return capsule


@check("consumer", "error-kept", ("unknown code", "vectors"), risky=True)
def error_is_kept(c: Consumer, which: str) -> None:
    objects_only(c)
    its_own(IN_C)
    array = Dropped(**REFUSABLE[which])
    kept = trial(c, Versioned(**REFUSABLE[which])).refused
    if not kept:
        raise NotApplicable("it is taken")
    made = trial(c, array)
    told = made.refused
    insist(told and told.kind is kept.kind, f"it raises {kept.text}, where a capsule of which "
           f"nobody else knows is refused {told and told.text}")  # fmt: skip
    if array.exports:
        deleted = made.finish().deleted
        insist(deleted == 1, f"it is refused, and the deleter was called {deleted} times")


@check("consumer", "proxies", EDITIONS)
def proxies_are_taken(c: Consumer, edition: str) -> None:
    objects_only(c)
    edition_is_taken(c, edition)
    array = EDITIONS[edition](dtype=c.usual())
    if c.one_dimension:
        array.shape, array.strides = (6,), (1,)
    try:
        c.consume(Proxy(array))
    except Exception as error:
        raise Broken(f"an object that forwards the methods: {said(error)}") from error
    finally:
        array.given.clear()


@check("consumer", "no-capsule", risky=True)
def no_capsule(c: Consumer) -> None:
    if c.wants == "object":
        raise NotApplicable("the consumer takes objects")
    try:
        made = c.consume(Legacy())
    except Exception:
        return
    raise NotApplicable(f"the consumer takes objects, too, and makes a {type(made).__name__}")


GIVEN = {"None": None, "a tuple": (), "a number": 5}


@check("consumer", "no-capsule", ("given",), GIVEN, risky=True)
def what_is_no_capsule_is_refused(c: Consumer, which: str, what: str) -> None:
    objects_only(c)

    class GivesNone(Versioned):
        def __dlpack__(self, **keywords: Any) -> Any:
            self.calls.append(((), keywords))
            return GIVEN[what]

    made = trial(c, GivesNone())
    insist(made.refused, f"__dlpack__ gives {what}, and the consumer goes on")


@check("consumer", "no-methods")
def no_methods(c: Consumer) -> None:
    bound_by_from_dlpack(c)
    try:
        c.consume(object())
    except AttributeError:
        return
    except Exception as error:
        raise Broken(f"an object without the methods: {said(error)}") from error
    raise Broken("an object without the methods is taken")


# ---- keywords of from_dlpack -----------------------------------------------------------------

KEYWORDS = {
    "copy=None": {"copy": None},
    "device=None": {"device": None},
    "both": {"device": None, "copy": None},
}


@check("consumer", "copy-keyword", KEYWORDS)
def has_keywords(c: Consumer, which: str) -> None:
    bound_by_from_dlpack(c)
    edition_is_taken(c, "versioned")
    refused = trial(c, Versioned(), **KEYWORDS[which]).refused
    insist(not refused, f"{which}: {refused and refused.text}")


@check("consumer", "unknown-device", ("nonsense",))
def unknown_device(c: Consumer, which: str) -> None:
    bound_by_from_dlpack(c)
    if trial(c, Versioned(), device=None).refused:
        raise NotApplicable("the consumer does not know the keyword device")
    made = trial(c, Versioned(), device="no such device")
    insist(made.refused, "device='no such device' is taken")


def with_copy(c: Consumer, array: Any, copy: bool) -> Trial:
    bound_by_from_dlpack(c)
    if trial(c, Versioned(), copy=None).refused:
        raise NotApplicable("the consumer does not know the keyword copy")
    return trial(c, array, copy=copy)


@check("consumer", "copy-true", ("plain", "rows with gaps", "cube"), EDITIONS)
def copy_true(c: Consumer, layout: str, edition: str) -> None:
    made = with_copy(c, EDITIONS[edition](**LAYOUTS[layout]), True).taken()
    seen = observe(made.result)
    insist(seen.address != made.array.element_zero, "copy=True gives the producer's memory")
    same_values(seen, made.array, "the copy")


@check("consumer", "copy-false", ("plain", "rows with gaps", "cube", "reversed"), EDITIONS)
def copy_false(c: Consumer, layout: str, edition: str) -> None:
    made = with_copy(c, EDITIONS[edition](**LAYOUTS[layout]), False)
    if made.refused:
        kind, text, _ = made.refused
        if issubclass(kind, TypeError):
            raise NotApplicable(f"the producer does not know the keyword copy: {text}")
        if trial(c, EDITIONS[edition](**LAYOUTS[layout])).refused:
            raise NotApplicable("it is refused without copy=False, too")
        insist(issubclass(kind, BufferError | ValueError), f"copy=False: {text}")
        return
    seen = observe(made.result)
    insist(seen.address == made.array.element_zero, "copy=False gives a copy")


class Copying(Versioned):
    """A producer that can only copy: `copy=False` is refused, and other exports are copies."""

    def __dlpack__(self, *, copy: Any = None, **keywords: Any) -> Any:
        if copy is False:
            self.calls.append(((), {"copy": False, **keywords}))
            raise BufferError("each export is a copy")
        self.flags = caps.IS_COPIED
        return super().__dlpack__(**keywords)


@check("consumer", "copy-false", ("of a producer that copies",))
def copy_false_reaches_the_producer(c: Consumer, which: str) -> None:
    made = with_copy(c, Copying(), False)
    insist(made.refused, "copy=False gives the copy of a producer that was not told copy=False")


class NoCopy(Versioned):
    """A producer of DLPack 1.x that does not know the keyword `copy`: the consumer copies."""

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:
        return super().__dlpack__(stream=stream, max_version=max_version)


WRITABLE = {
    "plain": lambda: Versioned(),
    "read-only": lambda: Versioned(readonly=True),
    "read-only, of a producer without copy=": lambda: NoCopy(readonly=True),
}


@check("consumer", "copy-writable", WRITABLE)
def copy_may_be_written(c: Consumer, which: str) -> None:
    array = WRITABLE[which]()
    made = with_copy(c, array, True).taken()
    seen = observe(made.result)
    if seen.address == array.element_zero or seen.read_only is None:
        raise NotApplicable("no copy, or a result that cannot say whether it may be written")
    if seen.read_only and observe(trial(c, Versioned()).taken().result).read_only:
        raise NotApplicable("what the library makes may never be written")
    insist(not seen.read_only, f"the copy of a {which} array may not be written")


@check("consumer", "same-device", FEW, EDITIONS)
def stays_on_its_device(c: Consumer, dtype: str, edition: str) -> None:
    bound_by_from_dlpack(c)
    made = trial(c, EDITIONS[edition](dtype=dtype)).taken()
    try:
        kind, index = made.result.__dlpack_device__()
        found = int(getattr(kind, "value", kind)), int(index)
    except Exception as error:
        raise NotApplicable(f"the result does not tell its device: {said(error)}") from error
    insist(akin(found, caps.CPU), f"memory of the device (1, 0) became an array of {found}")


# ---- the C table -----------------------------------------------------------------------------


@check("consumer", "table-no-borrow", FEW, risky=True)
def table_without_borrowing(c: Consumer, dtype: str) -> None:
    objects_only(c)
    read_rightly(c, WithTable(dtype=dtype), "a producer with a C table")
    is_taken(c, WithTableNoBorrow(dtype=dtype), "a C table without the borrowing function")


@check("consumer", "table-major", FEW, risky=True)
def table_of_another_major(c: Consumer, dtype: str) -> None:
    objects_only(c)
    array = WithTableMajorTwo(dtype=dtype)
    trial(c, array)
    used = array.table_calls + array.table_borrows
    insist(not used, f"functions of a table of DLPack 2.0 were called {used} times")
