"""Signals that arrive anywhere in exchanges, also in the first one.

    python signals.py SENDER LEAST

Works until a handler has stopped it LEAST times, and prints how often that was, and in how many
turns.  The SENDER is a timer or a thread.
"""

import itertools
import os
import signal
import sys
import threading

from doubles.asking import live
from doubles.delegating import CALLS, SIX, Source


class Stop(BaseException):
    pass


told, armed, nested = itertools.count(), [], Source()


def handler(number, frame):
    # Exchanges in the middle of whatever was going on, and every other time gives it up.
    assert CALLS["versioned"](nested) == SIX
    if next(told) % 2 and armed:
        armed.clear()
        raise Stop


def everything():
    for call in CALLS.values():
        assert call(Source()) == SIX


def work():
    try:  # No loop: CPython 3.12 leaves its jump backwards out of the block.
        armed.append(True)
        everything()
        armed.clear()
    except Stop:
        return 1
    return 0


def until(least):
    """Works until it was stopped that often: how often, and in how many turns."""
    stopped = turns = 0
    while stopped < least:
        stopped += work()
        turns += 1
    return stopped, turns


def timer(least):
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0003)
    counts = until(least)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    return counts


def thread(least):
    on = [1]

    def send():
        while on:
            os.kill(os.getpid(), signal.SIGUSR1)

    signal.signal(signal.SIGUSR1, handler)
    sender = threading.Thread(target=send)
    sender.start()
    counts = until(least)
    on.clear()
    sender.join()
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    return counts


before = live()
counts = {"timer": timer, "thread": thread}[sys.argv[1]](int(sys.argv[2]))
assert live() == before, (live(), before)
print(*counts)
