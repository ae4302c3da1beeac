"""Capsules and deleters of a producer: who keeps the memory, and until when."""

from __future__ import annotations

import ctypes as C
import functools
import gc
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from .catalogue import Broken, NotApplicable, check, insist
from .doubles import capsules as caps
from .exports import (
    ASKS,
    BOTH,
    COPY,
    FEW,
    SIZES,
    SOME,
    WAYS,
    Watch,
    all_asked,
    answers,
    asked,
    call,
    held,
    laid_out_and_filled,
    on_host,
    prepared,
    same_elements,
    view_of,
)
from .partner import DTYPES, Producer, said


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


#: More exports than any store of structs that serve in turns is likely to have.
CROWD = 300


@check("producer", "fresh-capsule", ("a crowd",), BOTH)
def fresh_among_many(p: Producer, which: str, ask: str) -> None:
    """Many exports live at a time, and each has a struct and fields of its own."""
    shapes = [(2, 3), (3, 2), (6, 1)]
    arrays = [p.make(shape) for shape in shapes]
    capsules = [asked(arrays[k % 3], ASKS[ask]) for k in range(CROWD)]
    places = {caps.pointer_of(capsule) for capsule in capsules}
    insist(len(places) == CROWD, f"{CROWD} capsules hold {len(places)} structs")
    for k in range(CROWD):
        now, meant = view_of(capsules[k]).shape, view_of(capsules[CROWD - 3 + k % 3]).shape
        insist(
            now == meant,
            f"of {CROWD} exports that live, number {k + 1} says the shape {now}, and a later one "
            f"of the same array {meant}",
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


@check("producer", "error-kept", ASKS, risky=True)
def destructor_keeps_the_error(p: Producer, ask: str) -> None:
    """A capsule that nobody took is dropped while an IndexError is on its way out of a function."""
    if p.leaves:
        raise NotApplicable("the deleter leaves an exception, which another check judges")
    array = p.make((2, 3))
    if view_of(asked(array, ASKS[ask])).manager_ctx == caps.OWN_CONTEXT:
        raise NotApplicable("the destructor of the kit's own doubles is Python, which keeps none")

    def fails_with_a_capsule(nothing: list[Any]) -> Any:
        return call(array, ASKS[ask]), nothing[0]

    try:
        list(map(fails_with_a_capsule, [[]]))  # C calls it, and sees whether the error is there
    except IndexError:
        return
    except SystemError as error:
        raise Broken(f"an IndexError went while a capsule was dropped: {said(error)}") from None


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


#: Ways of which the memory of many large copies is looked at.
COPIED = (*BOTH, "own device versioned")
NO_DELETER = "there is no deleter that could be called"
MANY, ELEMENTS = 48, 1 << 18


def leave(capsule: Any) -> None:
    """Nobody consumes the capsule: its destructor frees what it holds."""


def consume(capsule: Any) -> None:
    view = view_of(capsule)
    caps.rename(capsule)
    caps.call_deleter(view.address, view.name, held=True)  # nothing, where the deleter is NULL


def consume_elsewhere(capsule: Any) -> None:
    """The deleter is called by a thread of C, which does not hold the GIL."""
    view = view_of(capsule)
    caps.rename(capsule)
    if view.deleter:
        caps.delete_on_c_thread(view.address, view.name)


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


#: Memory that may be kept for a while, and for how long: allocators that look for faults keep freed
#: memory up to a bound, 256 MB in AddressSanitizer; another thread may free some seconds later.
KEPT_BYTES, KEPT_SECONDS = 1 << 29, 4.0
#: How arrays are given up -> the producers of which it is known that their memory stays.
LEAKING: dict[Any, weakref.WeakSet[Producer]] = {
    leave: weakref.WeakSet(),
    consume: weakref.WeakSet(),
    consume_elsewhere: weakref.WeakSet(),
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


@check("producer", "deleter-frees", WAYS, risky=True)
def deleter_frees(p: Producer, ask: str) -> None:
    capsule = asked(p.make((2, 3)), ASKS[ask])
    called = "the deleter of each export is called" if view_of(capsule).deleter else NO_DELETER
    del capsule
    insist(
        not leaks(p, "float32", ASKS[ask], consume),
        f"arrays of {ELEMENTS} elements come and go, {called}, and the process still occupies "
        "their memory",
    )


@check("producer", "deleter-frees", ("thread",), BOTH, risky=True)
def deleter_frees_on_a_thread(p: Producer, which: str, ask: str) -> None:
    """Consumers free what they took on whatever thread they have."""
    if not caps.has_c_threads():
        raise NotApplicable("no threads of C can be made here")
    insist(
        not leaks(p, "float32", ASKS[ask], consume_elsewhere),
        f"arrays of {ELEMENTS} elements come and go, the deleter of each export is called by "
        "another thread, and the process still occupies their memory",
    )


@check("producer", "deleter-frees", ("copy",), COPIED, risky=True)
def deleter_frees_copies(p: Producer, which: str, ask: str) -> None:
    insist(
        not leaks(p, "float32", {**ASKS[ask], **COPY}, consume),
        f"copies of {ELEMENTS} elements come and go by copy=True, their deleters are called, and "
        "the process still occupies their memory",
    )


@check("producer", "destructor-frees", ("copy",), COPIED, risky=True)
def destructor_frees_copies(p: Producer, which: str, ask: str) -> None:
    insist(
        not leaks(p, "float32", {**ASKS[ask], **COPY}, leave),
        f"copies of {ELEMENTS} elements come and go by copy=True, nobody consumes their capsules, "
        "and the process still occupies their memory",
    )


#: How many exports are made where small blocks of memory are counted, and the least of a block.
EXPORTS, BLOCK = 256, 16


def blocks() -> int:
    """The bytes that C and Python have in use; a block of Python counts as the least one."""
    gc.collect()
    return caps.bytes_of_malloc() + BLOCK * caps.blocks_in_use()


def blocks_left_by(run: Callable[[], None]) -> int:
    """The bytes that C and Python have more after a run.  Its warnings are dropped: pytest keeps
    each, which would look as if the library did."""
    with caps.short_memory(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = blocks()
        run()
        return blocks() - before


@check("producer", "deleter-frees", ("blocks",), COPIED, risky=True)
def deleter_frees_blocks(p: Producer, which: str, ask: str) -> None:
    """Something small is left by each export: the struct itself, a shape, a reference."""
    view, capsule = held(p.make((2, 3)), ASKS[ask])  # drivers of devices keep books of their own
    if not view.deleter:
        raise NotApplicable("the struct has no deleter")
    del capsule

    def export_and_give_back() -> None:
        for _ in range(EXPORTS):
            consume(asked(p.make((2, 3)), ASKS[ask]))

    left = [blocks_left_by(export_and_give_back) for _ in range(4)][1:]
    insist(
        min(left) < EXPORTS * BLOCK,
        f"after {EXPORTS} exports whose deleters were called, {min(left)} bytes more are in use, "
        "each time",
    )


@check("producer", "deleter-without-gil", FEW, ASKS, risky=True)
def deleter_without_gil(p: Producer, dtype: str, ask: str) -> None:
    if not caps.has_c_threads():
        raise NotApplicable("no threads of C can be made here")
    # A thread of C may call the deleter while this one holds the GIL, and Python then takes the
    # call for this one's: so a second deleter is called here, where nobody holds it.
    for delete in (caps.delete_on_c_thread, functools.partial(caps.call_deleter, held=False)):
        array = p.make((2, 3), dtype)
        capsule = asked(array, ASKS[ask])
        view = view_of(capsule)
        if not view.deleter:
            raise NotApplicable("the struct has no deleter")
        caps.rename(capsule)
        del array, capsule
        delete(view.address, view.name)


@check("producer", "keeps-memory", SIZES, ASKS, risky=True)
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


@check("producer", "keeps-memory", ("copy",), WAYS, risky=True)
def keeps_a_copy(p: Producer, which: str, ask: str) -> None:
    """The memory of a copy belongs to its capsule alone."""
    array, wanted, why, export = laid_out_and_filled(p, "cube", "float32")
    if wanted is None:
        raise NotApplicable(why)
    view, capsule = held(array, {**ASKS[ask], **COPY})
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


@check("producer", "keeps-memory", ("large copy",), WAYS, risky=True)
def keeps_a_large_copy(p: Producer, which: str, ask: str) -> None:
    array = p.make((ELEMENTS,))
    own, own_capsule = held(array, ASKS[ask])
    size = span_of(own)
    if not own.readonly:
        C.memset(own.element_zero, 1, size)
    again, second = held(array, ASKS[ask])  # where each export is a copy, the first alone has it
    before = C.string_at(again.element_zero, size)
    view, capsule = held(array, {**ASKS[ask], **COPY})
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
