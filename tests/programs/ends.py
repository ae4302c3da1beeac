"""The end of Python while exchanges go on, or while what was exported is alive.

    python ends.py CASE [CALL]          for tests/core/test_exit_and_fork.py

What has to be alive when the modules are emptied is global here.
"""

import atexit
import builtins
import contextvars
import gc
import os
import signal
import sys
import threading

import dlshim
from doubles.asking import live
from doubles.delegating import CALLS, SIX, Source
from doubles.forking import HANGS, everything


def daemon_threads_that_exchange():
    ready = threading.Semaphore(0)

    def work(call):
        assert call(Source()) == SIX
        ready.release()
        while True:
            call(Source())

    sys.setswitchinterval(1e-4)
    names = ("legacy", "copy", "from_dlpack")
    for name in names:
        threading.Thread(target=work, args=(CALLS[name],), daemon=True).start()
    for _ in names:
        assert ready.acquire(timeout=HANGS)


def daemon_threads_that_are_blocked_inside_of_a_producer():
    inside, never = threading.Semaphore(0), threading.Event()

    def block(where):
        if where == "__dlpack__":
            inside.release()
            never.wait()

    names = [name for name in CALLS if name != "device"]
    for name in names:
        threading.Thread(target=CALLS[name], args=(Source(block),), daemon=True).start()
    for _ in names:
        assert inside.acquire(timeout=HANGS)


def a_thread_that_goes_on_while_the_main_one_has_ended():
    ready = threading.Event()

    def work():
        ready.set()
        threading.main_thread().join()
        for _ in range(20):
            everything()
        print("thread")

    threading.Thread(target=work).start()
    assert ready.wait(HANGS)


def handlers_of_atexit_that_exchange():
    global kept
    kept = [dlshim.upgrade(Source()), dlshim.from_dlpack(Source())]

    @atexit.register
    def last():
        everything()
        print("last")

    @atexit.register
    def with_what_was_kept():
        for source in kept:
            assert CALLS["versioned"](source) == SIX


class Late:
    """Exchanges in its finaliser, with what it has kept: the modules may be empty."""

    def __init__(self):
        self.kept = dlshim, Source(), dlshim.upgrade(Source()), dlshim.from_dlpack(Source())
        self.call, self.six, self.out = CALLS["versioned"], SIX, os.write

    def __del__(self):
        module, *sources = self.kept
        for source in sources:
            try:
                source.__dlpack__()
                module.upgrade(source).__dlpack__(max_version=(1, 0))
                module.from_dlpack(source)
            except (
                RuntimeError, ImportError, TypeError, AttributeError, NameError, BufferError
            ):  # fmt: skip
                pass
        self.out(1, b"late ")


def finalisers_that_exchange_as_modules_are_emptied():
    global late, cycle
    late = Late()
    sys.late = Late()
    cycle = [Late()]
    cycle.append(cycle)
    builtins.late = Late()


def generator():
    upgraded = dlshim.upgrade(Source())
    capsule = upgraded.__dlpack__()
    try:
        yield upgraded
    finally:
        assert memoryview(dlshim.from_dlpack(capsule)).tolist() == SIX
        print("closed", flush=True)


async def coroutine():
    tensor = dlshim.from_dlpack(Source())

    class Wait:
        def __await__(self):
            yield tensor

    await Wait()


def generators_and_contexts_that_hold_producers():
    global held, context, running, waiting
    held = contextvars.ContextVar("held")
    held.set([dlshim.upgrade(Source()), dlshim.from_dlpack(Source())])
    context = contextvars.copy_context()
    running = generator()
    assert CALLS["legacy"](next(running)) == SIX
    waiting = coroutine()
    assert memoryview(waiting.send(None)).tolist() == SIX
    atexit.register(waiting.close)
    atexit.register(running.close)


def everything_frozen():
    global kept
    kept = [dlshim.upgrade(Source()), dlshim.from_dlpack(Source()), dlshim.to_capsule(Source())]
    kept.append(kept)
    gc.freeze()
    gc.disable()


def leave(where):
    sys.exit(0)


def sys_exit_inside_of_a_producer():
    for name, call in CALLS.items():
        try:
            call(Source(leave))
        except SystemExit:
            print(name)
    assert live() == 0
    CALLS["from_dlpack"](Source(leave))


def end_inside_of_a_producer(end):
    global kept
    kept = dlshim.upgrade(Source()).__dlpack__()
    CALLS[sys.argv[2]](Source(end))


def os_exit():
    end_inside_of_a_producer(lambda where: os._exit(5))


def killed():
    end_inside_of_a_producer(lambda where: os.kill(os.getpid(), signal.SIGKILL))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
