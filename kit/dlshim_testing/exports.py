"""What a producer gives, asked for in several ways, and deleters whose calls are counted."""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes as C
import enum
import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .catalogue import Broken, NotApplicable, TargetError, insist
from .doubles import capsules as caps
from .drivers import NoFunction
from .partner import Producer, given, said, shape_of

#: Calls that most libraries refuse, of an array that can be exported.
NOT_GIVEN: dict[str, dict[str, Any]] = {
    "dl_device": {"dl_device": (99, 0)},
    "stream": {"stream": 1},
    "unknown keyword": {"not_a_keyword": 1},
}


def at_once(array: Any, keywords: dict[str, Any]) -> Any:
    return array.__dlpack__(**keywords)


def after_refusals(array: Any, keywords: dict[str, Any]) -> Any:
    for refused in NOT_GIVEN.values():
        with contextlib.suppress(Exception):
            array.__dlpack__(**refused)
    return array.__dlpack__(**keywords)


def on_a_thread(call: Callable[[], Any]) -> Any:
    """What another thread than this one gives, or raises."""
    with concurrent.futures.ThreadPoolExecutor(1) as other:
        return other.submit(call).result()


def by_a_thread(array: Any, keywords: dict[str, Any]) -> Any:
    return on_a_thread(lambda: array.__dlpack__(**keywords))


def once_more(array: Any, keywords: dict[str, Any]) -> Any:
    """The second export, made while the first lives."""
    first = array.__dlpack__(**keywords)
    second = array.__dlpack__(**keywords)
    del first
    return second


#: What stands for the array's own device in `ASKS`, and the name under which they say when and
#: where they ask: neither is a keyword of `__dlpack__`.
OWN, HOW = "its own device", "how"
VERSIONED = {"max_version": (1, 0)}
#: Ways of asking, by name; "versioned" is how most consumers ask first.
ASKS: dict[str, dict[str, Any]] = {
    "bare": {},
    "versioned": VERSIONED,
    "newest": {"max_version": (1, 3), "dl_device": None, "copy": None},
    "own device": {"dl_device": OWN},
    "own device versioned": {"dl_device": OWN, **VERSIONED},
    "after refusals": {HOW: after_refusals, **VERSIONED},
    "on a thread": {HOW: by_a_thread, **VERSIONED},
    "once more": {HOW: once_more, **VERSIONED},
}
BOTH = ("bare", "versioned")
#: One step beside these.
BESIDE = ("own device", "own device versioned", "after refusals", "on a thread", "once more")
WAYS = (*BOTH, *BESIDE)
#: Those beside "versioned" that ask for DLPack 1.x.
FLAGGED = ("newest", "own device versioned", "after refusals", "on a thread", "once more")

SOME = ("bool", "int32", "float32", "float64", "complex64")
#: One for each size of elements.
SIZES = ("float32", "bool", "int16", "float64", "complex128")
FEW = ("float32", "int64")
COPY = {"copy": True}


def call(array: Any, keywords: dict[str, Any]) -> Any:
    """What `__dlpack__` gives, asked in a way of `ASKS`."""
    how = keywords.get(HOW, at_once)
    passed = {name: value for name, value in keywords.items() if name != HOW}
    if passed.get("dl_device") == OWN:
        passed["dl_device"] = device_of(array)
    return how(array, passed)


def told(keywords: dict[str, Any]) -> str:
    """A way of asking, for people."""
    how = keywords.get(HOW, at_once).__name__.replace("_", " ")
    shown = {name: OWN if value == OWN else repr(value) for name, value in keywords.items()}
    rest = [f"{name}={value}" for name, value in shown.items() if name != HOW]
    return ", ".join(rest + ([how] if how != "at once" else []))


def asked(array: Any, keywords: dict[str, Any]) -> Any:
    """The capsule, or NotApplicable where the producer refuses: other rules judge refusals."""
    try:
        capsule = call(array, keywords)
    except NotApplicable:
        raise
    except NoFunction as error:
        raise TargetError(other_driver(error)) from error
    except Exception as error:
        raise NotApplicable(f"__dlpack__({told(keywords)}) refuses: {said(error)}") from error
    insist(
        isinstance(capsule, caps.Capsule),
        f"__dlpack__ gave {type(capsule).__name__}, which is no capsule",
    )
    return capsule


def number(kind: Any) -> int:
    """The device type as an int; the standard calls it an Enum, which need not be an int."""
    return int(kind.value if isinstance(kind, enum.Enum) else kind)


def device_of(array: Any) -> tuple[int, int]:
    try:
        kind, index = array.__dlpack_device__()
        return number(kind), int(index)
    except Exception as error:
        raise NotApplicable(f"__dlpack_device__() gives no pair: {said(error)}") from error


def answers(array: Any, **keywords: Any) -> BaseException | None:
    """What `__dlpack__` raises, if anything."""
    try:
        call(array, keywords)
    except NotApplicable:
        raise
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


#: Parts of an array that may not be written; the whole may have any shape.
LOCKED: dict[str, Any] = {
    "read-only": (),
    "read-only rows": (slice(1, None),),
    "read-only and reversed": (slice(None, None, -1),),
    "read-only and empty": (slice(0, 0),),
}


PARTS = tuple(LOCKED)[1:]


def read_only_array(p: Producer, part: str = "read-only") -> Any:
    """An array that may not be written: what was given, or NumPy's way of making one."""
    if p.read_only is not None:
        return laid_out(given("read_only=", p.read_only), LOCKED[part])
    array = laid_out(p.make((2, 3)), LOCKED[part])
    try:
        array.flags.writeable = False
    except Exception as error:
        why = "no way is known to make a read-only array"
        raise NotApplicable(why, lacks="read_only") from error
    return array


def other_driver(error: NoFunction) -> str:
    return (
        f"{said(error)}: the target is written for another driver than the one that was named, "
        "with --dlpack-driver or --driver"
    )


def all_asked(array: Any, ways: Iterable[dict[str, Any]]) -> list[Any]:
    """A capsule for each way of asking, or what the first refusal says.

    The other capsules go before it is raised: the destructor of some is in Python, and must not run
    while an exception is on its way.
    """
    capsules, refusals = [], []
    for keywords in ways:
        try:
            capsules.append(asked(array, keywords))
        except (Broken, NotApplicable) as refusal:
            refusals.append(refusal)
    del refusals[1:]
    if refusals:
        capsules.clear()
        raise refusals.pop()  # a list that held it would be a cycle
    return capsules


def newest_of(array: Any, count: int = 1) -> list[Any]:
    """That many capsules of DLPack 1.x, or of 0.x where the producer refuses to be asked so."""
    try:
        return all_asked(array, [ASKS["versioned"]] * count)
    except NotApplicable:
        return all_asked(array, [ASKS["bare"]] * count)


def view_of(capsule: Any) -> caps.View:
    name = caps.name_of(capsule)
    if name not in (caps.LEGACY, caps.VERSIONED):
        raise NotApplicable(f"the capsule is named {name!r}")
    view = caps.look(capsule)
    if view.version is not None and view.version[0] != 1:
        raise NotApplicable(f"the struct says DLPack {view.version}")
    return view


PADDED = 4  # the flag of elements below a byte that take a byte each


def held(array: Any, keywords: dict[str, Any]) -> tuple[caps.View, Any]:
    """What the host may read, and the capsule: reading it goes before dropping the capsule."""
    capsule = asked(array, keywords)
    return on_host(view_of(capsule)), capsule


def on_host(view: caps.View) -> caps.View:
    if view.device[0] not in (1, 3, 11, 13):
        raise NotApplicable(f"the memory of device {view.device} is not read here")
    if view.dtype[1] * view.dtype[2] % 8 and not (view.flags or 0) & PADDED:
        raise NotApplicable(f"elements of dtype {view.dtype} are packed, and are not read here")
    return view


Watched = tuple[Any, ...]


class Watch:
    """Counts the calls of a real struct's deleter, and lets only the first one through."""

    def __init__(self, capsule: Any) -> None:
        self.calls = 0
        self.view = view_of(capsule)
        kind = caps.ManagedTensorVersioned if self.view.versioned else caps.ManagedTensor
        self._struct = kind.from_address(self.view.address)
        self._original = self._struct.deleter
        if not self._original:
            raise NotApplicable("the struct has no deleter")

        @C.CFUNCTYPE(None, C.c_void_p)
        def count(address: int) -> None:
            self.calls += 1
            if self.calls == 1:  # this function stays in the struct: it counts a second call
                C.CFUNCTYPE(None, C.c_void_p)(self._original)(address)

        caps.keep_for_ever(count)
        self._struct.deleter = C.cast(count, C.c_void_p).value


# ---- arrays whose values are known --------------------------------------------------------

#: name -> (shape of the whole, one index for each axis or "T").
LAYOUTS: dict[str, tuple[tuple[int, ...], Any]] = {
    "whole": ((4, 6), ()),
    "scalar": ((), ()),
    "vector": ((7,), ()),
    "cube": ((2, 3, 4), ()),
    "four dimensions": ((2, 3, 1, 2), ()),
    "eight dimensions": ((2, 1, 3, 1, 2, 1, 1, 2), ()),
    "thirty-two dimensions": ((2, *[1] * 14, 3, *[1] * 15, 2), ()),
    "one row": ((1, 5), ()),
    "one column": ((5, 1), ()),
    "rows": ((4, 6), (slice(1, 3),)),
    "columns": ((4, 6), (slice(None), slice(2, 5))),
    "row": ((4, 6), (2,)),
    "column": ((4, 6), (slice(None), 1)),
    "one row of several": ((4, 6), (slice(1, 2),)),
    "one column of several": ((4, 6), (slice(None), slice(1, 2))),
    "element": ((4, 6), (3, 4)),
    "every second": ((7,), (slice(None, None, 2),)),
    "every second column": ((4, 6), (slice(None), slice(1, None, 2))),
    "transposed": ((4, 6), "T"),
    "reversed": ((7,), (slice(None, None, -1),)),
    "rows reversed": ((4, 6), (slice(None, None, -1),)),
    "empty": ((0,), ()),
    "empty rows": ((0, 3), ()),
    "empty columns": ((2, 0, 3), ()),
    "empty slice": ((4, 6), (slice(2, 2),)),
}


def laid_out(array: Any, index: Any) -> Any:
    """The library's own view, or NotApplicable where it has none."""
    if index == ():
        return array
    if index == "T":
        ways: list[Any] = [lambda: array.T]
    else:  # the standard asks for as many indices as there are axes
        each = (*index, *[slice(None)] * (len(shape_of(array) or index) - len(index)))
        ways = [lambda: array[each], lambda: array[index]]
    why = ""
    for take in ways:
        try:
            return take()
        except Exception as error:
            why = why or said(error)
    raise NotApplicable(f"the library does not index like this: {why}")


def counted(shape: tuple[int, ...], index: Any) -> tuple[tuple[int, ...], list[int]]:
    """(shape, positions in row-major order) that this index leaves of an array that counts up."""
    strides = caps.row_major(shape)
    if index == "T":
        return shape[::-1], caps.offsets(shape[::-1], strides[::-1])
    start, axes, steps = 0, [], []
    whole = [slice(None)] * len(shape)
    for extent, stride, at in zip(shape, strides, [*index, *whole], strict=False):
        if isinstance(at, int):
            start += at * stride
            continue
        chosen = range(extent)[at]
        axes.append(len(chosen))
        steps.append(stride * chosen.step)
        start += chosen.start * stride if chosen else 0
    return tuple(axes), [start + offset for offset in caps.offsets(axes, steps)]


class Prepared(NamedTuple):
    """An array whose elements count up."""

    array: Any
    wanted: list[bytes] | None
    """Its elements as they should be; None where they are not known."""
    why: str
    """Why they are not known."""
    export: Any
    """The capsule through which they were written: whoever compares them keeps it until then."""


UNWRITTEN = "the array may not be written, and its elements do not count up"
GAPS = (
    "the strides {} of a new array of shape {} leave gaps or meet, and nothing that the array says "
    "of its elements tells whether they are right"
)
COPIES = "each export is a copy: what is written through one is not in the next"
UNREAD = (
    "the strides {} of a new array are not those of rows, and the array shows its elements by no "
    "way of its own (buffer, tolist, __array__, array[i, j]), with which they could be compared"
)


class Filled(NamedTuple):
    """Whether an array's elements count up."""

    why: str
    """Why they do not, or are not known; nothing where they do."""
    export: Any = None
    """The capsule through which they were written: it is kept meanwhile."""
    own: bool = False
    """Whether the array's own way of showing its elements shows them."""


def fill(array: Any, dtype: str) -> Filled:
    """Makes the array's elements count up, and says whether they do.

    They are written into the memory of an export where the producer does not say that it is
    read-only, else by the array itself. They are read through a second export: so the strides are
    only proved where the array shows its elements by a way of its own, too.
    """
    why = UNWRITTEN
    for keywords in ASKS["versioned"], ASKS["bare"]:
        try:
            capsule = array.__dlpack__(**keywords)
            view = on_host(view_of(capsule))
        except Exception:
            continue
        if (not view.data and 0 not in view.shape) or view.dtype != caps.DTYPES[dtype]:
            return Filled(UNWRITTEN)  # which other rules judge
        strides = caps.row_major(view.shape) if view.strides is None else view.strides
        places = caps.offsets(view.shape, strides)
        wanted = [caps.encode(dtype, k) for k in range(len(places))]
        if (own := own_elements(array, dtype)) == wanted:
            return Filled("", capsule, own=True)
        if own is None and view.elements() == wanted:
            return Filled("", capsule)
        if view.readonly:
            set_by_itself(array, view.shape)
            known = own_elements(array, dtype) == wanted
            return Filled("", own=True) if known else Filled(UNWRITTEN)
        if sorted(places) != [*range(len(places))]:
            return fill_with_gaps(array, dtype, view)
        C.memmove(view.element_zero, b"".join(wanted), len(b"".join(wanted)))
        if copies(array, keywords, view):
            why = COPIES
            continue
        own = own_elements(array, dtype)
        if own is not None and sorted(own) == sorted(wanted):  # else it shows something older
            return Filled("", capsule, own=True)
        if strides != caps.row_major(view.shape):
            return Filled(UNREAD.format(strides))
        return Filled("", capsule)
    return Filled(why)


def fill_with_gaps(array: Any, dtype: str, view: caps.View) -> Filled:
    """The same of a new array whose strides are not those of elements side by side.

    Either the array has gaps, or the strides are wrong: that shows where the array counts up by its
    own word after it was written by itself, or as elements that lie side by side.
    """
    strides = caps.row_major(view.shape) if view.strides is None else view.strides
    places = caps.offsets(view.shape, strides)
    wanted = [caps.encode(dtype, k) for k in range(len(places))]
    set_by_itself(array, view.shape)
    if own_elements(array, dtype) != wanted and min(places) >= 0 and max(places) >= len(places):
        C.memmove(view.element_zero, b"".join(wanted), len(b"".join(wanted)))
    if own_elements(array, dtype) == wanted:
        return Filled("", own=True)
    return Filled(GAPS.format(strides, view.shape))


def own_elements(array: Any, dtype: str) -> list[bytes] | None:
    """The elements as the array itself shows them, in row-major order; None where it does not."""
    if (shape := shape_of(array)) is None:
        return None
    every, size = [*itertools.product(*map(range, shape))], caps.itemsize_of(dtype)

    def bytes_of(buffer: Any) -> list[bytes]:
        with memoryview(buffer) as memory:
            if memory.shape != shape or memory.itemsize != size:
                raise ValueError("another shape or dtype")
            raw = memory.tobytes()
        return [raw[at : at + size] for at in range(0, len(raw), size)]

    def numbers(values: Any) -> list[bytes]:
        if dtype == "bfloat16":
            raise ValueError("there is no such number in Python")
        return [caps.encode(dtype, value) for value in values]

    for show in (
        lambda: bytes_of(array),
        lambda: numbers(caps.flat(array.tolist())),
        lambda: bytes_of(array.__array__()),
        lambda: numbers(array[at] for at in every),
        lambda: [the_element(array[at], dtype) for at in every],
    ):
        try:
            if len(found := show()) == len(every):
                return found
        except Exception:  # whatever a library raises of what it cannot do
            continue
    return None


def the_element(array: Any, dtype: str) -> bytes:
    """The one element of an array without dimensions, in whose export no stride counts."""
    capsule = array.__dlpack__()
    view = on_host(view_of(capsule))
    if view.shape or view.dtype != caps.DTYPES[dtype] or not view.data:
        raise ValueError("more than one element, or another dtype")
    return view.elements()[0]


def set_by_itself(array: Any, shape: tuple[int, ...]) -> None:
    """Writes elements that count up by the library's own `array[i, j] = k`, where it has that."""
    with contextlib.suppress(Exception):
        for k, at in enumerate(itertools.product(*map(range, shape))):
            array[at] = k


def copies(array: Any, keywords: dict[str, Any], view: caps.View) -> bool:
    """Whether what was written through one export, which is kept, is not in another one."""
    try:
        capsule = array.__dlpack__(**keywords)
        again = on_host(view_of(capsule))
    except Exception:
        return False  # which other rules judge
    if again.element_zero == view.element_zero or again.shape != view.shape:
        return False
    return bool(again.data) and again.elements() != view.elements()


def laid_out_and_filled(producer: Producer, layout: str, dtype: str) -> Prepared:
    """An array of this layout, whose elements are those of a whole that counts up."""
    shape, index = LAYOUTS[layout]
    if producer.one_dimension and index != () and len(shape) != 1:
        raise NotApplicable("the target is said to have one dimension alone")
    dtype = producer.usual(dtype)
    whole = producer.make(shape, dtype)
    filled = fill(whole, dtype)
    array = laid_out(whole, index)
    wanted = own_elements(array, dtype) if filled.own else None
    if wanted is None and not filled.why:
        _, positions = counted(shape, index)
        wanted = [caps.encode(dtype, k) for k in positions]
    return Prepared(array, wanted, filled.why, filled.export)


def prepared(producer: Producer, layout: str, dtype: str) -> Any:
    """The array alone; for checks that compare no elements with what was written."""
    return laid_out_and_filled(producer, layout, dtype).array


def same_elements(view: caps.View, wanted: list[bytes], what: str) -> None:
    insist(view.data or not wanted, f"{what}: data is NULL, and there are {len(wanted)} elements")
    found = view.elements()
    insist(len(found) == len(wanted), f"{what}: {len(found)} elements, and it has {len(wanted)}")
    if found != wanted:
        at = next(k for k, pair in enumerate(zip(found, wanted, strict=True)) if len({*pair}) > 1)
        values = [caps.decode(view.dtype, raw) for raw in found[at : at + 4]]
        meant = [caps.decode(view.dtype, raw) for raw in wanted[at : at + 4]]
        raise Broken(
            f"{what}: shape {view.shape}, strides {view.strides} and byte_offset "
            f"{view.byte_offset} lead to {values} at element {at}, and the array holds {meant}"
        )
