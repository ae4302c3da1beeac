"""Walks dlshim and the model side by side: sources, wrappers, Tensors, exports, takes and drops.

After every step, each struct that a producer gave away is either held by somebody, and its deleter
was not called, or by nobody, and it was called once.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)

import dlshim
from dlshim import _core
from doubles import capsules as caps
from doubles.ctable import Table
from model import sources
from model.rules import IS_COPIED, READ_ONLY, VERSIONED, Given, Memory, Refused, Request, Rules

V1 = (1, 0)
TABLE = Table(dlshim.Producer)


@dataclass(eq=False)
class Struct:
    """What a producer gave for one export, and who keeps it."""

    record: Any  # caps.Made, or the exporter of a buffer
    must: set[Any] = field(default_factory=set)
    may: set[Any] = field(default_factory=set)


@dataclass(eq=False)
class Base:
    """What has the memory: a source, a taken capsule or a Tensor."""

    obj: Any
    memory: Memory
    row: sources.Row | None = None
    structs: list[Struct] = field(default_factory=list)  # kept as long as this lives
    fields: sources.Fields | None = None
    taken: bool = False


@dataclass(eq=False)
class Thing:
    """An object that can be asked: the base itself, or a Producer around it."""

    obj: Any
    base: Base
    options: dict[str, Any] = field(default_factory=dict)


#: name -> (request, how it is asked).  The ways of asking are those of the rules page (N9).
ASKINGS: dict[str, tuple[Request, Callable[[Any], Any]]] = {
    "bare": (Request(False), lambda p: p.__dlpack__()),
    "versioned": (Request(True), lambda p: p.__dlpack__(max_version=V1)),
    "numpy": (
        Request(True),
        lambda p: p.__dlpack__(dl_device=None, copy=None, max_version=V1),
    ),
    "numpy copies": (
        Request(True, copy=True),
        lambda p: p.__dlpack__(dl_device=None, copy=True, max_version=V1),
    ),
    "numpy may not copy": (
        Request(True, copy=False),
        lambda p: p.__dlpack__(dl_device=None, copy=False, max_version=V1),
    ),
    "on the host": (
        Request(True),
        lambda p: p.__dlpack__(dl_device=caps.CPU, copy=None, max_version=V1),
    ),
    "old with a stream": (Request(False), lambda p: p.__dlpack__(stream=None)),
    "torch": (
        Request(True, supports_negative=False),
        lambda p: (device_of(p), p.__dlpack__(max_version=V1))[1],
    ),
    "old torch": (
        Request(False, supports_negative=False),
        lambda p: (device_of(p), p.__dlpack__())[1],
    ),
    "capsule": (Request(False, supports_negative=False, known=False), dlshim.to_capsule),
    "versioned capsule": (
        Request(True, supports_negative=False, known=False),
        lambda p: dlshim.to_capsule(p, max_version=V1),
    ),
    "table": (Request(True), lambda p: TABLE.owned(p)),
}


def device_of(producer: Any) -> None:
    assert producer.__dlpack_device__() == caps.CPU


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "copy": st.booleans(),
        "readonly": st.sampled_from([False, True, "error", "copy", "share"]),
        "order": st.sampled_from(["K", "C", "auto"]),
        "align": st.sampled_from([1, 4, 64, 256]),
        "reinterpret": st.just("uint8"),
        "stream": st.sampled_from([None, -1, 7]),
        "unknown_stream": st.sampled_from(["auto", "same", "error"]),
        "device": st.just("cpu"),
    },
)
DTYPES = st.sampled_from([(2, 32, 1), (1, 8, 1), (5, 128, 1), (0, 16, 1), (4, 16, 1), (1, 4, 1)])
LAYOUTS = st.sampled_from(
    ["row-major", "column-major", "reversed", "wide", "broadcast", "odd ones", "meaningless"]
)


def strides_of(shape: tuple[int, ...], layout: str) -> tuple[tuple[int, ...], int]:
    """Strides, and the index of element zero that keeps all elements in the block."""
    compact = caps.row_major(shape)
    steps: tuple[int, ...] = {
        "column-major": caps.column_major(shape),
        "reversed": tuple(-s for s in compact),
        "wide": tuple(2 * s for s in compact),
        "broadcast": tuple(0 for _ in compact),
        "odd ones": tuple(77 if n == 1 else s for n, s in zip(shape, compact, strict=True)),
        "meaningless": tuple(-5 if n < 2 else s for n, s in zip(shape, compact, strict=True)),
    }.get(layout, compact)
    low = sum((n - 1) * s for n, s in zip(shape, steps, strict=True) if s < 0 and n > 1)
    return steps, -low if 0 not in shape else 0


#: What a source is made of.
SOURCE: dict[str, Any] = {
    "name": st.sampled_from(sources.NAMES),
    "shape": st.lists(st.integers(0, 3), max_size=3).map(tuple),
    "layout": LAYOUTS,
    "dtype": DTYPES,
    "readonly": st.booleans(),
    "flags": st.sampled_from([0, 0, 0, IS_COPIED]),
    "shift": st.integers(0, 2),
}
#: How it is asked for.
ASKED: dict[str, Any] = {
    "way": st.sampled_from(sorted(ASKINGS)),
    "aside": st.sampled_from([False, False, True]),
    "fail": st.sampled_from([0, 0, 0, 0, 1, 2]),
}


class Exchanges(RuleBasedStateMachine):
    """`model` is what is compared with; tests give it rules that are wrong."""

    model = Rules()
    cases = steps = 0  # of all machines
    outcomes: ClassVar[Counter[str]] = Counter()

    things: Bundle[int] = Bundle("things")
    outs: Bundle[int] = Bundle("outs")

    def __init__(self) -> None:
        super().__init__()
        self.rows = sources.rows()
        self.asked: dict[int, Thing] = {}
        self.out: dict[int, Any] = {}
        self.structs: list[Struct] = []
        self.number = 0
        self.watched: list[weakref.ref[Any]] = []
        self.live = _core._counters()["live"]
        self.sound = True  # no step has failed: a failure's traceback keeps things alive

    @initialize(hand_on=st.booleans())
    def begin(self, hand_on: bool) -> None:
        _core._hook("forget_plans")
        _core._hook("hand_on", hand_on)

    # --- sources and wrappers ------------------------------------------------------

    def add(self, thing: Thing) -> int:
        self.number += 1
        self.asked[self.number] = thing
        return self.number

    @initialize(target=things, **SOURCE)
    def first_source(self, **said: Any) -> int:
        return self.make_source(**said)

    @rule(target=things, **SOURCE)
    def source(self, **said: Any) -> int:
        return self.make_source(**said)

    def make_source(
        self,
        name: str,
        shape: tuple[int, ...],
        layout: str,
        dtype: tuple[int, int, int],
        readonly: bool,
        flags: int,
        shift: int,
    ) -> int:
        row = self.rows[name]
        if row.dtypes != "any" and dtype not in sources.FORMATS:
            dtype = (2, 32, 1)
        strides, start = strides_of(shape, layout)
        start += shift
        f = sources.Fields(shape, strides, start, dtype, readonly, flags, min(shift, 1))
        obj = row.make(f)
        base = Base(obj, f.memory(obj.memory, row), row, fields=f)
        if row.raw:
            base.structs = [Struct(caps.made_of(obj.capsule), may={base})]
            self.structs += base.structs
        elif not isinstance(obj, sources.InstanceOnlyType):
            self.watched.append(weakref.ref(obj))
        return self.add(Thing(obj.capsule if row.raw else obj, base))

    def nothing(self) -> int:
        """The name of nothing: which programs are made must not depend on what came of a step."""
        self.number += 1
        return self.number

    @rule(target=things, thing=things, options=OPTIONS)
    def wrap(self, thing: int, options: dict[str, Any]) -> Any:
        """Options over options: those given outside win, one by one."""
        return self.wrapped(thing, options)

    def wrapped(self, thing: int, options: dict[str, Any]) -> Any:
        inner = self.asked.get(thing)
        if inner is None:
            return self.nothing()
        raw = inner.base.row is not None and inner.base.row.raw and inner.obj is self.capsule(inner)
        try:
            made = dlshim.upgrade(inner.obj, **options)
        except BufferError:
            assert raw and inner.base.taken, "only a used capsule is refused at once"
            return self.nothing()
        assert not (raw and inner.base.taken), "a used capsule was taken"
        base = inner.base
        if raw:
            base.taken = True
            base = self.of_capsule(base)
        return self.add(Thing(made, base, inner.options | options))

    def capsule(self, thing: Thing) -> Any:
        return getattr(thing.base.obj, "capsule", None)

    def of_capsule(self, raw: Base) -> Base:
        """What was taken: no copy that another export could not hand out as well (T8)."""
        memory = raw.memory
        taken = Base(None, replace(memory, flags=memory.flags & ~IS_COPIED), structs=raw.structs)
        for struct in taken.structs:
            struct.must.add(taken)
            struct.may.discard(raw)  # the capsule is used up
        return taken

    # --- asking --------------------------------------------------------------------

    def ready(self, thing: int) -> Thing | None:
        """The thing, wrapped if it is not yet; None for a capsule that is used up."""
        found = self.asked.get(thing)
        if found is None or isinstance(found.obj, dlshim.Producer | dlshim.Tensor):
            return found
        if found.base.row is not None and found.base.row.raw:
            return None
        return Thing(dlshim.upgrade(found.obj), found.base)

    def new_structs(self, before: int, base: Base) -> list[Struct]:
        made = [Struct(record) for record in list(caps._records.values())[before:]]
        if isinstance(base.obj, sources.Exporter):
            made = [Struct(base.obj)]
        self.structs += made
        return made

    def ask(self, call: Callable[[], Any], aside: bool) -> tuple[Any, str]:
        """What comes of a call, or the class of its error; perhaps on another thread."""
        result: list[tuple[Any, str]] = []

        def body() -> None:
            try:
                result.append((call(), ""))
            except (BufferError, MemoryError) as error:
                result.append((None, type(error).__name__))

        if aside:
            thread = threading.Thread(target=body)
            thread.start()
            thread.join()
        else:
            body()
        assert result, "another class of error, on a thread"
        return result[0]

    def exchange(
        self, thing: int, request: Request, call: Callable[[Any], Any], aside: bool, fail: int
    ) -> Any:
        """One exchange and its expectation: (found, what came, expected, structs)."""
        found = self.ready(thing)
        if found is None:
            return None
        before = len(caps._records)
        self.sound = False
        expected = self.model.expect(found.base.memory, found.options, request)
        _core._hook("fail_alloc", fail or -1)
        try:
            came, error = self.ask(lambda: call(found.obj), aside)
        finally:
            _core._hook("fail_alloc", -1)
        made = self.new_structs(before, found.base)
        copied = isinstance(expected, Given) and expected.copied
        self.outcomes[error or ("copied" if copied else "shared")] += 1
        if error == "MemoryError" and fail:
            self.sound = True
            return None
        wanted = expected.error if isinstance(expected, Refused) else ""
        assert error == wanted, f"{error or 'given'}, not {wanted or 'given'}"
        if error:
            self.sound = True
            return None
        return found, came, expected, made

    def keep(self, holder: Any, thing: int, found: Thing, made: list[Struct], copied: bool) -> None:
        """Who keeps what the producer gave, or what the base has."""
        for struct in made[:-1] if len(made) > 1 else []:
            struct.may.clear()
        for struct in made[-1:] or found.base.structs:
            if copied:
                struct.may.add(thing)
            else:
                struct.must.add(holder)
                struct.may.add(thing)  # what a producer copied is kept until the next export

    @rule(target=outs, thing=things, options=OPTIONS, **ASKED)
    def wrap_and_export(self, thing: int, options: dict[str, Any], **asked: Any) -> Any:
        """A wrapper that dies at once, as in `consumer.from_dlpack(dlshim.upgrade(x))`."""
        wrapper = self.wrapped(thing, options)
        out = self.export_one(wrapper, **asked)
        self.drop_thing_now(wrapper, False)
        return out

    @rule(target=outs, thing=things, **ASKED)
    def export(self, thing: int, **asked: Any) -> Any:
        return self.export_one(thing, **asked)

    @rule(target=outs, thing=things, **ASKED)
    def export_again(self, thing: int, **asked: Any) -> Any:
        return self.export_one(thing, **asked)

    def export_one(self, thing: int, way: str, aside: bool, fail: int) -> Any:
        request, call = ASKINGS[way]
        asked = self.asked.get(thing)
        if way == "table" and asked is not None and isinstance(asked.obj, dlshim.Tensor):
            call = Table(dlshim.Tensor).owned
        done = self.exchange(thing, request, call, aside, fail)
        if done is None:
            return self.nothing()
        found, came, expected, made = done
        view = came.view if way == "table" else caps.look(came)
        self.compare(view, expected, made, request)
        self.number += 1
        self.sound = True
        self.keep(self.number, thing, found, made, expected.copied)
        self.out[self.number] = came
        return self.number

    @rule(target=things, thing=things, fail=st.sampled_from([0, 0, 0, 1, 2]))
    def tensor(self, thing: int, fail: int) -> Any:
        request = Request(True, supports_packed=True)
        done = self.exchange(thing, request, dlshim.from_dlpack, False, fail)
        if done is None:
            return self.nothing()
        found, tensor, expected, made = done
        want = expected.memory
        assert tensor.shape == want.shape and tuple(tensor.dtype) == want.dtype
        assert tensor.strides == want.strides, (tensor.strides, want.strides)
        assert tensor.readonly == bool(expected.flags & READ_ONLY)
        if want.count and not expected.copied:
            assert tensor.data_ptr() == want.address
        self.sound = True
        if found.obj is tensor:
            return self.add(Thing(tensor, found.base))
        kept = replace(
            want,
            flags=expected.flags & ~IS_COPIED,
            generation=VERSIONED,
            address=tensor.data_ptr(),
        )
        base = Base(tensor, kept, structs=[] if expected.copied else made or found.base.structs)
        self.keep(base, thing, found, made, expected.copied)
        return self.add(Thing(tensor, base))

    @rule(target=outs, thing=things)
    def look(self, thing: int) -> Any:
        """A memoryview of a Tensor keeps it alive."""
        found = self.asked.get(thing)
        if found is None or not isinstance(found.obj, dlshim.Tensor):
            return self.nothing()
        try:
            view = memoryview(found.obj)
        except BufferError:
            assert found.base.memory.dtype not in sources.FORMATS
            return self.nothing()
        assert view.readonly == bool(found.base.memory.flags & READ_ONLY)
        if view.ndim:
            assert view.tobytes() == b"".join(found.base.memory.elements)
        self.number += 1
        for struct in found.base.structs:
            struct.must.add(self.number)
        self.out[self.number] = view
        return self.number

    @rule(thing=things)
    def ask_device(self, thing: int) -> None:
        found = self.ready(thing)
        if found is not None:
            device_of(dlshim.upgrade(found.obj))

    def compare(
        self, view: caps.View, expected: Given, made: list[Struct], request: Request
    ) -> None:
        """The struct that a consumer gets, against what the rules say."""
        want = expected.memory
        assert view.versioned == request.versioned and view.deleter and view.data
        assert (view.shape, view.dtype) == (want.shape, want.dtype)
        assert view.flags == expected.flags, (view.flags, expected.flags)
        assert not view.ndim or view.strides == want.strides, (view.strides, want.strides)
        assert view.device == caps.CPU and view.byte_offset == 0
        handed_on = caps.made_at(view.address)
        if view.versioned and not (handed_on and not handed_on.deleted):
            assert view.version == (1, 3)
        if expected.copied:
            assert view.element_zero % expected.align == 0
            assert not want.count or view.element_zero != want.address
        elif want.count:
            assert view.element_zero == want.address
        if want.count:
            assert tuple(view.elements()) == want.elements

    # --- what consumers do ------------------------------------------------------------

    @rule(out=outs)
    def take(self, out: int) -> None:
        """Rename the capsule and own the tensor."""
        if isinstance(self.out.get(out), caps.Capsule):
            self.out[out] = caps.take(self.out[out])

    @rule(out=consumes(outs), how=st.sampled_from(["held", "released", "c-thread", "thread"]))
    def drop_out(self, out: int, how: str) -> None:
        held = [self.out.pop(out, None)]
        if isinstance(held[0], caps.Import) and how != "thread":
            held[0].release(how)
        self.drop(held, how == "thread")

    @rule(thing=consumes(things), aside=st.booleans())
    def drop_thing(self, thing: int, aside: bool) -> None:
        self.drop_thing_now(thing, aside)

    def drop_thing_now(self, thing: int, aside: bool) -> None:
        found = self.asked.pop(thing, None)
        if found is None:
            return
        held = [found.obj]
        found.obj = None
        if not self.is_alive(found.base):
            held.append(found.base.obj)
            found.base.obj = None
        self.drop(held, aside)

    def drop(self, held: list[Any], aside: bool) -> None:
        if aside:
            thread = threading.Thread(target=held.clear)
            thread.start()
            thread.join()
        held.clear()

    # --- the world around ---------------------------------------------------------------

    @rule(what=st.sampled_from(["gc", "forget_plans", "hand_on", "translate"]))
    def disturb(self, what: str) -> None:
        if what == "gc":
            gc.collect(0)
        elif what == "forget_plans":
            _core._hook("forget_plans")
        else:
            _core._hook("hand_on", what == "hand_on")

    @rule(thing=things, name=st.sampled_from(sources.NAMES))
    def change_class(self, thing: int, name: str) -> None:
        """An object's class is exchanged: its type is met anew (N1)."""
        found, row = self.asked.get(thing), self.rows[name]
        if found is None:
            return
        base = found.base
        if base.row is None or base.fields is None or base.row.cls is None or row.cls is None:
            return
        base.obj.__class__ = row.cls
        base.row = row
        base.memory = base.fields.memory(base.obj.memory, row)

    # --- ownership ----------------------------------------------------------------------

    def is_alive(self, holder: Any) -> bool:
        if isinstance(holder, Base):
            return any(thing.base is holder for thing in self.asked.values())
        return holder in self.out or holder in self.asked

    @invariant()
    def count(self) -> None:
        type(self).steps += 1

    @invariant()
    def every_struct_is_held_or_given_back_once(self) -> None:
        sound, self.sound = self.sound, False
        views: dict[Any, list[int]] = {}
        for struct in self.structs:
            must = any(map(self.is_alive, struct.must))
            may = must or any(map(self.is_alive, struct.may))
            if isinstance(struct.record, sources.Exporter):
                low_high = views.setdefault(struct.record, [0, 0])
                low_high[0] += must
                low_high[1] += may
            elif struct.record.handed_out and struct.record.has_deleter:
                deleted = struct.record.deleted
                assert deleted == 0 if must else deleted <= 1, f"deleter called {deleted} times"
                assert may or deleted == 1, "deleter not called, though nobody holds the tensor"
        for exporter, (low, high) in views.items():
            assert low <= exporter.views <= high, (low, exporter.views, high, "buffers")
        self.sound = sound

    def teardown(self) -> None:
        type(self).cases += 1
        self.out.clear()
        while self.asked:
            self.drop_thing_now(next(iter(self.asked)), False)
        if not self.sound:
            caps.write_off()
            return
        self.every_struct_is_held_or_given_back_once()
        self.structs.clear()
        _core._hook("hand_on", True)
        if any(ref() is not None for ref in self.watched):
            gc.collect()  # a double with a C table keeps what it lent in a cycle
        alive = [ref() for ref in self.watched if ref() is not None]
        wrong = caps.accounts()
        caps.close_accounts()
        assert not wrong, wrong
        assert not alive, f"still alive: {alive}"
        assert _core._counters()["live"] == self.live, "exports are still alive"
