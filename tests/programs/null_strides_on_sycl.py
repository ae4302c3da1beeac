"""A capsule of SYCL memory that has no strides, which was right up to DLPack 1.1.

The arguments are a consumer of tests/oneapi/runtime.py, a version, and whether it is upgraded.
"""

import ast
import sys

from oneapi import conftest, runtime  # noqa: F401 - the first import finds the device

import dlshim
from doubles import capsules as caps

consumer, version, upgraded = sys.argv[1], *map(ast.literal_eval, sys.argv[2:])


class Old:
    def __dlpack__(self, **ignored):
        fields = {"strides": None, "device": (14, 0), "data": memory._pointer}
        return caps.Made((6,), version=version, **fields).capsule()

    def __dlpack_device__(self):
        return (14, 0)


memory = runtime.memory(24)
y = runtime.CONSUMERS[consumer](dlshim.upgrade(Old()) if upgraded else Old())
print(runtime.values(y), runtime.address(y) == memory._pointer)
