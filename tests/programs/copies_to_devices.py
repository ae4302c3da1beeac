"""Copies to devices, and what becomes of them.

python copies_to_devices.py CASE DRIVER         for tests/device/test_copies_to_devices.py
"""

import os
import sys

import dlshim
import drivers
from doubles import capsules as caps
from doubles import vendors
from doubles.producers import P2

drv = drivers.load_any(sys.argv[2])
DEVICE = vendors.of(drv).device_type


def in_a_fork():
    """Nothing is freed in the child."""
    drv.start()
    want = (DEVICE, 0)
    kept = caps.take(dlshim.upgrade(P2(), device=want).__dlpack__())
    if os.fork() == 0:
        try:
            dlshim.upgrade(P2(), device=want).__dlpack__()
        except BufferError as error:
            refused = "forked" in str(error) and "spawn" in str(error)
        kept.release()  # the fake ends a process that calls it after a fork
        os._exit(0 if refused else 3)
    assert os.wait()[1] == 0
    kept.release()
    assert drv.live_memory() == 0 and not drv.races()


def at_the_end():
    drv.start()
    want = (DEVICE, 0)
    sys.kept = [dlshim.from_dlpack(P2(), device=want), dlshim.upgrade(P2(), device=want)]
    sys.kept += [sys.kept[1].__dlpack__(), caps.take(sys.kept[1].__dlpack__())]


def first():
    """No library has used the device yet: its own context is made, for it was asked for."""
    taken = caps.take(dlshim.upgrade(P2(), device=(DEVICE, 1)).__dlpack__())
    assert taken.values() == P2().values()
    taken.release()
    assert drv.live_memory() == 0


def no_driver():
    for device in ("cuda:0", "rocm:0"):
        try:
            dlshim.upgrade(P2(), device=device).__dlpack__()
        except BufferError as error:
            print(error)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
