"""A cycle of a memoryview and of what holds its buffer is collected."""

import gc

import dlshim

for wrap in (dlshim.from_dlpack, dlshim.upgrade, dlshim.to_capsule):
    for part in (slice(None), slice(None, None, 2)):
        view = memoryview(bytearray(range(12)))[part]
        cycle = [wrap(view), view, memoryview(dlshim.from_dlpack(view))]
        cycle.append(cycle)
        del view, cycle
        gc.collect()
print("end")
