"""T10: forks inside an exchange, and the end of the process while exchanges go on."""

from __future__ import annotations

import os
import signal

import pytest

import sampling
from doubles import child

pytestmark = pytest.mark.once
FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

HEAD = """
import array, atexit, faulthandler, gc, os, signal, sys, threading
import dlshim
from dlshim import _core
from doubles.asking import live
from doubles.delegating import CALLS, SIX, Source

HANGS = 400  # seconds, before the whole process is said to hang
faulthandler.register(signal.SIGALRM, chain=True)  # a child that hangs says where

def in_child(work):
    '''Fork; the child does `work` and ends in order with 7.'''
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

def reap(pid):
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status != 7:  # an exception would wait for threads that go on without end
        print("a child ended with", status, file=sys.stderr, flush=True)
        os._exit(1)

def everything():
    before = live()
    for call in CALLS.values():
        assert call(Source()) == SIX
    gc.collect()
    assert live() == before
"""
HEAD += f"TURNS = {sampling.fewer(60, 12)}\n"

# --- forks ----------------------------------------------------------------------------

FORKS = {
    # The producer forks; both processes finish the exchange, drop all and go on.
    "in the producer": """
    for name, call in CALLS.items():
        for where in ("__dlpack__", "__dlpack_device__", "detach"):
            pids, before = [], live()
            parent = os.getpid()
            def fork(inside):
                if inside == where and not pids:
                    signal.alarm(HANGS)
                    pids.append(os.fork())
            x = Source(fork)
            assert call(x) == SIX, name
            gc.collect()
            assert live() == before
            x.during = lambda inside: None
            everything()
            if os.getpid() != parent:
                os._exit(7)
            for pid in pids:
                reap(pid)
            signal.alarm(0)
    """,
    # The child ends in the ordinary way, with the exchange's frames on its stack.
    "in the producer, and the child exits": """
    pids = []
    def fork(inside):
        if not pids:
            pids.append(os.fork())
            if pids == [0]:
                sys.exit(7)
    x = Source(fork)
    kept = dlshim.upgrade(x)
    assert CALLS["versioned"](kept) == SIX
    reap(pids[0])
    everything()
    """,
    "while other threads are inside of an exchange": """
    inside, go_on = threading.Semaphore(0), threading.Event()
    def block(where):
        if where == "__dlpack__":
            inside.release()
            go_on.wait()
    def work(call, results):
        results.append(call(Source(block)))
    names = [name for name in CALLS if name != "device"]
    results = []
    threads = [threading.Thread(target=work, args=(CALLS[name], results)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        assert inside.acquire(timeout=HANGS)
    alive = live()
    def child():
        everything()
        assert live() == alive
    pids = [in_child(child) for _ in range(2)]
    for pid in pids:
        reap(pid)
    go_on.set()
    for thread in threads:
        thread.join()
    assert results == [SIX] * len(names)
    everything()
    """,
    "while other threads exchange without a pause": """
    on, ready = [True], threading.Semaphore(0)
    def work():
        everything_once = [CALLS[name] for name in CALLS]
        ready.release()
        while on:
            for call in everything_once:
                assert call(Source()) == SIX
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        assert ready.acquire(timeout=HANGS)
    def child():
        for _ in range(5):
            for call in CALLS.values():
                assert call(Source()) == SIX
    for _ in range(10):
        reap(in_child(child))
    on.clear()
    for thread in threads:
        thread.join()
    everything()
    """,
    # A new thread of the child has the ident of one that only the parent has.
    "while a thread is inside of the method of a decorated class": """
    inside, go_on = threading.Event(), threading.Event()
    waits = True
    @dlshim.producer
    class Own:
        held = Source()
        def __dlpack__(self, **asked):
            if waits:
                inside.set()
                go_on.wait()
            return self.held.__dlpack__(**asked)
        def __dlpack_device__(self):
            return (1, 0)
    x = Own()
    def use(results):
        results.append(CALLS["versioned"](x))
    def together(n):
        results = []
        threads = [threading.Thread(target=use, args=(results,)) for _ in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [SIX] * n
    first = threading.Thread(target=use, args=([],))
    first.start()
    assert inside.wait(HANGS)
    def child():
        global waits
        waits = False
        for n in (1, 1, 3):
            together(n)
        assert CALLS["legacy"](x) == SIX
    reap(in_child(child))
    go_on.set()
    first.join()
    waits = False
    together(3)
    """,
    # Each new type takes the lock of the plans.
    "while other threads meet new types": """
    on, ready = [True], threading.Semaphore(0)
    tensor = dlshim.from_dlpack(Source())
    def meet():
        x = type("New", (), {
            "__dlpack__": lambda self, **asked: tensor.__dlpack__(**asked),
            "__dlpack_device__": lambda self: (1, 0),
        })()
        assert memoryview(dlshim.from_dlpack(x)).tolist() == SIX
    def work():
        ready.release()
        while on:
            meet()
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        assert ready.acquire(timeout=HANGS)
    for _ in range(TURNS):
        reap(in_child(meet))
    on.clear()
    for thread in threads:
        thread.join()
    """,
    "while other threads switch tracking on and off": """
    on = [True]
    def switch():
        dlshim.track().stop()
    switch()  # imported before the threads start
    def work():
        while on:
            switch()
    threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(TURNS):
        reap(in_child(switch))
    on.clear()
    for thread in threads:
        thread.join()
    """,
    "with live exports, which the child reads and drops": """
    x = Source()
    upgraded, tensor = dlshim.upgrade(x), dlshim.from_dlpack(x)
    capsules = [upgraded.__dlpack__(), tensor.__dlpack__(max_version=(1, 0)),
                dlshim.upgrade(x, copy=True).__dlpack__()]
    alive = live()
    def child():
        global upgraded, tensor
        views = [memoryview(dlshim.from_dlpack(capsule)).tolist() for capsule in capsules]
        assert views == [SIX] * 3 and memoryview(tensor).tolist() == SIX
        capsules.clear()
        upgraded = tensor = None
        gc.collect()
        assert live() == 0 < alive
        everything()
    reap(in_child(child))
    assert live() == alive
    del capsules, upgraded, tensor
    gc.collect()
    assert live() == 0
    everything()
    """,
}


@FORK
@pytest.mark.parametrize("code", FORKS.values(), ids=FORKS.keys())
def test_T10_a_fork(code):
    options = ("-W", "ignore:This process:DeprecationWarning")  # 3.12: fork beside threads
    done = child.run(HEAD + dedented(code) + "\nprint('end')", options=options, silent=True)
    assert done.split() == ["end"]


LOCKS = """
import os, threading
from importlib import import_module
from pkgutil import walk_packages
held = {}

def ask():
    kinds = type(threading.Lock()), type(threading.RLock())
    for module in modules:
        for name, lock in vars(module).items():
            if isinstance(lock, kinds):
                held[module.__name__, name] = not lock.acquire(blocking=False)

def ask_in_another_thread():
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()

# Those who were registered last are called first.
os.register_at_fork(before=ask_in_another_thread)
import dlshim
names = {each.name for each in walk_packages(dlshim.__path__, "dlshim.")}
# The first ends the process, the second forwards to another distribution.
modules = [import_module(name) for name in names - {"dlshim.__main__", "dlshim.testing"}]
assert len(modules) > 20
pid = os.fork()
if pid == 0:
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert ("dlshim.locks", "changing") in held and all(held.values()), held
"""


@FORK
def test_T10_a_fork_holds_every_lock_of_the_python_code():
    """Else another thread could hold one, which nobody gives back in the child."""
    child.run(LOCKS)


IMPORTING = """
dlshim.locks.LONGEST_WAIT = HANGS  # on a busy machine an import may take long
importing, forking = threading.Event(), threading.Event()

class Slow:
    '''Finds nothing: the import of that module goes on when a fork has begun.'''
    def find_spec(name, path, target=None):
        if name == "dlshim.{module}" and not importing.is_set():
            importing.set()
            assert forking.wait(HANGS)

def refused():
    try:
        dlshim.upgrade(3)
    except TypeError as error:
        assert "instead" in str(error)

sys.meta_path.insert(0, Slow)
first = threading.Thread(target=lambda: {use})
first.start()
assert importing.wait(HANGS)
# Those who are registered last are called first.
os.register_at_fork(before=forking.set)
reap(in_child(lambda: {use}))
first.join()
"""
IMPORTS = {
    "kernels": "dlshim.kernel",
    "decorator": "dlshim.producer",
    "tracking": "dlshim.track().stop()",
    "report": "str(dlshim.inspect(Source()))",
    "enums": "str(dlshim.inspect(Source()))",
    "trial.asked": "str(dlshim.inspect(Source(), consumer='builtins.memoryview'))",
    "cures": "refused()",
}


@FORK
@pytest.mark.parametrize("module", IMPORTS)
def test_T10_a_fork_while_a_first_use_imports_a_module(module):
    """CPython's lock of the module would never be given back in the child."""
    child.run(HEAD + IMPORTING.format(module=module, use=IMPORTS[module]))


TEMPORARY = """
import tempfile
dlshim.locks.LONGEST_WAIT = HANGS
asking, forking = threading.Event(), threading.Event()
usual = tempfile._get_default_tempdir

def look():
    '''A thread is in it, with the lock of tempfile, when a fork has begun.'''
    asking.set()
    assert forking.wait(HANGS)
    return usual()

def ask():
    str(dlshim.inspect(Source(), consumer="builtins.memoryview"))

tempfile._get_default_tempdir = look
first = threading.Thread(target=ask)
first.start()
assert asking.wait(HANGS)
os.register_at_fork(before=forking.set)
reap(in_child(ask))
first.join()
"""


@FORK
def test_T10_a_fork_while_a_trial_makes_its_temporary_file():
    """Python's tempfile has a lock that a fork in another thread leaves taken."""
    child.run(HEAD + TEMPORARY)


HELD = """
dlshim.locks.LONGEST_WAIT = .01
application = threading.Lock()  # of the application, which "nobody takes while I fork"
inside, end = threading.Event(), threading.Event()

def hold():
    # As the import of a first use does whose loader, finalizer or trace function wants that lock.
    with dlshim.locks.changing:
        inside.set()
        with application:
            pass
        assert end.wait(HANGS)

def use():
    # The lock of the child is a new one.
    with dlshim.locks.changing:
        dlshim.kernel, dlshim.track().stop()
    assert dlshim.locks.changing.acquire(blocking=False)
    everything()

first = threading.Thread(target=hold)
with application:
    first.start()
    assert inside.wait(HANGS)
    pids = [in_child(use) for _ in range(2)]
# The parent's lock is still that of its thread.
assert not dlshim.locks.changing.acquire(blocking=False)
end.set()
first.join()
use()
for pid in pids:
    reap(pid)
"""


@FORK
def test_T10_a_fork_waits_for_the_lock_no_longer_than_a_while():
    """Its holder may wait for a lock that the forking thread has, and then both waited for ever."""
    child.run(HEAD + HELD)


@FORK
def test_T10_a_fork_by_the_thread_that_holds_the_lock():
    """An import hook may fork: both processes go on, and give the lock back."""
    child.run(
        HEAD
        + """
parent = os.getpid()
pids = []

class Forks:
    def find_spec(name, path, target=None):
        if name == "dlshim.kernels" and not pids:
            pids.append(os.fork())

sys.meta_path.insert(0, Forks)
dlshim.kernel, dlshim.track().stop()
taken = []
other = threading.Thread(target=lambda: taken.append(dlshim.locks.changing.acquire(timeout=HANGS)))
other.start()
other.join()
assert taken == [True]
if os.getpid() != parent:
    os._exit(7)
reap(pids[0])
"""
    )


DECORATES = """
dlshim.producer
application = threading.Lock()
inside = threading.Event()

class Meta(type):
    def __setattr__(cls, name, value):
        inside.set()
        with application:
            super().__setattr__(name, value)

def decorate():
    @dlshim.producer
    class Own(metaclass=Meta):
        held = Source()
        def __dlpack__(self, **asked):
            return self.held.__dlpack__(**asked)
        def __dlpack_device__(self):
            return (1, 0)
    assert CALLS["versioned"](Own()) == SIX

first = threading.Thread(target=decorate)
with application:
    first.start()
    assert inside.wait(HANGS)
    assert dlshim.locks.changing.acquire(blocking=False), "the metaclass runs under the lock"
    dlshim.locks.changing.release()
    pid = in_child(everything)
first.join()
reap(pid)
"""


@FORK
def test_T10_a_fork_while_a_metaclass_sets_what_the_decorator_made():
    """No code of the metaclass runs under the lock."""
    child.run(HEAD + DECORATES)


def test_a_first_use_inside_of_an_import_does_not_wait_without_end():
    """Its thread holds CPython's lock of imports, for which the one that holds ours waits."""
    child.run(
        HEAD
        + """
        from importlib import import_module
        inside, wanted = threading.Event(), threading.Event()

        class Uses:
            def find_spec(name, path, target=None):
                if threading.current_thread() is first and not inside.is_set():
                    inside.set()
                    assert wanted.wait(HANGS)
                    dlshim.producer
                elif name == "dlshim.cures":
                    wanted.set()

        def use():
            try:
                dlshim.upgrade(3)
            except TypeError as error:
                str(error)  # the cure is looked for when the text is read

        class Lock:
            changing = dlshim.locks.changing
            def acquire(self, blocking=True, timeout=-1):
                taken = self.changing.acquire(timeout=timeout)
                wanted.set()
                return taken
            def release(self):
                self.changing.release()

        dlshim.locks.changing = Lock()
        sys.meta_path.insert(0, Uses)
        first = threading.Thread(target=import_module, args=("colorsys",))
        first.start()
        assert inside.wait(HANGS)
        use()
        first.join()
        """.replace("\n        ", "\n")
    )


def test_no_module_takes_the_lock_while_it_is_imported():
    """It could wait for a thread that imports the same module by a first use."""
    child.run("""
        from importlib import import_module
        from pkgutil import walk_packages
        import dlshim

        class Taken:
            def acquire(self, **keywords):
                raise AssertionError("an import takes the lock")
            __enter__ = acquire
            def __exit__(self, *arguments): ...

        dlshim.locks.changing = Taken()
        try:
            dlshim.kernel
        except AssertionError:
            pass
        else:
            raise RuntimeError("a first use does not take the lock")
        names = {each.name for each in walk_packages(dlshim.__path__, "dlshim.")}
        for name in names - {"dlshim.__main__", "dlshim.testing"}:
            import_module(name)
        """)


def dedented(code):
    import textwrap

    return textwrap.dedent(code)


# --- the end --------------------------------------------------------------------------

ENDS = {
    "daemon threads that exchange": """
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
    for name in names:
        assert ready.acquire(timeout=HANGS)
    """,
    "daemon threads that are blocked inside of a producer": """
    inside, never = threading.Semaphore(0), threading.Event()
    def block(where):
        if where == "__dlpack__":
            inside.release()
            never.wait()
    names = [name for name in CALLS if name != "device"]
    for name in names:
        threading.Thread(target=CALLS[name], args=(Source(block),), daemon=True).start()
    for name in names:
        assert inside.acquire(timeout=HANGS)
    """,
    "a thread that goes on while the main one has ended": """
    ready = threading.Event()
    def work():
        ready.set()
        threading.main_thread().join()
        for _ in range(20):
            everything()
        print("thread")
    threading.Thread(target=work).start()
    assert ready.wait(HANGS)
    """,
    "handlers of atexit that exchange": """
    def last():
        everything()
        print("last")
    atexit.register(last)
    kept = [dlshim.upgrade(Source()), dlshim.from_dlpack(Source())]
    @atexit.register
    def with_what_was_kept():
        for source in kept:
            assert CALLS["versioned"](source) == SIX
    """,
    "finalisers that exchange as modules are emptied": """
    class Late:
        def __init__(self):
            self.kept = dlshim, Source(), dlshim.upgrade(Source()), dlshim.from_dlpack(Source())
            self.call, self.six, self.out = CALLS["versioned"], SIX, os.write
        def __del__(self):
            module, *sources = self.kept
            for source in sources:
                try:
                    capsule = source.__dlpack__()
                    module.upgrade(source).__dlpack__(max_version=(1, 0))
                    module.from_dlpack(source)
                except (RuntimeError, ImportError, TypeError, AttributeError, NameError,
                        BufferError):
                    pass
            self.out(1, b"late ")
    late = Late()
    sys.late = Late()
    cycle = [Late()]
    cycle.append(cycle)
    import builtins
    builtins.late = Late()
    """,
    "generators and contexts that hold producers": """
    import contextvars
    held = contextvars.ContextVar("held")
    held.set([dlshim.upgrade(Source()), dlshim.from_dlpack(Source())])
    context = contextvars.copy_context()
    def generator():
        upgraded = dlshim.upgrade(Source())
        capsule = upgraded.__dlpack__()
        try:
            yield upgraded
        finally:
            assert memoryview(dlshim.from_dlpack(capsule)).tolist() == SIX
            print("closed", flush=True)
    running = generator()
    assert CALLS["legacy"](next(running)) == SIX
    async def coroutine():
        tensor = dlshim.from_dlpack(Source())
        class Wait:
            def __await__(self):
                yield tensor
        await Wait()
    waiting = coroutine()
    assert memoryview(waiting.send(None)).tolist() == SIX
    atexit.register(waiting.close)
    atexit.register(running.close)
    """,
    "everything frozen": """
    kept = [dlshim.upgrade(Source()), dlshim.from_dlpack(Source()), dlshim.to_capsule(Source())]
    kept.append(kept)
    gc.freeze()
    gc.disable()
    """,
    "sys.exit inside of a producer": """
    def leave(where):
        sys.exit(0)
    for name, call in CALLS.items():
        try:
            call(Source(leave))
        except SystemExit:
            print(name)
    assert live() == 0
    CALLS["from_dlpack"](Source(leave))
    """,
}


@pytest.mark.parametrize("name", ENDS)
def test_T10_the_end(name):
    out = child.run(HEAD + dedented(ENDS[name]), silent=True).split()
    wanted = {
        "a thread that goes on while the main one has ended": ["thread"],
        "handlers of atexit that exchange": ["last"],
        "generators and contexts that hold producers": ["closed"],
        "sys.exit inside of a producer": [
            "legacy", "versioned", "copy", "detach", "to_capsule", "from_dlpack", "device",
        ],
    }  # fmt: skip
    if name.startswith("finalisers"):  # CPython does not promise that all of them run
        assert set(out) == {"late"} and len(out) >= 2
        return
    assert out == wanted.get(name, [])


@pytest.mark.parametrize("call", ["legacy", "versioned", "copy", "detach", "from_dlpack", "device"])
def test_T10_the_process_is_ended_inside_of_a_producer(call):
    """os._exit, and a signal that ends it at once."""
    code = HEAD + f"kept = dlshim.upgrade(Source()).__dlpack__()\nCALLS[{call!r}](Source(end))\n"
    leave = "def end(where): os._exit(5)\n"
    child.run(HEAD + leave + code, returncode=5, silent=True)
    kill = "def end(where): os.kill(os.getpid(), signal.SIGKILL)\n"
    child.run(HEAD + kill + code, returncode=-signal.SIGKILL, silent=True)
