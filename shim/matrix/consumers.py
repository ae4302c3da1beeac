"""How each library takes an object, and what it then sees.

The function is the one that a user of the library calls; the upgraded exchange differs
only in its argument, ``dlshim.upgrade(obj)`` (``dlshim.to_capsule(obj)`` where the library
takes nothing but capsules, ``dlshim.from_dlpack(obj)`` where it takes buffers).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import capsules
from .libraries import Version, loaded

__all__ = ["BY_KEY", "CONSUMERS", "Consumer", "NotOffered", "Seen", "Take", "upgraded"]


Take = Callable[[Any], Any]


class NotOffered(Exception):
    """The installed release of the library has no function that takes DLPack."""


@dataclass(frozen=True)
class Seen:
    """The result of an exchange, as the consuming library shows it."""

    shape: tuple[int, ...]
    values: tuple[float | int | bool, ...]
    #: Address of the first element; None where the library does not tell.
    address: int | None
    #: None where the library does not tell.
    writable: bool | None = None


@dataclass(frozen=True)
class Consumer:
    key: str
    label: str
    library: str
    #: Finds the library's function, which takes the object.
    function: Callable[[], Take]
    see: Callable[[Any], Seen]
    #: "object", or "capsule" for libraries that take nothing else.
    wants: str = "object"
    #: Lowest version that exists as a consumer.
    since: Version = ()
    #: First version in which it is another one.
    until: Version | None = None
    #: First version that asks for DLPack 1.x; None: none does.
    versioned_from: Version | None = None
    #: The library whose version decides that, where it is another one.
    asks_through: str | None = None


def _of(module: str, *names: str) -> Callable[[], Take]:
    """Return a function that finds the first of the names that the module has."""

    def find() -> Take:
        for name in names:
            try:
                found: Take = operator.attrgetter(name)(loaded(module))
            except AttributeError:
                continue
            return found
        raise NotOffered(f"this release of {module} has no {names[0]}")

    return find


def _flat(nested: Any) -> Iterable[float | int | bool]:
    if isinstance(nested, list):
        for item in nested:
            yield from _flat(item)
    else:
        yield nested


def _shown(shape: Iterable[int], nested: Any, address: int | None, writable: Any = None) -> Seen:
    return Seen(tuple(int(n) for n in shape), tuple(_flat(nested)), address, writable)


def _see_numpy(made: Any) -> Seen:
    address = made.__array_interface__["data"][0]
    return _shown(made.shape, made.tolist(), address, made.flags.writeable)


def _see_capsule(capsule: Any) -> Seen:
    contents = capsules.read(capsule)
    writable = not contents.readonly if contents.versioned else None
    return Seen(contents.shape, contents.values, contents.address, writable)


def _see_exported(made: Any) -> Seen:
    """See a result through its own legacy export."""
    seen = _see_capsule(made.__dlpack__())
    return Seen(seen.shape, seen.values, seen.address)


def _see_pyarrow_array(made: Any) -> Seen:
    return _shown((len(made),), made.to_pylist(), made.buffers()[1].address)


def _see_pyarrow_tensor(made: Any) -> Seen:
    seen = made.to_numpy()
    address = seen.__array_interface__["data"][0]
    return _shown(made.shape, seen.tolist(), address, made.is_mutable)


def _see_nanoarrow(made: Any) -> Seen:
    values = list(made.elements())
    return _shown((len(values),), values, made._addr())


def _see_onnxruntime(made: Any) -> Seen:
    if "bfloat16" in made.data_type():  # has no NumPy array
        return _see_exported(made)
    return _shown(made.shape(), made.numpy().tolist(), made.data_ptr())


def _take_legacy_into(function: Callable[[], Take]) -> Callable[[], Take]:
    """Make a function that takes capsules only callable with an object."""

    def find() -> Take:
        take = function()
        return lambda obj: take(_take_legacy(obj))

    return find


def _see_paddle(made: Any) -> Seen:
    # Paddle shows bfloat16 to NumPy as the bits of an unsigned integer.
    shown = made.astype("float32") if "bfloat16" in str(made.dtype) else made
    return _shown(made.shape, shown.numpy().tolist(), made.data_ptr())


def _see_tensorflow(made: Any) -> Seen:
    address = capsules.read(loaded("tensorflow").experimental.dlpack.to_dlpack(made)).address
    return _shown(made.shape, made.numpy().tolist(), address)


def _see_memoryview(made: Any) -> Seen:
    address = capsules.buffer_address(made)
    return _shown(made.shape, made.tolist(), address, not made.readonly)


def _take_legacy(obj: Any) -> Any:
    return obj if capsules.is_capsule(obj) else obj.__dlpack__()


def _take_versioned(obj: Any) -> Any:
    return obj if capsules.is_capsule(obj) else obj.__dlpack__(max_version=(1, 3))


def _see_legacy(capsule: Any) -> Seen:
    if capsules.read(capsule).versioned:
        raise TypeError("the capsule is a dltensor_versioned, a dltensor was wanted")
    return _see_capsule(capsule)


def _see_versioned(capsule: Any) -> Seen:
    if not capsules.read(capsule).versioned:
        raise TypeError("the capsule is a dltensor, a dltensor_versioned was wanted")
    return _see_capsule(capsule)


CONSUMERS = (
    Consumer(
        "numpy",
        "numpy",
        "numpy",
        _of("numpy", "from_dlpack", "_from_dlpack"),
        _see_numpy,
        versioned_from=(2, 1),
    ),
    Consumer(
        "array_api_strict",
        "strict",
        "array_api_strict",
        _of("array_api_strict", "from_dlpack"),
        lambda made: _see_numpy(made._array),
        versioned_from=(2, 1),
        asks_through="numpy",
    ),
    Consumer(
        "torch",
        "torch",
        "torch",
        _of("torch", "from_dlpack"),
        lambda made: _shown(made.shape, made.tolist(), made.data_ptr()),
        versioned_from=(2, 9),
    ),
    Consumer(
        "jax",
        "jax",
        "jax",
        _of("jax.numpy", "from_dlpack"),
        lambda made: _shown(made.shape, made.tolist(), made.unsafe_buffer_pointer()),
    ),
    Consumer("tvm_ffi", "tvm-ffi", "tvm_ffi", _of("tvm_ffi", "from_dlpack"), _see_exported),
    Consumer(
        "pyarrow.Array",
        "pa.Array",
        "pyarrow",
        _of("pyarrow", "Array.from_dlpack"),
        _see_pyarrow_array,
        since=(26, 0),
        versioned_from=(26, 0),
    ),
    Consumer(
        "pyarrow.Tensor",
        "pa.Tensor",
        "pyarrow",
        _of("pyarrow", "Tensor.from_dlpack"),
        _see_pyarrow_tensor,
        since=(26, 0),
        versioned_from=(26, 0),
    ),
    Consumer("nanoarrow", "nanoarrow", "nanoarrow", _of("nanoarrow", "c_buffer"), _see_nanoarrow),
    Consumer(
        "warp",
        "warp",
        "warp",
        _of("warp", "from_dlpack"),
        lambda made: _shown(made.shape, made.numpy().tolist(), made.ptr),
    ),
    # mlx always copies, and asks again with max_version when the first answer is an error.
    Consumer(
        "mlx",
        "mlx",
        "mlx",
        _of("mlx.core", "array"),
        lambda made: _shown(made.shape, made.tolist(), None),
        versioned_from=(0, 32),
    ),
    Consumer(
        "onnxruntime",
        "onnxrt",
        "onnxruntime",
        _of("onnxruntime", "OrtValue.from_dlpack"),
        _see_onnxruntime,
    ),
    Consumer(
        "paddle",
        "paddle",
        "paddle",
        _of("paddle", "from_dlpack"),
        _see_paddle,
        since=(3, 0),
        versioned_from=(3, 3),
    ),
    Consumer(
        "paddle 2",
        "paddle",
        "paddle",
        _take_legacy_into(_of("paddle.utils.dlpack", "from_dlpack")),
        _see_paddle,
        wants="capsule",
        until=(3, 0),
    ),
    Consumer(
        "tensorflow",
        "tf",
        "tensorflow",
        _take_legacy_into(_of("tensorflow", "experimental.dlpack.from_dlpack")),
        _see_tensorflow,
        wants="capsule",
    ),
    Consumer(
        "memoryview",
        "memoryview",
        "stdlib",
        lambda: memoryview,
        _see_memoryview,
        wants="buffer",
        versioned_from=(),
    ),
    Consumer("capsule 0.x", "caps. 0.x", "capsule", lambda: _take_legacy, _see_legacy),
    Consumer(
        "capsule 1.x",
        "caps. 1.x",
        "capsule",
        lambda: _take_versioned,
        _see_versioned,
        versioned_from=(),
    ),
)
BY_KEY = {consumer.key: consumer for consumer in CONSUMERS}


def upgraded(consumer: Consumer, options: Mapping[str, Any]) -> Take:
    """Return the function that takes an object by way of dlshim."""
    import dlshim

    take, upgrade = consumer.function(), dlshim.upgrade
    if consumer.wants == "capsule":
        make: Callable[..., Any] = dlshim.to_capsule
    elif consumer.wants == "buffer":
        own = dlshim.from_dlpack
        # Only the wrapper has options; without any the object is taken itself.
        make = (lambda obj, **given: own(upgrade(obj, **given))) if options else own
    else:
        make = upgrade
    if options:
        return lambda obj: take(make(obj, **options))
    return lambda obj: take(make(obj))
