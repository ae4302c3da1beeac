"""Columns that are exported are held while this process ends, or a fork's child drops them.

The argument is a key of HOW; tests/core/test_columns.py has them all.
"""

import gc
import os
import sys
import threading

import dlshim
from doubles import columns as made

x, count = made.column(1, 2, 3)
y, chunks = made.chunked((1, 2))
kept = [dlshim.from_dlpack(x), dlshim.to_capsule(y, max_version=(1, 0))]


def forks():
    pid = os.fork()
    if pid == 0:
        kept.clear()
        gc.collect()
        os._exit(count.pending + chunks.pending)
    assert os.waitpid(pid, 0)[1] == 0
    assert count.pending == chunks.pending == 1
    kept.clear()
    gc.collect()
    assert count.pending == chunks.pending == 0


HOW = {
    "exit": lambda: None,
    "a cycle at exit": lambda: kept.append(kept),
    "exit of a thread": lambda: threading.Thread(target=lambda: kept[:]).start(),
    "fork": forks,
}
HOW[sys.argv[1]]()
print("end")
