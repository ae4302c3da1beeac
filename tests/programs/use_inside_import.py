"""A first use inside of an import does not wait without end.

Its thread holds CPython's lock of imports, for which the one that holds the lock of dlshim waits.
"""

import sys
import threading
from importlib import import_module

import dlshim
from doubles.forking import HANGS

inside, wanted = threading.Event(), threading.Event()


class Uses:
    def find_spec(name, path, target=None):
        if threading.current_thread() is first and not inside.is_set():
            inside.set()
            assert wanted.wait(HANGS)
            _ = dlshim.producer
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
