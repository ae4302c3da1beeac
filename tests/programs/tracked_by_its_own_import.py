"""Exports are told to the import of dlshim that made them, and not to a later one."""

import array
import sys

import dlshim

old, track, live, x = dlshim, dlshim.track, dlshim.live, array.array("i", [1])
block = track()
for name in [name for name in sys.modules if name.split(".")[0] == "dlshim"]:
    del sys.modules[name]
import dlshim  # noqa: E402

assert dlshim is not old and dlshim.live() == []
capsule = old.to_capsule(x)
assert len(live()) == 1 and dlshim.live() == []
block.stop()
with track():
    kept = old.from_dlpack(x)
    assert len(live()) == 2 and dlshim.live() == []
