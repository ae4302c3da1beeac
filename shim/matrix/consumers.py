"""How each library takes an object, and what it then sees.

``take`` is what a user of the library writes; the upgraded exchange differs only in
``dlshim.upgrade(obj)`` in its argument (``dlshim.to_capsule(obj)`` where the library
takes nothing but capsules).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import capsules

__all__ = ["BY_KEY", "CONSUMERS", "Consumer", "Seen", "upgraded_argument"]


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
    take: Callable[[Any], Any]
    see: Callable[[Any], Seen]
    #: "object", or "capsule" for libraries that take nothing else.
    wants: str = "object"
    #: Lowest version that exists as a consumer.
    since: tuple[int, int] = (0, 0)
    #: First version that asks for DLPack 1.x; None: none does.
    versioned_from: tuple[int, int] | None = None
    #: The library whose version decides that, where it is another one.
    asks_through: str | None = None


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


def _take_numpy(obj: Any) -> Any:
    import numpy

    return numpy.from_dlpack(obj)


def _take_array_api_strict(obj: Any) -> Any:
    import array_api_strict

    return array_api_strict.from_dlpack(obj)


def _take_torch(obj: Any) -> Any:
    import torch

    return torch.from_dlpack(obj)


def _take_jax(obj: Any) -> Any:
    import jax.numpy

    return jax.numpy.from_dlpack(obj)


def _take_tvm_ffi(obj: Any) -> Any:
    import tvm_ffi

    return tvm_ffi.from_dlpack(obj)


def _take_pyarrow_array(obj: Any) -> Any:
    import pyarrow

    return pyarrow.Array.from_dlpack(obj)


def _see_pyarrow_array(made: Any) -> Seen:
    return _shown((len(made),), made.to_pylist(), made.buffers()[1].address)


def _take_pyarrow_tensor(obj: Any) -> Any:
    import pyarrow

    return pyarrow.Tensor.from_dlpack(obj)


def _see_pyarrow_tensor(made: Any) -> Seen:
    seen = made.to_numpy()
    address = seen.__array_interface__["data"][0]
    return _shown(made.shape, seen.tolist(), address, made.is_mutable)


def _take_nanoarrow(obj: Any) -> Any:
    import nanoarrow

    return nanoarrow.c_buffer(obj)


def _see_nanoarrow(made: Any) -> Seen:
    values = list(made.elements())
    return _shown((len(values),), values, made._addr())


def _take_warp(obj: Any) -> Any:
    import warp

    return warp.from_dlpack(obj)


def _take_mlx(obj: Any) -> Any:
    import mlx.core

    return mlx.core.array(obj)


def _take_onnxruntime(obj: Any) -> Any:
    import onnxruntime

    return onnxruntime.OrtValue.from_dlpack(obj)


def _take_paddle(obj: Any) -> Any:
    import paddle

    return paddle.from_dlpack(obj)


def _take_tensorflow(obj: Any) -> Any:
    import tensorflow

    capsule = obj if capsules.is_capsule(obj) else obj.__dlpack__()
    return tensorflow.experimental.dlpack.from_dlpack(capsule)


def _see_tensorflow(made: Any) -> Seen:
    import tensorflow

    address = capsules.read(tensorflow.experimental.dlpack.to_dlpack(made)).address
    return _shown(made.shape, made.numpy().tolist(), address)


def _see_memoryview(made: memoryview) -> Seen:
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
    Consumer("numpy", "numpy", "numpy", _take_numpy, _see_numpy, versioned_from=(2, 1)),
    Consumer(
        "array_api_strict",
        "strict",
        "array_api_strict",
        _take_array_api_strict,
        lambda made: _see_numpy(made._array),
        versioned_from=(2, 1),
        asks_through="numpy",
    ),
    Consumer(
        "torch",
        "torch",
        "torch",
        _take_torch,
        lambda made: _shown(made.shape, made.tolist(), made.data_ptr()),
        versioned_from=(2, 9),
    ),
    Consumer(
        "jax",
        "jax",
        "jax",
        _take_jax,
        lambda made: _shown(made.shape, made.tolist(), made.unsafe_buffer_pointer()),
    ),
    Consumer("tvm_ffi", "tvm-ffi", "tvm_ffi", _take_tvm_ffi, _see_exported),
    Consumer(
        "pyarrow.Array",
        "pa.Array",
        "pyarrow",
        _take_pyarrow_array,
        _see_pyarrow_array,
        since=(26, 0),
        versioned_from=(26, 0),
    ),
    Consumer(
        "pyarrow.Tensor",
        "pa.Tensor",
        "pyarrow",
        _take_pyarrow_tensor,
        _see_pyarrow_tensor,
        since=(26, 0),
        versioned_from=(26, 0),
    ),
    Consumer("nanoarrow", "nanoarrow", "nanoarrow", _take_nanoarrow, _see_nanoarrow),
    Consumer(
        "warp",
        "warp",
        "warp",
        _take_warp,
        lambda made: _shown(made.shape, made.numpy().tolist(), made.ptr),
    ),
    # mlx always copies, and asks again with max_version when the first answer is an error.
    Consumer(
        "mlx",
        "mlx",
        "mlx",
        _take_mlx,
        lambda made: _shown(made.shape, made.tolist(), None),
        versioned_from=(0, 32),
    ),
    Consumer(
        "onnxruntime",
        "onnxrt",
        "onnxruntime",
        _take_onnxruntime,
        lambda made: _shown(made.shape(), made.numpy().tolist(), made.data_ptr()),
    ),
    Consumer(
        "paddle",
        "paddle",
        "paddle",
        _take_paddle,
        lambda made: _shown(made.shape, made.numpy().tolist(), made.data_ptr()),
        versioned_from=(3, 3),
    ),
    Consumer(
        "tensorflow",
        "tf",
        "tensorflow",
        _take_tensorflow,
        _see_tensorflow,
        wants="capsule",
    ),
    Consumer(
        "memoryview",
        "memoryview",
        "stdlib",
        memoryview,
        _see_memoryview,
        wants="buffer",
        versioned_from=(0, 0),
    ),
    Consumer("capsule 0.x", "caps. 0.x", "capsule", _take_legacy, _see_legacy),
    Consumer(
        "capsule 1.x",
        "caps. 1.x",
        "capsule",
        _take_versioned,
        _see_versioned,
        versioned_from=(0, 0),
    ),
)
BY_KEY = {consumer.key: consumer for consumer in CONSUMERS}


def upgraded_argument(consumer: Consumer, obj: Any, options: Mapping[str, Any]) -> Any:
    """Return what the upgraded exchange hands to ``consumer.take``."""
    import dlshim

    if consumer.wants == "capsule":
        return dlshim.to_capsule(obj, **options)
    upgraded = dlshim.upgrade(obj, **options)
    return dlshim.from_dlpack(upgraded) if consumer.wants == "buffer" else upgraded
