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
    for that thread without end.  A finalizer or an import hook may come here while its thread holds
    one of CPython's locks of imports, for which the thread that holds ours may wait: then the wait
    ends after a second, and no fork waits for this import.  So it is at the end of the interpreter,
    when the lock may be held by a thread that is there no more.
    """
    locked = changing.acquire(timeout=0 if sys.is_finalizing() else 1)
    try:
        __import__(name)
    finally:
        if locked:
            changing.release()
    return sys.modules[name]
