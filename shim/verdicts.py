"""What the tables expect: how a consumer will take an object, as it is and upgraded.

The answer follows from the rows of ``consumers`` and ``sources``; the
consumer is not asked.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from .arrays import row_major
from .consumers import filled, functions_of, row_of, rows_of
from .counted import CONJUGATED, GRAD, MASKED, NEGATED, NEGATIVE, UNHEEDED, UNTOLD, WRITES
from .cures import cure as array_cure
from .facts import Facts, facts_of
from .known.rows import (
    ALWAYS_READONLY,
    ANY,
    COPIES,
    COPIES_UNALIGNED,
    HONOURS,
    IGNORES,
    LEGACY,
    LEGACY_FIRST,
    LIMITS,
    SHARES,
    VERSIONED,
    Known,
    Limit,
    Source,
)
from .libraries import version_of, version_tuple
from .look import Array
from .options import (
    AS_BUFFER,
    AS_ROW_MAJOR_BUFFER,
    AS_TAKEN,
    BUFFERS,
    COPY_READONLY,
    ROW_MAJOR,
    TO_HOST,
    VOUCH,
    Option,
)
from .report import Report, inspect
from .stream_table import cells
from .text import printable

#: Kinds of producers in the table of stream rules, by the library's row; others are "modern".
_ASKED = {"torch": "modern, not 2", "jax": "modern, not -1", "tensorflow": "has waited"}
_ASKED |= dict.fromkeys(("tvm-ffi", "nanobind", "mlx", "cuda.core", "jax.ffi"), "ignores stream")
_FAMILIES = {2: "CUDA", 3: "CUDA host", 13: "CUDA managed", 10: "ROCm", 11: "ROCm host"}
_FAMILIES[14] = "oneAPI"

_LOOK = "dtype, shape or strides cannot be seen without export=True"
_ACCESS = "whether it is read-only cannot be seen without export=True"
_BY_BUFFER = "it converts objects in ways of its own, which are not in the table"
_BARE_BUFFER = "it asks the Tensor for a buffer without shape and format, which loses the dtype"
_DEVICE = "read from the sources alone, not verified"


class Expected(NamedTuple):
    """The outcome of handing an object to a consumer; None where it cannot be told."""

    #: "works", "refused", "wrong" (it arrives as something else), "dies" or "unknown".
    result: str
    copied: bool | None = None
    #: Whether the consumer takes the memory for writable; None: it does not say.
    writable: bool | None = None
    #: The party that refuses it.
    by: str = ""
    #: The error is one of these.
    raises: tuple[str, ...] = ()
    why: str = ""
    #: What cures it, as a user types it: an option of ``upgrade``, or ``dlshim.from_dlpack(x)``
    #: instead of it; "": nothing does.
    cure: str = ""

    def __str__(self) -> str:
        error = " or ".join(self.raises if len(self.raises) < 4 else ["an error"])
        if self.result == "refused":
            return f"refused by {self.by}: {error}"
        if self.result == "wrong":
            return f"arrives as something else{f', or {error}' if error else ', without an error'}"
        if self.result != "works":
            return "ends the process" if self.result == "dies" else self.result
        copied = {True: ", copied", False: ", zero copy", None: ""}[self.copied]
        return (
            "works" + copied + {True: ", writable", False: ", read-only", None: ""}[self.writable]
        )


class Expectation(NamedTuple):
    """The verdict of one function on the object, as it is and upgraded."""

    #: The function.
    consumer: str
    #: The version of its library; None: not installed.
    version: str | None
    bare: Expected
    upgraded: Expected
    #: Further effects, in sentences: marks that are lost, streams.
    what: str = ""
    #: Why it does not work as it is, or upgraded (both, where they differ), or why nothing can be
    #: said.
    why: str = ""
    #: The call that works where the bare or the upgraded one does not; empty: there is none, or
    #: none is needed.
    cure: str = ""

    def __str__(self) -> str:
        told = {
            name: str(getattr(self, name)) for name in ("bare", "upgraded", "what", "why", "cure")
        }
        lines = [
            f"    {name:<12}{printable(value, kept='')}" for name, value in told.items() if value
        ]
        return "\n".join([f"{self.consumer} {self.version or '(not installed)'}", *lines])


def expected(obj: Any, consumer: Any, *, export: bool = False) -> tuple[Expectation, ...]:
    """Return what the tables expect of a consumer; export: after a look at one export."""
    return verdicts(obj, inspect(obj, export=export), consumer)


def verdicts(obj: Any, report: Report, consumer: Any) -> tuple[Expectation, ...]:
    """Return the verdict of each function that `consumer` stands for on an object."""
    found, facts = [], facts_of(obj, report)
    for name in functions_of(consumer):
        rows = rows_of(name)
        if not rows[0].library:  # compiled into others: each span of releases has its answer
            found += [_verdict(facts, row, _span(row)) for row in rows]
            continue
        version = version_of(rows[0].library)
        row, verified = row_of(name, version_tuple(version or ""))
        row, unknown = filled(row)
        if version and verified and not unknown:
            found.append(_verdict(facts, row, version))
            continue
        why = "not verified: it is not installed here"
        if version and verified:
            why = f"not verified: it calls {row.through}, {unknown}"
        elif version:
            first, end = (".".join(map(str, span)) for span in (rows[0].since, rows[-1].until))
            why = f"not verified: the table has releases from {first or '0'} to before {end or '0'}"
        none = Expected("unknown", why=why)
        found.append(Expectation(name, version, none, none, _what(facts, row, none), why))
    way = _way(obj, report, facts)
    return tuple(each._replace(cure=way) if way and _needs_way(each) else each for each in found)


def _needs_way(verdict: Expectation) -> bool:
    """Whether the object is refused, and no option or call is named that makes it pass."""
    refused = verdict.upgraded.by == "dlshim" and verdict.bare.result != "works"
    return refused and not verdict.cure


def _way(obj: Any, report: Report, facts: Facts) -> str:
    """Return the sentence that names an array which passes in place of an object; "": none."""
    refused = facts.refuses[0] and not isinstance(facts.refuses[1], Option)
    if facts.has_way and not (facts.fails or refused):
        return ""
    said = ""
    with suppress(Exception):  # the object's code runs
        said = array_cure(obj, report.type_name.removeprefix("builtins."), wrapped=False) or ""
    return said if said.startswith("pass ") else ""


def _span(row: Known) -> str:
    """Return the first and the last release of a row, such as "2.2 to 2.9"."""
    last = (*row.until[:-1], row.until[-1] - 1)
    return " to ".join(".".join(map(str, release)) for release in (row.since, last))


def outcomes(facts: Facts, row: Known) -> tuple[Expected, Expected]:
    """Return the outcomes of a row for an object as it is, and upgraded."""
    asks_legacy = row.asks != VERSIONED and row.wants != "buffer" and not row.reads_table
    if facts.dtype == "bool" and facts.source and asks_legacy:
        facts = facts._replace(dtype=facts.source.legacy_bool)
    return _bare(facts, row), _upgraded(facts, row)


def _verdict(facts: Facts, row: Known, version: str) -> Expectation:
    bare, upgraded = outcomes(facts, row)
    ours = facts.kind in ("upgraded", "tensor") and row.wants == "object"
    ours = ours and not (facts.kind == "tensor" and (row.bare_buffer or _holds_buffers(row)))
    bare = upgraded if ours else bare
    cure, option = "", ""
    if facts.word is None and not row.never_writes and _loses_mark(facts, row, upgraded):
        cure = _call(row, COPY_READONLY)
    elif upgraded.result != "works" and not (facts.kind == "tensor" and bare.result == "works"):
        if option := cure_of(facts, row, upgraded):
            cure = _call(row, option)
    elif (bare.result != "works" and not ours) or _is_unaligned(facts, row, bare):
        cure = _call(row)
    what = _what(facts, row, bare if bare.result == "works" else upgraded)
    if isinstance(option, Option) and (narrowed := _narrowed(_cured(facts, option), row)):
        what = "; ".join(filter(None, (what, f"with the cure, {narrowed}")))
    return Expectation(row.name, version, bare, upgraded, what, _why(bare, upgraded), cure)


def _why(bare: Expected, upgraded: Expected) -> str:
    """Return the reason of the outcome that is not as it should be, or of both."""
    if bare.result == "unknown" or (bare.result == "works" and upgraded.result != "unknown"):
        return upgraded.why or bare.why
    if upgraded.result == "works" or upgraded.why in ("", bare.why):
        return bare.why
    if upgraded.why.startswith(bare.why):  # the same reason, and the rule that it falls under
        return upgraded.why
    return f"{bare.why}; upgraded: {upgraded.why}"


def _narrowed(facts: Facts, row: Known) -> str:
    """Return how its elements arrive in fewer bits, whatever their layout; "": they do not."""
    limit = LIMITS.get(row.limit(facts.array) or "") if facts.array else None
    return limit.reason if limit and limit.narrows else ""


def cure_of(facts: Facts, row: Known, outcome: Expected) -> str:
    """Return what cures an outcome, unless something else stands in the way then."""
    if outcome.cure in BUFFERS:
        return _buffer_taken(facts, row)
    if not isinstance(outcome.cure, Option):
        return ""
    options = [outcome.cure]
    if facts.array and not facts.array.contiguous:
        options.append(ROW_MAJOR)  # a copy is writable, too
    return next((option for option in options if _cures(facts, row, option)), "")


def _cures(facts: Facts, row: Known, option: Option) -> bool:
    cured = _cured(facts, option)
    result = outcomes(cured, row)[1].result
    unseen = result == "unknown" and option.name == "device"
    return unseen or result == "works" or (result == "wrong" and bool(_narrowed(cured, row)))


def _holds_buffers(row: Known) -> bool:
    """Whether it holds buffers that it does not hold by DLPack."""
    return any(LIMITS[name].cure == AS_BUFFER for name in row.limits)


def _takes_buffer_of(facts: Facts, row: Known) -> bool:
    """Whether it takes the buffer of the object's Tensor."""
    if facts.array is None or not _holds_buffers(row) or _elsewhere(facts, row):
        return False
    limit = row.limit(facts.array)
    return limit is None or LIMITS[limit].cure == AS_BUFFER


def _buffer_taken(facts: Facts, row: Known) -> str:
    """Return the buffer of the object's Tensor that it takes, as a cure; "": none."""
    if _takes_buffer_of(facts, row):
        return AS_BUFFER
    return AS_ROW_MAJOR_BUFFER if _takes_buffer_of(_cured(facts, ROW_MAJOR), row) else ""


def _call(row: Known, option: str = "") -> str:
    ours = {"capsule": "to_capsule", "buffer": "from_dlpack"}.get(row.wants, "upgrade")
    function = row.name if "," not in row.name else "f"
    if option in BUFFERS:
        return f"{function}({option})"
    aligned = Option("align", row.alignment) if row.alignment else ""
    return f"{function}(dlshim.{ours}({', '.join(filter(None, ('x', option, aligned)))}))"


def _cured(facts: Facts, option: Option) -> Facts:
    if option.name == "detach":
        return facts._replace(refuses=("", ""), fails="")
    if option.name == "device":
        facts = facts._replace(device=(1, 0))
    if option == facts.refuses[1]:  # chunks, which are joined
        facts = facts._replace(refuses=("", ""))
    strides = facts.strides if option.name == "readonly" else row_major(facts.shape or ())
    return facts._replace(
        strides=strides,
        readonly=False,
        library=None,
        source=None,
        immutable=False,
        aligned_to=64,
    )


def _loses_mark(facts: Facts, row: Known, outcome: Expected) -> bool:
    unmarked = row.flag == IGNORES or outcome.writable
    readonly = facts.readonly or facts.immutable
    return bool(readonly and unmarked and outcome.copied is False)


def _is_unaligned(facts: Facts, row: Known, outcome: Expected) -> bool:
    """Whether it takes memory that it cannot compute with."""
    held = outcome.result == "works" and not outcome.copied
    aligned_to = facts.aligned_to or row.alignment
    return held and aligned_to < row.alignment and 0 not in (facts.shape or ())


def _what(facts: Facts, row: Known, outcome: Expected) -> str:
    said = []
    if outcome.copied is not None:
        keeps = "owns its memory" if outcome.copied else "keeps the memory of x alive"
        said.append(f"the result {keeps}")
    if _is_unaligned(facts, row, outcome):
        said.append(
            f"without align={row.alignment} its first operation ends the process: the memory is "
            f"aligned to {facts.aligned_to} bytes"
        )
    if _loses_mark(facts, row, outcome):
        lost = "the read-only mark is lost" if facts.readonly else "such arrays never change"
        said.append(f"{lost}, the consumer may write to this memory")
        if row.warned and facts.stated and facts.word is None:
            said.append("upgraded, dlshim warns of that (ReadOnlyWarning)")
    if facts.device and facts.device[0] in row.devices:
        said.append(_stream(facts, row))
    elif outcome.result == "works":
        said.append("no stream: host memory")
    return "; ".join(said)


def _stream(facts: Facts, row: Known) -> str:
    """Return the synchronisation, in words, from the table of stream rules."""
    kind = _ASKED.get(facts.library or "", "modern" if facts.has_dlpack else "no stream")
    family = _FAMILIES.get(facts.device[0] if facts.device else 0, "other")
    cell = cells(family)[kind]["object" if family == "oneAPI" else "handle"]
    if cell.passed and cell.task:
        waits = f"dlshim does {cell.task}"
    elif cell.passed == "S":
        waits = "the producer is passed it, and lets it wait for its own work"
    else:
        waits = "nothing is waited for"
    return f"the consumer passes {row.stream}, S; upgraded, {waits} ({family} of dlshim's streams)"


def _refused(by: str, raises: tuple[str, ...], why: str, cure: str = "") -> Expected:
    return Expected("refused", by=by, raises=raises, why=why, cure=cure)


def _unknown(why: str) -> Expected:
    return Expected("unknown", why=why)


def _bare(facts: Facts, row: Known) -> Expected:
    if facts.kind == "capsule":
        return _capsule(facts, row)
    if facts.kind == "tensor" and row.bare_buffer:
        return _refused("dlshim", ("RuntimeError",), _BARE_BUFFER)
    if facts.kind == "tensor" and _takes_buffer_of(facts, row):
        return Expected("works", False)
    if row.wants == "capsule":
        return _refused(row.name, ("TypeError",), "it takes only raw capsules")
    if row.takes_own and row.library == facts.library:
        return Expected("works", False)
    by_buffer = row.buffer_first or (not facts.has_dlpack and row.takes_buffers)
    if row.wants == "buffer" or row.converts or (facts.has_buffer and by_buffer):
        return _unknown(_BY_BUFFER)
    if not facts.has_dlpack:
        return _refused(row.name, row.no_way, "the object has no __dlpack__")
    why = facts.refuses[0]
    # torch's own __dlpack__ forgets the negative bit, NumPy's the mask.
    if why and why not in (NEGATED, MASKED) and not _goes_past_checks(facts, row):
        return _refused("its library", (row.passes_on, *ANY), why)
    if facts.source is None:
        return _unknown("what this type of object answers is not in the table")
    outcome = _asked(facts, row, facts.source)
    if why in (CONJUGATED, NEGATED, MASKED) and outcome.result == "works":
        return Expected("wrong", by=facts.source.name, why=why)
    return _unknown(facts.fails) if facts.fails and outcome.result == "works" else outcome


def _goes_past_checks(facts: Facts, row: Known) -> bool:
    """Whether it takes a tensor by a way in which torch checks nothing."""
    by_table = row.reads_table and facts.has_table
    return facts.library == "torch" and (row.unchecked or by_table)


def _capsule(facts: Facts, row: Known) -> Expected:
    versioned = facts.readonly is not None
    if not facts.has_way:
        return _unknown("it is no DLPack capsule, or was consumed")
    if row.wants == "buffer" or row.converts:
        return _unknown(_BY_BUFFER)
    if not row.takes_capsules and row.wants != "capsule":
        return _refused(row.name, row.no_way, "it takes no raw capsules")
    if versioned and row.asks == LEGACY:
        return _unknown("what it makes of versioned capsules is not in the table")
    return _arrives(facts, row, versioned, bool(facts.readonly))


#: After these errors of a legacy export who asks for DLPack 0.x first asks for 1.x.
_ASKED_AGAIN = ("BufferError", "TypeError")


def _asked(facts: Facts, row: Known, source: Source) -> Expected:
    keywords, readonly = row.keywords, facts.readonly
    if readonly is None and facts.immutable and source.states:
        readonly = True
    if not source.sound:
        return _unknown("its capsules lose memory or offsets in some consumers")
    if reason := dict(source.refused_by).get(row.library):
        return _refused(row.name, ANY, reason)
    if not source.takes.issuperset(keywords):
        if not row.retries:
            why = f"its __dlpack__ does not take {' and '.join(keywords)}, the consumer insists"
            return _refused(row.name, ("TypeError",), why)
        keywords = ()
    versioned = source.versioned and "max_version" in keywords
    if source.refuses_readonly and not versioned:
        if readonly is None:
            return _unknown(_ACCESS)
        again = row.asks == LEGACY_FIRST and source.refuses_readonly in _ASKED_AGAIN
        if readonly and again and source.versioned:
            versioned = True
        elif readonly and row.takes_buffers and facts.has_buffer:
            return _unknown(_BY_BUFFER)
        elif readonly:
            raised = "TypeError" if row.passes_on == "TypeError" else source.refuses_readonly
            return _refused(source.name, (raised,), UNTOLD)
    if facts.dtype is not None and facts.dtype not in source.dtypes:
        return _refused(source.name, ANY, f"{source.name} does not export {facts.dtype}")
    stated = readonly if versioned and source.states else False
    return _arrives(facts, row, versioned, stated)


def _arrives(facts: Facts, row: Known, versioned: bool, stated: bool | None) -> Expected:
    if row.versioned_only and not versioned:
        why = "the object gives DLPack 0.x, the consumer takes 1.x only"
        return _refused(row.name, ("ValueError",), why)
    if refusal := _elsewhere(facts, row):
        return refusal
    array = facts.array
    if array is None and (row.limits or not row.supports_negative):
        return _unknown(_LOOK)
    if array is not None:
        if row.limits and (array.odd or (row.literal and len(array.shape) != 1)):
            return _unknown("what it makes of strides beside an extent of 1 is not in the table")
        if array.negative and not row.supports_negative:
            if row.negative:
                return Expected(
                    row.negative, by=row.name, why="it does not support negative strides"
                )
            return _unknown("what it makes of negative strides is not in the table")
    if row.wants_writable and stated is None:
        return _unknown(_ACCESS)
    if row.wants_writable and stated:
        return _refused(row.name, ("TypeError",), WRITES)
    writable = None
    if row.flag == HONOURS and (stated is not None or not versioned):
        writable = versioned and not stated
    return _held(facts, row, writable)


def _upgraded(facts: Facts, row: Known) -> Expected:
    if not facts.has_way:
        return _refused("dlshim", ("UnsupportedObjectError",), "the object offers no way in")
    kernel = facts.refuses[0] == GRAD and row.reads_table and facts.has_table
    if facts.refuses[0] and not kernel:
        return _refused("dlshim", (row.passes_on,), *facts.refuses)
    if facts.fails and not kernel:
        return _refused("dlshim", (row.passes_on,), facts.fails)
    if refusal := _elsewhere(facts, row):
        return refusal
    if decided := _layout(facts, row):
        return decided
    stated = facts.stated
    readonly = facts.immutable or stated
    if refusal := _readonly(facts, row, stated, readonly):
        return refusal
    if row.wants_writable and readonly is None:
        return _unknown(_ACCESS)
    if row.wants_writable and readonly:
        unsaid = facts.immutable and facts.has_dlpack and stated is False
        cure = VOUCH if unsaid else COPY_READONLY
        return _refused(row.name, ("TypeError",), WRITES, cure)
    array = facts.array
    if array and (name := row.limit(array)) and LIMITS[name].refused:
        return _refused("dlshim", (row.passes_on,), LIMITS[name].reason, LIMITS[name].cure)
    honours = row.flag == HONOURS and readonly is not None
    return _held(facts, row, not readonly if honours else None)


def _layout(facts: Facts, row: Known) -> Expected | None:
    """What becomes of a layout that the consumer is known not to take (N9); None: it takes it."""
    known = row.layout or ("" if row.supports_negative else "negative")
    array = facts.array
    if not known or row.wants == "buffer":
        return None
    if array is None:
        return _unknown(_LOOK)
    meets = LIMITS[known].meets
    if meets is None or not meets(array):
        return None
    seen = row.wants == "object"
    if seen and facts.order == AS_TAKEN.value:
        outcome = _upgraded(_cured(facts, AS_TAKEN), row)
        return outcome._replace(copied=True) if outcome.result == "works" else outcome
    why = f"{LIMITS[known].reason} (rule N9)" if row.layout else NEGATIVE
    cure = AS_TAKEN if seen else ROW_MAJOR
    return _refused("dlshim", (row.passes_on,), why, cure)


def _readonly(
    facts: Facts, row: Known, stated: bool | None, readonly: bool | None
) -> Expected | None:
    """The refusal of read-only memory to a consumer that is not told, or does not heed it (T8)."""
    strict = facts.word == "error"
    careful = row.wants == "buffer" or row.reads_table or (row.never_writes and not strict)
    untold = row.asks == LEGACY and not careful
    if facts.word in ("copy", "share") or not (untold or (row.warned and strict)):
        return None
    counts = readonly if strict else stated
    if counts is None:
        return _unknown(_ACCESS)
    if not counts or (row.buffer_next and facts.kind == "tensor"):
        return None
    cure = _buffer_taken(facts, row) or COPY_READONLY
    return _refused("dlshim", (row.passes_on,), UNTOLD if untold else UNHEEDED, cure)


def _elsewhere(facts: Facts, row: Known) -> Expected | None:
    """The refusal of memory on a device that the consumer does not take."""
    taken = (*((1, 3, 11) if row.host else ()), *row.devices)
    if facts.device is None or facts.device[0] in taken:
        return None
    cure = TO_HOST if row.host else ""
    return _refused(row.name, ANY, "it takes no memory of this device", cure)


def _reason_and_cure(array: Array, row: Known, limit: Limit) -> tuple[str, str]:
    """Return those of a limit, and of what a row-major copy meets where only a buffer is taken."""
    if limit.cure == ROW_MAJOR:
        name = row.limit(array._replace(strides=row_major(array.shape)))
        if name and LIMITS[name].cure == AS_BUFFER:
            return f"{limit.reason}; {LIMITS[name].reason}", AS_ROW_MAJOR_BUFFER
    return limit.reason, limit.cure


def _held(facts: Facts, row: Known, writable: bool | None) -> Expected:
    """Return the outcome when the consumer has the memory."""
    if facts.device and facts.device[0] != 1 and facts.device[0] in row.devices:
        return Expected("works", False, writable, why=_DEVICE)
    array = facts.array
    if array is None and row.limits:
        return _unknown(_LOOK)
    if array and (name := row.limit(array)):
        limit = LIMITS[name]
        result = "dies" if limit.kills else "wrong" if limit.changes else "refused"
        raises = limit.raises if limit.changes else row.raises
        why, cure = _reason_and_cure(array, row, limit)
        return Expected(result, None, None, row.library, raises, why, cure)
    copied = {SHARES: facts.joined, COPIES: True}.get(row.memory)
    if row.memory == COPIES_UNALIGNED and facts.aligned_to is not None:
        copied = facts.aligned_to < 64
    if row.flag == ALWAYS_READONLY:
        writable = False
    if array and 0 in array.shape:  # a consumer may take none of it
        copied = writable = None
    return Expected("works", copied, writable)
