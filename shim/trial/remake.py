"""How an object of this process is made anew in the child of trials, and what is lost by that."""

from __future__ import annotations

import base64
import pickle
import sys
from ctypes import string_at
from typing import Any

from .._core import Producer, _options
from ..arrays import HOST_DEVICES
from .look import more_of

#: Of a larger array its first elements are tried.
MOST_BYTES = 64 << 20
SOME = 8


class NotRemade(Exception):
    """An object cannot be made anew in another process."""


def check(report: Any) -> None:
    """NotRemade: this process can start no other Python, or the object is not on the host."""
    if not sys.executable or getattr(sys, "frozen", False):
        raise NotRemade("this program has no Python that could start another one")
    if report.device is not None and report.device[0] not in HOST_DEVICES:
        raise NotRemade("its memory is on a device, which another process would have to set up")


def remake(x: Any) -> tuple[dict[str, Any], str]:
    """Return how the child makes an object, and how that one differs; NotRemade: it cannot."""
    if isinstance(x, Producer):
        make, unlike = remake(x.source)
        options = dict(_options(x))
        if not all(isinstance(each, (str, bool, int, type(None))) for each in options.values()):
            raise NotRemade("it was upgraded with options that are no words")
        return {"upgraded": make, "options": options}, unlike
    x, unlike = _cut(x)
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(x) is getattr(numpy, "ndarray", None) and not x.dtype.hasobject:
        return {"array": _array(x)}, unlike
    if type(x).__module__ == "__main__":
        raise NotRemade("its class is defined in __main__, which a new process has not")
    try:
        raw = pickle.dumps(x, protocol=5)
    except Exception as error:
        raise NotRemade(f"it cannot be pickled ({type(error).__name__})") from None
    return {"pickle": base64.b64encode(raw).decode()}, unlike


def _cut(x: Any) -> tuple[Any, str]:
    """Return the object, or its first elements if it is large, and what was left out."""
    size = getattr(x, "nbytes", None)
    if callable(size) or size is None:
        size = sys.getsizeof(x) if isinstance(x, (bytes, bytearray)) else 0
    if size <= MOST_BYTES:
        return x, ""
    try:
        extents = len(x.shape) if hasattr(x, "shape") else 1
        cut = x[(slice(SOME),) * extents] if extents > 1 else x[:SOME]
    except Exception:
        raise NotRemade(f"it has {size >> 20} MB") from None
    told = ", ".join([f":{SOME}"] * max(extents, 1))
    return cut, f"x[{told}], of {size >> 20} MB"


def _array(x: Any) -> dict[str, Any]:
    """Return the memory that an array spans, and how it lies in it."""
    steps = [stride * (extent - 1) for stride, extent in zip(x.strides, x.shape, strict=True)]
    low = sum(min(step, 0) for step in steps) if x.size else 0
    span = (sum(map(abs, steps)) + x.itemsize) if x.size else 0
    if span > MOST_BYTES:
        raise NotRemade(f"it spans {span >> 20} MB")
    start = x.__array_interface__["data"][0] + low
    # By address: a view of bytes cannot begin before the first element.
    memory = string_at(start, span)
    return {
        "dtype": base64.b64encode(pickle.dumps(x.dtype)).decode(),
        "memory": base64.b64encode(memory).decode(),
        "aligned": start % 4096,
        "shape": x.shape,
        "strides": x.strides,
        "offset": -low,
        "writeable": bool(x.flags.writeable),
    }


def state() -> dict[str, Any]:
    """Return what of this process changes what libraries do: it is repeated in the child."""
    jax = sys.modules.get("jax")
    try:
        x64 = bool(jax.config.jax_enable_x64) if jax is not None else False
    except Exception:
        x64 = False
    modules = tuple(each for each in ("ml_dtypes",) if each in sys.modules)
    return {"modules": modules, "x64": x64}


def path_of(function: Any) -> str:
    """Return the dotted name by which a function can be imported; NotRemade: none is known."""
    module = getattr(function, "__module__", None)
    name = str(getattr(function, "__qualname__", None) or getattr(function, "__name__", ""))
    owner = getattr(function, "__self__", None)
    if module is None and isinstance(owner, type):  # torch.asarray
        module = owner.__module__
    if "<" in name or module == "__main__":
        raise NotRemade("the consumer is a function of __main__ or a lambda")
    if owner is not None and not isinstance(owner, (type, type(sys))):
        raise NotRemade("the consumer is a method of an object")
    found = _names_of(function, str(module).partition(".")[0], name)
    if not found:
        raise NotRemade("the consumer has no name by which it can be imported")
    return min(found, key=lambda each: (each.count("."), len(each)))


def _names_of(function: Any, library: str, name: str) -> list[str]:
    """Return the public names of a function in the modules of its library."""
    found = []
    modules = [each for each in sys.modules if each.partition(".")[0] == library]
    for module in [each for each in modules if "._" not in each]:
        for path in {name, name.rpartition(".")[2]}:
            value: Any = sys.modules[module]
            try:
                for part in path.split("."):
                    value = getattr(value, part)
                same = value is function or value == function
            except Exception:
                continue
            if same is True:
                found.append(f"{module}.{path}")
    return found


def differences(x: Any, report: Any, other: Any, more: dict[str, Any]) -> str:
    """Return what differs between the report of an object and that of the one that was made."""
    fields = ("type_name", "dtype", "shape", "strides", "readonly", "device", "aligned_to")
    said = []
    for name in fields:
        ours, theirs = getattr(report, name), getattr(other, name)
        if name == "aligned_to":
            ours, theirs = ours and min(ours, 64), theirs and min(theirs, 64)
        if ours != theirs:
            said.append(f"{name} {theirs} for {ours}")
    ours = more_of(x)
    said += [
        f"{name} {more.get(name)} for {ours[name]}" for name in ours if ours[name] != more.get(name)
    ]
    return ", ".join(said)
