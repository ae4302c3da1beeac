"""The exports and Tensors that are alive, and their places: ``track``, ``live`` and ``stats``.

The C code (src/export/export.c) calls ``made`` by name for each export and Tensor.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any, NamedTuple

# By name: CPython 3.12 crashes on an attribute of a module that the collector has emptied.
from ._core import _counters, _track
from .libraries import BY_KEY
from .locks import changing

# Lines of these packages are passed over: they name the function, and not the caller's place.
_PASSED = {"dlshim", "copy", *(row.module.partition(".")[0] for row in BY_KEY.values())}
_THIS = sys.modules[__name__]  # dlshim may be imported anew later, under the same name


class Live(NamedTuple):
    """An export or a Tensor that is alive."""

    kind: str  # "versioned", "legacy" or "Tensor"
    device: tuple[int, int]
    nbytes: int
    where: str  # file:line of the caller's Python code when it was made


_alive: dict[int, tuple[Live, Any]] = {}
_running: set[Tracking] = set()  # changed with the switch in C, under the lock


def made(*, tensor: Any, kind: str, number: int, nbytes: int, device: tuple[int, int]) -> None:
    """Note an export, or the Tensor, with the line of Python that asked for it."""
    frame: Any = sys._getframe(1)
    while frame and str(frame.f_globals.get("__name__")).partition(".")[0] in _PASSED:
        frame = frame.f_back
    where = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "?"
    end = tensor is not None and weakref.ref(tensor, lambda _: _alive.pop(number, None))
    _alive[number] = Live(kind, device, nbytes, where), end
    _forget(_track(-1))


def _forget(ended: list[int]) -> None:
    for number in ended:
        _alive.pop(number, None)


class Tracking:
    """The result of `track`: it tracks until `stop`, or until the end of a with block."""

    def __init__(self) -> None:
        self.__enter__()

    def stop(self) -> None:
        """Stop.  Objects that were noted until then stay in `live` as long as they are alive."""
        with changing:
            _running.discard(self)
            if not _running:
                _forget(_track(0))

    def __enter__(self) -> Tracking:
        with changing:
            ended = _track(_THIS)
            _running.add(self)
            _forget(ended)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def track() -> Tracking:
    """Note which exports and Tensors are made, until ``stop()`` or to the end of a with block.

    Meanwhile no producer's own capsule is handed on, because its end could not be seen.
    """
    return Tracking()


def live() -> list[Live]:
    """List the objects made while `track` was on that are alive; the oldest first."""
    _forget(_track(-1))
    return [made for made, _ in [*_alive.values()]]


def stats() -> dict[str, int]:
    """Return counts of dlshim's work since the import, and how much of it is alive."""
    counted = _counters()
    counted["live"] += counted.pop("tensors")
    return counted


Live.__module__ = "dlshim"
