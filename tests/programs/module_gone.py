"""What an extension, sys.argv[1], says when the module of dlshim has gone."""

import gc
import sys
import types

from doubles import extension

ext = extension.load("c_interface", sys.argv[1])
ext.load()
del extension
for name in [name for name in sys.modules if name.split(".")[0] in ("dlshim", "doubles")]:
    del sys.modules[name]
gc.collect()
for name in ("dlshim", "dlshim._core"):
    sys.modules[name] = types.ModuleType(name)
for call in (ext.take, ext.lend):
    try:
        call(b"abc")
    except ImportError as error:
        print(error)
