"""The consumers of the matrix: each is the function that a user of the library calls.

The upgraded exchange differs only in its argument, ``dlshim.upgrade(obj)``
(``dlshim.to_capsule(obj)`` where the library takes nothing but capsules,
``dlshim.from_dlpack(obj)`` where it takes buffers).

Those of libraries are rows of ``known``; those that come with Python are here.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import known
from ..known.arrays import Consumer, Seen, loaded, see_capsule, shown
from ..libraries import BY_KEY
from ..trial.expressions import evaluate
from .capsules import buffer_address, is_capsule, read_capsule

if TYPE_CHECKING:
    Take = Callable[[Any], Any]


class NotOffered(Exception):
    """The installed release of the library has no function that takes DLPack."""


def _see_memoryview(made: Any) -> Seen:
    address = buffer_address(made)
    return shown(made.shape, made.tolist(), address, not made.readonly)


def _take_legacy(obj: Any) -> Any:
    return obj if is_capsule(obj) else obj.__dlpack__()


def _take_versioned(obj: Any) -> Any:
    return obj if is_capsule(obj) else obj.__dlpack__(max_version=(1, 3))


def _see_legacy(capsule: Any) -> Seen:
    if read_capsule(capsule).versioned:
        raise TypeError("the capsule is a dltensor_versioned, a dltensor was wanted")
    return see_capsule(capsule)


def _see_versioned(capsule: Any) -> Seen:
    if not read_capsule(capsule).versioned:
        raise TypeError("the capsule is a dltensor, a dltensor_versioned was wanted")
    return see_capsule(capsule)


#: The functions of what comes with Python.
_BUILT_IN: dict[str, Take] = {
    "memoryview": memoryview,
    "capsule 0.x": _take_legacy,
    "capsule 1.x": _take_versioned,
}
_COME_WITH_PYTHON = (
    Consumer("memoryview", "memoryview", "stdlib", "", _see_memoryview, wants="buffer"),
    Consumer("capsule 0.x", "capsule 0.x", "capsule", "", _see_legacy),
    Consumer("capsule 1.x", "capsule 1.x", "capsule", "", _see_versioned),
)
#: The order of the columns; libraries that are not named come after these.
_FIRST = (
    "numpy",
    "array_api_strict",
    "torch",
    "jax",
    "tvm_ffi",
    "pyarrow",
    "nanoarrow",
    "nanobind",
    "warp",
    "mlx",
    "onnxruntime",
    "paddle",
    "tensorflow",
)
CONSUMERS: tuple[Consumer, ...] = (*known.rows("TAKES", _FIRST), *_COME_WITH_PYTHON)
CONSUMER_BY_KEY = {consumer.key: consumer for consumer in CONSUMERS}


def function_of(consumer: Consumer) -> Take:
    """Return the library's function, which takes the object."""
    if consumer.key in _BUILT_IN:
        return _BUILT_IN[consumer.key]
    if consumer.path:
        module, _, name = consumer.path.partition(".")
        return getattr(loaded(module), name)  # type: ignore[no-any-return]
    module = BY_KEY[consumer.library].module
    name = consumer.name.removeprefix("numpy." if consumer.asks_through else f"{module}.")
    # Once it was private in NumPy.
    for path in (name, f"_{name}"):
        with contextlib.suppress(AttributeError):
            take: Take = operator.attrgetter(path)(loaded(module))
            return _with_capsules(take) if consumer.wants == "capsule" else take
    raise NotOffered(f"this release of {module} has no {name}")


def _with_capsules(take: Take) -> Take:
    return lambda obj: take(_take_legacy(obj))


def by_dlshim(consumer: Consumer) -> Take:
    """Return the function that takes an object by way of dlshim, without an option."""
    import dlshim

    take, make = function_of(consumer), getattr(dlshim, made_by(consumer))
    return lambda obj: take(make(obj))


def made_by(consumer: Consumer) -> str:
    """Return the function of dlshim that makes what a consumer takes."""
    return {"capsule": "to_capsule", "buffer": "from_dlpack"}.get(consumer.wants, "upgrade")


def in_line(consumer: Consumer, line: str) -> Take:
    """Return what takes an object x in a line, where the function of the consumer is ``take``."""
    take = function_of(consumer)
    return lambda obj: evaluate(line, x=obj, take=take)
