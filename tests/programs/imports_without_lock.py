"""No module of dlshim takes its lock while it is imported.

It could wait for a thread that imports the same module by a first use.
"""

from importlib import import_module
from pkgutil import walk_packages

import dlshim


class Taken:
    def acquire(self, **keywords):
        raise AssertionError("an import takes the lock")

    __enter__ = acquire

    def __exit__(self, *arguments): ...


dlshim.locks.changing = Taken()
try:
    _ = dlshim.kernel
except AssertionError:
    pass
else:
    raise RuntimeError("a first use does not take the lock")
names = {each.name for each in walk_packages(dlshim.__path__, "dlshim.")}
for name in names - {"dlshim.__main__", "dlshim.testing"}:
    import_module(name)
