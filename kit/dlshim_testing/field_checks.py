"""The fields of the structs that a producer gives, and the values they lead to."""

from __future__ import annotations

import ctypes as C
from typing import Any

from .catalogue import Broken, NotApplicable, TargetError, check, insist
from .doubles import capsules as caps
from .exports import (
    ASKS,
    BESIDE,
    BOTH,
    LAYOUTS,
    LOCKED,
    SIZES,
    SOME,
    VERSIONED,
    WAYS,
    all_asked,
    asked,
    counted,
    held,
    laid_out,
    laid_out_and_filled,
    newest_of,
    on_host,
    own_elements,
    prepared,
    read_only_array,
    same_elements,
    view_of,
)
from .partner import DTYPES, OF_THE_STANDARD, Producer, given, said, shape_of


@check("producer", "shape", LAYOUTS, WAYS)
def shape_is_told(p: Producer, layout: str, ask: str) -> None:
    array = prepared(p, layout, "float32")
    meant = shape_of(array)
    if meant is None:
        raise NotApplicable("the array has no shape")
    view = view_of(asked(array, ASKS[ask]))
    insist(view.ndim >= 0, f"ndim is {view.ndim}")
    insist(view.ndim == 0 or view.shape_address, f"shape is NULL and ndim {view.ndim}")
    insist(view.shape == meant, f"the struct says {view.shape}, the array {meant}")


#: An extent that 32 bits do not hold, of an array without elements.
LONG = (0, 2**32 + 5)


@check("producer", "shape", ("long",), BOTH, risky=True)
def long_shape_is_told(p: Producer, which: str, ask: str) -> None:
    if p.one_dimension:
        raise NotApplicable("the target is said to have one dimension alone")
    array = p.make(LONG)
    if shape_of(array) is None:
        raise NotApplicable("the array has no shape")
    view = view_of(asked(array, ASKS[ask]))
    insist(view.shape == LONG, f"the struct says {view.shape}, the array {LONG}")


@check("producer", "dtype", DTYPES, WAYS)
def dtype_is_told(p: Producer, dtype: str, ask: str) -> None:
    view = view_of(asked(p.make((2, 3), dtype), ASKS[ask]))
    dtype = p.usual(dtype)
    meant = caps.DTYPES[dtype]
    insist(view.dtype == meant, f"{dtype} is {meant} in DLPack, and the struct says {view.dtype}")


@check("producer", "dtype-support", OF_THE_STANDARD)
def dtype_is_exported(p: Producer, dtype: str) -> None:
    array = p.make((2, 3), dtype)
    failures = []
    for ask in ("versioned", "bare"):
        try:
            asked(array, ASKS[ask])
            return
        except NotApplicable as refused:
            failures.append(str(refused))
    raise Broken("; ".join(failures))


@check("producer", "strides-present", LAYOUTS, ("versioned", "newest"))
def strides_are_present(p: Producer, layout: str, ask: str) -> None:
    array = prepared(p, layout, "float32")
    view = view_of(asked(array, ASKS[ask]))
    if view.version is None or view.version < (1, 2):
        raise NotApplicable(f"the struct says {view.version}, which allows NULL strides")
    if view.ndim:
        insist(view.strides is not None, f"a struct of DLPack {view.version} has NULL strides")


@check("producer", "data-present", LAYOUTS, WAYS)
def data_are_present(p: Producer, layout: str, ask: str) -> None:
    array = prepared(p, layout, "float32")
    view = view_of(asked(array, ASKS[ask]))
    if 0 in view.shape:
        raise NotApplicable("an array without elements")
    insist(view.data, f"data is NULL, and the shape {view.shape}")


@check("producer", "data-present", LOCKED, WAYS)
def data_of_read_only_are_present(p: Producer, which: str, ask: str) -> None:
    view = view_of(asked(read_only_array(p, which), ASKS[ask]))
    if 0 in view.shape:
        raise NotApplicable("an array without elements")
    insist(view.data, f"{which}: data is NULL, and the shape {view.shape}")


@check("producer", "data-of-empty", [name for name in LAYOUTS if "empty" in name])
def data_of_empty(p: Producer, layout: str) -> None:
    array = prepared(p, layout, "float32")
    (capsule,) = newest_of(array)
    view = view_of(capsule)
    insist(
        not view.data, f"an array of shape {view.shape} has no elements, and its data is not NULL"
    )


@check("producer", "values", LAYOUTS, SIZES, BESIDE, pairs=True)
@check("producer", "values", LAYOUTS, SOME, BOTH)
def values_are_there(p: Producer, layout: str, dtype: str, ask: str) -> None:
    array, wanted, why, export = laid_out_and_filled(p, layout, dtype)
    if wanted is None:
        insist_elements_are_counted(view_of(asked(array, ASKS[ask])), layout)
        raise NotApplicable(why)
    view, capsule = held(array, ASKS[ask])
    same_elements(view, wanted, layout)
    del capsule, export


def insist_elements_are_counted(view: caps.View, layout: str) -> None:
    """A new array has no gaps of the very size of its elements."""
    size = caps.itemsize_of(view.dtype)
    meant = [step * size for step in caps.row_major(view.shape)]
    in_bytes = size > 1 and len(caps.offsets(view.shape, meant)) > 1 and LAYOUTS[layout][1] == ()
    insist(
        not in_bytes or list(view.strides or ()) != meant,
        f"{layout}: shape {view.shape} and strides {view.strides}, which are those in bytes",
    )


@check("producer", "values", [name for name in DTYPES if name not in SOME], WAYS)
def values_of_dtype(p: Producer, dtype: str, ask: str) -> None:
    values_are_there(p, "rows", dtype, ask)


SPECIAL = 8  # how many special arrays of a library there are checks for
NUMBERED = [f"special {k}" for k in range(SPECIAL)]
REFUSED = [f"refused {k}" for k in range(SPECIAL)]


@check("producer", "special-values", NUMBERED, BOTH)
def special_values(p: Producer, which: str, ask: str) -> None:
    name, make = one_of(p, "special", which)
    array, values = pair_of(f"special=[{name!r}]", make)
    view, capsule = held(array, ASKS[ask])
    same_elements(view, [encoded(name, view.dtype, value) for value in values], name)
    del capsule


def encoded(name: str, dtype: Any, value: Any) -> bytes:
    """The value's bytes; TargetError where there is no such value of the dtype."""
    try:
        return caps.encode(dtype, value)
    except Exception as error:
        raise TargetError(
            f"special=[{name!r}] gives the value {value!r}, which is none of dtype {dtype}: "
            f"{said(error)}"
        ) from error


def pair_of(what: str, make: Any) -> tuple[Any, list[Any]]:
    """An array and its values; TargetError where the target gives something else."""
    pair = given(what, make)
    try:
        array, values = pair
        return array, list(values)
    except (TypeError, ValueError) as error:
        raise TargetError(
            f"{what} must give a pair, (array, list of its values in row-major order), and gives "
            f"{type(pair).__name__}: {said(error)}"
        ) from error


def one_of(p: Producer, keyword: str, which: str) -> tuple[str, Any]:
    table: dict[str, Any] = getattr(p, keyword)
    number = int(which.split()[-1])
    if number >= len(table):
        raise NotApplicable("no such array was given", lacks=keyword)
    return list(table.items())[number]


@check("producer", "zero-copy", ("whole", "rows", "every second"))
def exports_share(p: Producer, layout: str) -> None:
    insist_sharing(newest_of(prepared(p, layout, "float32"), 2))


@check("producer", "zero-copy", SIZES, BESIDE)
def exports_of_any_way_share(p: Producer, dtype: str, ask: str) -> None:
    insist_sharing(all_asked(p.make((2, 3), dtype), [VERSIONED, ASKS[ask]]))


def insist_sharing(capsules: list[Any]) -> None:
    first, second = capsules
    one, other = view_of(first), view_of(second)
    insist(
        one.element_zero == other.element_zero,
        "two exports of one array lie at different addresses",
    )


#: Layouts that most libraries have as views of a whole.
VIEWS = ("rows", "columns", "row", "column", "every second", "transposed", "rows reversed")
MARK, OTHER = 21, 85  # numbers that every dtype holds


def view_and_whole(p: Producer, layout: str) -> tuple[Any, Any, tuple[int, ...]]:
    """(a view, the whole, where the view's first element is in it), where the library itself shows
    that it is a view: what is written into the view is in the whole."""
    shape, index = LAYOUTS[layout]
    whole = p.make(shape)
    array = laid_out(whole, index)
    _, positions = counted(shape, index)
    at = tuple(
        positions[0] // step % extent
        for extent, step in zip(shape, caps.row_major(shape), strict=True)
    )
    before, view_before = own_elements(whole, p.usual()), own_elements(array, p.usual())
    try:
        array[(0,) * len(shape_of(array) or ())] = MARK
        shows = before is not None and own_elements(whole, p.usual()) != before
    except Exception:  # arrays of many libraries have no such assignment
        put(p, whole, at, MARK)
        shows = view_before is not None and own_elements(array, p.usual()) != view_before
    if not shows:
        raise NotApplicable("nothing shows that what the library's index gives is a view")
    return array, whole, at


def put(p: Producer, array: Any, at: tuple[int, ...], number: int) -> None:
    """Writes one element by the library's own index, else into the memory of an export."""
    try:
        array[at] = number
        return
    except Exception as error:
        why = said(error)
    (capsule,) = newest_of(array)
    view = on_host(view_of(capsule))
    if view.readonly or view.dtype != caps.DTYPES[p.usual()] or not view.data:
        raise NotApplicable(f"the whole cannot be written: {why}")
    steps = caps.row_major(view.shape) if view.strides is None else view.strides
    place = sum(index * step for index, step in zip(at, steps, strict=True))
    size = caps.itemsize_of(view.dtype)
    C.memmove(view.element_zero + place * size, caps.encode(p.usual(), number), size)


def is_of_the_whole(p: Producer, layout: str, keywords: dict[str, Any]) -> bool:
    """Whether what is written into the whole shows in an export of its view."""
    array, whole, at = view_and_whole(p, layout)
    view, capsule = held(array, keywords)
    put(p, whole, at, OTHER)
    shows = view.elements()[:1] == [caps.encode(p.usual(), OTHER)]
    del capsule
    return shows


@check("producer", "zero-copy", ("of the whole",), VIEWS)
def view_shares_the_whole(p: Producer, which: str, layout: str) -> None:
    shares = is_of_the_whole(p, layout, ASKS["versioned"])
    insist(shares, f"{layout}: the export of a view is a copy of it, not the memory of the whole")


@check("producer", "copy-false", ("of the whole",), VIEWS, BOTH)
def copy_false_shares_the_whole(p: Producer, which: str, layout: str, ask: str) -> None:
    shares = is_of_the_whole(p, layout, {"copy": False, **ASKS[ask]})
    insist(shares, f"{layout}: copy=False gives a copy of a view, not the memory of the whole")
