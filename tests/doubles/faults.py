"""Python's own allocations fail: what runs in the child process of ``test_no_memory``.

``_testcapi.set_nomemory(first, last)`` lets the allocations from number `first` up to `last` fail,
and counts from where it is called.  Sources in Python fail as well: what they then keep is
written off, what dlshim keeps never is.

Not the whole scenarios: CPython itself does not survive that.  3.10 and 3.11 end with "Cannot
recover from stack overflow" where an enum is made, 3.12 and 3.13 with a segmentation fault inside a
generator, and ``inspect`` of 3.11 raises a SystemError.
"""

from __future__ import annotations

import _testcapi
import contextlib
import gc
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

from dlshim import _core

from . import capsules as caps
from . import steps
from .asking import live
from .steps import OTHERS, STEPS

#: Every call that is tried, by its name.
ALL = STEPS | OTHERS
#: As good as for ever.  There must be an end: CPython goes round in circles where it can never
#: make the int that one of its handlers pushes.
LONG = 3000
#: So many successes in a row, while everything fails from the n-th allocation on, say that there
#: is no n-th allocation.
QUIET = 5
#: A Python function that raises says nothing where the frame of its traceback cannot be made, and
#: ctypes, which is the C table of P3TableOnly, answers anything for a callback that failed.
#: A class that cannot be read has no row in habits.py.
LOST = re.compile(
    r"SystemError: <function |_PyEval_EvalFrameDefault returned NULL without setting"
    r"|argument \d: MemoryError"
    r"|the C table failed without saying why"
    r"|BufferError: 'dlshim_testing\.doubles\.producers\.P3TableOnly' object: "
    r"|UnsupportedObjectError: 'pandas\.Series' object "
)

_stop = _testcapi.remove_mem_hooks
_handled = sys.exc_info


def attempt(action: Callable[[], Any], first: int, last: int) -> tuple[Any, BaseException | None]:
    """Short, and without a name for the exception: its handler must not allocate."""
    _testcapi.set_nomemory(first, last)
    try:
        given = action()
    except BaseException:
        _stop()
        return None, _handled()[1]
    _stop()
    return given, None


def text_of(error: BaseException | None) -> str:
    return "" if error is None else f"{type(error).__name__}: {error}"


def settled(before: int) -> int:
    """How many exports of dlshim are left, once those of the sources are written off."""
    if live() != before or caps.accounts():
        gc.collect()
        caps.write_off()
        gc.freeze()  # what was written off stays, and need not be walked again
    caps.close_accounts()
    return live() - before


class Trial:
    """One step under failures, with a plan that was learned or without one."""

    def __init__(self, name: str, learned: bool) -> None:
        self.name, self.learned = name, learned
        self.failed = self.tried = 0
        with contextlib.suppress(BaseException):
            ALL[name]()()  # a module may be imported, by more allocations than LONG
        for _ in range(2):
            _, error = attempt(ALL[name](), LONG, LONG + 1)
            self.usual = text_of(error)
            del error
            settled(live())

    def fails(self, first: int, last: int) -> bool:
        """Does it show?  AssertionError where anything is wrong."""
        before = live()
        action = ALL[self.name]()
        if not self.learned:
            _core._hook("forget_plans")
        given, error = attempt(action, first, last)
        text = text_of(error)
        told = (self.name, self.learned, first, last, text)
        # Without memory an object may be named shorter, or "?".
        as_usual = text.partition(":")[0] == self.usual.partition(":")[0]
        assert as_usual or type(error) is MemoryError or LOST.search(text), told
        del given, error, action
        left = settled(before)
        assert left <= 0, (*told, f"{left} exports are left")
        self.tried += 1
        self.failed += text != self.usual
        return text != self.usual

    def go(self, stride: int) -> None:
        """Everything fails from the n-th on, for every n; then each of them fails alone."""
        n = quiet = 0
        while quiet < QUIET:
            quiet = 0 if self.fails(n, n + LONG) else quiet + 1
            n += 1 if quiet else stride
        for one in range(0, n, stride):
            self.fails(one, one + 1)


def run(names: Iterable[str], stride: int) -> tuple[int, int]:
    """How often something failed to be allocated, and how often that showed."""
    sys.unraisablehook = lambda report: None
    steps.destructors = False
    tried = failed = 0
    for name in names:
        for learned in (True, False):
            trial = Trial(name, learned)
            trial.go(stride)
            tried += trial.tried
            failed += trial.failed
    return tried, failed
