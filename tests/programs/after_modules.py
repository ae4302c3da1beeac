"""A Tensor outlives its module, and works; what it needs goes with it, at the next import."""

import gc
import sys
import weakref


def dropped(keep):
    import dlshim  # noqa: F811

    kept = [dlshim.from_dlpack(bytearray(3)), dlshim.upgrade(bytearray(3))] if keep else []
    kept = [x.__dlpack__ for x in kept]
    dead = [weakref.ref(t) for t in (dlshim.Tensor, dlshim.Producer)]
    dead.append(weakref.ref(sys.modules["dlshim._core"]))
    for name in [n for n in sys.modules if n.startswith("dlshim")]:
        del sys.modules[name]
    return kept, dead


def alive(dead):
    return [ref() is not None for ref in dead]


for _ in range(3):
    kept, dead = dropped(True)
    gc.collect()
    methods = [method(max_version=(1, 0), copy=True) for method in kept]
    _, others = dropped(False)
    assert [method() for method in kept]
    gc.collect()
    del kept, methods
    dropped(False)
    gc.collect()
    import dlshim  # noqa: F401 - the first import after that

    gc.collect()
    assert alive(dead) == alive(others) == [False] * 3, (alive(dead), alive(others))
