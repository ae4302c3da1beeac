"""What programs do that fork, or end, in the middle of exchanges (T10)."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
from collections.abc import Callable

from .asking import live
from .delegating import CALLS, SIX, Source

HANGS = 400  # seconds, before the whole process is said to hang
faulthandler.register(signal.SIGALRM, chain=True)  # a child that hangs says where


def in_child(work: Callable[[], object]) -> int:
    """Fork; the child does `work` and ends in order with 7."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(HANGS)
        code = 1
        try:
            work()
            code = 7
        finally:
            os._exit(code)
    return pid


def reap(pid: int) -> None:
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status != 7:  # an exception would wait for threads that go on without end
        print("a child ended with", status, file=sys.stderr, flush=True)
        os._exit(1)


def everything() -> None:
    """Every kind of exchange, after which nothing is left."""
    before = live()
    for call in CALLS.values():
        assert call(Source()) == SIX
    gc.collect()
    assert live() == before
