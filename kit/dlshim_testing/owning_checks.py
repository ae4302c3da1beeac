"""Who owns what a consumer took, and when it is given back."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

from .catalogue import Broken, NotApplicable, check, insist
from .doubles import capsules as caps
from .imports import (
    EDITIONS,
    FLAGS,
    HOW,
    LAYOUTS,
    REFUSABLE,
    SAY_HOST,
    SOURCES,
    USED,
    Trial,
    device_of_results,
    edition_is_taken,
    objects_only,
    observe,
    same_values,
    trial,
    with_copy,
)
from .partner import DTYPES, Consumer, said


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


#: More imports than any store of owners that serve in turns is likely to have.
CROWD = 200


@check("consumer", "owns", ("a crowd",), EDITIONS, risky=True)
def many_own(c: Consumer, which: str, edition: str) -> None:
    made = [trial(c, EDITIONS[edition]()).taken() for _ in range(CROWD)]
    for at, each in enumerate(made):
        early = "after the deleter was called" if each.made.deleted else "still owned"
        same_values(observe(each.result), each.array, f"import {at + 1} of {CROWD}, {early}")
    lost = sum(each.finish().deleted != 1 for each in made)
    insist(not lost, f"of {CROWD} imports that lived at a time, {lost} are not given back once")


@check("consumer", "owns", HOW, EDITIONS, risky=True)
def owns_whatever_was_before(c: Consumer, how: str, edition: str) -> None:
    made = trial(c, EDITIONS[edition](), how).taken()
    same_values(observe(made.result), made.array, f"{how}, while the result lives")


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


@check("consumer", "gives-back", HOW, EDITIONS, risky=True)
def gives_back_whatever_was_before(c: Consumer, how: str, edition: str) -> None:
    made = trial(c, EDITIONS[edition](), how).taken()
    made.array.first = None
    made.finish()
    kept = sum(each.deleted != 1 for each in made.array.exports)
    insist(not kept, f"{how}: of {len(made.array.exports)} exports, {kept} are not given back once")


@check("consumer", "gives-back", ("device",), EDITIONS, risky=True)
def gives_back_with_a_device(c: Consumer, which: str, edition: str) -> None:
    made = trial(c, EDITIONS[edition](), device=device_of_results(c)).taken()
    record = made.finish()
    insist(record.deleted == 1, f"device=: the deleter was called {record.deleted} times")


@check("consumer", "gives-back", FLAGS, risky=True)
def gives_back_what_has_a_flag(c: Consumer, which: str) -> None:
    record = trial(c, FLAGS[which]()).taken().finish()
    insist(record.deleted == 1, f"{which}: the deleter was called {record.deleted} times")


@check("consumer", "gives-back", ("copy=True",), ("plain", "rows with gaps"), SOURCES, risky=True)
def gives_back_what_it_copied(c: Consumer, which: str, layout: str, source: str) -> None:
    made = with_copy(c, SOURCES[source](**LAYOUTS[layout]), True).taken()
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
    kind: Any = EDITIONS[edition]

    class Keeping(kind):
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
    if not changed:  # what the two pointers lead to
        pairs = {
            "shape": (record._shape, fresh._shape),
            "strides": (record._strides, fresh._strides),
        }
        changed = [
            name for name, (one, other) in pairs.items() if [*(one or ())] != [*(other or ())]
        ]
    insist(not changed, f"the consumer wrote to {', '.join(changed)} of the producer's struct")
