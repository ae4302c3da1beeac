"""What is checked of a producer: `__dlpack__`, `__dlpack_device__` and the structs they give."""

from __future__ import annotations

import contextlib
import ctypes as C
import enum
import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from .catalogue import Broken, NotApplicable, TargetError, check, insist
from .doubles import capsules as caps
from .drivers import NoFunction
from .exports import (
    ASKS,
    LAYOUTS,
    PADDED,
    Watch,
    all_asked,
    asked,
    counted,
    held,
    laid_out,
    laid_out_and_filled,
    newest_of,
    on_host,
    other_driver,
    own_elements,
    prepared,
    same_elements,
    view_of,
)
from .partner import DTYPES, OF_THE_STANDARD, Producer, akin, given, said, shape_of

SOME = ("bool", "int32", "float32", "float64", "complex64")
FEW = ("float32", "int64")
STREAMS = (-1, 0, 1, 2)
COPY = {"copy": True}
UNKNOWN_DEVICES = ((7, 0), (9, 0), (16, 0), (99, 0))


# ---- the methods ---------------------------------------------------------------------------


@check("producer", "methods")
def has_methods(p: Producer) -> None:
    try:
        array = p.make((2, 3))
    except NotApplicable as failed:  # nothing can be checked at all
        raise ValueError(str(failed)) from failed
    for name in ("__dlpack__", "__dlpack_device__"):
        insist(hasattr(array, name), f"{type(array).__name__} has no {name}")
    failures = []
    for ask in ("versioned", "bare"):
        try:
            asked(array, ASKS[ask])
            return
        except NotApplicable as refused:
            failures.append(str(refused))
    raise Broken("; ".join(failures))


def number(kind: Any) -> int:
    """The device type as an int; the standard calls it an Enum, which need not be an int."""
    return int(kind.value if isinstance(kind, enum.Enum) else kind)


def device_of(array: Any) -> tuple[int, int]:
    try:
        kind, index = array.__dlpack_device__()
        return number(kind), int(index)
    except Exception as error:
        raise NotApplicable(f"__dlpack_device__() gives no pair: {said(error)}") from error


@check("producer", "device-pair", SOME)
def device_pair(p: Producer, dtype: str) -> None:
    array = p.make((2, 3), dtype)
    if not hasattr(array, "__dlpack_device__"):
        raise Broken("there is no __dlpack_device__")
    try:
        answer = array.__dlpack_device__()
    except Exception as error:
        raise Broken(f"__dlpack_device__() raises {said(error)}") from error
    pair = isinstance(answer, tuple) and len(answer) == 2
    insist(pair and isinstance(answer[1], int), f"__dlpack_device__() gave {answer!r}")
    try:
        number(answer[0])
    except (TypeError, ValueError) as error:
        raise Broken(f"the device type {answer[0]!r} is no integer") from error


@check("producer", "device-pair", ("layout",), LAYOUTS)
def device_of_each_layout(p: Producer, which: str, layout: str) -> None:
    shape, _ = LAYOUTS[layout]
    array, whole = prepared(p, layout, "float32"), device_of(p.make(shape))
    newest_of(array)  # of what cannot be exported the device is no matter
    try:
        told = array.__dlpack_device__()
    except Exception as error:
        raise Broken(f"{layout}: __dlpack_device__() raises {said(error)}") from error
    insist(device_of(array) == whole, f"{layout}: the device is {told}, that of the whole {whole}")


@check("producer", "device-told", SOME, ASKS)
def device_is_told(p: Producer, dtype: str, ask: str) -> None:
    array = p.make((2, 3), dtype)
    told = device_of(array)
    first, second = all_asked(array, [ASKS[ask]] * 2)
    view, again = view_of(first), view_of(second)
    if view.copied or view.element_zero != again.element_zero:
        raise NotApplicable("an export is a copy, which may lie on another device")
    insist(
        akin(told, view.device),
        f"__dlpack_device__() tells {told}, and the capsule {view.device} of the same memory",
    )


@check("producer", "device-agrees", SOME, ASKS)
def device_agrees(p: Producer, dtype: str, ask: str) -> None:
    array = p.make((2, 3), dtype)
    told = device_of(array)
    view = view_of(asked(array, ASKS[ask]))
    insist(view.device == told, f"__dlpack_device__() tells {told}, the capsule {view.device}")


@check("producer", "device-id", ASKS)
def device_id(p: Producer, ask: str) -> None:
    view = view_of(asked(p.make((2, 3)), ASKS[ask]))
    if view.device[0] not in (1, 3, 13):
        raise NotApplicable(f"device {view.device} is no host memory")
    insist(view.device[1] == 0, f"the capsule's device is {view.device}")


# ---- capsules and deleters ---------------------------------------------------------------


@check("producer", "capsule-name", DTYPES, ASKS)
def capsule_name(p: Producer, dtype: str, ask: str) -> None:
    capsule = asked(p.make((2, 3), dtype), ASKS[ask])
    name = caps.name_of(capsule)
    insist(name in (caps.LEGACY, caps.VERSIONED), f"the capsule is named {name!r}")


@check("producer", "bare-legacy", SOME)
def bare_is_legacy(p: Producer, dtype: str) -> None:
    name = caps.name_of(asked(p.make((2, 3), dtype), {}))
    insist(name == caps.LEGACY, f"without max_version the capsule is named {name!r}")


@check("producer", "fresh-capsule", ASKS)
def fresh_capsule(p: Producer, ask: str) -> None:
    array = p.make((2, 3))
    first = asked(array, ASKS[ask])
    error = answers(array, **ASKS[ask])
    insist(
        error is None, f"the first call is answered, the second refused: {error and said(error)}"
    )
    second = asked(array, ASKS[ask])
    insist(first is not second, "two calls gave the same capsule")
    insist(
        caps.pointer_of(first) != caps.pointer_of(second),
        "two capsules hold one and the same struct",
    )


@check("producer", "fresh-capsule", ("another shape",), ASKS)
def fresh_fields(p: Producer, which: str, ask: str) -> None:
    """The extents of a struct stay while other arrays are exported."""
    first = asked(p.make((2, 3)), ASKS[ask])
    before = fields_of(view_of(first))
    others = [asked(p.make(shape), ASKS[ask]) for shape in ((4, 5), (7, 1))]
    now = fields_of(view_of(first))
    insist(now == before, f"a struct says {before}, and {now} after other arrays were exported")
    del others


def fields_of(view: caps.View) -> dict[str, Any]:
    names = ("data", "device", "dtype", "shape", "strides", "byte_offset", "flags")
    return {name: getattr(view, name) for name in names}


@check("producer", "destructor-spares", FEW, ASKS, risky=True)
def destructor_spares(p: Producer, dtype: str, ask: str) -> None:
    capsule = asked(p.make((2, 3), dtype), ASKS[ask])
    watch = Watch(capsule)
    name, address = caps.name_of(capsule), watch.view.address
    caps.rename(capsule)
    del capsule
    insist(watch.calls == 0, "a capsule that was renamed as used called the deleter")
    caps.call_deleter(address, name, held=True)
    insist(watch.calls == 1, f"the deleter was called {watch.calls} times")


@check("producer", "destructor-frees", FEW, ASKS, risky=True)
def destructor_frees(p: Producer, dtype: str, ask: str) -> None:
    array = p.make((2, 3), dtype)
    before = sys.getrefcount(array)
    capsule = asked(array, ASKS[ask])
    held = sys.getrefcount(array) > before
    if not view_of(capsule).deleter:
        del capsule
        insist(
            not leaks(p, dtype, ASKS[ask], leave),
            f"arrays of {ELEMENTS} elements and their capsules come and go, {NO_DELETER}, and the "
            "process still occupies their memory",
        )
        return
    watch = Watch(capsule)
    del capsule
    if watch.calls == 0:
        gc.collect()
    if watch.calls == 0 and held and sys.getrefcount(array) == before:
        return  # a destructor that frees without the struct's own pointer
    if watch.calls == 0 and not leaks(p, dtype, ASKS[ask], leave):
        return  # the same, seen by the memory that the process occupies
    insist(watch.calls == 1, f"the capsule is gone, and its deleter was called {watch.calls} times")


NO_DELETER = "there is no deleter that could be called"
MANY, ELEMENTS = 48, 1 << 18


def leave(capsule: Any) -> None:
    """Nobody consumes the capsule: its destructor frees what it holds."""


def consume(capsule: Any) -> None:
    view = view_of(capsule)
    caps.rename(capsule)
    caps.call_deleter(view.address, view.name, held=True)  # nothing, where the deleter is NULL


def span_of(view: caps.View, elements: int = ELEMENTS) -> int:
    """The bytes of a compact array of that many elements; NotApplicable where it is another."""
    bits = view.dtype[1] * view.dtype[2]
    if view.shape != (elements,):
        raise NotApplicable(f"the shape is {view.shape} where {(elements,)} was asked for")
    if view.strides not in (None, (1,)) or bits % 8:
        raise NotApplicable(f"dtype {view.dtype} and strides {view.strides} are not compact bytes")
    if not view.data:
        raise NotApplicable("data is NULL, which another rule judges")
    return elements * bits // 8


def growth(
    p: Producer, dtype: str, keywords: dict[str, Any], spend: Callable[[Any], None], also: Any
) -> float:
    """By how much the process grows while many large arrays come and go, as a part of their size;
    0 where the system does not tell.  ``also(array)`` is called of each before it goes."""
    size, before = 0, caps.resident_bytes()
    with caps.short_memory():  # structs of this package keep no books meanwhile
        for _ in range(MANY):
            array = p.make((ELEMENTS,), dtype)  # it may be all that keeps the memory
            capsule = asked(array, keywords)
            view = on_host(view_of(capsule))
            size = span_of(view)
            if not view.readonly:
                C.memset(view.element_zero, 1, size)
            if also:
                also(array)
            del array
            spend(capsule)
            del capsule
    gc.collect()
    return (caps.resident_bytes() - before) / max(1, MANY * size)


#: What may be kept for a while: allocators that look for faults keep freed memory up to a bound,
#: which is 256 MB in AddressSanitizer; and another thread may give it back some seconds later.
KEPT_BYTES, KEPT_SECONDS = 1 << 29, 4.0
#: How arrays are given up -> the producers of which it is known that their memory stays.
LEAKING: dict[Any, weakref.WeakSet[Producer]] = {
    leave: weakref.WeakSet(),
    consume: weakref.WeakSet(),
}


def leaks(
    p: Producer,
    dtype: str,
    keywords: dict[str, Any],
    spend: Callable[[Any], None],
    also: Callable[[Any], object] | None = None,
) -> bool:
    """Whether large arrays stay although nobody has them, or their capsules, any more."""

    def grows() -> bool:
        return growth(p, dtype, keywords, spend, also) > 0.5

    grows()  # it fills what allocators keep
    if not (before := caps.resident_bytes()):
        raise NotApplicable("the memory that the process occupies cannot be told here")
    if not grows():
        return False
    if p not in LEAKING[spend] and goes_late(grows, before):
        return False
    LEAKING[spend].add(p)
    return True


def goes_late(grows: Callable[[], bool], before: int) -> bool:
    """Whether what was kept is bounded, or goes while nothing is done.

    Freed memory may stay with the process for all that, but then it is used again."""
    while (kept := caps.resident_bytes() - before) < KEPT_BYTES:
        if not grows():
            return True
    end, later = time.monotonic() + KEPT_SECONDS, threading.Event()
    while caps.resident_bytes() - before > kept // 2:
        if time.monotonic() > end:
            return not grows()
        later.wait(0.05)
    return True


@check("producer", "deleter-frees", ("bare", "versioned"), risky=True)
def deleter_frees(p: Producer, ask: str) -> None:
    capsule = asked(p.make((2, 3)), ASKS[ask])
    called = "the deleter of each export is called" if view_of(capsule).deleter else NO_DELETER
    del capsule
    insist(
        not leaks(p, "float32", ASKS[ask], consume),
        f"arrays of {ELEMENTS} elements come and go, {called}, and the process still occupies "
        "their memory",
    )


@check("producer", "deleter-frees", ("copy",), ("bare", "versioned"), risky=True)
def deleter_frees_copies(p: Producer, which: str, ask: str) -> None:
    insist(
        not leaks(p, "float32", {**COPY, **ASKS[ask]}, consume),
        f"copies of {ELEMENTS} elements come and go by copy=True, their deleters are called, and "
        "the process still occupies their memory",
    )


@check("producer", "destructor-frees", ("copy",), ("bare", "versioned"), risky=True)
def destructor_frees_copies(p: Producer, which: str, ask: str) -> None:
    insist(
        not leaks(p, "float32", {**COPY, **ASKS[ask]}, leave),
        f"copies of {ELEMENTS} elements come and go by copy=True, nobody consumes their capsules, "
        "and the process still occupies their memory",
    )


#: How many exports are made where small blocks of memory are counted, and the least of a block.
EXPORTS, BLOCK = 256, 16


def blocks_left(p: Producer, ask: str) -> int:
    """The bytes that C and Python have more after so many arrays were exported and given back."""
    gc.collect()
    before = caps.bytes_of_malloc() + BLOCK * caps.blocks_in_use()
    with caps.short_memory():
        for _ in range(EXPORTS):
            consume(asked(p.make((2, 3)), ASKS[ask]))
    gc.collect()
    return caps.bytes_of_malloc() + BLOCK * caps.blocks_in_use() - before


@check("producer", "deleter-frees", ("blocks",), ("bare", "versioned"), risky=True)
def deleter_frees_blocks(p: Producer, which: str, ask: str) -> None:
    """Something small is left by each export: the struct itself, a shape, a reference."""
    view, capsule = held(p.make((2, 3)), ASKS[ask])  # drivers of devices keep books of their own
    if not view.deleter:
        raise NotApplicable("the struct has no deleter")
    del capsule
    left = [blocks_left(p, ask) for _ in range(4)][1:]
    insist(
        min(left) < EXPORTS * BLOCK,
        f"after {EXPORTS} exports whose deleters were called, {min(left)} bytes more are in use, "
        "each time",
    )


@check("producer", "deleter-without-gil", FEW, ASKS, risky=True)
def deleter_without_gil(p: Producer, dtype: str, ask: str) -> None:
    if not caps.has_c_threads():
        raise NotApplicable("no threads of C can be made here")
    array = p.make((2, 3), dtype)
    capsule = asked(array, ASKS[ask])
    view = view_of(capsule)
    if not view.deleter:
        raise NotApplicable("the struct has no deleter")
    caps.rename(capsule)
    del array, capsule
    caps.delete_on_c_thread(view.address, view.name)


@check("producer", "keeps-memory", SOME, ASKS, risky=True)
def keeps_memory(p: Producer, dtype: str, ask: str) -> None:
    dtype = p.usual(dtype)
    array = prepared(p, "cube", dtype)
    capsule = asked(array, ASKS[ask])
    view = on_host(view_of(capsule))
    if not view.data:
        raise NotApplicable("data is NULL, which another rule judges")
    before = view.elements()
    del array
    gc.collect()
    rivals = []
    for _ in range(8):  # whoever gets the memory next writes other values into it
        caps.poison((C.c_char * (len(before) * caps.itemsize_of(dtype)))())
        rivals.append(p.make((2, 3, 4), dtype))
    same_elements(view, before, "after the array is gone")


@check("producer", "keeps-memory", ("fields",), ASKS, risky=True)
def keeps_fields(p: Producer, which: str, ask: str) -> None:
    """Shape and strides belong to the struct, too."""
    array = p.make((2, 3))
    capsule = asked(array, ASKS[ask])
    before = fields_of(view_of(capsule))
    del array
    gc.collect()
    rivals = [p.make((3, 2)) for _ in range(8)]
    now = fields_of(view_of(capsule))
    insist(now == before, f"a struct says {before}, and {now} after the array is gone")
    del rivals


@check("producer", "keeps-memory", ("two exports",), ASKS, risky=True)
def keeps_memory_of_each_export(p: Producer, which: str, ask: str) -> None:
    """Each export is given back for itself: the deleter of one leaves the others what they have."""
    array, _, _, written = laid_out_and_filled(p, "cube", "float32")
    first, second = all_asked(array, [ASKS[ask]] * 2)
    view = on_host(view_of(second))
    if not view.data:
        raise NotApplicable("data is NULL, which another rule judges")
    before = view.elements()
    del array, written
    consume(first)
    gc.collect()
    rivals = []
    for _ in range(8):
        caps.poison((C.c_char * (len(before) * caps.itemsize_of(view.dtype)))())
        rivals.append(p.make((2, 3, 4)))
    same_elements(view, before, "after the deleter of another export was called")
    del rivals, second


@check("producer", "keeps-memory", ("large",), ASKS, risky=True)
def keeps_large_memory(p: Producer, which: str, ask: str) -> None:
    """Large memory goes back to the system: reading what was not kept ends the process."""
    array = p.make((ELEMENTS,))
    capsule = asked(array, ASKS[ask])
    view = on_host(view_of(capsule))
    size = span_of(view)
    if not view.readonly:
        C.memset(view.element_zero, 1, size)
    before = C.string_at(view.element_zero, size)
    del array
    gc.collect()
    rivals = [p.make((ELEMENTS,)) for _ in range(2)]
    same = C.string_at(view.element_zero, size) == before
    insist(same, f"of {ELEMENTS} elements, some are others after the array is gone")
    del rivals


@check("producer", "keeps-memory", ("copy",), ("bare", "versioned"), risky=True)
def keeps_a_copy(p: Producer, which: str, ask: str) -> None:
    """What `copy=True` gives belongs to its capsule alone."""
    array, wanted, why, export = laid_out_and_filled(p, "cube", "float32")
    if wanted is None:
        raise NotApplicable(why)
    view, capsule = held(array, {**COPY, **ASKS[ask]})
    if view.elements() != wanted:
        raise NotApplicable("the copy has other elements at once, which another rule judges")
    del array, export
    gc.collect()
    rivals = []
    for _ in range(8):
        caps.poison((C.c_char * (len(wanted) * caps.itemsize_of(view.dtype)))())
        rivals.append(p.make((2, 3, 4)))
    same_elements(view, wanted, "what copy=True gave")
    del capsule


@check("producer", "keeps-memory", ("large copy",), ("bare", "versioned"), risky=True)
def keeps_a_large_copy(p: Producer, which: str, ask: str) -> None:
    array = p.make((ELEMENTS,))
    own, own_capsule = held(array, ASKS[ask])
    size = span_of(own)
    if not own.readonly:
        C.memset(own.element_zero, 1, size)
    again, second = held(array, ASKS[ask])  # where each export is a copy, the first alone has it
    before = C.string_at(again.element_zero, size)
    view, capsule = held(array, {**COPY, **ASKS[ask]})
    span_of(view)
    del array, own_capsule, second
    gc.collect()
    rivals = [p.make((ELEMENTS,)) for _ in range(2)]
    same = C.string_at(view.element_zero, size) == before
    insist(same, f"of the {ELEMENTS} elements that copy=True gave, some are others")
    del rivals, capsule


#: Ways in which libraries give an array other memory in place: NumPy's, and three of torch.
REPLACE: dict[str, Callable[[Any, Any], object]] = {
    "resize": lambda array, other: array.resize(2 * SMALL),
    "resize_": lambda array, other: array.resize_(2 * SMALL),
    "set_": lambda array, other: array.set_(other),
    "data": lambda array, other: setattr(array, "data", other),
}
#: So small that freed memory stays with the process: reading it does not end that.
SMALL = 1 << 12


@check("producer", "keeps-replaced-memory", REPLACE, ASKS, risky=True)
def keeps_replaced_memory(p: Producer, way: str, ask: str) -> None:
    array, other = p.make((SMALL,)), p.make((SMALL,))
    if not hasattr(array, way):
        raise NotApplicable(f"the array has no {way}")
    view, capsule = held(array, ASKS[ask])
    size = span_of(view, SMALL)
    if not view.readonly:
        C.memset(view.element_zero, 1, size)
    before = C.string_at(view.element_zero, size)
    try:
        REPLACE[way](array, other)
    except Exception as error:
        raise NotApplicable(f"the array refuses {way}: {said(error)}") from error
    if view_of(asked(array, ASKS[ask])).element_zero == view.element_zero:
        raise NotApplicable(f"{way} leaves the array its memory")
    gc.collect()
    rivals = [p.make((SMALL,)) for _ in range(8)]
    same = C.string_at(view.element_zero, size) == before
    insist(same, f"of {SMALL} elements of an export, some are others after {way}")
    del rivals, capsule


# ---- fields --------------------------------------------------------------------------------


@check("producer", "shape", LAYOUTS, ("bare", "versioned"))
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


@check("producer", "shape", ("long",), ("bare", "versioned"), risky=True)
def long_shape_is_told(p: Producer, which: str, ask: str) -> None:
    if p.one_dimension:
        raise NotApplicable("the target is said to have one dimension alone")
    array = p.make(LONG)
    if shape_of(array) is None:
        raise NotApplicable("the array has no shape")
    view = view_of(asked(array, ASKS[ask]))
    insist(view.shape == LONG, f"the struct says {view.shape}, the array {LONG}")


@check("producer", "dtype", DTYPES, ("bare", "versioned"))
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


@check("producer", "data-present", LAYOUTS, ("bare", "versioned"))
def data_are_present(p: Producer, layout: str, ask: str) -> None:
    array = prepared(p, layout, "float32")
    view = view_of(asked(array, ASKS[ask]))
    if 0 in view.shape:
        raise NotApplicable("an array without elements")
    insist(view.data, f"data is NULL, and the shape {view.shape}")


@check("producer", "data-present", ("read-only",), ("bare", "versioned"))
def data_of_read_only_are_present(p: Producer, which: str, ask: str) -> None:
    view = view_of(asked(read_only_array(p), ASKS[ask]))
    if 0 in view.shape:
        raise NotApplicable("an array without elements")
    insist(view.data, f"an array that may not be written: data is NULL, the shape {view.shape}")


@check("producer", "data-of-empty", [name for name in LAYOUTS if "empty" in name])
def data_of_empty(p: Producer, layout: str) -> None:
    array = prepared(p, layout, "float32")
    (capsule,) = newest_of(array)
    view = view_of(capsule)
    insist(not view.data, f"shape {view.shape}, and data is not NULL")


@check("producer", "values", LAYOUTS, SOME, ("bare", "versioned"))
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


@check("producer", "values", [name for name in DTYPES if name not in SOME], ("bare", "versioned"))
def values_of_dtype(p: Producer, dtype: str, ask: str) -> None:
    values_are_there(p, "rows", dtype, ask)


SPECIAL = 8  # how many special arrays of a library there are checks for
NUMBERED = [f"special {k}" for k in range(SPECIAL)]
REFUSED = [f"refused {k}" for k in range(SPECIAL)]


@check("producer", "special-values", NUMBERED, ("bare", "versioned"))
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
    array = prepared(p, layout, "float32")
    first, second = newest_of(array, 2)
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
    before = own_elements(whole, p.usual())
    try:
        array[(0,) * len(shape_of(array) or ())] = MARK
    except Exception as error:
        raise NotApplicable(f"a view cannot be written: {said(error)}") from error
    if before is None or own_elements(whole, p.usual()) == before:
        raise NotApplicable("nothing shows that what the library's index gives is a view")
    return array, whole, at


def is_of_the_whole(p: Producer, layout: str, keywords: dict[str, Any]) -> bool:
    """Whether what is written into the whole shows in an export of its view."""
    array, whole, at = view_and_whole(p, layout)
    view, capsule = held(array, keywords)
    try:
        whole[at] = OTHER
    except Exception as error:
        raise NotApplicable(f"the whole cannot be written: {said(error)}") from error
    shows = view.elements()[:1] == [caps.encode(p.usual(), OTHER)]
    del capsule
    return shows


@check("producer", "zero-copy", ("of the whole",), VIEWS)
def view_shares_the_whole(p: Producer, which: str, layout: str) -> None:
    shares = is_of_the_whole(p, layout, ASKS["versioned"])
    insist(shares, f"{layout}: the export of a view is a copy of it, not the memory of the whole")


@check("producer", "copy-false", ("of the whole",), VIEWS, ("bare", "versioned"))
def copy_false_shares_the_whole(p: Producer, which: str, layout: str, ask: str) -> None:
    shares = is_of_the_whole(p, layout, {"copy": False, **ASKS[ask]})
    insist(shares, f"{layout}: copy=False gives a copy of a view, not the memory of the whole")


# ---- what is asked -------------------------------------------------------------------------


def answers(array: Any, **keywords: Any) -> BaseException | None:
    """What `__dlpack__` raises, if anything."""
    try:
        array.__dlpack__(**keywords)
    except NoFunction as error:
        raise TargetError(other_driver(error)) from error
    except Exception as error:
        return error
    return None


def on_cpu(p: Producer) -> Any:
    array = p.make((2, 3))
    if (device := device_of(array))[0] != 1:
        raise NotApplicable(f"the array is on device {device}")
    return array


@check("producer", "stream-none", DTYPES)
def stream_none(p: Producer, dtype: str) -> None:
    array = p.make((2, 3), dtype)
    asked(array, {})  # a dtype that is refused anyhow is no matter of the stream
    error = answers(array, stream=None)
    insist(error is None, f"stream=None: {error and said(error)}")


@check("producer", "stream-on-cpu", STREAMS)
def stream_on_cpu(p: Producer, stream: int) -> None:
    insist(answers(on_cpu(p), stream=stream), f"stream={stream} is taken for host memory")


KEYWORDS: dict[str, dict[str, Any]] = {
    "max_version=None": {"max_version": None},
    "dl_device=None": {"dl_device": None},
    "copy=None": {"copy": None},
    "all None": {"stream": None, "max_version": None, "dl_device": None, "copy": None},
    "max_version=(1,0)": {"max_version": (1, 0)},
}


@check("producer", "keywords", KEYWORDS)
def keywords_are_taken(p: Producer, case: str) -> None:
    array = p.make((2, 3))
    error = answers(array, **KEYWORDS[case])
    insist(not isinstance(error, TypeError), f"{case}: {error and said(error)}")
    if error is not None and {*KEYWORDS[case].values()} == {None} and answers(array) is None:
        raise Broken(f"{case}: {said(error)}; without it, the array is exported")
    if error is not None:
        raise NotApplicable(f"refused, but not for the keyword: {said(error)}")


@check("producer", "keyword-only")
def keyword_only(p: Producer) -> None:
    array = p.make((2, 3))
    try:
        array.__dlpack__(None)
    except TypeError:
        return
    raise Broken("__dlpack__(None) is taken")


@check("producer", "unknown-keyword")
def unknown_keyword(p: Producer) -> None:
    error = answers(p.make((2, 3)), not_a_keyword=1)
    insist(isinstance(error, TypeError), f"an unknown keyword: {said(error) if error else 'taken'}")


VERSIONS = ((1, 0), (1, 1), (1, 2), (1, 3), (1, 99), (2, 0))


@check("producer", "versioned-answer", FEW, VERSIONS)
def versioned_answer(p: Producer, dtype: str, version: tuple[int, int]) -> None:
    array = p.make((2, 3), dtype)
    error = answers(array, max_version=version)
    insist(error is None, f"max_version={version}: {error and said(error)}")
    name = caps.name_of(asked(array, {"max_version": version}))
    insist(name == caps.VERSIONED, f"max_version={version} is answered by {name!r}")


@check("producer", "known-major", VERSIONS)
def known_major(p: Producer, version: tuple[int, int]) -> None:
    """No text describes a struct of DLPack 2 yet: who says it has the layout of another version.

    The minor version may be any: what a newer one adds does not change the layout."""
    capsule = asked(p.make((2, 3)), {"max_version": version})
    if caps.name_of(capsule) != caps.VERSIONED:
        raise NotApplicable("the answer is DLPack 0.x")
    major = caps.look(capsule).version
    insist(
        major and major[0] == 1,
        f"max_version={version} is answered by a struct that says DLPack {major}",
    )


@check("producer", "older-version", ((0, 5), (0, 8)))
def older_version(p: Producer, version: tuple[int, int]) -> None:
    array = p.make((2, 3))
    if isinstance(answers(array, max_version=None), TypeError):
        raise NotApplicable("max_version is not known")
    error = answers(array, max_version=version)
    if error is None:
        name = caps.name_of(asked(array, {"max_version": version}))
        insist(name == caps.LEGACY, f"max_version={version} is answered by {name!r}")
    else:
        insist(isinstance(error, BufferError), f"max_version={version}: {said(error)}")


@check("producer", "known-flags", ("whole", "rows", "empty"))
def known_flags(p: Producer, layout: str) -> None:
    array = prepared(p, layout, "float32")
    view = view_of(asked(array, ASKS["versioned"]))
    if view.flags is None:
        raise NotApplicable("the answer is DLPack 0.x, which has no flags")
    insist(view.flags & ~7 == 0, f"flags are {view.flags:#x}")
    insist(
        not view.flags & PADDED or view.dtype[1] < 8,
        f"flags are {view.flags:#x}: dtype {view.dtype} is said to be padded, and it has "
        f"{view.dtype[1]} bits",
    )


@check("producer", "to-cpu", FEW)
def to_cpu(p: Producer, dtype: str) -> None:
    array = p.make((2, 3), dtype)
    error = answers(array, dl_device=(1, 0), max_version=(1, 0))
    insist(error is None, f"dl_device=(1, 0): {error and said(error)}")
    view = view_of(asked(array, {"dl_device": (1, 0), "max_version": (1, 0)}))
    insist(view.device == (1, 0), f"dl_device=(1, 0) gives memory of {view.device}")


class Device(enum.IntEnum):
    """As the standard has it: "the device type is an Enum"."""

    CPU = 1


@check("producer", "to-cpu", ("enum",))
def to_cpu_by_an_enum(p: Producer, which: str) -> None:
    array = on_cpu(p)
    asked(array, {"dl_device": (1, 0), "max_version": (1, 0)})
    error = answers(array, dl_device=(Device.CPU, 0), max_version=(1, 0))
    insist(error is None, f"dl_device=({Device.CPU!r}, 0): {error and said(error)}")


@check("producer", "other-device", UNKNOWN_DEVICES, ("bare", "versioned"))
def other_device(p: Producer, device: tuple[int, int], ask: str) -> None:
    array = p.make((2, 3))
    if isinstance(answers(array, dl_device=None), TypeError):
        raise Broken("dl_device is not known")
    error = answers(array, dl_device=device, **ASKS[ask])
    insist(
        isinstance(error, BufferError),
        f"dl_device={device}: {said(error) if error else 'taken'}",
    )


# ---- copies and flags ----------------------------------------------------------------------


@check("producer", "copy-supported", ("bare", "versioned"))
def copy_is_supported(p: Producer, ask: str) -> None:
    error = answers(p.make((2, 3)), copy=True, **ASKS[ask])
    insist(error is None, f"copy=True: {error and said(error)}")


@check("producer", "copy-true", LAYOUTS, ("bare", "versioned"))
def copy_is_made(p: Producer, layout: str, ask: str) -> None:
    array, wanted, _, export = laid_out_and_filled(p, layout, "float32")
    own, own_capsule = held(array, ASKS[ask])
    view, capsule = held(array, {"copy": True, **ASKS[ask]})
    if 0 in view.shape:
        return
    insist(view.element_zero != own.element_zero, "copy=True gives the array's own memory")
    same_elements(view, own.elements() if wanted is None else wanted, "the copy")
    del own_capsule, capsule, export


TO_CPU = {"dl_device": (1, 0)}


@check("producer", "copy-true", ("to cpu",), ("bare", "versioned"))
def copy_is_made_on_its_device(p: Producer, which: str, ask: str) -> None:
    array = on_cpu(p)
    own, own_capsule = held(array, ASKS[ask])
    view, capsule = held(array, {**COPY, **TO_CPU, **ASKS[ask]})
    insist(
        view.element_zero != own.element_zero,
        "copy=True with dl_device=(1, 0) gives the array's own memory",
    )
    del own_capsule, capsule


@check("producer", "copied-flag", LAYOUTS)
def copy_has_its_flag(p: Producer, layout: str) -> None:
    array = prepared(p, layout, "float32")
    view = view_of(asked(array, {"copy": True, "max_version": (1, 0)}))
    if view.flags is None:
        raise NotApplicable("the answer is DLPack 0.x, which has no flags")
    insist(view.copied, f"copy=True gives flags {view.flags}, without IS_COPIED")


@check("producer", "copied-falsely", ("whole", "rows", "every second", "transposed"))
def shared_is_not_copied(p: Producer, layout: str) -> None:
    array = prepared(p, layout, "float32")
    first, second = all_asked(array, [ASKS["versioned"]] * 2)
    view, again = view_of(first), view_of(second)
    if view.element_zero != again.element_zero:
        raise NotApplicable("each export is a copy")
    insist(not view.copied, "memory that two exports share has the flag IS_COPIED")


@check("producer", "copy-false", LAYOUTS, ("bare", "versioned"))
def copy_false_shares(p: Producer, layout: str, ask: str) -> None:
    array = prepared(p, layout, "float32")
    plain = all_asked(array, [ASKS[ask]] * 2)
    error = answers(array, copy=False, **ASKS[ask])
    if isinstance(error, TypeError):
        raise NotApplicable(f"copy is not known: {said(error)}")
    if error is not None:
        allowed = isinstance(error, BufferError | ValueError)
        insist(allowed, f"copy=False: {said(error)}")
        return
    uncopied = all_asked(array, [{"copy": False, **ASKS[ask]}] * 2)
    view = view_of(uncopied[0])
    places = {view_of(each).element_zero for each in plain}
    if len(places) > 1:  # plain exports are copies, which do not tell where the array lies
        places = {view_of(uncopied[1]).element_zero}
    insist(0 in view.shape or view.element_zero in places, "copy=False gives a copy")
    insist(not view.copied, "copy=False gives a struct with the flag IS_COPIED")


@check("producer", "copy-false", ("to cpu",), ("bare", "versioned"))
def copy_false_on_its_device(p: Producer, which: str, ask: str) -> None:
    array = on_cpu(p)
    own, again = all_asked(array, [ASKS[ask]] * 2)
    if view_of(own).element_zero != view_of(again).element_zero:
        raise NotApplicable("each export is a copy")
    error = answers(array, copy=False, **TO_CPU, **ASKS[ask])
    if error is not None:
        allowed = isinstance(error, BufferError | ValueError | TypeError)
        insist(allowed, f"copy=False with dl_device=(1, 0): {said(error)}")
        return
    view = view_of(asked(array, {"copy": False, **TO_CPU, **ASKS[ask]}))
    same = view.element_zero == view_of(own).element_zero
    insist(same, "copy=False with dl_device=(1, 0) gives a copy")


@check("producer", "copy-false-error", LAYOUTS, ("bare", "versioned"))
def copy_false_is_a_buffer_error(p: Producer, layout: str, ask: str) -> None:
    array = prepared(p, layout, "float32")
    asked(array, ASKS[ask])
    error = answers(array, copy=False, **ASKS[ask])
    if error is None or isinstance(error, TypeError):
        raise NotApplicable(f"copy=False is {said(error) if error else 'answered'}")
    insist(isinstance(error, BufferError), f"copy=False: {said(error)}")


@check("producer", "copy-alone", ("whole", "rows", "transposed"), ("bare", "versioned"), risky=True)
def copies_share_nothing(p: Producer, layout: str, ask: str) -> None:
    array = prepared(p, layout, "float32")
    capsules = all_asked(array, [{**copy, **ASKS[ask]} for copy in (COPY, COPY, {})])
    copied, other, own = (on_host(view_of(each)) for each in capsules)
    if copied.readonly or copied.element_zero == own.element_zero:
        raise NotApplicable("copy=True gives no copy that may be written")
    before = own.elements(), other.elements()
    copied.write(0, 0 if any(before[0][0]) else 1)
    insist(own.elements() == before[0], "what is written into the copy shows in the array")
    insist(other.elements() == before[1], "what is written into a copy shows in another one")


def read_only_array(p: Producer) -> Any:
    """An array that may not be written: what was given, or NumPy's way of making one."""
    if p.read_only is not None:
        return given("read_only=", p.read_only)
    array = p.make((2, 3))
    try:
        array.flags.writeable = False
    except Exception as error:
        why = "no way is known to make a read-only array"
        raise NotApplicable(why, lacks="read_only") from error
    return array


@check("producer", "read-only-flag", ("versioned", "newest"))
def read_only_has_its_flag(p: Producer, ask: str) -> None:
    view = view_of(asked(read_only_array(p), ASKS[ask]))
    if view.flags is None:
        raise NotApplicable("the answer is DLPack 0.x, which has no flags")
    insist(view.readonly, f"an array that may not be written has flags {view.flags}")


def says_that_it_may_be_written(array: Any) -> bool:
    """By its buffer, NumPy's flag, or because `array[i, j] = 0` works."""
    with contextlib.suppress(Exception), memoryview(array) as memory:
        return not memory.readonly
    if (flag := getattr(getattr(array, "flags", None), "writeable", None)) is not None:
        return bool(flag)
    try:
        array[(0,) * len(shape_of(array) or ())] = 0
    except Exception:
        return False
    return True


@check("producer", "read-only-falsely", ("whole", "rows", "transposed"), ("versioned", "newest"))
def writable_is_not_flagged(p: Producer, layout: str, ask: str) -> None:
    array = prepared(p, layout, "float32")
    view = view_of(asked(array, ASKS[ask]))
    if view.flags is None:
        raise NotApplicable("the answer is DLPack 0.x, which has no flags")
    if view.readonly and not says_that_it_may_be_written(array):
        raise NotApplicable("nothing says that the array may be written")
    insist(not view.readonly, f"an array that may be written has flags {view.flags}")


@check("producer", "copy-writable", ("versioned", "newest"))
def copy_of_read_only_is_writable(p: Producer, ask: str) -> None:
    view = view_of(asked(read_only_array(p), {**ASKS[ask], **COPY}))
    if view.flags is None:
        raise NotApplicable("the answer is DLPack 0.x, which has no flags")
    if view.readonly and view_of(asked(p.make((2, 3)), {**ASKS[ask], **COPY})).readonly:
        raise NotApplicable("what the library makes may never be written")
    insist(not view.readonly, f"copy=True of an array that may not be written: flags {view.flags}")


@check("producer", "read-only-legacy")
def read_only_as_legacy(p: Producer) -> None:
    array = read_only_array(p)
    if answers(array) is not None:
        return
    name = caps.name_of(asked(array, ASKS["bare"]))
    insist(name != caps.LEGACY, "memory that may not be written is given out as DLPack 0.x")


@check("producer", "leaves-array", ("writable",), ASKS)
def export_leaves_the_array_writable(p: Producer, which: str, ask: str) -> None:
    array = p.make((2, 3))
    if not says_that_it_may_be_written(array):
        raise NotApplicable("nothing says that the array may be written")
    consume(asked(array, ASKS[ask]))
    insist(says_that_it_may_be_written(array), "an array that was exported may not be written")


@check("producer", "refusals", ("layout",), LAYOUTS, ("bare", "versioned"))
def layouts_are_refused_by_a_buffer_error(p: Producer, which: str, layout: str, ask: str) -> None:
    array = prepared(p, layout, "float32")
    if not hasattr(array, "__dlpack__"):
        raise NotApplicable(f"a {type(array).__name__} has no __dlpack__")
    if ASKS[ask] and isinstance(answers(p.make((2, 3)), max_version=None), TypeError):
        raise NotApplicable("max_version is not known")
    error = answers(array, **ASKS[ask])
    insist(error is None or isinstance(error, BufferError), f"{layout}: {error and said(error)}")


@check("producer", "refusals", REFUSED, ("bare", "versioned"))
def refusals(p: Producer, which: str, ask: str) -> None:
    name, make = one_of(p, "refused", which)
    array = given(f"refused=[{name!r}]", make)
    error = answers(array, **ASKS[ask])
    insist(error is not None, f"{name}: it is exported")
    insist(isinstance(error, BufferError), f"{name}: {error and said(error)}")


@check("producer", "refusals", ("read-only",), ("bare",))
def read_only_is_refused_by_a_buffer_error(p: Producer, which: str, ask: str) -> None:
    array = read_only_array(p)
    asked(array, ASKS["versioned"])
    error = answers(array, **ASKS[ask])
    if error is None:
        raise NotApplicable("it is given out as DLPack 0.x, which another rule judges")
    insist(isinstance(error, BufferError), f"memory that may not be written: {said(error)}")


@check("producer", "refused-freed", REFUSED)
def refused_goes(p: Producer, which: str) -> None:
    name, make = one_of(p, "refused", which)
    array = given(f"refused=[{name!r}]", make)
    try:
        gone = weakref.ref(array)
    except TypeError as error:
        raise NotApplicable(f"{name}: {said(error)}") from error
    for ask in ("versioned", "bare"):
        if answers(array, **ASKS[ask]) is None:
            raise NotApplicable(f"{name}: it is exported")
    del array
    gc.collect()
    insist(gone() is None, f"{name}: it stays although nothing but its refused exports had it")


#: What most libraries refuse of an array that can be exported.
NOT_GIVEN: dict[str, dict[str, Any]] = {
    "dl_device": {"dl_device": (99, 0)},
    "stream": {"stream": 1},
    "unknown keyword": {"not_a_keyword": 1},
}


@check("producer", "refused-freed", NOT_GIVEN, risky=True)
def array_goes_after_a_refused_call(p: Producer, which: str) -> None:
    """A large array that was exported, and asked for something that it refused."""
    keywords = NOT_GIVEN[which]
    if answers(p.make((2, 3)), **keywords) is None:
        raise NotApplicable(f"{keywords} is taken")
    insist(
        not leaks(p, "float32", ASKS["bare"], consume, lambda array: answers(array, **keywords)),
        f"arrays that refused {keywords} come and go, and the process still occupies their memory",
    )


@check("producer", "not-exported", REFUSED, ("bare", "versioned"))
def refused_is_not_exported(p: Producer, which: str, ask: str) -> None:
    name, make = one_of(p, "refused", which)
    array = given(f"refused=[{name!r}]", make)
    insist(answers(array, **ASKS[ask]) is not None, f"{name}: it is exported")
