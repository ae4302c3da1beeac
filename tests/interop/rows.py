"""The rows of ``known`` about one library, each held against what its release really does.

    python -m interop.rows KEY FILE     writes the findings as JSON

Asked: what a function calls on an object that writes everything down, which arrays it takes, bare
and upgraded, beside what the tables expect of them; and how objects answer every keyword.  Of a
release that no row speaks of the nearest row counts: so it is told how that row must change.
``tools/newest.py`` runs it for each library, in its newest release.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import operator
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import dlshim
from dlshim import libraries
from dlshim.consumers import CONSUMERS, filled
from dlshim.facts import facts_of
from dlshim.known.arrays import loaded
from dlshim.known.rows import LEGACY, LIMITS, PLAIN, Known, Source
from dlshim.matrix import consumers, nanobind_module, producers
from dlshim.sources import SOURCES
from dlshim.verdicts import outcomes

#: How a function is called that takes more than the array.
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "av.VideoFrame.from_dlpack": lambda take, x: _grey(take, x),
    "cuda.core.utils.StridedMemoryView.from_dlpack": lambda take, x: take(x, stream_ptr=-1).dtype,
    "cutlass.cute.runtime.from_dlpack": lambda take, x: (made := take(x), made.element_type)[0],
    "ctypes_dlpack.array_as_dlpack": lambda take, x: take(x, max_version=(1, 0)),
    "max.driver.Buffer.from_dlpack": lambda take, x: (made := take(x), made.dtype)[0],
}
#: What stands for a row that is no function: where it is, and what takes the array there.
STAND_INS = {
    "numba.cuda, kernel argument": ("numba.cuda.cudadrv.devicearray", "_to_strided_memory_view"),
}
#: Functions of devices, of which a machine without one sees nothing.
DEVICE_ONLY = {row.name for row in CONSUMERS if not row.host} | {"cupy.from_dlpack", "cupy.asarray"}
#: What arrives as another dtype and shows the same values.
NARROWED = {each.reason for each in LIMITS.values() if each.narrows} | {LIMITS["uint16"].reason}
#: Objects that no producer of the matrix is made of.
MAKERS: dict[str, Callable[[bool], Any]] = {}
Finding = dict[str, str]


def _grey(take: Any, x: Any) -> Any:
    try:
        return take([x], format="gray")
    except TypeError:
        return take([x], format="gray16le")


def maker(name: str) -> Callable[[Any], Any]:
    def put(make: Any) -> Any:
        MAKERS[name] = make
        return make

    return put


@maker("numpy scalar")
def _scalar(readonly: bool) -> Any:
    return np.float32(1)


@maker("pyav")
def _plane(readonly: bool) -> Any:
    return _grey(loaded("av").VideoFrame.from_dlpack, np.zeros((2, 3), np.uint8)).planes[0]


@maker("drjit")
def _scalars(readonly: bool) -> Any:
    return importlib.import_module("drjit.scalar").ArrayXf([1, 2, 3])


@maker("opencv")
def _matrix(readonly: bool) -> Any:
    return loaded("cv2").cuda.GpuMat()


@maker("ctypes-dlpack")
def _struct(readonly: bool) -> Any:
    package = loaded("ctypes_dlpack")
    return package.DLPackArray(package.array_as_dlpack(_line(readonly), max_version=(1, 0)))


@maker("cuda.core")
def _view(readonly: bool) -> Any:
    return loaded("cuda.core.utils").StridedMemoryView.from_dlpack(_line(readonly), stream_ptr=-1)


@maker("pyarrow.FixedShapeTensorArray")
def _fixed(readonly: bool) -> Any:
    return loaded("pyarrow").FixedShapeTensorArray.from_numpy_ndarray(np.zeros((2, 3)))


def _line(readonly: bool) -> Any:
    made = np.arange(3.0, dtype="float32")
    made.flags.writeable = not readonly
    return made


# ---- functions ---------------------------------------------------------------------------------


class Spy:
    """Answers as a NumPy array that takes no keyword of `refused`, and writes all down."""

    def __init__(self, refused: tuple[str, ...] = ()) -> None:
        self.array, self.refused = _line(False), refused
        self.calls: list[dict[str, Any]] = []

    def __dlpack__(self, *args: Any, **keywords: Any) -> Any:
        self.calls.append(keywords)
        if set(keywords) & set(self.refused):
            raise TypeError("unexpected keyword argument")
        wants = keywords.get("max_version") or (0,)
        return self.array.__dlpack__(**({"max_version": wants} if wants[0] else {}))

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def function_of(row: Known) -> Any:
    """The function, as a user calls it; None: this release has none."""
    if row.name.startswith("nanobind"):
        name = "take_read_only" if "read-only" in row.name else "take"
        return getattr(loaded(nanobind_module.NAME), name)
    if row.name in STAND_INS:
        module, name = STAND_INS[row.name]
        return getattr(importlib.import_module(module), name)
    module = row.name.partition(".")[0]
    for depth in range(row.name.count("."), 0, -1):
        path = row.name.split(".")
        try:
            module = importlib.import_module(".".join(path[:depth]))
            take = operator.attrgetter(".".join(path[depth:]))(module)
        except (ImportError, AttributeError):
            continue
        return partial(CALLS[row.name], take) if row.name in CALLS else take
    return None


def calls_of(take: Any, *refused: str) -> list[dict[str, Any]]:
    spy = Spy(refused)
    try:
        take(spy)
    except Exception as error:
        spy.calls.append({"raised": type(error).__name__})
    return [each for each in spy.calls if "raised" not in each]


def asked(row: Known, take: Any) -> Iterator[Finding]:
    """How it asks: the generation, the keywords, and what it does after a TypeError."""
    if row.wants != "object":
        if calls := calls_of(take):
            yield said("wants", row.wants, f"asks an object with {_keywords(calls[0])}")
        return
    calls = calls_of(take)
    if not calls:
        yield said("wants", "object", "asks no object for DLPack")
        return
    first = calls[0]
    versioned = (first.get("max_version") or (0,))[0] >= 1
    if versioned != (not row.asks.startswith(LEGACY)):
        yield said("asks", row.asks, _keywords(first))
    if row.keywords and set(row.keywords) - {"stream"} != set(first) - {"stream"}:
        yield said("keywords", ", ".join(row.keywords), _keywords(first))
    if row.keywords:
        again = len(calls_of(take, "stream", "max_version", "dl_device", "copy")) > 1
        if again != row.retries:
            yield said("retries", str(row.retries), f"asks {'again' if again else 'once'}")


def _keywords(call: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in sorted(call.items())) or "no keyword"


def arrays() -> Iterator[tuple[str, Any]]:
    base = np.arange(24, dtype="float32")
    yield from (
        ("line", base[:3]),
        ("two dimensions", base[:6].reshape(2, 3)),
        ("no dimension", np.array(1, "float32")),
        ("no elements", base[:0]),
        ("transposed", base[:6].reshape(2, 3).T),
        ("every second", base[:6:2]),
        ("rows with gaps", base.reshape(4, 6)[:, :3]),
        ("three dimensions", base.reshape(2, 3, 4)),
        ("reversed", base[:3][::-1]),
        ("read-only", _line(True)),
    )
    for dtype in sorted(PLAIN - {"float32"}):
        yield dtype, np.ones(3, dtype)
        yield f"{dtype} of two dimensions", np.ones((2, 3), dtype)


def taken(row: Known, take: Any) -> Iterator[Finding]:
    """What becomes of arrays of NumPy, beside the verdict that follows from the row."""
    see = next((each.see for each in consumers.CONSUMERS if each.name == row.name), None)
    by_dlshim = {"capsule": dlshim.to_capsule, "buffer": dlshim.from_dlpack}.get(row.wants)
    for name, x in arrays():
        bare, upgraded = outcomes(facts_of(x, dlshim.inspect(x)), row)
        given = take if row.wants != "capsule" else lambda a: take(a.__dlpack__())
        ways = [("upgraded", upgraded, lambda a: take((by_dlshim or dlshim.upgrade)(a)))]
        ways += [("bare", bare, given)] if row.wants != "capsule" else []
        for way, expected, hand_over in ways:
            if expected.result in ("unknown", "dies"):
                continue
            seen = outcome(hand_over, x, see)
            ok = seen == expected.result or (seen in expected.raises and expected.result != "works")
            # What is narrowed shows the same values; what cannot be looked at may be anything.
            hidden = see is None or expected.why in NARROWED
            if not ok and not (expected.result == "wrong" and seen == "works" and hidden):
                yield said(f"{name}, {way}", str(expected), seen)


def outcome(hand_over: Any, x: Any, see: Any) -> str:
    """ "works", "wrong", or the name of an exception's class that a row may name."""
    try:
        made = hand_over(x)
    except Exception as error:
        return next(cls.__name__ for cls in type(error).__mro__)
    try:
        # The matrix reads no complex elements.
        shown = see(made) if see and x.dtype.kind != "c" else None
    except Exception:  # an element type that its own means do not show
        shown = None
    if shown is None:
        return "works"
    same = shown.shape == x.shape and list(shown.values) == x.ravel().tolist()
    return "works" if same else "wrong"


# ---- objects -----------------------------------------------------------------------------------

ASKED: dict[str, Any] = {
    "stream": None,
    "max_version": (1, 0),
    "dl_device": None,
    "copy": None,
}


def source_maker(row: Source) -> Callable[[bool], Any] | None:
    if row.name in MAKERS:
        return MAKERS[row.name]
    for producer in producers.PRODUCERS:
        if producer.key.replace("_", "-") == row.name.replace("_", "-"):
            return lambda readonly: _by_case(producer, readonly)
    return None


def _by_case(producer: Any, readonly: bool) -> Any:
    cases = {key: producers.CASE_BY_KEY[key] for key in producer.cases}
    if readonly:
        return producer.make(cases["readonly"]).obj if "readonly" in cases else None
    return producer.make(next(iter(cases.values()))).obj


def capsule_name(x: Any, **keywords: Any) -> str:
    """ "dltensor", "dltensor_versioned", or the name of the exception's class."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return str(dlshim.inspect(x.__dlpack__(**keywords)).capsule_name)
        except Exception as error:
            return type(error).__name__


def legacy_bool(name: str) -> str:
    """What its booleans are called in DLPack 0.x; "": none can be made, or they are refused."""
    for producer in producers.PRODUCERS:
        if producer.key.replace("_", "-") == name.replace("_", "-") and "bool" in producer.cases:
            x = producer.make(producers.CASE_BY_KEY["bool"]).obj
            with contextlib.suppress(Exception):
                return str(dlshim.inspect(x.__dlpack__()).dtype)
    return ""


def answers(row: Source, make: Callable[[bool], Any]) -> Iterator[Finding]:
    """Its keywords, its generations, and what it says of read-only memory."""
    takes = {
        name
        for name, value in ASKED.items()
        if capsule_name(make(False), **{name: value}) != "TypeError"
        or (value is None and capsule_name(make(False), **{name: -1}).startswith("dltensor"))
    }
    if takes != row.takes:
        yield said("takes", ", ".join(sorted(row.takes)), ", ".join(sorted(takes)))
    versioned = capsule_name(make(False), max_version=(1, 0)) == "dltensor_versioned"
    if versioned != row.versioned:
        yield said("versioned", str(row.versioned), str(versioned))
    told = legacy_bool(row.name)
    if told and told != row.legacy_bool:
        yield said("legacy_bool", row.legacy_bool, told)
    x = make(False) if row.immutable else make(True)
    if x is None or not (row.immutable or row.states or row.refuses_readonly):
        return
    bare = capsule_name(x)
    refuses = bare if bare != "dltensor" else ""
    if refuses != row.refuses_readonly and not (refuses and row.refuses_readonly):
        yield said("refuses_readonly", row.refuses_readonly or "gives it", refuses or "gives it")
    if versioned:
        x = make(False) if row.immutable else make(True)
        states = bool(dlshim.inspect(x.__dlpack__(max_version=(1, 0))).readonly)
        if states != row.states:
            yield said("states", str(row.states), str(states))


def said(field: str, row: str, seen: str) -> Finding:
    return {"field": field, "says": row, "seen": seen}


# ---- a library ---------------------------------------------------------------------------------


def of_release(rows: list[Any], number: tuple[int, ...]) -> list[Any]:
    """The row of each name that speaks of a release, or the nearest one."""
    by_name: dict[str, list[Any]] = {}
    for row in rows:
        by_name.setdefault(row.name, []).append(row)
    return [libraries.nearest(each, number)[0] for each in by_name.values()]


def held(key: str) -> Iterator[dict[str, Any]]:
    """Each row about a library: its name, its span, whether it was tried, and the findings."""
    version = libraries.version_of(key) or ""
    number = libraries.version_tuple(version)
    functions = [row for row in CONSUMERS if (row.library or row.family) == key]
    objects = [row for row in SOURCES if row.library == key]
    for kind, rows in ("function", functions), ("objects", objects):
        for row in of_release(rows, number):
            found: list[Finding] = []
            why = ""
            if kind == "function":
                take = function_of(row)
                why = "needs a device" if row.name in DEVICE_ONLY else ""
                if take is None and not why:
                    found = [said("name", row.name, "this release has no such function")]
                elif not why:
                    row = filled(row)[0]
                    found = [*asked(row, take), *taken(row, take)]
            elif make := source_maker(row):
                if hasattr(make(False), "__dlpack__"):
                    found = list(answers(row, make))
                else:
                    why = "its objects have no __dlpack__"
            else:
                why = "no object of it can be made without a device"
            end = ".".join(map(str, row.until))
            if row.until and number >= row.until:
                found.append(said("until", end, f"{version} is newer"))
            yield {"kind": kind, "row": row.name, "release": version, "until": end,
                   "untried": why, "findings": found}  # fmt: skip


def main(key: str, file: str) -> None:
    library = libraries.BY_KEY[key]
    with tempfile.TemporaryDirectory() as folder:
        if key == "nanobind":
            nanobind_module.load(str(nanobind_module.build(Path(folder))))
        else:
            module = importlib.import_module(library.module)
            if key == "warp":
                module.init()
        Path(file).write_text(json.dumps(list(held(key)), indent=1))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
