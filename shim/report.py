"""``dlshim.inspect(obj)``: what an object offers, what ``upgrade`` would do with it, and what a
consumer will do, which follows from the rows of ``known``.  Nothing is asked of the consumer.

The module is not called ``inspect``: the submodule would hide the function of that
name in the package.
"""

from __future__ import annotations

import inspect as _inspect
import sys
from dataclasses import dataclass, fields, replace
from typing import Any

from . import arrays, known

# By name: CPython 3.12 crashes on an attribute of a module that the collector has emptied.
from ._core import (
    Producer,
    Tensor,
    UnsupportedObjectError,
    _peek,
    _plan,
    _true_device,
    to_capsule,
)
from .arrays import row_major
from .known import (
    LIMITS,
    NAMES,
    TRIPLES,
    Array,
    Known,
    Source,
    version_of,
    version_tuple,
    visible,
)

__all__ = ["Outcome", "Protocol", "Report", "Verdict", "inspect"]

_DLPACK = ("dltensor", "dltensor_versioned")
_HOST_DEVICES = (1, 3, 11)
_GPU_DEVICES = (2, 10)
# Where an address plus an offset in bytes is an address (rule T5).
_ADDRESS_DEVICES = (1, 2, 3, 10, 11, 13, 14)
_KEYWORDS = ("stream", "max_version", "dl_device", "copy")
FAILED = "the export failed: "
_ALIGNMENTS = 4096  # a page: more is not looked for

_CAPSULE = type(Producer.__dlpack_c_exchange_api__)

# Attribute, what it is, and since when that spelling exists.
_PROTOCOLS = (
    ("__dlpack_c_exchange_api__", "DLPack C exchange API", "DLPack 1.3"),
    ("__c_dlpack_exchange_api__", "DLPack C exchange API", "DLPack 1.2"),
    ("__dlpack__", "DLPack", ""),
    ("__cuda_array_interface__", "CUDA array interface", ""),
    ("__sycl_usm_array_interface__", "SYCL USM array interface", ""),
    ("__array_struct__", "array struct", ""),
    ("__array_interface__", "array interface", ""),
)


@dataclass(frozen=True)
class Protocol:
    """A way in that an object offers."""

    name: str
    spelling: str
    #: What can be told without asking: empty when nothing can.
    generation: str = ""

    def __str__(self) -> str:
        return f"{self.spelling} ({self.generation})" if self.generation else self.spelling


@dataclass(frozen=True)
class Outcome:
    """What comes of handing an object to a consumer; None where it cannot be told."""

    #: "works", "refused", "wrong" (it arrives as something else), "dies" or "unknown".
    result: str
    copied: bool | None = None
    #: Whether the consumer takes the memory for writable; None: it does not say.
    writable: bool | None = None
    #: Who refuses it.
    by: str = ""
    #: The error is one of these.
    raises: tuple[str, ...] = ()
    why: str = ""
    #: The options of ``upgrade`` that cure it, as text.
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


@dataclass(frozen=True)
class Verdict:
    """What one function makes of the object, as it is and upgraded."""

    #: The function.
    consumer: str
    #: Of its library; None: not installed.
    version: str | None
    bare: Outcome
    upgraded: Outcome
    #: What else will happen, in sentences: marks that are lost, streams.
    what: str = ""
    #: Why it does not work as it is, or why nothing can be said.
    why: str = ""
    #: The call that works where the bare one does not; empty: there is none, or none is needed.
    cure: str = ""

    def __str__(self) -> str:
        told = {
            name: str(getattr(self, name)) for name in ("bare", "upgraded", "what", "why", "cure")
        }
        lines = [f"    {name:<12}{value}" for name, value in told.items() if value]
        return "\n".join([f"{self.consumer} {self.version or '(not installed)'}", *lines])


@dataclass(frozen=True)
class Report:
    """What is known of an object; None where only an export could tell."""

    type_name: str
    protocols: tuple[Protocol, ...]
    #: Protocols, in the order in which ``upgrade`` tries them.
    plan: tuple[str, ...]
    #: What earlier exchanges of this type have taught, as text.
    learned: tuple[str, ...] = ()
    #: Row of the library table that the type matches.
    library: str | None = None
    capsule_name: str | None = None
    #: "unconsumed", "consumed" or "foreign", for capsules only.
    capsule_state: str | None = None
    device: tuple[int, int] | None = None
    dtype: arrays.dtype | None = None
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    byte_offset: int | None = None
    address: int | None = None
    flags: int | None = None
    version: tuple[int, int] | None = None
    readonly: bool | None = None
    contiguous: bool | None = None
    #: Largest power of two (up to a page) that the first element's address is a multiple of.
    aligned_to: int | None = None
    notes: tuple[str, ...] = ()
    #: What the consumer that was asked about will do with it, one for each of its functions.
    verdicts: tuple[Verdict, ...] = ()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        lines = [f"dlshim report on {self.type_name}"]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("type_name", "notes", "verdicts") or value is None or value == ():
                continue
            label = field.name.replace("_", " ")
            lines.append(f"  {label:<14}{_text(field.name, value)}")
        lines += [f"  note          {note}" for note in self.notes]
        lines += [f"  to {verdict}" for verdict in self.verdicts]
        return "\n".join(lines)


def _text(name: str, value: Any) -> str:
    if name == "device":
        return _device_text(value)
    if name == "address":
        return f"{value:#x}"
    if name == "flags":
        return _flags_text(value)
    if name == "version":
        return ".".join(map(str, value))
    if name == "aligned_to":
        return f"{value} bytes"
    if name in ("protocols", "learned"):
        return ", ".join(map(str, value))
    if name == "plan":
        return " → ".join(value)
    return str(value)


def _device_text(device: tuple[int, int]) -> str:
    from .enums import DLDeviceType

    try:
        name = DLDeviceType(device[0]).name
    except ValueError:
        name = "a device type that this dlshim does not know"
    return f"{device} {name}"


def _flags_text(flags: int) -> str:
    names = [
        name
        for bit, name in enumerate(("READ_ONLY", "IS_COPIED", "SUBBYTE_TYPE_PADDED"))
        if flags >> bit & 1
    ]
    return f"{flags} ({' | '.join(names)})" if names else str(flags)


def inspect(obj: Any, *, export: bool = False, consumer: Any = None) -> Report:
    """Report what ``obj`` offers and what ``upgrade(obj)`` would do with it.

    Nothing is consumed, imported or synchronised.  With ``export=True`` one export is
    asked for with stream -1, looked at and dropped, so that dtype, shape and the like
    are known.

    ``consumer`` names a library, a function (``"torch"``, ``"torch.asarray"``), or is the module or
    the function itself: the report's ``verdicts`` then say what it will do with the object.
    """
    report = _report(obj, export)
    if consumer is None:
        return report
    return replace(report, verdicts=verdicts(obj, report, consumer))


def _report(obj: Any, export: bool) -> Report:
    if type(obj) is _CAPSULE:
        return _of_capsule(obj)
    if isinstance(obj, Producer):
        return _of_producer(obj, export=export)
    return _of_tensor(obj) if isinstance(obj, Tensor) else _of_object(obj, export=export)


def _type_name(obj: Any) -> str:
    cls = type(obj)
    return f"{cls.__module__}.{cls.__qualname__}"


def _of_capsule(capsule: Any) -> Report:
    name = _peek(capsule)["name"]
    facts: dict[str, Any] = {
        "type_name": "PyCapsule",
        "protocols": (),
        "plan": (),
        "capsule_name": name,
    }
    if name in _DLPACK:
        facts["plan"] = ("raw capsule",)
        return Report(**facts, capsule_state="unconsumed", **_facts_of_export(capsule))
    if name in tuple(f"used_{known}" for known in _DLPACK):
        note = "it was consumed: ask its maker for a new one, or upgrade() it before the first use"
        return Report(**facts, capsule_state="consumed", notes=(note,))
    note = f"not a DLPack capsule: those are called {' or '.join(map(repr, _DLPACK))}"
    return Report(**facts, capsule_state="foreign", notes=(note,))


def _of_tensor(tensor: Tensor) -> Report:
    shape, strides = tensor.shape, tensor.strides
    address = tensor.data_ptr() if tensor.device[0] in _HOST_DEVICES else None
    padded = tensor.dtype.bits < 8 and tensor.nbytes == tensor.size
    return Report(
        type_name=_type_name(tensor),
        protocols=(Protocol("DLPack", "__dlpack__", "1.x or 0.x, as asked"),),
        plan=("kept tensor",),
        device=tensor.device,
        dtype=tensor.dtype,
        shape=shape,
        strides=strides,
        byte_offset=tensor.byte_offset,
        address=tensor.data_ptr(),
        flags=tensor.readonly | tensor.is_copied << 1 | padded << 2,
        version=tensor.version,
        readonly=tensor.readonly,
        contiguous=Array("", shape, strides).contiguous,
        aligned_to=_alignment(address),
    )


def _of_producer(producer: Producer, *, export: bool) -> Report:
    source = producer.source
    # A Tensor: a raw capsule was taken, or a Tensor wrapped.
    kept = isinstance(source, Tensor)
    report = _of_tensor(source) if kept else _of_object(source, export=False)
    notes = (*report.notes, repr(producer))
    facts: dict[str, Any] = {"notes": notes}
    if not kept and ", " in repr(producer):  # options change what consumers get
        facts |= dict.fromkeys(("dtype", "shape", "strides", "readonly", "contiguous"))
        facts["aligned_to"] = None
    if export:
        facts.update(_exported(producer, notes))
    known = {field.name: getattr(report, field.name) for field in fields(report)}
    return Report(**{**known, "type_name": f"upgraded {report.type_name}", **facts})


def _of_object(obj: Any, *, export: bool) -> Report:
    notes: tuple[str, ...] = ()
    facts: dict[str, Any] = {}
    try:
        plan = _plan(obj)
    except UnsupportedObjectError as error:
        return Report(_type_name(obj), (), (), notes=(str(error),))
    protocols = _protocols(obj)
    if "buffer protocol" in plan["offers"]:
        protocols += (Protocol("buffer protocol", "buffer protocol"),)
    if _static(obj, "__dlpack_device__") is not None:
        try:
            kind, number = obj.__dlpack_device__()
            facts["device"] = (int(kind), int(number))
        except Exception as error:
            notes += (f"__dlpack_device__() gives no two ints: {_told(error)}",)
    facts |= _shown(visible(obj, plan["library"], tuple(plan["offers"])))
    facts["notes"] = notes
    if export:
        label = facts.get("device")
        facts.update(_exported(obj, notes))
        if label is not None and label[0] in _GPU_DEVICES and label != facts["device"]:
            note = f"its __dlpack_device__() says {label}, its memory is on {facts['device']}"
            facts["notes"] = (*facts["notes"], note)
    return Report(
        type_name=_type_name(obj),
        protocols=protocols,
        plan=tuple(plan["offers"]),
        learned=_learned(plan),
        library=plan["library"],
        **facts,
    )


def _shown(seen: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a Report that can be seen without an export."""
    shape, strides = seen.get("shape"), seen.get("strides")
    known: dict[str, Any] = {
        name: seen[name] for name in ("shape", "strides", "readonly") if name in seen
    }
    if "dtype" in seen:
        known["dtype"] = arrays.dtype(TRIPLES[seen["dtype"]])
    if shape is not None and strides is not None:
        known["contiguous"] = Array("", shape, strides).contiguous
    return {**known, "aligned_to": _alignment(seen.get("address"))}


def _learned(plan: dict[str, Any]) -> tuple[str, ...]:
    ways = []
    for generation in ("legacy", "versioned"):
        way = plan[generation]
        if way is None:
            continue
        names = [name for bit, name in enumerate(_KEYWORDS) if way["keywords"] >> bit & 1]
        call = f"({', '.join(names)})" if way["protocol"] == "__dlpack__" else ""
        ways.append(f"{generation} by {way['protocol']}{call}")
    return tuple(ways)


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _static(obj: Any, name: str) -> Any:
    """Look an attribute up without running properties; None when it is not there."""
    return _inspect.getattr_static(obj, name, None)


def _protocols(obj: Any) -> tuple[Protocol, ...]:
    found = []
    for spelling, name, generation in _PROTOCOLS:
        attribute = _static(obj, spelling)
        if attribute is None:
            continue
        if spelling == "__dlpack__":
            generation = _generation(attribute)
        found.append(Protocol(name, spelling, generation))
    return tuple(found)


def _generation(method: Any) -> str:
    """Tell from a signature which edition of the protocol a ``__dlpack__`` follows."""
    try:
        names = _inspect.signature(method).parameters
    except (TypeError, ValueError):
        return ""
    kinds = {parameter.kind for parameter in names.values()}
    if "max_version" in names:
        return "takes max_version"
    if _inspect.Parameter.VAR_KEYWORD in kinds:
        return "takes any keyword"
    return "takes stream only" if "stream" in names else "takes no keyword"


def _exported(obj: Any, notes: tuple[str, ...]) -> dict[str, Any]:
    try:
        capsule = _capsule_of(obj)
    except Exception as error:
        return {"notes": (*notes, f"{FAILED}{_told(error)}")}
    facts = {"capsule_name": _peek(capsule)["name"], **_facts_of_export(capsule)}
    return {**facts, "notes": (*notes, *facts.get("notes", ()))}


def _capsule_of(obj: Any) -> Any:
    """Export, with every stride unless a Producer has an order: the layout is told, not refused."""
    if isinstance(obj, Producer):
        try:
            return to_capsule(obj, max_version=(1, 0), stream=-1)
        except BufferError as error:
            if 'order="K"' not in str(error):
                raise
    return to_capsule(obj, max_version=(1, 0), stream=-1, order="K")


def _facts_of_export(capsule: Any) -> dict[str, Any]:
    """Return the fields of a Report that an unconsumed capsule tells."""
    seen = _peek(capsule)
    versioned = seen["name"] == _DLPACK[1]
    if "shape" not in seen:  # of another major version nothing else may be read
        note = "of a major version that this dlshim does not know: nothing else can be read"
        return {"version": seen["version"], "notes": (note,)}
    if not seen["ndim"]:  # the pointers may be NULL then
        seen |= {"shape": (), "strides": ()}
    shape, strides, device = seen["shape"], seen["strides"], seen["device"]
    facts = {name: seen[name] for name in ("device", "dtype", "shape", "strides", "byte_offset")}
    first = seen["data"] + seen["byte_offset"]
    if said := _wrong_label(device, shape, first):
        facts["notes"] = (said,)
    return {
        **facts,
        "address": first if device[0] in _ADDRESS_DEVICES else seen["data"],
        "flags": seen["flags"] if versioned else None,
        "version": seen["version"] if versioned else None,
        "readonly": bool(seen["flags"] & 1) if versioned else None,
        "contiguous": None
        if shape is None
        else strides is None or Array("", shape, strides).contiguous,
        "aligned_to": _alignment(first if device[0] in _HOST_DEVICES else None),
    }


def _wrong_label(device: tuple[int, int], shape: tuple[int, ...] | None, address: int) -> str:
    """Tell where the driver, if one is in use, says that GPU memory lies elsewhere."""
    if device[0] not in _GPU_DEVICES or shape is None or 0 in shape:
        return ""
    found = _true_device(address, device)
    if found == device:
        return ""
    return f"it is labelled {device}, but the driver says {found}: pass assume_device={found}"


def _alignment(address: int | None) -> int | None:
    if not address:
        return None
    return min(address & -address, _ALIGNMENTS)


# ---- what a consumer will do --------------------------------------------------------------------

#: Kinds of producers in the table of stream rules, by the library's row; others are "modern".
_KINDS = {"torch": "modern, not 2", "jax": "modern, not -1", "tensorflow": "has waited"}
_KINDS |= dict.fromkeys(("tvm-ffi", "nanobind", "mlx", "cuda.core", "jax.ffi"), "ignores stream")
_FAMILIES = {2: "CUDA", 3: "CUDA host", 13: "CUDA managed", 10: "ROCm", 11: "ROCm host"}
_FAMILIES[14] = "oneAPI"

_LOOK = "dtype, shape or strides cannot be seen without export=True"
_ACCESS = "whether it is read-only cannot be seen without export=True"
_BY_BUFFER = "it converts objects in ways of its own, which are not in the table"
_LOST = "DLPack 0.x cannot say read-only (rule T8)"
_NEGATIVE = "it does not support negative strides"
_WRITES = "the parameter must be writable"
_DEVICE = "read from the sources alone, not verified"


@dataclass(frozen=True)
class Facts:
    """What could be seen of an object, in the words of the tables."""

    library: str | None = None
    #: How its library answers, where that is known of this release.
    source: Source | None = None
    #: It never changes, whatever its capsules say.
    immutable: bool = False
    #: "object", "capsule", "upgraded" (a Producer) or "tensor" (a Tensor).
    kind: str = "object"
    has_dlpack: bool = True
    has_way: bool = True
    has_buffer: bool = False
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
    legacy_readonly: bool = False

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
        silent = source is not None and not (source.states or source.legacy_readonly)
        if self.readonly is None and (self.kind == "capsule" or silent):
            return False
        return self.readonly


def facts_of(obj: Any, report: Report) -> Facts:
    """Return what a report and a look at the object tell."""
    ways = {protocol.spelling: protocol.generation for protocol in report.protocols}
    answers, immutable = _source(report.library, ways.get("__dlpack__", ""))
    kind = {"PyCapsule": "capsule", "dlshim.Tensor": "tensor"}.get(report.type_name, "object")
    options, seen = "", {}
    if isinstance(obj, Producer):
        kind, options, obj = "upgraded", repr(obj), obj.source
    if kind in ("object", "upgraded") and not isinstance(obj, Tensor):
        seen = visible(obj, report.library, report.plan)
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
        dtype=None if report.dtype is None else NAMES.get((*report.dtype,)),
        shape=report.shape,
        strides=strides,
        readonly=report.readonly,
        aligned_to=report.aligned_to,
        device=report.device,
        refuses=("", "") if ", detach=True" in options else seen.get("refuses", ("", "")),
        fails=next((note for note in report.notes if note.startswith(FAILED)), ""),
        legacy_readonly="legacy_readonly=" in options,
    )


def _source(library: str | None, generation: str) -> tuple[Source | None, bool]:
    """Return how an object answers, and whether it never changes; None: not known."""
    takes = {"takes stream only": frozenset({"stream"}), "takes no keyword": frozenset[str]()}
    if library is None and generation in takes:
        return Source("its type", "", takes=takes[generation], versioned=False), False
    row, _ = known.source_of(library, ())
    if row is None:
        return None, False
    here, verified = known.source_of(library, version_tuple(version_of(row.library) or ""))
    return here if verified else None, row.immutable


def names() -> list[str]:
    """Return what a consumer may be called: libraries, and their functions."""
    functions = {row.name for row in known.CONSUMERS}
    return sorted(functions | {name.replace(",", ".").partition(".")[0] for name in functions})


def functions(name: str) -> list[str]:
    """Return the functions that a name means: that of this name, or a library's first ones."""
    found = [row.name for row in known.CONSUMERS if row.name.startswith((f"{name}.", f"{name},"))]
    alike = [each for each in found if _kind(each) == _kind(found[0])]
    return [name] if known.rows_of(name) else list(dict.fromkeys(alike))


def _kind(name: str) -> tuple[int, str]:
    """How deep a function lies, and its name: pyarrow has the same one in two classes."""
    return name.count("."), name.rpartition(".")[2] if "." in name else ""


def _called(consumer: Any) -> str:
    if isinstance(consumer, str):
        return consumer
    if isinstance(consumer, type(sys)):
        return consumer.__name__
    name = str(getattr(consumer, "__qualname__", None) or getattr(consumer, "__name__", ""))
    module = getattr(consumer, "__module__", None)
    owner = getattr(consumer, "__self__", None)
    if module is None and isinstance(owner, type):  # torch.asarray
        module = owner.__module__
    if type(consumer).__name__ == "nb_func" and module != "mlx.core":
        return "nanobind"
    return f"{module}.{name}"


def _functions(consumer: Any) -> list[str]:
    name = _called(consumer)
    if found := functions(name):
        return found
    # A function knows the module that defines it, not the one that it is called by.
    parts = name.split(".")
    for row in () if isinstance(consumer, str) else known.CONSUMERS:
        theirs = row.name.split(".")
        same = 2 if theirs[-2:][0][:1].isupper() else 1  # of a class: the class too
        if parts[0] == theirs[0] and parts[-same:] == theirs[-same:]:
            return [row.name]
    raise ValueError(f"consumer {name!r} is not known; these are: {', '.join(names())}")


def verdicts(obj: Any, report: Report, consumer: Any) -> tuple[Verdict, ...]:
    """Return what each function that `consumer` stands for makes of an object."""
    found, facts = [], facts_of(obj, report)
    for name in _functions(consumer):
        rows = known.rows_of(name)
        if not rows[0].library:  # compiled into others: each generation has its answer
            found += [_verdict(facts, row, f"{row.since[0]}.x") for row in rows]
            continue
        version = version_of(rows[0].library)
        row, verified = known.row_of(name, version_tuple(version or ""))
        if version and verified:
            found.append(_verdict(facts, row, version))
            continue
        why = "not verified: it is not installed here"
        if version:
            first, end = (".".join(map(str, span)) for span in (rows[0].since, rows[-1].until))
            why = f"not verified: the table has releases from {first or '0'} to before {end or '0'}"
        none = Outcome("unknown", why=why)
        found.append(Verdict(name, version, none, none, _what(facts, row, none), why))
    return tuple(found)


def outcomes(facts: Facts, row: Known) -> tuple[Outcome, Outcome]:
    """Return what a row makes of an object as it is, and upgraded."""
    asks_legacy = row.asks != known.VERSIONED and row.wants != "buffer" and not row.reads_table
    if facts.dtype == "bool" and facts.source and asks_legacy:
        facts = replace(facts, dtype=facts.source.legacy_bool)
    return _bare(facts, row), _upgraded(facts, row)


def _verdict(facts: Facts, row: Known, version: str) -> Verdict:
    bare, upgraded = outcomes(facts, row)
    ours = facts.kind in ("upgraded", "tensor") and row.wants == "object"
    bare = upgraded if ours else bare
    cure = ""
    if bare.result != "works":
        if upgraded.result == "works" and not ours:
            cure = _call(row)
        elif option := cure_of(facts, row, upgraded):
            cure = _call(row, option)
    what = _what(facts, row, bare if bare.result == "works" else upgraded)
    why = bare.why if bare.result != "unknown" else upgraded.why or bare.why
    return Verdict(row.name, version, bare, upgraded, what, why, cure)


def cure_of(facts: Facts, row: Known, outcome: Outcome) -> str:
    """Return the option that cures an outcome, unless something else stands in the way then."""
    cured = outcomes(_cured(facts, outcome.cure), row)[1].result
    unseen = cured == "unknown" and outcome.cure.startswith("device")
    return outcome.cure if unseen or cured == "works" else ""


def _call(row: Known, option: str = "") -> str:
    ours = {"capsule": "to_capsule", "buffer": "from_dlpack"}.get(row.wants, "upgrade")
    function = row.name if "," not in row.name else "f"
    return f"{function}(dlshim.{ours}({', '.join(filter(None, ('x', option)))}))"


def _cured(facts: Facts, option: str) -> Facts:
    if option.startswith("detach"):
        return replace(facts, refuses=("", ""))
    if option.startswith("device"):
        facts = replace(facts, device=(1, 0))
    strides = facts.strides if option.startswith("leg") else row_major(facts.shape or ())
    return replace(
        facts,
        strides=strides,
        readonly=False,
        library=None,
        source=None,
        immutable=False,
        aligned_to=64,
    )


def _what(facts: Facts, row: Known, outcome: Outcome) -> str:
    said = []
    if outcome.copied is not None:
        keeps = "owns its memory" if outcome.copied else "keeps the memory of x alive"
        said.append(f"the result {keeps}")
    unmarked = row.flag == known.IGNORES or outcome.writable
    if (facts.readonly or facts.immutable) and outcome.copied is False and unmarked:
        said.append("the read-only mark is lost, the consumer may write to this memory")
    if facts.device and facts.device[0] in row.devices:
        said.append(_stream(facts, row))
    elif outcome.result == "works":
        said.append("no stream: host memory")
    return "; ".join(said)


def _stream(facts: Facts, row: Known) -> str:
    """Return who waits for what, as the table of stream rules has it."""
    kind = _KINDS.get(facts.library or "", "modern" if facts.has_dlpack else "no stream")
    family = _FAMILIES.get(facts.device[0] if facts.device else 0, "other")
    passed, _, task = known.cells(family)[kind][
        "object" if family == "oneAPI" else "handle"
    ].partition(" -> ")
    if task:
        waits = f"dlshim does {task}"
    elif passed == "S":
        waits = "the producer is passed it, and lets it wait for its own work"
    else:
        waits = "nothing is waited for"
    return f"the consumer passes {row.stream}, S; upgraded, {waits} ({family} of dlshim's streams)"


def _refused(by: str, raises: tuple[str, ...], why: str, cure: str = "") -> Outcome:
    return Outcome("refused", by=by, raises=raises, why=why, cure=cure)


def _unknown(why: str) -> Outcome:
    return Outcome("unknown", why=why)


def _bare(facts: Facts, row: Known) -> Outcome:
    if facts.kind == "capsule":
        return _capsule(facts, row)
    if row.wants == "capsule":
        return _refused(row.name, ("TypeError",), "it takes only raw capsules")
    if row.takes_own and row.library == facts.library:
        return Outcome("works", False)
    by_buffer = row.buffer_first or (not facts.has_dlpack and row.takes_buffers)
    if row.wants == "buffer" or row.converts or (facts.has_buffer and by_buffer):
        return _unknown(_BY_BUFFER)
    if not facts.has_dlpack:
        return _refused(row.name, row.no_way, "the object has no __dlpack__")
    if facts.refuses[0]:
        return _refused("its library", (row.passes_on, *known.ANY), facts.refuses[0])
    source = facts.source
    if source is None:
        return _unknown("what this type of object answers is not in the table")
    return _asked(facts, row, source)


def _capsule(facts: Facts, row: Known) -> Outcome:
    versioned = facts.readonly is not None
    if not facts.has_way:
        return _unknown("it is no DLPack capsule, or was consumed")
    if row.wants == "buffer" or row.converts:
        return _unknown(_BY_BUFFER)
    if not row.takes_capsules and row.wants != "capsule":
        return _refused(row.name, row.no_way, "it takes no raw capsules")
    if versioned and row.asks == known.LEGACY:
        return _unknown("what it makes of versioned capsules is not in the table")
    return _arrives(facts, row, versioned, facts.readonly)


def _asked(facts: Facts, row: Known, source: Source) -> Outcome:
    keywords, readonly = row.keywords, facts.readonly
    if not source.sound:
        return _unknown("its capsules lose memory or offsets in some consumers")
    if row.library in source.refused_by:
        return _refused(row.name, ("TypeError",), "it does not understand the object's device")
    if not source.takes.issuperset(keywords):
        if not row.retries:
            why = f"its __dlpack__ does not take {' and '.join(keywords)}, the consumer insists"
            return _refused(row.name, ("TypeError",), why)
        keywords = ()
    versioned = source.versioned and "max_version" in keywords
    if source.legacy_readonly and not versioned:
        if readonly is None:
            return _unknown(_ACCESS)
        if readonly and row.asks == known.LEGACY_FIRST and source.versioned:
            versioned = True
        elif readonly and row.takes_buffers and facts.has_buffer:
            return _unknown(_BY_BUFFER)
        elif readonly:
            raised = "TypeError" if row.passes_on == "TypeError" else source.legacy_readonly
            return _refused(source.name, (raised,), _LOST)
    if facts.dtype is not None and facts.dtype not in source.dtypes:
        return _refused(source.name, known.ANY, f"{source.name} does not export {facts.dtype}")
    return _arrives(facts, row, versioned, readonly and source.states and versioned)


def _arrives(facts: Facts, row: Known, versioned: bool, stated: bool | None) -> Outcome:
    if row.versioned_only and not versioned:
        why = "the object gives DLPack 0.x, the consumer takes 1.x only"
        return _refused(row.name, ("ValueError",), why)
    if refusal := _elsewhere(facts, row):
        return refusal
    array = facts.array
    if array is None and (row.limits or not row.bears_negative):
        return _unknown(_LOOK)
    if array is not None:
        if row.limits and (array.odd or (row.literal and len(array.shape) != 1)):
            return _unknown("what it makes of strides beside an extent of 1 is not in the table")
        if array.negative and not row.bears_negative:
            if row.negative:
                return Outcome(
                    row.negative, by=row.name, why="it does not support negative strides"
                )
            return _unknown("what it makes of negative strides is not in the table")
    if row.wants_writable and stated:
        return _refused(row.name, ("TypeError",), _WRITES)
    writable = None
    if row.flag == known.HONOURS and (stated is not None or not versioned):
        writable = versioned and not stated
    return _held(facts, row, writable)


def _upgraded(facts: Facts, row: Known) -> Outcome:
    if not facts.has_way:
        return _refused("dlshim", ("UnsupportedObjectError",), "the object offers no way in")
    if facts.refuses[0]:
        return _refused("dlshim", (row.passes_on,), *facts.refuses)
    if facts.fails:
        return _refused("dlshim", (row.passes_on,), facts.fails)
    if refusal := _elsewhere(facts, row):
        return refusal
    array = facts.array
    if not row.bears_negative and row.wants != "buffer":
        if array is None:
            return _unknown(_LOOK)
        if array.negative:
            why = "it is not known to support negative strides (rule N9)"
            return _refused("dlshim", (row.passes_on,), why, 'order="C"')
    stated = facts.stated
    readonly = facts.immutable or stated
    careful = row.wants == "buffer" or row.never_writes or row.reads_table
    if row.asks == known.LEGACY and not careful and not facts.legacy_readonly:
        if stated is None:
            return _unknown(_ACCESS)
        if stated and not (row.buffer_next and facts.kind == "tensor"):
            return _refused("dlshim", (row.passes_on,), _LOST, 'legacy_readonly="copy"')
    if row.wants_writable and readonly is None:
        return _unknown(_ACCESS)
    if row.wants_writable and readonly:
        return _refused(row.name, ("TypeError",), _WRITES, "copy=True")
    honours = row.flag == known.HONOURS and readonly is not None
    return _held(facts, row, not readonly if honours else None)


def _elsewhere(facts: Facts, row: Known) -> Outcome | None:
    """The refusal of memory on a device that the consumer does not take."""
    if facts.device is None or facts.device[0] in (1, 3, 11, *row.devices):
        return None
    why = "it takes no memory of this device"
    return _refused(row.name, known.ANY, why, 'device="cpu"')


def _held(facts: Facts, row: Known, writable: bool | None) -> Outcome:
    """What the consumer makes of the memory when it has it."""
    if facts.device and facts.device[0] != 1 and facts.device[0] in row.devices:
        return Outcome("works", False, writable, why=_DEVICE)
    array = facts.array
    if array is None and row.limits:
        return _unknown(_LOOK)
    if array and (name := row.limit(array)):
        limit = LIMITS[name]
        result = "wrong" if limit.changes else "refused"
        raises = limit.raises if limit.changes else row.raises
        return Outcome(result, None, None, row.library, raises, limit.reason, limit.cure)
    copied = {known.SHARES: False, known.COPIES: True}.get(row.memory)
    if row.memory == known.COPIES_UNALIGNED and facts.aligned_to is not None:
        copied = facts.aligned_to < 64
    if row.flag == known.ALWAYS_READONLY:
        writable = False
    if array and 0 in array.shape:  # a consumer may take none of it
        copied = writable = None
    return Outcome("works", copied, writable)
