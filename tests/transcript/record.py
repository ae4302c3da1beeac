"""One scenario's log, doubles that write into it, and the exchanges.

Nothing of a log may depend on an address: a producer's exports are numbered, its memory is `own`.
"""

from __future__ import annotations

import gc
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dlshim
from dlshim import _core
from doubles import capsules as caps
from doubles.ctable import Refused, Table
from doubles.producers import Array, InC, fresh

from . import words

# --- the log ------------------------------------------------------------------------------


class Log:
    """The lines of the running scenario, and the names of what appears in it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0
        self.made: dict[int, str] = {}
        self.memory: list[tuple[int, int, str]] = []  # address, size, name
        self.numbers: dict[int, str] = {}  # handles of streams
        self.after: Callable[[], None] | None = None  # after each exchange
        self.before = ""  # what the last exchange did, its exports counted from 1

    def __call__(self, line: str) -> None:
        self.lines.append(line)

    def name(self, made: caps.Made) -> None:
        """Number an export, and have its end logged."""
        self.count += 1
        name = self.made[made.address] = f"made{self.count}"
        before = made.on_delete

        def deleted() -> None:
            self(f"  delete {name}")
            if before is not None:
                before()

        made.on_delete = deleted

    def place(self, address: int) -> str:
        if not address:
            return "NULL"
        for start, size, name in self.memory:
            if start <= address <= start + size:
                return f"{name}+{address - start}"
        return "new" if address > 2**16 else str(address)


log = Log()


def begin() -> Log:
    global log
    log = Log()
    return log


def write(line: str) -> None:
    log(line)


def show(value: Any) -> str:
    """A value that was passed; objects by their class."""
    if isinstance(value, tuple):
        inner = ", ".join(map(show, value))
        return f"({inner}{',' if len(value) == 1 else ''})"
    if type(value) is int and value in log.numbers:
        return log.numbers[value]
    if value is None or type(value) in (bool, int, float, str, bytes):
        return words.text(repr(value))
    return f"<{type(value).__name__}>"


def call_text(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    given = [*map(show, args), *(f"{key}={show(value)}" for key, value in kwargs.items())]
    return f"{name}({', '.join(given)})"


def error_lines(error: BaseException) -> Iterator[str]:
    """Class and whole message, and those of what caused it."""
    mark, depth = "!", 0
    following: BaseException | None = error
    while following is not None and depth < 8:
        module = type(following).__module__
        name = type(following).__qualname__
        full = name if module == "builtins" else f"{module}.{name}"
        yield words.text(f"{'  ' * depth}{mark} {full}: {following}").replace("\n", " / ")
        cause = following.__cause__
        mark = "cause" if cause is not None else "context"
        following = cause if cause is not None else following.__context__
        depth += 1


# --- doubles that tell --------------------------------------------------------------------

TOLD = ("__dlpack__", "toDlpack", "to_dlpack", "to_dlpack_for_read", "to_dlpack_for_write",
        "detach", "__bool__")  # fmt: skip


def telling(name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        write(f"  call {call_text(name, args, kwargs)}")
        try:
            return inner(self, *args, **kwargs)
        except BaseException as error:
            write(f"    raises {type(error).__name__}")
            raise

    return method


def told(base: type) -> type:
    """A new type of the same behaviour, of which nothing is known, that tells of its calls."""
    cls = fresh(base)
    for name in TOLD:
        inner = getattr(base, name, None)
        if inner is not None:
            method = telling(name, inner)
            # Its signature says nothing of the keywords that the method inside takes.
            setattr(cls, name, InC(method) if name == "__dlpack__" else method)
    question = getattr(base, "__dlpack_device__", None)
    if question is not None:

        def asked(self: Any) -> Any:
            write("  call __dlpack_device__()")
            return question(self)

        cls.__dlpack_device__ = asked  # type: ignore[attr-defined]
    for name in ("__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"):
        if hasattr(base, name):  # beside a method of its own an inherited table does not count
            setattr(cls, name, getattr(base, name))
    if hasattr(base, "table_export"):

        def table_export(self: Any) -> Any:
            write("  call table")
            return base.table_export(self)  # type: ignore[attr-defined]

        cls.table_export = table_export  # type: ignore[attr-defined]
    if issubclass(base, Array):

        def export(self: Any, version: Any, **fields: Any) -> Any:
            made = base._export(self, version, **fields)  # type: ignore[attr-defined]
            log.name(made)
            return made

        cls._export = export  # type: ignore[attr-defined]
    return cls


def own(x: Any, name: str = "own") -> Any:
    """Know the memory of this object by that name."""
    memory = getattr(x, "memory", None)
    if memory is not None:
        address = caps.address_of(memory)
        log.memory.append((address, max(1, len(bytes(memory)) - 64), name))
    return x


# --- what a consumer gets -----------------------------------------------------------------


def tensor_text(view: Any) -> str:
    said = f"{view.dtype} {view.shape} strides {view.strides} +{view.byte_offset}"
    said += f" on {view.device} data {log.place(view.data)}"
    host = view.device[0] in (1, 3, 11, 13)
    if host and log.place(view.data) == "new" and view.ndim < 4 and len(view.elements()) <= 12:
        said += f" = {view.values()}"
    return said


def struct_text(view: caps.View) -> str:
    whose = log.made.get(view.address, "new")
    generation = "legacy" if view.version is None else f"{view.version} flags {view.flags}"
    ends = "" if view.deleter else " no deleter"
    return f"= {whose} {generation}{ends}: {tensor_text(view)}"


def give_back(taken: caps.Import) -> None:
    write("  release")
    taken.release()


def took(capsule: Any, how: str = "take") -> None:
    name = caps.name_of(capsule)
    if name not in (caps.LEGACY, caps.VERSIONED):
        write(f"= capsule {name}")
        return
    if how == "drop":
        write(struct_text(caps.look(capsule)))
        write("  drop the capsule")
        return
    taken = caps.take(capsule)
    write(struct_text(taken.view))
    del capsule
    give_back(taken)


ATTRIBUTES = ("shape", "strides", "dtype", "device", "readonly", "is_copied", "version",
              "byte_offset", "size", "nbytes")  # fmt: skip


def tensor_seen(t: Any) -> str:
    # A device as the pair that it is: its str() is for users.
    shown = {name: getattr(t, name) for name in ATTRIBUTES} | {"device": tuple(t.device)}
    said = ", ".join(f"{name} {value!s}" for name, value in shown.items())
    return f"= Tensor {said}, data {log.place(t.data_ptr())}"


def interface_seen(entries: dict[str, Any]) -> str:
    shown = dict(entries)
    if "data" in shown:
        shown["data"] = (log.place(shown["data"][0]), shown["data"][1])
    if "syclobj" in shown:
        shown["syclobj"] = show(shown["syclobj"])
    if "stream" in shown:
        shown["stream"] = show(shown["stream"])
    return f"= {shown}"


# --- exchanges: each takes the source and the options of upgrade --------------------------

V1 = {"max_version": (1, 0)}


class Tables(dict[type, Table]):
    """The C table of each class; each home has a class of Producers."""

    def __missing__(self, cls: type) -> Table:
        return self.setdefault(cls, Table(cls))


tables = Tables()


def asked(how: str = "take", args: tuple[Any, ...] = (), **keywords: Any) -> Callable[..., None]:
    def exchange(u: Any, x: Any) -> None:
        took(u.__dlpack__(*args, **keywords), how)

    return exchange


def tensor(then: Callable[[Any], None] | None = None, **options: Any) -> Callable[..., None]:
    def exchange(u: Any, x: Any) -> None:
        t = dlshim.from_dlpack(x, **options)
        if then is None:
            write(tensor_seen(t))
        else:
            then(t)
        write("  release")

    return exchange


def owned(x: Any) -> None:
    taken = tables[type(x)].owned(x)
    write(struct_text(taken.view))
    give_back(taken)


def borrowed(x: Any) -> None:
    write(f"= borrowed {tensor_text(tables[type(x)].borrow(x))}")


def inspected(u: Any, x: Any) -> None:
    report = str(dlshim.inspect(x, export=True))
    write("= report")
    for line in report.splitlines():
        if not line.strip().startswith(("address", "aligned to")):
            write(f"  {words.text(line.strip())}")


def buffer(t: Any) -> None:
    with memoryview(t) as m:
        write(f"= buffer {m.format} {m.shape} {m.strides} readonly {m.readonly}")


def to_object(u: Any, x: Any) -> None:
    """Our table gives a struct, and makes a Tensor of it."""
    taken = tables[type(u)].owned(u)
    t = tables[dlshim._core.Producer].to_object(taken.view.address)  # dlshim's own home
    taken.forget()
    write(tensor_seen(t))
    write("  release")


ENTRIES: dict[str, Callable[..., None]] = {
    "legacy": asked(),
    "versioned": asked(**V1),
    "dropped": asked("drop"),
    "dropped versioned": asked("drop", **V1),
    "copied": asked(copy=True, **V1),
    "1.3 and stream -1": asked(stream=-1, max_version=(1, 3)),
    "question": lambda u, x: write(f"= {u.__dlpack_device__()}"),
    "from_dlpack": tensor(),
    "Tensor legacy": tensor(lambda t: took(t.__dlpack__())),
    "Tensor versioned": tensor(lambda t: took(t.__dlpack__(**V1))),
    "Tensor owned": tensor(owned),
    "Tensor borrowed": tensor(borrowed),
    "buffer": tensor(buffer),
    "interface": tensor(lambda t: write(interface_seen(t.__array_interface__))),
    "to_capsule": lambda u, x: took(dlshim.to_capsule(x)),
    "to_capsule versioned": lambda u, x: took(dlshim.to_capsule(x, **V1)),
    "owned": lambda u, x: owned(u),
    "borrowed": lambda u, x: borrowed(u),
    "to object": to_object,
    "inspect": inspected,
}

COUNTERS = ("handed_on", "translated", "copied", "taken")


def exchange(label: str, do: Callable[[], None]) -> None:
    """Do it, and write down what comes of it; one that goes as the one before in one line."""
    begin, count = len(log.lines), log.count
    write_down(label, do)
    text = _MADE.sub(lambda made: f"made{int(made[1]) - count}", "\n".join(log.lines[begin:]))
    if text == log.before:
        log.lines[begin:] = [f"> {label}: the same again"]
    log.before = text


_MADE = re.compile(r"\bmade(\d+)")


def write_down(label: str, do: Callable[[], None]) -> None:
    write(f"> {label}")
    before = _core._counters()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            do()
        except Refused as refused:
            write(words.text(f"! SetError{refused.args}"))
        except BaseException as error:
            for line in error_lines(error):
                write(line)
            del error
    for warning in warned:
        write(words.text(f"  warns {warning.category.__name__}: {warning.message}"))
    after = _core._counters()
    by = {name: after[name] - before[name] for name in COUNTERS}
    moved = [f"{name} {count:+}" for name, count in by.items() if count]
    if moved:
        write(f"  counts {', '.join(moved)}")
    if log.after is not None:
        log.after()


def learned(x: Any) -> None:
    said = ""
    try:
        said = words.plan(_core._plan(x))
    except Exception as error:
        said = f"{type(error).__name__}"
    write(f"plan {said}")


# --- a scenario ---------------------------------------------------------------------------


@contextmanager
def unraisable() -> Iterator[None]:
    before = sys.unraisablehook
    sys.unraisablehook = lambda u: write(
        f"  unraisable {type(u.exc_value).__name__}: {u.exc_value}"
    )
    try:
        yield
    finally:
        sys.unraisablehook = before


def run(scenario: Callable[[], Any], hand_on: bool = True) -> list[str]:
    """The scenario's lines.  Nothing is known before, and nothing stays open."""
    _core._hook("forget_plans")
    _core._hook("hand_on", hand_on)
    mine = begin()
    live = _core._counters()["live"]
    with unraisable():
        try:
            scenario()
        finally:
            _core._hook("hand_on", True)
    if caps.accounts() or _core._counters()["live"] != live:
        gc.collect()
    for wrong in caps.accounts():
        mine(f"account {wrong}")
    still = _core._counters()["live"] - live
    if still:
        mine(f"account {still} exports alive")
    caps.close_accounts()
    return list(mine.lines)  # what ends later is not told


def steps(
    x: Any, entries: list[str] | tuple[str, ...], before: Callable[[int], Any] | None = None,
    anew: bool = False, watch: bool = False, **options: Any,
) -> None:  # fmt: skip
    """Exchanges in turn with one object; `before` is told which one comes."""
    upgraded: list[Any] = []

    def do(entry: str) -> Callable[[], None]:
        def go() -> None:
            if anew or not upgraded:
                upgraded[:] = [dlshim.upgrade(x, **options)]
            ENTRIES[entry](upgraded[0], x)

        return go

    for number, entry in enumerate(entries):
        if before is not None:
            before(number)
        exchange(entry, do(entry))
        if watch:
            learned(x)
    if not watch:
        learned(x)
