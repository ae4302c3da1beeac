"""A fork while the first use of a name imports its module, which is sys.argv[1].

CPython's lock of the module would never be given back in the child.
"""

import os
import sys
import threading

import dlshim
from doubles.delegating import Source
from doubles.forking import HANGS, in_child, reap

dlshim.locks.LONGEST_WAIT = HANGS  # on a busy machine an import may take long
module = sys.argv[1]
importing, forking = threading.Event(), threading.Event()


class Slow:
    """Finds nothing: the import of that module goes on when a fork has begun."""

    def find_spec(name, path, target=None):
        if name == f"dlshim.{module}" and not importing.is_set():
            importing.set()
            assert forking.wait(HANGS)


def refused():
    try:
        dlshim.upgrade(3)
    except TypeError as error:
        assert "instead" in str(error)


use = {
    "kernels": lambda: dlshim.kernel,
    "decorator": lambda: dlshim.producer,
    "tracking": lambda: dlshim.track().stop(),
    "report": lambda: str(dlshim.inspect(Source())),
    "enums": lambda: str(dlshim.inspect(Source())),
    "trial.asked": lambda: str(dlshim.inspect(Source(), consumer="builtins.memoryview")),
    "cures": refused,
}[module]
sys.meta_path.insert(0, Slow)
first = threading.Thread(target=use)
first.start()
assert importing.wait(HANGS)
# Those who are registered last are called first.
os.register_at_fork(before=forking.set)
reap(in_child(use))
first.join()
