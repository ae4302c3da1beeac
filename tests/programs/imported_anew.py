"""Objects of a module that is imported anew exchange with those of the old one, and with others.

python imported_anew.py HOW         reload, anew or core_alone
"""

import array
import gc
import importlib
import sys

import dlshim
from dlshim import _core
from doubles.delegating import SIX, Source


def exchange(module, source):
    for taken in (
        module.from_dlpack(module.upgrade(source)),
        module.from_dlpack(module.to_capsule(source)),
        module.from_dlpack(module.upgrade(source).__dlpack__(max_version=(1, 0))),
        module.from_dlpack(source),
    ):
        assert memoryview(taken).tolist() == SIX


def reload():
    return importlib.reload(dlshim)


def anew():
    for name in [name for name in sys.modules if name.partition(".")[0] == "dlshim"]:
        del sys.modules[name]
    return importlib.import_module("dlshim")


def core_alone():
    del sys.modules["dlshim._core"]
    return importlib.reload(dlshim)


x = array.array("i", SIX)
old = [dlshim]
kept = []
for _ in range(4):
    module = globals()[sys.argv[1]]()
    for each in {id(m): m for m in (*old, module)}.values():
        for source in (x, Source(), *kept):
            exchange(each, source)
    kept = [module.upgrade(x), module.from_dlpack(Source()), old[-1].from_dlpack(x)]
    capsules = [module.upgrade(x).__dlpack__(), old[-1].to_capsule(x, max_version=(1, 0))]
    old.append(module)
    del old[:-2]
    gc.collect()
    for source in (*kept, *capsules):
        assert memoryview(old[-1].from_dlpack(source)).tolist() == SIX
del kept, capsules, source
gc.collect()
# `taken` of the last turn is gone with its frame.
assert _core._counters()["live"] == 0, _core._counters()
print("end")
