"""The lock of what the Python code shares between threads, and imports that a fork waits for."""

# ``import dlshim`` imports this module, and nothing else may come with it.
import os
import sys
from _thread import RLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

#: Held while a class, the switch of ``track`` or the modules of dlshim that are imported are
#: changed.  A fork waits until no other thread holds it: in the child no thread would give it back.
#: It is one lock, so that a fork, which takes all locks, never waits for one and holds another.  No
#: module of dlshim takes it while it is imported: who holds it may wait for that import.
changing = RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=changing.acquire,
        after_in_parent=changing.release,
        after_in_child=changing.release,
    )


def import_module(name: str) -> "ModuleType":
    """Import a module of dlshim that its first use needs.

    CPython locks a module while a thread imports it, and a child that was forked meanwhile waits
    for that thread without end.  At the end of the interpreter nothing forks, and the lock may be
    held by a thread that is there no more.
    """
    if sys.is_finalizing():
        __import__(name)
    else:
        with changing:
            __import__(name)
    return sys.modules[name]
