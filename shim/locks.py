"""The lock of what the Python code shares between threads."""

from __future__ import annotations

import os
from _thread import RLock

#: Held while a class or the switch of ``track`` is changed.  A fork waits until no other thread
#: holds it: in the child no thread would give it back.  It is one lock, so that a fork, which takes
#: all locks, never holds one while it waits for another.
changing = RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=changing.acquire,
        after_in_parent=changing.release,
        after_in_child=changing.release,
    )
