"""What a trial looks at beside values: dtype, access, memory that is shared, or freed too early."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

from .values import Values, address_of, difference, dtype_of, is_near, values_of

#: Sizes of blocks that are filled after x has gone, so that memory of its shows other values.
_BLOCKS = (16, 24, 32, 48, 64, 96, 128, 256, 1024)


def dtype_and_access(make: Callable[[], Any]) -> tuple[str | None, bool | None]:
    """Return the dtype of an object, and whether it is read-only; None: it cannot be told.

    An object that tells no dtype is asked for an export, after all that it was made for.
    """
    try:
        x = make()
        name, report = dtype_of(x), import_module("dlshim").inspect(x)
        readonly = report.readonly
        if not readonly and hasattr(type(x), "shape") and hasattr(type(x), "__getitem__"):
            readonly = _refuses_writes(x)
        if name is None and not isinstance(x, (list, tuple, range)):
            report = import_module("dlshim").inspect(make(), export=True)
            name = report.dtype and report.dtype.name
            readonly = report.readonly if readonly is None else readonly
    except (Exception, SystemExit):
        return None, None
    return name, readonly


def dtype_of_result(result: Any) -> str | None:
    """Return the dtype of a result, also of one that tells it only by an export."""
    name = dtype_of(result)
    if name is None and type(result).__module__.startswith("dlshim"):
        with suppress(Exception):
            found = import_module("dlshim").inspect(result, export=True).dtype
            name = found and found.name
    return name


def fault(known: Values, wanted: str | None, seen: Values, dtype: str | None) -> tuple[str, str]:
    """Return "works", "changes" (the dtype) or "wrong", and what is wrong."""
    said = difference(known, seen)
    if wanted is not None and dtype is not None and wanted != dtype:
        if said and not is_near(known, seen):
            return "wrong", f"{said}, {dtype} for {wanted}"
        return "changes", f"{dtype} for {wanted}"
    return ("wrong", said) if said else ("works", "")


# ---- access -------------------------------------------------------------------------------------


def _index(x: Any) -> Any:
    shape = tuple(map(int, x.shape))
    if 0 in shape:
        raise LookupError("it has no element")
    return (0,) * len(shape) if len(shape) != 1 else 0


def _item(x: Any, index: Any) -> Any:
    item = x[index]
    return item.item() if hasattr(item, "item") else item


def write(x: Any) -> tuple[Any, Any]:
    """Write another value to the first element; return the old and the new one."""
    index = _index(x) if hasattr(x, "shape") else 0
    old = _item(x, index)
    if not isinstance(old, (int, float, complex)):
        raise LookupError("its elements are no numbers")
    new: Any = not old if isinstance(old, bool) else 1 if old != 1 else 2
    x[index] = new
    return old, _item(x, index)


def _restore(x: Any, old: Any) -> None:
    with suppress(Exception):
        x[_index(x) if hasattr(x, "shape") else 0] = old


def _refuses_writes(x: Any) -> bool | None:
    try:
        old, _ = write(x)
    except (TypeError, ValueError, RuntimeError):
        return True
    except Exception:
        return None
    _restore(x, old)
    return False


def _first(x: Any) -> Any:
    return next(iter(values_of(x).elements), None)


def access(x: Any, result: Any, *, readonly: bool | None) -> dict[str, Any]:
    """Return whether a result is a copy and writable, by addresses and by writing to it."""
    ours, theirs = address_of(x), address_of(result)
    told: dict[str, Any] = {"copied": None if None in (ours, theirs) else ours != theirs}
    try:
        before = _first(x)
        old, new = write(result)
    except (TypeError, ValueError, RuntimeError):
        told["writable"] = False if hasattr(type(result), "shape") else None
        told["late_for"] = bool(told["copied"]) and readonly is False
        return told
    except Exception:
        return told
    try:
        after = _first(x)
    except Exception:
        after = before
    _restore(result, old)
    told["writable"] = True
    if before != after:
        told["copied"] = False
        if readonly:
            told["what"] = ["WRITES INTO x, WHICH IS READ-ONLY"]
    elif told["copied"] is None and old != new:
        told["copied"] = True
    return told


def churn() -> None:
    """Give freed memory away and fill it."""
    gc.collect()
    noise: list[Any] = [bytearray(b"\xa5" * size) for size in _BLOCKS for _ in range(50)]
    numpy = sys.modules.get("numpy")
    if numpy is not None:  # it keeps freed blocks of its own
        noise += [numpy.full(size, 0xA5, "uint8") for size in _BLOCKS for _ in range(20)]
    del noise


def more_of(x: Any) -> dict[str, Any]:
    """Return what two objects of a kind may differ in besides their reports."""
    found: dict[str, Any] = {}
    for name in ("requires_grad", "num_chunks", "null_count", "n_chunks"):
        with suppress(Exception):
            value = getattr(x, name)
            found[name] = value() if callable(value) else value
    return found
