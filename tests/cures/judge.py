"""Types the cures of a refusal, and compares what each gives with what the object says it has.

The judge knows nothing of DLPack: values are those that the object's own library makes a list of,
None for what is missing or hidden.  A step that changes values, hides what is missing, or gives
another shape or dtype must say so in the message that names it.
"""

from __future__ import annotations

import ast
import datetime
import re
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import ml_dtypes  # noqa: F401  # NumPy has its dtypes then
import numpy

import dlshim

STEPS = 5
#: What a user puts in the place of these words of a cure.
CHOSEN = {"value": 0}  # of any unit
#: As users call the modules that they have imported.
MODULES = {"tf": "tensorflow", "jnp": "jax.numpy"}
#: For what a step changes, the words of which the message must have one.
WORDS = {
    "missing": (
        r"missing values|it has no values|values are missing|for what is missing|its mask hides"
        r"|NaN stands for None|leaves out what is"
    ),
    "values": (
        r"rounds|numbers its different values|UTC|counts|stand for its values|has its bytes"
        r"|fills shorter rows|two ends|in fewer dimensions|another type|reinterpret=|may round"
        r"|one column|have fields|have levels|several data sets|are structs|which are the values"
        r"|fields or columns"
    ),
    "shape": (
        r"fewer dimensions|leaves out|fills shorter rows|one column|have fields|have levels"
        r"|several data sets|two ends|are structs|has its bytes|whose shape|which are the values"
        r"|part of this process|fields or columns|numbers its different values"
    ),
    "dtype": (
        r"rounds|numbers its different values|UTC|counts|stand for its values|another type"
        r"|one column|have fields|have levels|are structs|reinterpret=|missing values|its bytes"
        r"|booleans into bits|may round|has fields|fewer dimensions|byte order"
    ),
}

#: Of results of DuckDB that are no relations there is no other way.
MAY_WARN = "Arrow output on a DB-API result"


@dataclass
class Step:
    """One cure of a message, what it was typed on, and what it changed without a word."""

    cure: str
    said: str
    unsaid: list[str] = field(default_factory=list)


class Wrong(Exception):
    """A cure that raises, warns, leads nowhere, or changes something without a word."""


# ---- what an object has -------------------------------------------------------------------------


def _listed(x: Any) -> Any:
    """Its values as lists, by the object's own library."""
    if isinstance(x, (list, tuple, range)):
        return [_listed(each) for each in x]
    if isinstance(x, memoryview):
        return x.tolist()
    if hasattr(x, "unit") and hasattr(x, "value"):  # a quantity of astropy
        x = x.value
    x = getattr(x, "magnitude", x)
    if type(x).__module__.startswith("torch") and getattr(x, "is_quantized", False):
        return x.dequantize().tolist()
    for name in ("to_pylist", "to_list", "tolist"):
        if callable(getattr(x, name, None)):
            return getattr(x, name)()
    if hasattr(type(x), "itertuples"):  # a frame
        return [[*row] for row in x.itertuples(index=False)]
    if hasattr(type(x), "data_vars"):
        return [_listed(each.values) for each in x.data_vars.values()]
    if hasattr(type(x), "to_dataset"):
        return x.values.tolist()
    if hasattr(type(x), "rows") or hasattr(type(x), "collect"):
        x = x if hasattr(type(x), "rows") else x.collect()
        return [[*row] for row in x.rows()]
    if hasattr(type(x), "fetchall"):
        return x.fetchall()
    if hasattr(type(x), "__arrow_c_array__") or hasattr(type(x), "__arrow_c_stream__"):
        whole = hasattr(type(x), "__arrow_c_array__")
        pyarrow = import_module("pyarrow")
        return (pyarrow.array if whole else pyarrow.chunked_array)(x).to_pylist()
    for name in ("todense", "numpy"):
        if hasattr(type(x), name):
            return _listed(getattr(x, name)())
    return numpy.asanyarray(x).tolist()


def _plain(value: Any) -> Any:
    """The same with None for what is missing, however the library says that."""
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, numpy.ndarray) or hasattr(value, "to_list"):
        return _plain(_listed(value))
    value = getattr(value, "bytes", value)  # of a UUID
    if isinstance(value, bytes):
        return [*value]
    if isinstance(value, dict):
        return _plain([*value.values()])
    if type(value) is datetime.date:
        return datetime.datetime.combine(value, datetime.time())
    gone = type(value).__name__ in ("NAType", "NaTType", "MaskedConstant")
    return None if gone else value.item() if isinstance(value, numpy.generic) else value


def values_of(x: Any) -> Any:
    return _plain(_listed(x))


def dtype_of(x: Any) -> str | None:
    """The name of its dtype where NumPy and ml_dtypes know it."""
    told = getattr(x, "dtype", None)
    if hasattr(type(x), "__getitem__") and not hasattr(type(x), "__array_namespace__"):
        with suppress(Exception):  # that of a file may have integers and a scale
            told = x[...].dtype
    if str(told) == "object":
        return None
    name = getattr(told, "name", None) or str(told).rpartition(".")[2]
    try:
        return numpy.dtype(name).name
    except (TypeError, ValueError):
        return name if hasattr(sys.modules.get("ml_dtypes"), str(name)) else None


def shape_of(values: Any) -> tuple[int, ...] | None:
    """None: its rows differ in length."""
    if not isinstance(values, list):
        return ()
    inner = {shape_of(each) for each in values} or {()}
    return None if len(inner) > 1 or None in inner else (len(values), *inner.pop())


def _leaves(values: Any) -> list[Any]:
    return (
        [leaf for each in values for leaf in _leaves(each)]
        if isinstance(values, list)
        else [values]
    )


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) or bool(one != one and other != other)  # NaN


def changes(before: Any, after: Any) -> list[str]:
    """What differs, of values as lists."""
    if shape_of(before) != shape_of(after):
        return ["shape"]
    pairs = [*zip(_leaves(before), _leaves(after), strict=True)]
    found = {"missing" for one, other in pairs if one is None and other is not None}
    return sorted(
        found | {"values" for one, other in pairs if one is not None and not _same(one, other)}
    )


# ---- what a message says ------------------------------------------------------------------------


def cures_in(said: str) -> list[str]:
    """Expressions of x, and options, in the order in which the message has them."""
    found = []
    for match in re.finditer(r"(?:\bpass|\bor|\bwith|e\.g\.|;|\n ) (?=[\w(\[])", said):
        rest = said[match.end() :]
        for end in reversed([each.end() for each in re.finditer(r"[\w)\]]", rest)]):
            if _is_cure(rest[:end]):
                found.append((match.start(), rest[:end]))
                break
    options = re.finditer(r'\b(?:reinterpret|order|readonly)="\w+"|\bdetach=True', said)
    found += [(each.start(), each[0]) for each in options]
    return [cure for _, cure in sorted(found)]


def _is_cure(text: str) -> bool:
    try:
        body = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return False
    names = {each.id for each in ast.walk(body) if isinstance(each, ast.Name)}
    return isinstance(body, (ast.Call, ast.Subscript, ast.Attribute)) and bool(names & {"x", "a"})


def typed(x: Any, cure: str) -> Any:
    """What the cure gives, in a session that has imported the modules of its names."""
    names: dict[str, Any] = {"x": x, **CHOSEN}
    for each in ast.walk(ast.parse(cure, mode="eval")):
        if isinstance(each, ast.Name) and each.id not in names and each.id != "float":
            name = MODULES.get(each.id, each.id)
            names[each.id] = import_module("cffi").FFI() if name == "ffi" else import_module(name)
    for module in re.findall(r"\b(pyarrow\.compute|onnx\.numpy_helper)\.", cure):
        import_module(module)
    fields = getattr(getattr(x, "dtype", None), "names", None)
    return eval(cure.replace("'field'", repr((fields or [0])[0])), names)


def refusal(x: Any, option: str = "") -> tuple[Any, str]:
    """The array, or what is said instead."""
    try:
        told = eval(f"dict({option})")
        return numpy.asarray(
            dlshim.from_dlpack(dlshim.to_capsule(x, max_version=(1, 0), **told))
        ), ""
    except (BufferError, dlshim.UnsupportedObjectError) as error:
        said = re.sub(r" \(it offers none of [^)]*\)", "", str(error))
        return None, said.partition("' object: ")[2] or said


# ---- the walk -----------------------------------------------------------------------------------


def follow(make: Callable[[], Any], values: Any = None) -> list[Step]:
    """Every cure of the refusal, and of what the first one gives, until an array comes out.

    Without a step the object is exported, or refused with no cure; `Wrong` says which cure lies.
    make: gives an object each time, because a look may use it up; values: the object's, where its
    library does not tell them.
    """
    steps: list[Step] = []
    known = values_of(make()) if values is None else _plain(values)
    x = make()
    dtype = dtype_of(x)
    for _ in range(STEPS):
        got, said = refusal(x)
        if got is not None:
            _compare(Step("", ""), known, dtype, got)
            return steps
        found = cures_in(said)
        if not found:
            return [*steps, Step("", said)]
        made = [_try(x, each, said, known, dtype, steps) for each in found]
        if isinstance(made[0], Exported):
            return steps
        x = made[0]
        known, dtype = values_of(x), dtype_of(x)
    raise Wrong(f"no end after {STEPS} cures: {steps}")


class Exported:
    """An option was the cure: there is nothing to go on with."""


def _try(x: Any, cure: str, said: str, known: Any, dtype: str | None, steps: list[Step]) -> Any:
    step = Step(cure, said)
    steps.append(step)
    option = re.match(r"\w+=", cure) is not None
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            made = refusal(x, cure)[0] if option else typed(x, cure)
        except Exception as error:
            raise Wrong(f"{cure} raises {type(error).__name__}: {error}; {said}") from error
    if seen and not re.search(MAY_WARN, str(seen[0].message)):
        raise Wrong(f"{cure} warns: {seen[0].message}")
    if option and made is None:
        raise Wrong(f"{cure} is refused: {refusal(x, cure)[1]}")
    _compare(step, known, dtype, made)
    return Exported() if option else made


def _compare(step: Step, known: Any, dtype: str | None, made: Any) -> None:
    found = changes(known, values_of(made))
    if str(dtype).startswith(("datetime64", "timedelta64")):  # NaT is a number of them
        found = ["values" if each == "missing" else each for each in found]
    if dtype is not None and dtype_of(made) not in (None, dtype):
        found.append("dtype")
    step.unsaid = [each for each in found if not re.search(WORDS[each], step.said)]
    if step.unsaid:
        shown = (
            f"{_leaves(known)[:4]} {dtype} became {_leaves(values_of(made))[:4]} {dtype_of(made)}"
        )
        raise Wrong(f"{step.cure or 'the export'} changes {step.unsaid}: {shown}; {step.said}")
