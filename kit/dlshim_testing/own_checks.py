"""What a consumer makes of arrays of its own library, where a producer of them is named too."""

from __future__ import annotations

from typing import Any, NamedTuple

from .catalogue import NotApplicable, check, insist
from .doubles import capsules as caps
from .exports import (
    LAYOUTS,
    LOCKED,
    SIZES,
    laid_out_and_filled,
    newest_of,
    on_host,
    read_only_array,
    view_of,
)
from .imports import Seen, bound_by_from_dlpack, numbers, observe
from .partner import DTYPES, Consumer, said

GIVE = (
    "no array of the library's own is there: name its producer, too (--dlpack-producer, or "
    "Consumer(..., own=...))"
)


class Case(NamedTuple):
    """An array of the library's own, and what it holds by its own export."""

    array: Any
    view: caps.View
    kept: Any
    """The capsule by which that is known, and the one by which it was written."""


def case_of(array: Any, written: Any = None) -> Case:
    (capsule,) = newest_of(array)
    return Case(array, on_host(view_of(capsule)), (capsule, written))


def own(c: Consumer, layout: str = "whole", dtype: str = "float32") -> Case:
    """NotApplicable where no producer was named, or it makes no such array."""
    bound_by_from_dlpack(c)
    if c.own is None:
        raise NotApplicable(GIVE)
    array, _, _, written = laid_out_and_filled(c.own, layout, dtype)
    return case_of(array, written)


def own_read_only(c: Consumer, part: str) -> Case:
    bound_by_from_dlpack(c)
    if c.own is None:
        raise NotApplicable(GIVE)
    return case_of(read_only_array(c.own, part))


#: What is passed for a copy or for none, by name; the device is the array's own word for it.
PASSED: dict[str, tuple[str, ...]] = {"alone": (), "device": ("device",)}


def keywords_of(case: Case, which: str, **keywords: Any) -> dict[str, Any]:
    for name in PASSED[which]:
        if (value := getattr(case.array, name, None)) is None or callable(value):
            raise NotApplicable(f"the array does not tell its {name}")
        keywords[name] = value
    return keywords


def taken(c: Consumer, case: Case, **keywords: Any) -> Seen:
    """What the result holds; NotApplicable where the consumer refuses."""
    try:
        result = c.consume(case.array, **keywords)
    except Exception as error:
        raise NotApplicable(f"the consumer refuses: {said(error)}") from error
    return observe(result)


@check("consumer", "takes", ("own",), DTYPES)
def own_arrays_are_taken(c: Consumer, which: str, dtype: str) -> None:
    array = own(c, "whole", dtype).array
    try:
        c.consume(array)
    except Exception as error:
        refused = said(error)
    else:
        return
    insist(False, f"an array of its own, of {dtype}, is refused: {refused}")


@check("consumer", "values", ("own",), LAYOUTS, SIZES)
def own_values(c: Consumer, which: str, layout: str, dtype: str) -> None:
    case = own(c, layout, dtype)
    same_as(taken(c, case), case, f"an array of its own, {layout}")


def same_as(seen: Seen, case: Case, what: str) -> None:
    """The result has the array's shape and values; another dtype must hold the same numbers."""
    shape, dtype, wanted = case.view.shape, case.view.dtype, case.view.elements()
    insist(seen.shape == shape, f"{what}: shape {shape} became {seen.shape}")
    if seen.dtype == dtype:
        found = seen.elements == wanted
    else:
        found = numbers(seen.dtype, seen.elements) == numbers(dtype, wanted)
    insist(found, f"{what}: it has other elements")


@check("consumer", "copy-true", ("own",), SIZES, PASSED)
def own_copies(c: Consumer, which: str, dtype: str, passed: str) -> None:
    insist_own_copy(c, own(c, "whole", dtype), passed)


@check("consumer", "copy-true", ("own",), ("rows", "transposed", "thirty-two dimensions"), PASSED)
def own_copies_of_layouts(c: Consumer, which: str, layout: str, passed: str) -> None:
    insist_own_copy(c, own(c, layout), passed)


@check("consumer", "copy-true", ("own",), LOCKED, PASSED)
def own_copies_of_read_only(c: Consumer, which: str, part: str, passed: str) -> None:
    insist_own_copy(c, own_read_only(c, part), passed)


def insist_own_copy(c: Consumer, case: Case, passed: str) -> None:
    seen = taken(c, case, **keywords_of(case, passed, copy=True))
    if 0 not in seen.shape:
        insist(seen.address != case.view.element_zero, "copy=True gives its own array's memory")
    same_as(seen, case, "the copy of an array of its own")


@check("consumer", "copy-false", ("own",), SIZES, PASSED)
def own_memory_is_shared(c: Consumer, which: str, dtype: str, passed: str) -> None:
    case = own(c, "whole", dtype)
    insist_own_memory(c, case, keywords_of(case, passed, copy=False))


@check("consumer", "copy-false", ("own",), ("rows", "transposed", "thirty-two dimensions"), PASSED)
def own_memory_of_layouts_is_shared(c: Consumer, which: str, layout: str, passed: str) -> None:
    case = own(c, layout)
    insist_own_memory(c, case, keywords_of(case, passed, copy=False))


def insist_own_memory(c: Consumer, case: Case, keywords: dict[str, Any]) -> None:
    again = case_of(case.array)
    if again.view.element_zero != case.view.element_zero:
        raise NotApplicable("each export of the array is a copy")
    try:
        seen = observe(c.consume(case.array, **keywords))
    except NotApplicable:
        raise
    except TypeError as error:
        raise NotApplicable(f"the keyword is not known: {said(error)}") from error
    except Exception as error:
        allowed = isinstance(error, BufferError | ValueError)
        insist(allowed, f"copy=False of an array of its own: {said(error)}")
        return
    shared = seen.address == case.view.element_zero or 0 in seen.shape
    insist(shared, "copy=False gives a copy of its own array")


@check("consumer", "read-only", ("own",), LOCKED)
def own_read_only_stays(c: Consumer, which: str, part: str) -> None:
    case = own_read_only(c, part)
    seen = taken(c, case)
    if seen.address != case.view.element_zero or not case.view.readonly or seen.read_only is None:
        raise NotApplicable("a copy, or nothing says whether it may be written")
    insist(seen.read_only, f"an array of its own, {part}, became one that may be written")
