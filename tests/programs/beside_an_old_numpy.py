"""Deleters that want the GIL beside the NumPy of the version that is sys.argv[1]."""

import ctypes
import sys
import types

numpy = types.ModuleType("numpy")
numpy.__version__ = sys.argv[1]
sys.modules["numpy"] = numpy
import dlshim  # noqa: E402
from dlshim import _core  # noqa: E402
from doubles import capsules as caps  # noqa: E402
from doubles.producers import P1  # noqa: E402

# PyErr_Clear follows the thread's state: without the GIL, on a thread of C, it crashes.
WANTS_GIL = ctypes.cast(ctypes.pythonapi.PyErr_Clear, ctypes.c_void_p).value


class Old(P1):
    def _export(self, version, **fields):
        made = super()._export(version, **fields)
        made.struct.deleter = WANTS_GIL
        return made


for asked in (None, (1, 0)):
    before = _core._counters()["handed_on"]
    imported = caps.take(dlshim.upgrade(Old()).__dlpack__(max_version=asked))
    print(_core._counters()["handed_on"] - before)
    imported.release("c-thread")
tensor = dlshim.from_dlpack(Old())
imported = caps.take(tensor.__dlpack__())
del tensor
imported.release("c-thread")
print("end")
