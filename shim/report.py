"""``inspect``, and its report: the offers of an object, and the result of ``upgrade``.

The module is not called ``inspect``: it would hide the function of that name in the package.
"""

from __future__ import annotations

import inspect as _inspect
from collections.abc import Callable, Iterable
from html import escape
from typing import Any, NamedTuple

from ._core import (
    _FLAGS,
    Producer,
    Tensor,
    UnsupportedObjectError,
    _flags,
    _options,
    _peek,
    _plan,
    _true_device,
    to_capsule,
)
from .arrays import HOST_DEVICES

# By name: CPython 3.11 and 3.12 crash on an attribute of a module that the collector has emptied.
from .dtypes import dtype as _dtype
from .enums import DLDeviceType
from .locks import import_module
from .look import TRIPLES, Array, visible
from .text import in_one_line, printable, reason_and_cure

_DLPACK = ("dltensor", "dltensor_versioned")
_GPU_DEVICES = (2, 10)
# Devices on which an address plus an offset in bytes is an address (rule T5).
_ADDRESS_DEVICES = (1, 2, 3, 10, 11, 13, 14)
_KEYWORDS = ("stream", "max_version", "dl_device", "copy")
#: Stands among the keywords of a signature: any other keyword is taken too.
_ANY_KEYWORD = "**"
_ALIGNMENTS = 4096  # a page: more is not looked for

_CAPSULE = type(Producer.__dlpack_c_exchange_api__)

# Attribute, its name for people, and the first version with that spelling.
_PROTOCOLS = (
    ("__dlpack_c_exchange_api__", "DLPack C exchange API", "DLPack 1.3"),
    ("__c_dlpack_exchange_api__", "DLPack C exchange API", "DLPack 1.2"),
    ("__dlpack__", "DLPack", ""),
    ("__cuda_array_interface__", "CUDA array interface", ""),
    ("__sycl_usm_array_interface__", "SYCL USM array interface", ""),
    ("__array_struct__", "array struct", ""),
    ("__array_interface__", "array interface", ""),
    ("__arrow_c_device_array__", "Arrow array on a device", ""),
    ("__arrow_c_array__", "Arrow array", ""),
    ("__arrow_c_device_stream__", "Arrow stream on a device", ""),
    ("__arrow_c_stream__", "Arrow stream", ""),
)


def _one_line(text: str) -> str:
    """Return a text of a foreign object without lines of its own."""
    return printable(text, kept="")


def _note(text: str) -> str:
    """Return a text with its cure, if it has one, on a line of its own."""
    return f"\n{'':<18}".join(_one_line(part) for part in reason_and_cure(text) if part)


class Protocol(NamedTuple):
    """A way in that an object offers."""

    name: str
    spelling: str
    #: The generation, if it can be told without asking; else empty.
    generation: str = ""

    def __str__(self) -> str:
        return f"{self.spelling} ({self.generation})" if self.generation else self.spelling


class Outcome(NamedTuple):
    """What came of a line that was tried; None where it cannot be told."""

    #: The line, an expression of x.
    line: str
    #: "works", "changes" (the dtype), "wrong" (values, shape, or freed memory), "refused", "dies",
    #: "hangs" or "not tried".
    result: str
    copied: bool | None = None
    #: Whether the result can be written to.
    writable: bool | None = None
    #: The type of the error that refused it.
    raises: tuple[str, ...] = ()
    #: The error, how the process ended, or what is wrong.
    why: str = ""
    #: Harm that is done although it works, in words.
    what: tuple[str, ...] = ()
    #: The warnings of the call, each with its category.
    warnings: tuple[str, ...] = ()
    #: With what the values were compared, or why they were not.
    compared: str = ""

    def __str__(self) -> str:
        """Tell the outcome in one line."""
        why = _one_line(in_one_line(self.why))
        why = why if len(why) <= _MOST else f"{why[:_MOST]}…"
        if self.result != "works":
            return f"{_RESULTS[self.result]}: {why}"
        copied = {True: "copied", False: "shares memory", None: ""}[self.copied]
        writable = {True: "writable", False: "read-only", None: ""}[self.writable]
        warned = [f"with {each.partition(':')[0]}" for each in self.warnings]
        return ", ".join(filter(None, (self.compared, copied, writable, *self.what, *warned)))

    @property
    def mark(self) -> str:
        """How good it is, as one character."""
        if self.result != "works":
            return "✗"
        return "!" if self.what or self.warnings else "✓"


#: The end of what is said of a line that fills what is missing.
_FILLED = "for a missing or hidden value"

#: Of a longer reason the end is left out of the line; ``why`` has all of it.
_MOST = 240

#: What is said before the reason.
_RESULTS = {"changes": "changes", "wrong": "WRONG", "refused": "refused", "hangs": "hangs"}
_RESULTS |= {"dies": "ends the process", "not tried": "not tried"}


class Verdict(NamedTuple):
    """What a function makes of the object, as it is and upgraded: each line was tried."""

    #: The function, or the expression of x.
    consumer: str
    #: The version of its library; None: it tells none.
    version: str | None
    bare: Outcome
    upgraded: Outcome
    #: Harm that is done although it works, in words.
    what: str = ""
    #: Why it does not work as it is, or upgraded (both, where they differ), or was not tried.
    why: str = ""
    #: The line to use where the bare or the upgraded one has a fault; empty: there is none, or
    #: none is needed.
    cure: str = ""
    #: Each line that was tried, in order.
    tried: tuple[Outcome, ...] = ()
    #: What the object that was tried lacks of x, where it was made anew for that.
    remade: str = ""

    def __str__(self) -> str:
        """Tell the bare and the upgraded line, and the one to use."""
        ours = [each for each in self.tried if "dlshim." in each.line]
        near = [each for each in ours if each.result == "changes" or each.why.endswith(_FILLED)]
        shown = [each for each in self.tried if each.line == self.cure] or near[:1]
        return self.text([self.bare, self.upgraded, *shown])

    def text(self, outcomes: Iterable[Outcome]) -> str:
        """Tell some of the outcomes, a line each, and what to use."""
        if not self.tried:
            return f"{self.consumer} {self.version or ''}".rstrip() + f"\n    {self.bare}"
        rows = list(dict.fromkeys(outcomes))
        width = max(len(each.line) for each in rows)
        calls = f"{len(self.tried)} call{'s' * (len(self.tried) > 1)} in a child process"
        head = f"{self.consumer} {self.version or ''}".rstrip() + f", tried: {calls}"
        lines = [f"    {each.mark} {each.line:<{width}}  {each}" for each in rows]
        if self.remade:
            lines.insert(0, f"    tried with {_one_line(self.remade)}")
        works = any(each.result == "works" for each in self.tried)
        use = self.cure or (self.bare.line if works else "nothing keeps the values and the dtype")
        return "\n".join([head, *lines, f"    use:  {use}"])


class Report(NamedTuple):
    """The facts about an object; None where only an export could tell."""

    type_name: str
    protocols: tuple[Protocol, ...]
    #: Protocols, in the order in which ``upgrade`` tries them.
    plan: tuple[str, ...]
    #: Facts learned from earlier exchanges of this type, as text.
    learned: tuple[str, ...] = ()
    #: Row of the library table that the type matches.
    library: str | None = None
    capsule_name: str | None = None
    #: "unconsumed", "consumed" or "foreign", for capsules only.
    capsule_state: str | None = None
    device: tuple[int, int] | None = None
    dtype: _dtype | None = None
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
    #: Verdicts of the consumer that was asked about, one for each of its functions.
    verdicts: tuple[Verdict, ...] = ()

    def _repr_html_(self) -> str:
        """Return the text for a notebook."""
        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        lines = [f"dlshim report on {_one_line(self.type_name)}"]
        for name, value in self._asdict().items():
            if name in ("type_name", "notes", "verdicts") or value is None or value == ():
                continue
            label = name.replace("_", " ")
            lines.append(f"  {label:<14}{_one_line(_TEXTS.get(name, str)(value))}")
        lines += [f"  note          {_note(note)}" for note in self.notes]
        lines += [f"  to {verdict}" for verdict in self.verdicts]
        return "\n".join(lines)


def _device_text(device: tuple[int, int]) -> str:
    try:
        name = DLDeviceType(device[0]).name
    except ValueError:
        name = "a device type that this dlshim does not know"
    return f"{device} {name}"


def _flags_text(flags: int) -> str:
    names = [name for name, value in _FLAGS.items() if flags & value]
    return f"{flags} ({' | '.join(names)})" if names else str(flags)


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


#: How fields of a report are shown; the others by str().
_TEXTS: dict[str, Callable[[Any], str]] = {
    "device": _device_text,
    "address": hex,
    "flags": _flags_text,
    "version": lambda value: ".".join(map(str, value)),
    "aligned_to": "{} bytes".format,
    "protocols": _listed,
    "learned": _listed,
    "plan": " → ".join,
}


def inspect(obj: Any, *, export: bool = False, consumer: Any = None) -> Report:
    """Report what ``obj`` offers and what ``upgrade(obj)`` would do with it.

    Nothing is consumed, imported or synchronised in this process.  With ``export=True`` one
    export is asked for with stream -1, looked at and dropped, so that dtype, shape and the like
    are known.

    ``consumer`` names a library, a function or an expression (``"torch"``, ``"torch.asarray"``,
    ``"f(x, axis=1)"``), or is the module or the function itself.  It is tried in a child process,
    on an object that is made like this one: the report's ``verdicts`` say what came out.
    """
    report = _report_of(obj, export)
    if consumer is None:
        return report
    # A report without them needs no child process.
    verdicts = import_module("dlshim.trial.asked").verdicts
    return report._replace(verdicts=verdicts(obj, report, consumer))


def _report_of(obj: Any, export: bool) -> Report:
    if type(obj) is _CAPSULE:
        return _of_capsule(obj)
    if isinstance(obj, Producer):
        return _of_producer(obj, export=export)
    return _of_tensor(obj) if isinstance(obj, Tensor) else _of_object(obj, export=export)


def type_name_of(obj: Any) -> str:
    cls = type(obj)
    return f"{cls.__module__}.{cls.__qualname__}"


def _of_capsule(capsule: Any) -> Report:
    seen = _peek(capsule)  # once, for another thread may take it now
    name = seen["name"]
    facts: dict[str, Any] = {
        "type_name": "PyCapsule",
        "protocols": (),
        "plan": (),
        "capsule_name": name,
    }
    if name in _DLPACK:
        facts["plan"] = ("raw capsule",)
        return Report(**facts, capsule_state="unconsumed", **_facts_of_export(seen))
    if name in tuple(f"used_{known}" for known in _DLPACK):
        note = "it was consumed: ask its maker for a new one, or upgrade() it before the first use"
        return Report(**facts, capsule_state="consumed", notes=(note,))
    note = f"not a DLPack capsule: those are called {' or '.join(map(repr, _DLPACK))}"
    return Report(**facts, capsule_state="foreign", notes=(note,))


def _of_tensor(tensor: Tensor) -> Report:
    shape, strides = tensor.shape, tensor.strides
    address = tensor.data_ptr() if tensor.device[0] in HOST_DEVICES else None
    return Report(
        type_name=type_name_of(tensor),
        protocols=(Protocol("DLPack", "__dlpack__", "1.x or 0.x, as asked"),),
        plan=("kept tensor",),
        device=tensor.device,
        dtype=tensor.dtype,
        shape=shape,
        strides=strides,
        byte_offset=tensor.byte_offset,
        address=tensor.data_ptr(),
        flags=_flags(tensor),
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
    if not kept and _options(producer):  # options change the array that consumers get
        facts |= dict.fromkeys(("dtype", "shape", "strides", "readonly", "contiguous"))
        facts["aligned_to"] = None
    if export:
        facts.update(_exported(producer, notes))
    return report._replace(type_name=f"upgraded {report.type_name}", **facts)


def _of_object(obj: Any, *, export: bool) -> Report:
    notes: tuple[str, ...] = ()
    facts: dict[str, Any] = {}
    try:
        plan = _plan(obj)
    except UnsupportedObjectError as error:
        return Report(type_name_of(obj), (), (), notes=(str(error),))
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
        type_name=type_name_of(obj),
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
        known["dtype"] = _dtype(TRIPLES[seen["dtype"]])
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
            generation = _generation(_keywords_of(attribute))
        found.append(Protocol(name, spelling, generation))
    return tuple(found)


def _keywords_of(method: Any) -> frozenset[str] | None:
    """Return the keywords that a ``__dlpack__`` takes by its signature; None: unknown."""
    try:
        parameters = _inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        return None
    var = _inspect.Parameter.VAR_KEYWORD
    return frozenset(_ANY_KEYWORD if each.kind == var else each.name for each in parameters)


def _generation(keywords: frozenset[str] | None) -> str:
    """Tell which edition of the protocol a ``__dlpack__`` follows, by its keywords."""
    if keywords is None:
        return ""
    if "max_version" in keywords:
        return "takes max_version"
    if _ANY_KEYWORD in keywords:
        return "takes any keyword"
    return "takes stream only" if "stream" in keywords else "takes no keyword"


def _exported(obj: Any, notes: tuple[str, ...]) -> dict[str, Any]:
    try:
        capsule = _capsule_of(obj)
    except Exception as error:
        return {"notes": (*notes, f"the export failed: {_told(error)}")}
    seen = _peek(capsule)
    facts = {"capsule_name": seen["name"], **_facts_of_export(seen)}
    return {**facts, "notes": (*notes, *facts.get("notes", ()))}


def _capsule_of(obj: Any) -> Any:
    """Export, with every stride unless all consumers get one: the layout is told, not refused."""
    given = _options(obj) if isinstance(obj, Producer) else {}
    whole = given.get("order") == "C"
    return to_capsule(obj, max_version=(1, 0), stream=-1, order="C" if whole else "K")


def _facts_of_export(seen: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a Report that a look into an unconsumed capsule tells."""
    versioned = seen["name"] == _DLPACK[1]
    if "shape" not in seen:  # of another major version nothing else may be read
        note = "of a major version that this dlshim does not know: nothing else can be read"
        return {"version": seen["version"], "notes": (note,)}
    if not seen["ndim"]:  # the pointers may be NULL then
        seen = {**seen, "shape": (), "strides": ()}
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
        "readonly": bool(seen["flags"] & _FLAGS["READ_ONLY"]) if versioned else None,
        "contiguous": None
        if shape is None
        else strides is None or Array("", shape, strides).contiguous,
        "aligned_to": _alignment(first if device[0] in HOST_DEVICES else None),
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


Outcome.__module__ = Verdict.__module__ = Report.__module__ = "dlshim"
