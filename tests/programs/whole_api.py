"""Every scenario twice, and every name of the API."""

import gc

import dlshim
import dlshim.__main__
from doubles import scenarios

for scenario in scenarios.ALL.values():
    scenario()
    scenario()
for name in dir(dlshim):
    getattr(dlshim, name)
str(dlshim.inspect(bytearray(3), export=True))
gc.collect()
print("done")
