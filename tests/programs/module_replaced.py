"""What an extension finds where something else stands in the place of dlshim's module.

sys.argv holds the file of the extension, and the expression of what stands there.
"""

import sys
import types
import unittest.mock  # noqa: F401 - for the expression

import dlshim
from doubles import extension

copied = types.ModuleType("dlshim._core")
vars(copied).update(vars(dlshim._core))


class Hostile:
    Tensor = property(lambda self: 1 / 0)


ext = extension.load("c_interface", sys.argv[1])
sys.modules["dlshim._core"] = eval(sys.argv[2])
try:
    for _ in range(2):
        assert ext.lend(b"abc")["shape"] == (3,)
        ext.release(ext.take(b"abc"), 1)
        assert ext.array((2, 3), None, 0, 32, (1, 0), 0, 0).shape == (2, 3)
    print("works")
except Exception as error:
    print(type(error).__name__, error)
