"""A decorated class outlives the module that made its methods."""

import array
import gc
import sys

import dlshim


@dlshim.producer
class Lasts(array.array):
    pass


x = Lasts("b", [1, 2])
method = Lasts.__dlpack__
assert method(x)
for name in [n for n in sys.modules if n.startswith("dlshim")]:
    del sys.modules[name]
del dlshim
gc.collect()
try:
    print(method(x))
except RuntimeError as error:
    print(error)
import dlshim  # noqa: E402

print(memoryview(dlshim.from_dlpack(x)).tolist(), bool(method(x)))
