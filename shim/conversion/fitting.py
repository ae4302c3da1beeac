"""What a library gets of a Tensor: its memory, one copy of it, fewer bits, or nothing."""

from __future__ import annotations

from .._core import Producer, ReadOnlyWarning, _options, from_dlpack
from ..arrays import HOST_DEVICES
from ..locks import import_module
from ..look import Array
from .sources import is_fixed
from .texts import NarrowedWarning, copy_needed, kind, warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._core import Tensor
    from .targets import Target

#: What becomes of a dtype in a library that has only half of its bits.
HALVES = {
    "float64": "float32",
    "int64": "int32",
    "uint64": "uint32",
    "complex128": "complex64",
}


def check(x: Any, tensor: Tensor, target: Target) -> None:
    """What the library cannot hold."""
    name, dtype = target.name, tensor.dtype.name
    if target.has("HOST") and tensor.device[0] not in HOST_DEVICES:
        raise BufferError(
            f"{name} has host memory alone, and {kind(x)} is on {tensor.device}\n"
            '  pass device="cpu"'
        )
    if dtype in target.row.lacks:
        bits = tensor.dtype.itemsize * 8
        cure = f'pass dlshim.upgrade(x, reinterpret="uint{bits}") for its bits'
        cure = f", or {cure}" if bits <= 64 and not dtype.startswith("complex") else ""
        raise BufferError(f"{name} has no {dtype}\n  convert it first{cure}")
    if tensor.ndim == 0 and target.has("NO_SCALARS"):
        what = "a column" if target.row.column else "an array"
        raise BufferError(
            f"{kind(x)}: it has no axes, and {what} of {name} has one\n  pass x.reshape(1)"
        )
    if tensor.ndim > target.row.axes:
        raise BufferError(
            f"{kind(x)}: it has {tensor.ndim} axes, and a table of {name} has two\n"
            "  pass x.reshape(len(x), -1)"
        )
    if 0 in tensor.shape[1:] and target.has("NO_EMPTY_ROWS"):
        raise BufferError(
            f"{kind(x)}: its rows have no elements, and {name} takes no such column\n"
            "  pass x.reshape(-1)"
        )


def fitted(x: Any, tensor: Tensor, private: bool, target: Target, copy: bool | None) -> Tensor:
    """The memory that the library gets: that of the Tensor, or one copy of it."""
    if _is_too_wide(tensor, target):
        return _halved(x, tensor, target, copy)
    word = _options(x).get("readonly") if isinstance(x, Producer) else None
    why = _why_copied(tensor, target)
    fixed = tensor.readonly or is_fixed(x)
    guarded = fixed and not private and word != "share"
    guarded = guarded and (not target.has("HEEDS") or word == "copy")
    if copy is False:
        if why or target.has("COPIES"):
            raise copy_needed(x, why or f"{target.name} copies it")
        if guarded:
            _share_with_writers(x, word, target)
    elif why or guarded or (target.has("LATE") and not (fixed or private)):
        return from_dlpack(tensor, copy=True, order="C", align=target.row.align)
    if fixed and not (private or tensor.readonly) and word != "share":
        tensor = from_dlpack(tensor, readonly=True)  # the library of the result heeds the flag
    return from_dlpack(tensor, readonly="share") if tensor.readonly else tensor


def _share_with_writers(x: Any, word: str | None, target: Target) -> None:
    """A warning, where the words of a wrapper do not forbid that."""
    if word == "copy":
        raise copy_needed(x, 'it is read-only, which readonly="copy" copies')
    why = f"{kind(x)}: it is read-only, and {target.name} does not heed that"
    if word == "error":
        raise BufferError(f"{why}\n  drop copy=False for a private copy")
    warn(
        ReadOnlyWarning,
        f"{why}: what is written there changes this memory; drop copy=False for a private copy",
    )


def check_shared(x: Any, tensor: Tensor, result: Any, target: Target) -> None:
    """The library may have copied all the same; what does not tell where it lies is believed."""
    if not tensor.size or tensor.device[0] not in HOST_DEVICES:
        return
    if target.row.column:
        if tensor.dtype.name == "bool" and target.has("PACKS"):
            raise copy_needed(x, f"{target.name} packs booleans into bits")
        return
    try:
        address = from_dlpack(result, stream=-1).data_ptr()
    except (BufferError, TypeError):
        return
    if address != tensor.data_ptr():
        raise copy_needed(x, f"{target.name} copies it")


# ---- memory --------------------------------------------------------------------------------------


def _takes_strides(tensor: Tensor, layout: str) -> bool:
    seen = Array(tensor.dtype.name, tensor.shape, tensor.strides)
    if layout == "ROW_MAJOR":
        return seen.contiguous
    return layout == "ANY" or (seen.dense if layout == "COMPACT" else not seen.negative)


def _why_copied(tensor: Tensor, target: Target) -> str:
    """Why the library cannot have this memory; "": it can."""
    if not _takes_strides(tensor, target.layout):
        return f"{target.name} does not take its strides"
    align = target.row.align
    if align > 1 and tensor.size and tensor.data_ptr() % align:
        return f"{target.name} needs memory that is aligned to {align} bytes"
    return ""


# ---- fewer bits ----------------------------------------------------------------------------------


def _is_too_wide(tensor: Tensor, target: Target) -> bool:
    dtype, row = tensor.dtype.name, target.row
    if dtype not in row.halves:
        return False
    return not (row.unless and getattr(import_module(target.name).config, row.unless))


def _halved(x: Any, tensor: Tensor, target: Target, copy: bool | None) -> Tensor:
    """The values in half as many bits, where all of them fit."""
    wide, name = tensor.dtype.name, target.name
    half, option = HALVES[wide], target.row.unless
    cure = f', or {name}.config.update("{option}", True)' if option else ""
    if copy is False:
        raise copy_needed(x, f"{name} has no {wide} (only {half}): it would be converted")
    if tensor.device[0] not in HOST_DEVICES:
        raise BufferError(f"{name} has no {wide} (only {half})\n  convert it first{cure}")
    np = import_module("numpy")
    values = tensor.numpy()
    made = _aligned(np, values.shape, half)
    with np.errstate(all="ignore"):
        np.copyto(made, values, casting="unsafe")
    if not _fits(np, made, values):
        raise BufferError(
            f"{name} has no {wide}, and there are values that {half} cannot hold\n"
            f"  convert it first{cure}"
        )
    warn(
        NarrowedWarning,
        f"{kind(x)}: {name} has no {wide}, so its values are {half} there; convert it first{cure}",
    )
    return from_dlpack(made)


def _fits(np: Any, made: Any, values: Any) -> bool:
    """Whether integers are the same, and what was finite is finite."""
    if values.dtype.kind in "iu":
        return bool((made == values).all())
    if values.dtype.kind == "c":
        return _fits(np, made.real, values.real) and _fits(np, made.imag, values.imag)
    return bool((np.isfinite(made) == np.isfinite(values)).all())


def _aligned(np: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """New memory whose address is a multiple of 64."""
    made = np.dtype(dtype)
    size = made.itemsize
    for extent in shape:
        size *= extent
    room = np.empty(size + 64, "uint8")
    start = -room.ctypes.data % 64
    return room[start : start + size].view(made).reshape(shape)
