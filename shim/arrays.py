"""A Tensor among the arrays of NumPy: ``__array__``, items, bytes, pickles; the repr of a Producer.

The C code calls these functions by name.  ``import dlshim`` imports this module.  NumPy and
ml_dtypes are used where they are imported already.
"""

from __future__ import annotations

import sys
from _operator import index  # operator costs more than all that is needed of it

from ._core import _FLAGS, Producer, Tensor, _flags, _view, from_dlpack
from .dtypes import dtype
from .locks import import_module
from .text import as_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

HOST_DEVICES = (1, 3, 11)
_BYTE = (1, 8, 1)
_READ_ONLY, _PADDED = _FLAGS["READ_ONLY"], _FLAGS["IS_SUBBYTE_TYPE_PADDED"]


def device_name(value: Any) -> str | tuple[Any, ...]:
    """Tell as which device an object of another library reads, by name or as a pair."""
    if hasattr(type(value), "__dlpack_device__") and not hasattr(type(value), "__dlpack__"):
        return tuple(value.__dlpack_device__())  # a device and no array
    name = str(value)  # torch, JAX, Warp, tvm-ffi; Paddle says Place(gpu:0)
    torch = sys.modules.get("torch")
    if type(value).__module__ == "torch" and getattr(getattr(torch, "version", None), "hip", None):
        name = name.replace("cuda", "rocm")
    return name.rpartition("(")[2].rstrip(")")


def shown(producer: Producer, kind: str, options: dict[str, Any]) -> str:
    """Make the repr: with shape and dtype of the source where reading them runs C code alone."""
    source = producer.source
    given = "".join(f", {name}={value!r}" for name, value in options.items())
    if isinstance(source, Tensor):
        return f"<dlshim.Producer of {source!r}{given}>"
    facts = ""
    for name in ("shape", "dtype"):
        found = (vars(cls)[name] for cls in type(source).__mro__ if name in vars(cls))
        if type(next(found, None)).__name__ == "getset_descriptor":
            try:
                value = getattr(source, name)  # torch has a tuple of its own
            except Exception:  # a torch subclass may have a hook that refuses
                continue
            facts += f" {name}={tuple(value) if isinstance(value, tuple) else value}"
    return f"<dlshim.Producer of '{kind}' object{facts} at {id(source):#x}{given}>"


def _check_host(x: Any) -> None:
    # A Producer comes here only if it is not on the host.
    if isinstance(x, Producer) or x.device[0] not in HOST_DEVICES:
        raise TypeError(
            f"{x!r} is memory that is not on the host\n"
            '  copy it there with from_dlpack(x, device="cpu")'
        )


def array(tensor: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    """``__array__``: the Tensor's own memory, unless a copy or another dtype is wanted."""
    np = sys.modules.get("numpy")
    if np is None:
        raise TypeError("this makes an array of NumPy, which is not imported\n  import numpy first")
    if dtype is None and not copy:
        try:
            return np.asarray(memoryview(tensor))
        except (BufferError, TypeError):
            pass  # not on the host, or no dtype of NumPy's own
    _check_host(tensor)
    kind = tensor.dtype
    try:
        own = kind.__numpy_dtype__
    except AttributeError:
        raise TypeError(
            f"NumPy has no dtype {kind}\n"
            "  import ml_dtypes if it has one, or name one of the same width with reinterpret="
        ) from None
    wanted = own if dtype is None else np.dtype(dtype)
    if copy is False and wanted != own:
        raise ValueError(f"copy=False, but making {wanted} of {own} needs a copy")
    plain = kind.kind != "V"
    made = np.asarray(tensor) if plain else np.asarray(_as_bits(tensor)).view(own)
    return made.astype(wanted, copy=bool(copy))


def tolist(tensor: Tensor) -> Any:
    """``tolist()``."""
    return tensor.numpy().tolist()


def item(tensor: Tensor, *args: Any) -> Any:
    """``item(*args)``."""
    return tensor.numpy().item(*args)


def getitem(tensor: Tensor, key: Any) -> Any:
    """``tensor[key]``."""
    return tensor.numpy()[key]


def iterate(tensor: Tensor) -> Iterator[Any]:
    """``iter(tensor)``."""
    return iter(tensor.numpy())


def truth(tensor: Tensor) -> bool:
    """``bool(tensor)``."""
    return bool(tensor.numpy())


def _is_padded(tensor: Tensor) -> bool:
    return tensor.dtype.bits < 8 and _flags(tensor) & _PADDED > 0


def _as_bits(tensor: Tensor) -> Tensor:
    kind = tensor.dtype
    if kind.bits < 8 and not _is_padded(tensor):
        raise TypeError(f"its elements of {kind} are packed, and NumPy has a byte for each")
    bits = (1, 8 * kind.itemsize, 1)
    return _view(tensor, bits, tensor.shape, tensor.strides, tensor.readonly * _READ_ONLY)


def _as_bytes(tensor: Tensor) -> Tensor:
    return _view(tensor, _BYTE, (tensor.nbytes,), (1,), tensor.readonly * _READ_ONLY)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a C-contiguous array."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _transposed(tensor: Tensor) -> Tensor:
    flags = _flags(tensor) & ~_FLAGS["IS_COPIED"]
    return _view(tensor, tuple(tensor.dtype), tensor.shape[::-1], tensor.strides[::-1], flags)


def _is_row_major(tensor: Tensor) -> bool:
    pairs = zip(tensor.shape, tensor.strides, row_major(tensor.shape), strict=True)
    return 0 in tensor.shape or all(n == 1 or step == want for n, step, want in pairs)


def tobytes(tensor: Tensor, order: str | None = "C") -> bytes:
    """Return a copy of the elements; the orders are those of a memoryview."""
    _check_host(tensor)
    if order not in ("C", "F", "A", None):
        raise ValueError(f'order={as_code(order)} is not known\n  pass "C", "F" or "A"')
    turned = _transposed(tensor)
    if order in ("C", None) or (order == "A" and not _is_row_major(turned)):
        turned = tensor
    return bytes(_as_bytes(from_dlpack(turned, order="C")))


def view(tensor: Tensor, dtype: Any) -> Tensor:
    """Return the same memory with another dtype; MLX asks so for the bits of bfloat16."""
    return from_dlpack(tensor, reinterpret=dtype)


def reduce(tensor: Tensor, protocol: int) -> Any:
    """``__reduce_ex__``: the memory as one byte buffer, and how to read it."""
    _check_host(tensor)
    kind, order, memory = tensor.dtype, "C", tensor
    if not _is_row_major(tensor):
        if _is_row_major(_transposed(tensor)):
            order = "F"
        else:
            memory = from_dlpack(tensor, order="C")
    content = _as_bytes(memory)
    # A memoryview answers requests for bare bytes, as of file.write; a Tensor refuses them.
    buffer: Any = import_module("pickle").PickleBuffer(memoryview(content))
    if protocol < 5:
        buffer = bytes(content) if tensor.readonly else bytearray(content)
    kept = (*kind, _is_padded(tensor))
    return rebuild, (1, tensor.shape, kept, order, tensor.readonly, buffer)


def rebuild(version: int, shape: Any, kept: Any, order: str, readonly: bool, buffer: Any) -> Tensor:
    """Make a Tensor from the values of `reduce`; pickles name this ``dlshim._rebuild``."""
    if version != 1:
        raise ValueError("the pickle is of a newer dlshim")
    *numbers, padded = kept
    # Plain ints, read once: with scalars of NumPy the product of the extents would wrap.
    kind, shape = dtype(tuple(map(index, numbers))), tuple(map(index, shape))
    padded = bool(padded)
    if order not in ("C", "F") or (padded and kind.bits >= 8):
        raise ValueError(f"no Tensor is pickled as {kept} in order {order!r}")
    strides = row_major(shape) if order == "C" else row_major(shape[::-1])[::-1]
    return _described(buffer, kind, shape, strides, readonly, padded)


rebuild.__module__, rebuild.__qualname__ = "dlshim", "_rebuild"


def _described(
    buffer: Any,
    kind: dtype,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    readonly: bool = False,
    padded: bool = False,
) -> Tensor:
    """Make a Tensor of the bytes of a buffer, all of which are elements."""
    tensor = from_dlpack(memoryview(buffer).cast("B"))
    count = 1
    for extent in shape:
        count *= extent
    bits = kind.lanes * (8 if padded else kind.bits)
    if min(shape, default=0) < 0 or tensor.size != (count * bits + 7) // 8:
        raise ValueError(f"{tensor.size} bytes are not {shape} elements of {kind}")
    flags = bool(readonly or tensor.readonly) * _READ_ONLY | padded * _PADDED
    return _view(tensor, tuple(kind), shape, strides, flags)


def from_parts(parts: tuple[Any, ...] | list[Any]) -> Tensor:
    """Make a Tensor of what an inner array is as ``(buffer, shape, dtype)``, row by row."""
    if isinstance(parts, list):
        raise TypeError("it is a list\n  give an array, or the tuple (buffer, shape, dtype)")
    if len(parts) != 3:
        raise TypeError(f"it is a tuple of {len(parts)}\n  give (buffer, shape, dtype)")
    buffer, shape, kind = parts
    if not isinstance(shape, (tuple, list)):
        raise TypeError(f"shape {shape!r} is no tuple of extents")
    shape = tuple(map(index, shape))
    return _described(buffer, dtype(kind), shape, row_major(shape))
