"""What `dlshim.to` says to its caller: texts of errors, and warnings at the caller's line."""

from __future__ import annotations

import re
import sys
import warnings

from .._core import CopyRequiredError, Producer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Options of `upgrade` that its texts name and `to` does not have.
_OPTIONS = re.compile(r"\b((?:order|readonly|reinterpret|assume_device|detach)=[\"\w]+)")
_PACKAGE = __name__.rpartition(".")[0]


class NarrowedWarning(UserWarning):
    """`dlshim.to` has made an array of half as many bits, which hold all its values."""

    __module__ = "dlshim"


def kind(x: Any) -> str:
    cls = type(x.source if isinstance(x, Producer) else x)
    return f"'{cls.__module__}.{cls.__qualname__}' object"


def warn(category: type[Warning], text: str) -> None:
    """Warn in the name of the line that called `to`."""
    level, frame = 1, sys._getframe()
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    warnings.warn(text, category, stacklevel=level)


def told(error: BufferError) -> BufferError:
    """The same error, whose cures can be typed as they are: `to` has no such options."""
    text = _OPTIONS.sub(r"dlshim.upgrade(x, \1)", str(error))
    if text == str(error):
        return error
    made = type(error)(text)
    made.__cause__ = error.__cause__
    return made


def copy_needed(x: Any, why: str) -> CopyRequiredError:
    error = CopyRequiredError(f"{kind(x)}: {why}, and copy=False was passed")
    if "strides" in why:
        error.reason = "order"
    elif "aligned" in why:
        error.reason = "align"
    return error


def reason(error: BufferError) -> str:
    """Why an exchange was refused: the text without the object and without the cure."""
    text = str(error).partition("' object: ")[2] or str(error)
    return re.split(r"\n|, and copy=False", text)[0]
