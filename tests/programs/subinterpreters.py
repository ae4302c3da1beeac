"""Exports that cross the bounds of subinterpreters of the old kind, which share the GIL.

    python subinterpreters.py outward HELD          for tests/core/test_interpreters.py
    python subinterpreters.py inward HELD IMPORT
    python subinterpreters.py tracking

HELD is 1 where the deleters are called with the GIL; IMPORT is what the inner interpreter imports.
"""

import _testcapi
import array
import ctypes as C
import gc
import sys

import dlshim
from dlshim import _core
from doubles.addresses import give, make


def inside(code):
    assert _testcapi.run_in_subinterp(f"import sys; sys.path[:] = {sys.path!r}\n{code}") == 0
    gc.collect()


def finish(rounds):
    # Before 3.12 a thread of a subinterpreter is taken for one that must not touch Python:
    # its deleters leak rather than wait for ever.  From 3.12 on, what an interpreter that has
    # ended had made is leaked too, because its objects may be gone with it (T10).
    live = _core._counters()["live"]
    assert live <= rounds, live
    taken = dlshim.from_dlpack(dlshim.upgrade(array.array("i", range(6))))
    assert memoryview(taken).tolist() == [0, 1, 2, 3, 4, 5]


OUTWARD = """
import builtins, ctypes as C, dlshim
from doubles.addresses import make
from doubles.delegating import Source
(C.c_size_t * 10).from_address({slots})[:] = make(dlshim)
builtins.alive = [dlshim.from_dlpack(bytes(3)), dlshim.upgrade(Source()),
                  dlshim.upgrade(bytearray(3)).__dlpack__()]
"""
INWARD = """
{imports}
from doubles.addresses import give
give({addresses}, {held})
"""


def outward(held):
    """What a subinterpreter made outlives it."""
    slots = (C.c_size_t * 10)()
    for _ in range(3):
        inside(OUTWARD.format(slots=C.addressof(slots)))
        give(list(slots), held == "1")
    finish(3)


def inward(held, imports):
    """A subinterpreter gives back what the main one made."""
    for _ in range(3):
        addresses = make(dlshim)
        gc.collect()
        inside(INWARD.format(imports=imports, addresses=addresses, held=held == "1"))
    finish(3)


TRACKED_INSIDE = """
import array, dlshim
kept = dlshim.from_dlpack(array.array("i", range(6)))
assert dlshim.live() == [], "it is not on in this interpreter"
with dlshim.track():
    capsule = dlshim.upgrade(kept).__dlpack__()
    assert [one.kind for one in dlshim.live()] == ["legacy"]
"""
TRACKS_NOTHING = """
import dlshim
with dlshim.track():
    pass
assert dlshim.live() == []
"""


def kinds():
    return [one.kind for one in dlshim.live()]


def tracking():
    """dlshim.track() is of one interpreter, and of one import."""
    block = dlshim.track()
    kept = dlshim.from_dlpack(array.array("i", range(6)))
    capsule = dlshim.upgrade(kept).__dlpack__()
    inside(TRACKED_INSIDE)
    assert kinds() == ["Tensor", "legacy"]
    del capsule
    inside(TRACKS_NOTHING)
    assert kinds() == ["Tensor"], "another interpreter took note of the end"
    for name in [name for name in sys.modules if name.partition(".")[0] == "dlshim"]:
        del sys.modules[name]
    import dlshim as anew

    other = anew.from_dlpack(array.array("i", range(6)))
    assert anew.live() == []
    block.stop()
    assert kinds() == ["Tensor"]
    del other


if __name__ == "__main__":
    assert dlshim.upgrade(bytearray(3)).__dlpack__()
    globals()[sys.argv[1]](*sys.argv[2:])
    print("end")
