"""The facts about an object, in the words of the tables of ``known``.

They come from its report and from a look at it; nothing is asked of the object.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ._core import Producer, Tensor, _options
from .arrays import row_major
from .known.rows import Source, column
from .libraries import version_of, version_tuple
from .look import NAMES, Array, visible
from .options import COPY, DETACH, ROW_MAJOR, Option
from .report import ANY_KEYWORD, Failure, Report, keywords_of, static
from .sources import source_of


class Facts(NamedTuple):
    """The visible facts of an object, in the words of the tables."""

    library: str | None = None
    #: How its library answers, where that is known of this release.
    source: Source | None = None
    #: The object never changes, whatever its capsules say.
    immutable: bool = False
    #: "object", "capsule", "upgraded" (a Producer) or "tensor" (a Tensor).
    kind: str = "object"
    has_dlpack: bool = True
    has_way: bool = True
    has_buffer: bool = False
    #: Its type has a C table.
    has_table: bool = False
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    readonly: bool | None = None
    aligned_to: int | None = None
    device: tuple[int, int] | None = None
    #: Why its library and dlshim refuse it, and the option that cures it.
    refuses: tuple[str, str] = ("", "")
    #: How the export that was asked for failed.
    fails: str = ""
    #: Its chunks are joined or its bits unpacked, into memory of their own.
    joined: bool = False
    #: The option ``readonly`` of a Producer, None where it was not given.
    word: Any = None
    #: The option ``order`` of a Producer, None where it was not given.
    order: str | None = None

    @property
    def array(self) -> Array | None:
        if self.dtype is None or self.shape is None or self.strides is None:
            return None
        return Array(self.dtype, self.shape, self.strides)

    @property
    def stated(self) -> bool | None:
        """Whether it says that it is read-only; None where that cannot be told."""
        source = self.source
        if self.immutable:
            return None if source is None else source.states
        silent = source is not None and not (source.states or source.refuses_readonly)
        if self.readonly is None and (self.kind == "capsule" or silent):
            return False
        return self.readonly


def facts_of(obj: Any, report: Report) -> Facts:
    """Return the facts from a report and a look at the object."""
    ways = {protocol.spelling for protocol in report.protocols}
    kind = {"PyCapsule": "capsule", "dlshim.Tensor": "tensor"}.get(report.type_name, "object")
    options: dict[str, Any] = {}
    seen: dict[str, Any] = {}
    if isinstance(obj, Producer):
        kind, options, obj = "upgraded", _options(obj), obj.source
    answers, immutable = _source(report.library, obj if "__dlpack__" in ways else None)
    if answers is None and report.plan and report.plan[0].startswith("__arrow_c_"):
        answers, immutable = _ARROW, True
    if kind in ("object", "upgraded") and not isinstance(obj, Tensor):
        seen = visible(obj, report.library, report.plan)
    refuses, joined = seen.get("refuses", ("", "")), False
    if _is_cured(refuses[1], options):
        joined = refuses[1] in (ROW_MAJOR, COPY)
        refuses = ("", "")
    word = options.get("readonly")
    immutable = immutable and not isinstance(word, bool) and not joined
    strides = report.strides
    if strides is None and report.shape is not None and report.contiguous:
        strides = row_major(report.shape)
    return Facts(
        library=report.library,
        source=answers,
        immutable=immutable,
        kind=kind,
        has_dlpack="__dlpack__" in ways,
        has_way=bool(report.plan),
        has_buffer="buffer protocol" in ways,
        has_table=any(each.name == "DLPack C exchange API" for each in report.protocols),
        dtype=None if report.dtype is None else NAMES.get((*report.dtype,)),
        shape=report.shape,
        strides=strides,
        readonly=word if isinstance(word, bool) else report.readonly and not joined,
        aligned_to=report.aligned_to,
        device=report.device,
        refuses=refuses,
        joined=joined,
        fails=next((note for note in report.notes if isinstance(note, Failure)), ""),
        word=word,
        order=options.get("order"),
    )


def _is_cured(cure: str, options: dict[str, Any]) -> bool:
    """Whether an option that cures a refusal was given; chunks have several."""
    if cure == ROW_MAJOR and options.get("copy") is not False:
        return options.get("order") in ("C", "auto") or options.get("copy") is True
    if cure == DETACH:
        return bool(options.get("detach"))
    return isinstance(cure, Option) and options.get(cure.name) == cure.value


#: Every column that gives its memory by Arrow, of whatever library.
_ARROW = column("Arrow", "", (), ())


def _source(library: str | None, obj: Any) -> tuple[Source | None, bool]:
    """Return how an object answers, and whether it never changes; None: not known."""
    keywords = None if obj is None else keywords_of(static(obj, "__dlpack__"))
    if library is None and keywords is not None and not keywords & {"max_version", ANY_KEYWORD}:
        takes = keywords & {"stream"}
        return Source("its type", "", takes=takes, versioned=False), False
    row, _ = source_of(library, ())
    if row is None:
        return None, False
    here, verified = source_of(library, version_tuple(version_of(row.library) or ""))
    names = {f"{each.__module__}.{each.__qualname__}" for each in type(obj).__mro__}
    if here is not None and verified and names.isdisjoint(here.others):
        return here, row.immutable
    return None, row.immutable
