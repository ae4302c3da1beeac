"""The module that is imported counts for an extension, sys.argv[1], and not a later one."""

import gc
import sys

import dlshim as first
from doubles import extension

ext = extension.load("c_interface", sys.argv[1])
old = {n: m for n, m in sys.modules.items() if n.split(".")[0] == "dlshim"}
for name in old:
    del sys.modules[name]
import dlshim as second  # noqa: E402

del second
for name in [n for n in sys.modules if n.split(".")[0] == "dlshim"]:
    del sys.modules[name]
sys.modules.update(old)
gc.collect()
print(type(ext.array((2, 3), None, 0, 32, (1, 0), 0, 0)) is first.Tensor)
