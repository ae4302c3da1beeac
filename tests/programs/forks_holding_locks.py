"""A fork holds every lock of dlshim's Python code.

Else another thread could hold one, which nobody gives back in the child.
"""

import os
import threading
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
import dlshim  # noqa: E402

names = {each.name for each in walk_packages(dlshim.__path__, "dlshim.")}
# The first ends the process, the second forwards to another distribution.
modules = [import_module(name) for name in names - {"dlshim.__main__", "dlshim.testing"}]
assert len(modules) > 20
pid = os.fork()
if pid == 0:
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert ("dlshim.locks", "changing") in held and all(held.values()), held
