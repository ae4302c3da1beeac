"""A Tensor of a module that is dropped and imported again."""

import gc
import sys

import dlshim

tensor = dlshim.from_dlpack(bytearray(3))
for name in [name for name in sys.modules if name.startswith("dlshim")]:
    del sys.modules[name]
gc.collect()
import dlshim as again  # noqa: E402

assert again is not dlshim
imported = again.from_dlpack(dlshim.upgrade(tensor))
assert imported.nbytes == 3
del tensor, imported, dlshim
gc.collect()
again.from_dlpack(b"x")
