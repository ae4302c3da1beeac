"""The first meeting with the type of a library whose arrays are immutable.

python first_meeting.py CASE        for tests/core/test_habits.py
"""

import os
import sys

from core.test_habits import class_that_is_known_as_immutable, comes_out_readonly

import dlshim


def down(depth, x):
    return comes_out_readonly(x) if depth == 0 else down(depth - 1, x)


def deep():
    """At every depth near the recursion limit: how often it came, and was refused."""
    came = refused = 0
    for depth in range(sys.getrecursionlimit() - 80, sys.getrecursionlimit() + 1):
        x = class_that_is_known_as_immutable()()
        try:
            assert down(depth, x), depth
            came += 1
        except RecursionError:
            refused += 1
        assert comes_out_readonly(x), depth
    print(came, refused)


def without_memory():
    """Whichever allocation fails: how often one did.  The process ends at once, as without_memory
    of left_to_python.py."""
    from doubles.faults import LONG, LOST, attempt, text_of

    failed = whole = n = 0
    while whole < 5:
        x = class_that_is_known_as_immutable()()
        for last in (n + 1, n + LONG):
            x = class_that_is_known_as_immutable()()
            tensor, error = attempt(lambda x=x: dlshim.from_dlpack(x), n, last)
            assert tensor is None or tensor.readonly, (n, last)
            is_told = isinstance(error, MemoryError) or LOST.search(text_of(error))
            assert tensor is not None or is_told, (n, last, error)
            failed += tensor is None
            whole = 0 if tensor is None else whole + 1
            del tensor, error
            assert comes_out_readonly(x), (n, last)
        n += 1
    print(failed, flush=True)
    os._exit(0)


class Late:
    def __init__(self):
        self.x = class_that_is_known_as_immutable()()

    def __del__(self, take=dlshim.from_dlpack, write=os.write, habits=dlshim.habits):
        write(1, f"{habits.TRAITS} {take(self.x).readonly}".encode())


def at_the_end():
    """In the finaliser of what goes after the modules, whose names say nothing then."""
    dlshim.from_dlpack(class_that_is_known_as_immutable()())
    sys.late = Late()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
