"""Arguments of a kernel: their names, and which of them the function writes (K5)."""

from __future__ import annotations

import inspect

from ._core import CopyRequiredError, from_dlpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def at(error: Exception, place: str) -> Exception:
    """The same error, with the argument that it is about."""
    text = f"{place}: {error}"
    try:
        told = type(error)(text)
    except Exception:
        return error
    if isinstance(told, CopyRequiredError) and isinstance(error, CopyRequiredError):
        told.reason = error.reason
    return told


def check_writable(x: Any, place: str, options: dict[str, Any]) -> None:
    """Refuse an argument in which nothing can be written, or not so that it is seen."""
    said = f"'{type(x).__module__}.{type(x).__qualname__}' object"
    cure = "keep and pass dlshim.from_dlpack(x, copy=True), and read there what was written"
    try:
        seen = from_dlpack(x, **({"stream": -1} | options))
    except BufferError as error:
        raise at(error, place) from error.__cause__
    if seen.is_copied:
        which = ", ".join(f"{name}={value!r}" for name, value in options.items())
        raise BufferError(
            f"{place}: {said} would be copied by {which}, and what the function writes would be "
            f"lost; call a kernel without that option, or {cure}"
        )
    if seen.readonly:
        raise BufferError(f"{place}: {said} is read-only, and the function writes it; {cure}")


def signature(function: Callable[..., Any]) -> dict[str, inspect.Parameter] | None:
    """The parameters; None where a compiled function does not tell."""
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


def positional(parameters: dict[str, inspect.Parameter] | None) -> list[str]:
    """The names of the positional parameters that are known."""
    return [name for name, each in (parameters or {}).items() if each.kind in _POSITIONAL]


def check_written(
    function: Callable[..., Any],
    parameters: dict[str, inspect.Parameter] | None,
    written: frozenset[Any],
) -> None:
    """A name that is not the function's would guard nothing."""
    if parameters is None:
        return
    kinds = [each.kind for each in parameters.values()]
    positions = len(positional(parameters))
    for each in written:
        if isinstance(each, str):
            known = each in parameters or inspect.Parameter.VAR_KEYWORD in kinds
        else:
            known = each < positions or inspect.Parameter.VAR_POSITIONAL in kinds
        if not known:
            told = ", ".join(parameters) or "none"
            raise ValueError(f"writes={each!r} is no parameter of {function!r:.80}: it has {told}")


def written(writes: Any) -> frozenset[Any]:
    """The names and positions that writes= has; none where it is True."""
    if isinstance(writes, bool):
        return frozenset()
    listed = tuple(writes) if isinstance(writes, (tuple, list)) else (writes,)
    for each in listed:
        if isinstance(each, bool) or not isinstance(each, (str, int)):
            raise TypeError(f"writes= takes names and positions of arguments, not {each!r}")
        if isinstance(each, int) and each < 0:
            raise ValueError(f"writes={each}: positions count from 0")
    return frozenset(listed)
