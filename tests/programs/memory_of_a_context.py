"""A program of the driver API alone: memory of a context that it made itself, copied to the host.

sys.argv holds the driver, and the expression of what has the memory.
"""

import ctypes
import sys

import dlshim
import drivers
from doubles import capsules as caps
from doubles.cuda_interface import CudaOnly  # noqa: F401 - for the expression
from doubles.producers import P2, P0ToDlpack, P1a, P1aNoDevice  # noqa: F401

drv = drivers.load_any(sys.argv[1])
drv.call("cuInit", 0)
context = drv.get("cuCtxCreate_v2", ctypes.c_void_p, 0, 0)
drv.set_current(context)
address = drv.get("cuMemAlloc_v2", ctypes.c_uint64, 24)
p = drv.get("cuStreamCreate", ctypes.c_void_p, 1)
drv.set_current(None)
memory = (ctypes.c_char * 24)()
fields = {"shape": (2, 3), "device": (2, 0), "data": address, "memory": memory}
for keywords in ({"dl_device": (1, 0)}, {"dl_device": (1, 0), "stream": 1}):
    source, stack = dlshim.upgrade(eval(sys.argv[2])), drv.context_stack()
    assert not drv.write(p, address, 24)
    taken = caps.take(source.__dlpack__(max_version=(1, 0), **keywords))
    assert taken.view.device == (1, 0) and taken.view.copied
    assert not drv.primary_active(0) and drv.context_stack() == stack
    assert not drv.host_read(taken.view.data, 24) and not drv.races(), drv.races()
    assert not drv.gil_held_calls()
    taken.release()
