"""One array, or one column, into a library."""

from __future__ import annotations

from .._core import CopyRequiredError, from_dlpack
from ..arrays import HOST_DEVICES
from ..text import reason_and_cure
from . import fitting
from .making import COLUMN
from .texts import copy_needed, reason, told

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._core import Tensor
    from .targets import Target


def array(
    x: Any, target: Target, device: Any = None, copy: bool | None = None, private: bool = False
) -> Any:
    """An array of the library; private: what x holds was made here."""
    tensor, made = _taken(x, device, None if copy and target.has("COPIES") else copy)
    private = private or made or tensor.is_copied
    fitting.check(x, tensor, target)
    tensor = fitting.fitted(x, tensor, private, target, copy)
    try:
        result = target.make(tensor)
    except (MemoryError, RecursionError):
        raise
    except Exception as error:
        on_host = tensor.device[0] in HOST_DEVICES
        cure = "" if on_host else '\n  if it has host memory alone, pass device="cpu"'
        raise _refused(target, error, cure) from error
    if copy is False:
        fitting.check_shared(x, tensor, result, target)
    return result


def column(x: Any, target: Target, device: Any, copy: bool | None) -> Any:
    """A column into a library of columns: as an array, and by Arrow where it is none."""
    try:
        return array(x, target, device, copy)
    except CopyRequiredError:
        raise
    except BufferError as error:
        try:
            return COLUMN[target.name](x)
        except Exception:
            raise error from None


def dates(x: Any, target: Target, copy: bool | None) -> Any:
    """A column of NumPy's dates or texts, by the library's own function."""
    if copy is False:
        raise copy_needed(x, f"{target.name} copies dates and texts")
    try:
        return getattr(target.module, target.row.column)(x)
    except Exception as error:
        unit = str(x.dtype).rpartition("[")[2].rstrip("]")
        cure = f"\n  pass x.astype({x.dtype.name.partition('[')[0] + '[ms]'!r})"
        cure = cure if unit in ("W", "D", "h", "m", "s") else ""
        raise _refused(target, error, cure) from error


def _taken(x: Any, device: Any, copy: bool | None) -> tuple[Tensor, bool]:
    """A Tensor of x, and whether its memory was made here.

    What DLPack cannot describe, and a copy can, is copied.
    """
    options = {} if device is None else {"device": device}
    try:
        if copy is None:
            return from_dlpack(x, **options), False
        return from_dlpack(x, copy=copy, **options), copy
    except CopyRequiredError:
        raise
    except BufferError as error:
        first = error
    try:
        made = from_dlpack(x, copy=True, **options)
    except BufferError as error:
        raise told(error) from first.__cause__
    if copy is False:
        raise copy_needed(x, reason(first)) from None
    return made, True


def _refused(target: Target, error: Exception, cure: str) -> BufferError:
    why, own = reason_and_cure(str(error))
    text, cure = " ".join(why.split()), f"\n  {own}" if own else cure
    return BufferError(f"{target.name} refuses it: {type(error).__name__}: {text}{cure}")
