"""An extension in several interpreters: the pointer that it keeps is the process's, and each finds
anew what is behind it."""

import functools
import importlib
import sys

import c_interface as ext

if sys.version_info >= (3, 13):
    interpreters = importlib.import_module("_interpreters")
    create = functools.partial(interpreters.create, "legacy")
else:
    interpreters = importlib.import_module("_xxsubinterpreters")
    create = functools.partial(interpreters.create, isolated=False)
INNER = f"""
import array, sys
sys.path[:] = {sys.path!r}
import c_interface as ext
x = array.array("i", range(6))
for _ in range(3):
    assert ext.lend(x)["shape"] == (6,)
    ext.release(ext.take(x), 1)
import dlshim
assert type(ext.array((2, 3), None, 0, 32, (1, 0), 0, 0)) is dlshim.Tensor
"""
ext.take(b"123")
for _ in range(2):
    number = create()
    problem = interpreters.run_string(number, INNER)
    assert problem is None, problem
    ext.take(b"123")
    interpreters.destroy(number)
    ext.take(b"123")
print("done")
