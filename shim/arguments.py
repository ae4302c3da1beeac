"""Arguments of a kernel: their names, which of them the function writes (K5), and which arrays it
accepts (K12).
"""

from __future__ import annotations

import inspect

from ._core import CopyRequiredError, from_dlpack
from .text import as_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

#: Options by which a copy may be made.
_COPYING = ("device", "like", "copy", "readonly", "order", "align")
#: dtypes= and ndims= of one argument, and whether host memory alone is accepted.
if TYPE_CHECKING:
    Wanted = tuple[Any, Any, bool]


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
        copying = {name: value for name, value in options.items() if name in _COPYING}
        which = ", ".join(f"{name}={value!r}" for name, value in copying.items())
        without = ", ".join(f"{name}=None" for name in copying)
        raise BufferError(
            f"{place}: {said} would be copied by {which}, and what the function writes would be "
            f"lost\n  call a kernel with {without}, or {cure}"
        )
    if seen.readonly:
        raise BufferError(f"{place}: {said} is read-only, and the function writes it\n  {cure}")


def signature(function: Callable[..., Any]) -> dict[str, inspect.Parameter] | None:
    """The parameters; None where a compiled function does not tell."""
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


def positional(parameters: dict[str, inspect.Parameter] | None) -> list[str]:
    """The names of the positional parameters that are known."""
    return [name for name, each in (parameters or {}).items() if each.kind in _POSITIONAL]


def check_named(
    function: Callable[..., Any],
    parameters: dict[str, inspect.Parameter] | None,
    word: str,
    named: Any,
) -> None:
    """A name or a position that is not the function's would guard nothing."""
    for each in named:
        if isinstance(each, bool) or not isinstance(each, (str, int)):
            raise TypeError(f"{word}= takes names and positions of arguments, not {each!r}")
        if isinstance(each, int) and each < 0:
            raise ValueError(f"{word}={each}: positions count from 0")
    if parameters is None:
        return
    kinds = [each.kind for each in parameters.values()]
    positions = len(positional(parameters))
    for each in named:
        if isinstance(each, str):
            known = each in parameters or inspect.Parameter.VAR_KEYWORD in kinds
        else:
            known = each < positions or inspect.Parameter.VAR_POSITIONAL in kinds
        if not known:
            told = ", ".join(parameters) or "none"
            raise ValueError(
                f"{word}={each!r} is no parameter of {as_code(function)}\n"
                f"  name one of these: {told}"
            )


def written(writes: Any) -> frozenset[Any]:
    """The names and positions that writes= has; none where it is True."""
    if isinstance(writes, bool):
        return frozenset()
    listed = tuple(writes) if isinstance(writes, (tuple, list)) else (writes,)
    try:
        return frozenset(listed)
    except TypeError:  # a list in the list
        raise TypeError(f"writes= takes names and positions of arguments, not {writes!r}") from None


#: Arguments that dtypes= and ndims= can name by position.
_POSITIONS = 256


def _placed(word: str, value: Any, names: list[str]) -> tuple[Any, dict[Any, Any]]:
    """What dtypes= or ndims= says of all arguments, and of those that it names: a parameter that is
    given by position stands under its position.
    """
    if not isinstance(value, dict):
        return value, {}
    placed: dict[Any, Any] = {}
    for key, each in value.items():
        place = names.index(key) if key in names else key
        if place in placed:
            raise ValueError(f"{word}= names the parameter {key!r} by its name and by its position")
        if isinstance(place, int) and place >= _POSITIONS:
            raise ValueError(f"{word}={place}: positions are below {_POSITIONS}")
        placed[place] = each
    return None, placed


def accepted(
    words: dict[str, Any], names: list[str], host: bool
) -> tuple[tuple[Wanted, ...], int, dict[str, int]] | None:
    """What is accepted of the arguments: of those that are not named, then of so many positions,
    then of names that have no position; and the place there of each name.  None: any array.

    words: the values of dtypes= and ndims=; host: whether host memory alone is accepted.
    """
    said = [_placed(word, value, names) for word, value in words.items()]
    keys = {key for _, placed in said for key in placed}
    last = max((key for key in keys if isinstance(key, int)), default=-1)
    order = [*range(last + 1), *(key for key in keys if isinstance(key, str))]
    rows = [tuple(every for every, _ in said)]
    rows += [tuple(placed.get(key, every) for every, placed in said) for key in order]
    if not host and all(value is None for row in rows for value in row):
        return None
    places = {}
    for place, key in enumerate(order, 1):
        if isinstance(key, str) or key < len(names):
            places[key if isinstance(key, str) else names[key]] = place
    return tuple((*row, host) for row in rows), last + 1, places  # type: ignore[misc]
