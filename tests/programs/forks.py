"""Forks inside of exchanges and beside them.

python forks.py CASE                for tests/core/test_exit_and_fork.py
"""

import gc
import os
import signal
import sys
import threading

import dlshim
import sampling
from doubles.asking import live
from doubles.delegating import CALLS, SIX, Source
from doubles.forking import HANGS, everything, in_child, reap

TURNS = sampling.fewer(60, 12)


def started(works, **options):
    """The threads that do these, each of them already begun."""
    threads = [threading.Thread(target=work, **options) for work in works]
    for thread in threads:
        thread.start()
    return threads


def wait_for(semaphore, times):
    for _ in range(times):
        assert semaphore.acquire(timeout=HANGS)


def joined(threads):
    for thread in threads:
        thread.join()


def in_the_producer():
    """The producer forks; both processes finish the exchange, drop all and go on."""
    for name, call in CALLS.items():
        for where in ("__dlpack__", "__dlpack_device__", "detach"):
            fork_in(where, name, call)


def fork_in(where, name, call):
    pids, before, parent = [], live(), os.getpid()

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


def in_the_producer_and_the_child_exits():
    """The child ends in the ordinary way, with the exchange's frames on its stack."""
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


def while_other_threads_are_inside_of_an_exchange():
    inside, go_on = threading.Semaphore(0), threading.Event()

    def block(where):
        if where == "__dlpack__":
            inside.release()
            go_on.wait()

    names, results = [name for name in CALLS if name != "device"], []
    threads = started([lambda n=name: results.append(CALLS[n](Source(block))) for name in names])
    wait_for(inside, len(threads))
    alive = live()

    def child():
        everything()
        assert live() == alive

    pids = [in_child(child) for _ in range(2)]
    for pid in pids:
        reap(pid)
    go_on.set()
    joined(threads)
    assert results == [SIX] * len(names)
    everything()


def while_other_threads_exchange_without_a_pause():
    on, ready = [True], threading.Semaphore(0)

    def work():
        everything_once = [CALLS[name] for name in CALLS]
        ready.release()
        while on:
            for call in everything_once:
                assert call(Source()) == SIX

    threads = started([work] * 3)
    wait_for(ready, len(threads))

    def child():
        for _ in range(5):
            for call in CALLS.values():
                assert call(Source()) == SIX

    for _ in range(10):
        reap(in_child(child))
    on.clear()
    joined(threads)
    everything()


def while_a_thread_is_inside_of_the_method_of_a_decorated_class():
    """A new thread of the child has the ident of one that only the parent has."""
    inside, go_on = threading.Event(), threading.Event()
    waits = [True]

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

    def together(n):
        results = []
        joined(started([lambda: results.append(CALLS["versioned"](x))] * n))
        assert results == [SIX] * n

    first = started([lambda: CALLS["versioned"](x)])
    assert inside.wait(HANGS)

    def child():
        waits.clear()
        for n in (1, 1, 3):
            together(n)
        assert CALLS["legacy"](x) == SIX

    reap(in_child(child))
    go_on.set()
    joined(first)
    waits.clear()
    together(3)


def while_other_threads_meet_new_types():
    """Each new type takes the lock of the plans."""
    on, ready = [True], threading.Semaphore(0)
    tensor = dlshim.from_dlpack(Source())

    def meet():
        class New:
            def __dlpack__(self, **asked):
                return tensor.__dlpack__(**asked)

            def __dlpack_device__(self):
                return (1, 0)

        assert memoryview(dlshim.from_dlpack(New())).tolist() == SIX

    def work():
        ready.release()
        while on:
            meet()

    threads = started([work] * 8)
    wait_for(ready, len(threads))
    for _ in range(TURNS):
        reap(in_child(meet))
    on.clear()
    joined(threads)


def while_other_threads_switch_tracking_on_and_off():
    on = [True]

    def switch():
        dlshim.track().stop()

    def work():
        while on:
            switch()

    switch()  # imported before the threads start
    threads = started([work] * 2, daemon=True)
    for _ in range(TURNS):
        reap(in_child(switch))
    on.clear()
    joined(threads)


def with_live_exports_which_the_child_reads_and_drops():
    x = Source()
    upgraded, tensor = dlshim.upgrade(x), dlshim.from_dlpack(x)
    capsules = [
        upgraded.__dlpack__(),
        tensor.__dlpack__(max_version=(1, 0)),
        dlshim.upgrade(x, copy=True).__dlpack__(),
    ]
    alive = live()

    def child():
        nonlocal upgraded, tensor
        views = [memoryview(dlshim.from_dlpack(capsule)).tolist() for capsule in capsules]
        assert views == [SIX] * 3 and memoryview(tensor).tolist() == SIX
        capsules.clear()
        upgraded = tensor = None
        gc.collect()
        assert live() == 0 < alive
        everything()

    reap(in_child(child))
    assert live() == alive
    capsules.clear()
    upgraded = tensor = None
    gc.collect()
    assert live() == 0
    everything()


def while_a_trial_makes_its_temporary_file():
    """Python's tempfile has a lock that a fork in another thread leaves taken."""
    import tempfile

    dlshim.locks.LONGEST_WAIT = HANGS
    asking, forking = threading.Event(), threading.Event()
    usual = tempfile._get_default_tempdir

    def look():
        """A thread is in it, with the lock of tempfile, when a fork has begun."""
        asking.set()
        assert forking.wait(HANGS)
        return usual()

    def ask():
        str(dlshim.inspect(Source(), consumer="builtins.memoryview"))

    tempfile._get_default_tempdir = look
    first = started([ask])
    assert asking.wait(HANGS)
    os.register_at_fork(before=forking.set)
    reap(in_child(ask))
    joined(first)


def waits_for_the_lock_no_longer_than_a_while():
    """Its holder may wait for a lock that the forking thread has, and then both waited for ever."""
    dlshim.locks.LONGEST_WAIT = 0.01
    application = threading.Lock()  # of the application, which "nobody takes while I fork"
    inside, end = threading.Event(), threading.Event()

    def hold():
        # As an import does whose loader, finalizer or trace function wants that lock.
        with dlshim.locks.changing:
            inside.set()
            with application:
                pass
            assert end.wait(HANGS)

    def use():
        # The lock of the child is a new one.
        with dlshim.locks.changing:
            _ = dlshim.kernel, dlshim.track().stop()
        assert dlshim.locks.changing.acquire(blocking=False)
        everything()

    with application:
        first = started([hold])
        assert inside.wait(HANGS)
        pids = [in_child(use) for _ in range(2)]
    # The parent's lock is still that of its thread.
    assert not dlshim.locks.changing.acquire(blocking=False)
    end.set()
    joined(first)
    use()
    for pid in pids:
        reap(pid)


def by_the_thread_that_holds_the_lock():
    """An import hook may fork: both processes go on, and give the lock back."""
    parent, pids, taken = os.getpid(), [], []

    class Forks:
        def find_spec(name, path, target=None):
            if name == "dlshim.kernels" and not pids:
                pids.append(os.fork())

    sys.meta_path.insert(0, Forks)
    _ = dlshim.kernel, dlshim.track().stop()
    joined(started([lambda: taken.append(dlshim.locks.changing.acquire(timeout=HANGS))]))
    assert taken == [True]
    if os.getpid() != parent:
        os._exit(7)
    reap(pids[0])


def while_a_metaclass_sets_what_the_decorator_made():
    """No code of the metaclass runs under the lock."""
    _ = dlshim.producer
    application, inside = threading.Lock(), threading.Event()

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

    with application:
        first = started([decorate])
        assert inside.wait(HANGS)
        assert dlshim.locks.changing.acquire(blocking=False), "the metaclass runs under the lock"
        dlshim.locks.changing.release()
        pid = in_child(everything)
    joined(first)
    reap(pid)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("end")
