"""What waits for the end of a capture goes in its own interpreter.

sys.argv[1] is the driver.
"""

import _testcapi
import gc
import sys
import weakref

import dlshim
import drivers

drv = drivers.load_any(sys.argv[1])
drv.start()
drv.set_current(drv.context(0))
address, S = drv.alloc(64), drv.stream_new(0, False)


class Array:
    def __init__(self, address):
        self.__cuda_array_interface__ = {
            "shape": (16,), "typestr": "<f4", "data": (address, False), "version": 3
        }  # fmt: skip


def let_go(x):
    dlshim.upgrade(x, on_release="guard").__dlpack__(stream=S)


x = Array(address)
died = weakref.ref(x)
other = drv.stream_new(0, True)
kept = dlshim.upgrade(x, on_release="guard").__dlpack__(stream=S)
del x
drv.capture_begin(other)
del kept
assert died() is not None, "it waits for the end of the capture"
drv.capture_end(other)
INNER = f"""
import dlshim
class Array:
    __cuda_array_interface__ = {{"shape": (16,), "typestr": "<f4", "data": ({address}, False),
                                "version": 3}}
for _ in range(3):
    dlshim.upgrade(Array(), on_release="guard").__dlpack__(stream={S})
"""
assert _testcapi.run_in_subinterp(INNER) == 0
assert died() is not None, "an object of this interpreter died in the other one"
let_go(Array(address))
gc.collect()
assert died() is None
assert not drv.races(), drv.races()
