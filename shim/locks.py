"""The lock of what the Python code shares between threads, and imports that a fork waits for."""

# ``import dlshim`` imports this module, and nothing else may come with it.
import os
import sys
from _thread import RLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

#: Seconds that a fork, or an import of a first use, waits for the lock.
LONGEST_WAIT = 1.0
#: Held while a class, the switch of ``track`` or the modules that a first use imports are changed.
#: A fork waits for it: what the lock protects is then whole in the child.  The wait ends, because
#: foreign code may run while the lock is held (the loader of an import, a finalizer), and that code
#: may want a lock which the forking thread has.  No module of dlshim takes it while it is imported:
#: the thread that holds it may wait for that import.
changing = RLock()


def _before_fork() -> None:
    changing.acquire(timeout=LONGEST_WAIT)


def _after_fork_in_parent() -> None:
    if changing._is_owned():  # type: ignore[attr-defined]
        changing.release()


def _after_fork_in_child() -> None:
    if changing._is_owned():  # type: ignore[attr-defined]
        changing.release()
    else:  # the thread that holds it is not in the child
        changing._at_fork_reinit()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )


def _is_whole(module: "ModuleType | None") -> bool:
    """Whether a module is imported, and its import has ended."""
    spec = getattr(module, "__spec__", None)
    return module is not None and not getattr(spec, "_initializing", False)


def import_module(name: str) -> "ModuleType":
    """Import a module that a first use needs: one of dlshim's own, or one of Python's.

    CPython locks a module while a thread imports it, and a child that was forked meanwhile waits
    for that thread without end.  So a fork waits for the import.  A finalizer or an import hook may
    come here while its thread holds one of CPython's locks of imports, for which the thread that
    holds ours may wait: then the wait ends, and no fork waits for this import.  So it is at the end
    of the interpreter, when the lock may be held by a thread that is there no more.

    Raises an ImportError where the import goes on further up in this thread: a signal handler, a
    finalizer or a trace function has come in between.
    """
    if not _is_whole(sys.modules.get(name)):
        locked = changing.acquire(timeout=0 if sys.is_finalizing() else LONGEST_WAIT)
        try:
            __import__(name)
        finally:
            if locked:
                changing.release()
        if not _is_whole(sys.modules.get(name)):
            raise ImportError(f"{name} is still being imported", name=name)
    return sys.modules[name]
