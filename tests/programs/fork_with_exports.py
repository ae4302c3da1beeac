"""A forked child frees what was exported before, which sys.argv[1] says, and exports anew."""

import os
import sys

import dlshim
from doubles import capsules as caps
from doubles.producers import P1, P2, P3TableOnly, jax_buffer_like  # noqa: F401

kept = eval(sys.argv[1])
imported = caps.take(dlshim.upgrade(P1()).__dlpack__(max_version=(1, 0)))
pid = os.fork()
if pid == 0:
    imported.release("released")
    x = P2()
    again = caps.take(dlshim.upgrade(x).__dlpack__())
    assert again.values() == x.values()
    again.release("c-thread")
    del kept
    os._exit(7)
status = os.waitpid(pid, 0)[1]
assert os.waitstatus_to_exitcode(status) == 7, status
imported.release()
