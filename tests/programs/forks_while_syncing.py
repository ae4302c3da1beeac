"""Forks while other threads sync.

sys.argv holds the driver and how often to fork.
"""

import os
import signal
import sys
import threading

import dlshim
import drivers
from doubles import capsules as caps
from doubles.producers import P1, P2

drv = drivers.load_any(sys.argv[1])
drv.start()
drv.set_current(drv.context(0))
address, S = drv.alloc(64), drv.stream_new(0, False)
context = drv.context(0)


class Array:
    def __init__(self):
        self.__cuda_array_interface__ = {
            "shape": (16,), "typestr": "<f4", "data": (address, False), "version": 3
        }  # fmt: skip


x, done = Array(), threading.Event()


def guarded():
    return dlshim.upgrade(x, on_release="guard", producer_stream=1).__dlpack__(stream=S)


def work():
    drv.set_current(context)
    while not done.is_set():
        guarded()


threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()


def in_child(kept):
    signal.alarm(400)  # ends a child that waits for a lock of a thread that it does not have
    del kept  # an inherited guard: let go, no call of the driver, which would abort
    for _ in range(3):
        try:
            guarded()
        except BufferError as error:
            assert "forked" in str(error)
        else:
            os._exit(3)
        dlshim.upgrade(x, assume_device="cuda:0").__dlpack__(stream=-1)
        dlshim.from_dlpack(P2())
        assert caps.take(dlshim.upgrade(P1()).__dlpack__(max_version=(1, 0))).values()
    os._exit(7)


try:
    for turn in range(int(sys.argv[2])):
        kept = guarded()
        child = os.fork()
        if child == 0:
            try:
                in_child(kept)
            finally:
                os._exit(4)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == 7, (turn, status)  # -14: a lock was waited for
finally:
    done.set()  # else the threads keep a failure from being told
    for thread in threads:
        thread.join()
assert not drv.races(), drv.races()
