"""Producers and Tensors that outlive the clearing of the module."""

import gc
import sys

import dlshim
from doubles.producers import P2


class Keeper:
    def __init__(self):
        self.x = P2()
        self.made = [dlshim.upgrade(self.x) for _ in range(20)]
        self.made += [dlshim.from_dlpack(self.x) for _ in range(20)]
        self.me = self


for _ in range(3):
    [dlshim.upgrade(P2()) for _ in range(20)]
    [dlshim.from_dlpack(P2()) for _ in range(20)]
keeper = Keeper()
for name in [name for name in sys.modules if name.startswith("dlshim")]:
    del sys.modules[name]
dlshim = None
gc.collect()
kept = keeper.made[0].__dlpack__()
del kept, keeper
gc.collect()
print("end")
