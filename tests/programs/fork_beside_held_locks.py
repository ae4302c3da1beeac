"""A fork while another thread holds the locks of the C code: that thread is not in the child."""

import os
import signal
import sys
import threading

import dlshim
from dlshim import _core


def hold():
    _core._hook("hold_locks", 300)


sys.setswitchinterval(100)  # main goes on only when `hold` has them and lets the GIL go
for _ in range(2):
    thread = threading.Thread(target=hold)
    thread.start()
    pid = os.fork()
    if pid == 0:
        signal.alarm(400)
        _core._hook("hold_locks", 0)
        dlshim.from_dlpack(b"x")
        os._exit(7)
    status = os.waitpid(pid, 0)[1]
    assert os.waitstatus_to_exitcode(status) == 7, status
    thread.join()
    _core._hook("hold_locks", 0)  # the parent goes on
