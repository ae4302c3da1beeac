"""The consumers of the matrix: each is the function that a user of the library calls.

The upgraded exchange differs only in its argument, ``dlshim.upgrade(obj)``
(``dlshim.to_capsule(obj)`` where the library takes nothing but capsules,
``dlshim.from_dlpack(obj)`` where it takes buffers).
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..consumers import HONOURS, LEGACY, PLAIN, Known, rows_of
from ..libraries import BY_KEY, Version, loaded
from .capsules import buffer_address, is_capsule, read_capsule

if TYPE_CHECKING:
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
    #: The function, as ``dlshim.consumers`` names it.
    name: str
    see: Callable[[Any], Seen]
    #: "object", or "capsule" for libraries that take nothing else.
    wants: str = "object"
    #: Lowest version that exists as a consumer.
    since: Version = ()
    #: First version in which it is another one.
    until: Version | None = None
    #: The library whose version decides how it asks, where it is another one.
    asks_through: str = ""

    @property
    def rows(self) -> list[Known]:
        return _BUILT_IN[self.key][1:] if self.key in _BUILT_IN else rows_of(self.name)

    def function(self) -> Take:
        """Return the library's function, which takes the object."""
        if self.key in _BUILT_IN:
            return _BUILT_IN[self.key][0]
        module = BY_KEY[self.library].module
        name = self.name.removeprefix("numpy." if self.asks_through else f"{module}.")
        # Once it was private in NumPy.
        for path in (name, f"_{name}"):
            with contextlib.suppress(AttributeError):
                take: Take = operator.attrgetter(path)(loaded(module))
                return _with_capsules(take) if self.wants == "capsule" else take
        raise NotOffered(f"this release of {module} has no {name}")


def _with_capsules(take: Take) -> Take:
    return lambda obj: take(_take_legacy(obj))


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
    contents = read_capsule(capsule)
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


def _see_paddle(made: Any) -> Seen:
    # Paddle shows bfloat16 to NumPy as the bits of an unsigned integer.
    shown = made.astype("float32") if "bfloat16" in str(made.dtype) else made
    return _shown(made.shape, shown.numpy().tolist(), made.data_ptr())


def _see_tensorflow(made: Any) -> Seen:
    address = read_capsule(loaded("tensorflow").experimental.dlpack.to_dlpack(made)).address
    return _shown(made.shape, made.numpy().tolist(), address)


def _see_memoryview(made: Any) -> Seen:
    address = buffer_address(made)
    return _shown(made.shape, made.tolist(), address, not made.readonly)


def _take_legacy(obj: Any) -> Any:
    return obj if is_capsule(obj) else obj.__dlpack__()


def _take_versioned(obj: Any) -> Any:
    return obj if is_capsule(obj) else obj.__dlpack__(max_version=(1, 3))


def _see_legacy(capsule: Any) -> Seen:
    if read_capsule(capsule).versioned:
        raise TypeError("the capsule is a dltensor_versioned, a dltensor was wanted")
    return _see_capsule(capsule)


def _see_versioned(capsule: Any) -> Seen:
    if not read_capsule(capsule).versioned:
        raise TypeError("the capsule is a dltensor, a dltensor_versioned was wanted")
    return _see_capsule(capsule)


def _like(**facts: Any) -> Known:
    return Known("", "", **facts)


#: What comes with Python: the function, and how it asks.
_BUILT_IN: dict[str, list[Any]] = {
    "memoryview": [
        memoryview,
        _like(wants="buffer", flag=HONOURS, dtypes=PLAIN, limits=("dtype",)),
    ],
    "capsule 0.x": [_take_legacy, _like(asks=LEGACY, bears_negative=False)],
    "capsule 1.x": [_take_versioned, _like(keywords=("max_version",), bears_negative=False)],
}

CONSUMERS = (
    Consumer("numpy", "numpy", "numpy", "numpy.from_dlpack", _see_numpy, since=(1, 22)),
    Consumer(
        "array_api_strict",
        "strict",
        "array_api_strict",
        "numpy.from_dlpack",
        lambda made: _see_numpy(made._array),
        asks_through="numpy",
    ),
    Consumer(
        "torch",
        "torch",
        "torch",
        "torch.from_dlpack",
        lambda made: _shown(made.shape, made.tolist(), made.data_ptr()),
    ),
    Consumer(
        "jax",
        "jax",
        "jax",
        "jax.numpy.from_dlpack",
        lambda made: _shown(made.shape, made.tolist(), made.unsafe_buffer_pointer()),
    ),
    Consumer("tvm_ffi", "tvm-ffi", "tvm_ffi", "tvm_ffi.from_dlpack", _see_exported),
    Consumer(
        "pyarrow.Array",
        "pa.Array",
        "pyarrow",
        "pyarrow.Array.from_dlpack",
        _see_pyarrow_array,
        since=(26, 0),
    ),
    Consumer(
        "pyarrow.Tensor",
        "pa.Tensor",
        "pyarrow",
        "pyarrow.Tensor.from_dlpack",
        _see_pyarrow_tensor,
        since=(26, 0),
    ),
    Consumer("nanoarrow", "nanoarrow", "nanoarrow", "nanoarrow.c_buffer", _see_nanoarrow),
    Consumer(
        "warp",
        "warp",
        "warp",
        "warp.from_dlpack",
        lambda made: _shown(made.shape, made.numpy().tolist(), made.ptr),
    ),
    Consumer(
        "mlx",
        "mlx",
        "mlx",
        "mlx.core.array",
        lambda made: _shown(made.shape, made.tolist(), None),
    ),
    Consumer(
        "onnxruntime",
        "onnxrt",
        "onnxruntime",
        "onnxruntime.OrtValue.from_dlpack",
        _see_onnxruntime,
    ),
    Consumer("paddle", "paddle", "paddle", "paddle.from_dlpack", _see_paddle, since=(3, 0)),
    Consumer(
        "paddle 2",
        "paddle",
        "paddle",
        "paddle.utils.dlpack.from_dlpack",
        _see_paddle,
        wants="capsule",
        until=(3, 0),
    ),
    Consumer(
        "tensorflow",
        "tf",
        "tensorflow",
        "tensorflow.experimental.dlpack.from_dlpack",
        _see_tensorflow,
        wants="capsule",
    ),
    Consumer("memoryview", "memoryview", "stdlib", "", _see_memoryview, wants="buffer"),
    Consumer("capsule 0.x", "caps. 0.x", "capsule", "", _see_legacy),
    Consumer("capsule 1.x", "caps. 1.x", "capsule", "", _see_versioned),
)
CONSUMER_BY_KEY = {consumer.key: consumer for consumer in CONSUMERS}


def by_dlshim(consumer: Consumer, options: Mapping[str, Any]) -> Take:
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
