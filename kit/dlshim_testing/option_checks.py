"""The keywords of `from_dlpack`: `copy` and `device`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .catalogue import Broken, NotApplicable, check, insist
from .doubles import capsules as caps
from .imports import (
    EDITIONS,
    FEW,
    LAYOUTS,
    SIZES,
    SOURCES,
    NoCopy,
    Versioned,
    bound_by_from_dlpack,
    device_of_results,
    edition_is_taken,
    observe,
    same_values,
    trial,
    with_copy,
)
from .partner import Consumer, akin, said

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


#: Layouts of which a copy is asked, and none.
COPIED = LAYOUTS | {"offset": {"shape": (5,), "start": 4, "offset": 4}}


def source_of(name: str, layout: str, dtype: str) -> Any:
    """A double of this kind; its `byte_offset` is that of so many elements."""
    fields = dict(COPIED[layout])
    offset = fields.pop("offset", 0) * caps.itemsize_of(dtype)
    return SOURCES[name](**{"dtype": dtype, "byte_offset": offset} | fields)


def beside(c: Consumer, which: str) -> dict[str, Any]:
    """What is passed beside `copy`."""
    return {"device": device_of_results(c)} if which == "device" else {}


@check("consumer", "copy-true", COPIED, SOURCES, SIZES, pairs=True)
@check("consumer", "copy-true", ("plain", "rows with gaps", "cube"), EDITIONS)
def copy_true(c: Consumer, layout: str, source: str, dtype: str = "float32") -> None:
    insist_a_copy(c, lambda: source_of(source, layout, dtype))


@check("consumer", "copy-true", ("device",), SIZES, SOURCES)
def copy_true_to_its_device(c: Consumer, which: str, dtype: str, source: str) -> None:
    insist_a_copy(c, lambda: source_of(source, "plain", dtype), which)


def insist_a_copy(c: Consumer, make: Callable[[], Any], which: str = "") -> None:
    array = make()
    made = with_copy(c, array, True, **beside(c, which)).taken()
    seen = observe(made.result)
    told = f"copy=True{f' with {which}=' if which else ''}"
    if 0 not in seen.shape:
        insist(seen.address != array.element_zero, f"{told} gives the producer's memory")
    try:
        same_values(seen, array, f"{told}, the copy")
    except Broken:
        is_read_rightly(c, make())
        raise


def is_read_rightly(c: Consumer, array: Any) -> None:
    """NotApplicable where the consumer reads other elements without `copy`, too."""
    try:
        same_values(observe(trial(c, array).taken().result), array, "it")
    except Broken as error:
        raise NotApplicable("its elements are not read rightly, which other rules judge") from error


@check("consumer", "copy-false", COPIED, SOURCES, SIZES, pairs=True)
@check("consumer", "copy-false", ("plain", "rows with gaps", "cube", "reversed"), EDITIONS)
def copy_false(c: Consumer, layout: str, source: str, dtype: str = "float32") -> None:
    insist_no_copy(c, lambda: source_of(source, layout, dtype))


@check("consumer", "copy-false", ("device",), SIZES, SOURCES)
def copy_false_to_its_device(c: Consumer, which: str, dtype: str, source: str) -> None:
    insist_no_copy(c, lambda: source_of(source, "plain", dtype), which)


def insist_no_copy(c: Consumer, make: Callable[[], Any], which: str = "") -> None:
    made = with_copy(c, make(), False, **beside(c, which))
    told = f"copy=False{f' with {which}=' if which else ''}"
    if made.refused:
        kind, text, _ = made.refused
        if issubclass(kind, TypeError):
            raise NotApplicable(f"the producer does not know the keyword copy: {text}")
        if trial(c, make()).refused:
            raise NotApplicable("it is refused without copy=False, too")
        insist(issubclass(kind, BufferError | ValueError), f"{told}: {text}")
        return
    seen = observe(made.result)
    if seen.address != made.array.element_zero and 0 not in seen.shape:
        is_read_rightly(c, make())
        raise Broken(f"{told} gives a copy: its memory is not the producer's")


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
