"""What TensorFlow dies of is refused before it is asked.

sys.argv holds the name of the class and the dtype that no DLPack has.
"""

import os
import sys

import dlshim
from doubles import ctable, producers

name, dtype = sys.argv[1:]


class Named(str):
    name = property(str)


numbers, other = Named("float32"), Named(dtype)


class Double(producers.Tensorflow):
    def answer(self, **asked):
        return super().answer(**asked) if self.dtype is numbers else os.abort()


Double.__module__, Double.__qualname__ = "tensorflow.python.framework.ops", name


class Old:
    dtype = other


Old.__module__, Old.__qualname__ = "tensorflow.python.framework.ops", name
sys.modules.update(
    producers.function_module("tensorflow.experimental.dlpack.to_dlpack", lambda x: os.abort())
)
table = ctable.Table(dlshim.Producer)
entries = [
    dlshim.from_dlpack,
    dlshim.to_capsule,
    lambda x: dlshim.from_dlpack(x, copy=True),
    lambda x: dlshim.to_capsule(x, max_version=(1, 0)),
    lambda x: dlshim.upgrade(x).__dlpack__(),
    lambda x: dlshim.upgrade(x).__dlpack__(max_version=(1, 0), copy=True),
    lambda x: dlshim.upgrade(x).__dlpack__(max_version=(1, 3), dl_device=(1, 0)),
    lambda x: table.owned(dlshim.upgrade(x)),
    lambda x: table.borrow(dlshim.upgrade(x)),
]


def refuse_all(x):
    for entry in entries:
        try:
            entry(x)
        except BufferError as error:
            assert dtype in str(error) and ".numpy()" in str(error), error
        else:
            raise AssertionError("not refused")
    assert dtype in str(dlshim.inspect(x, export=True))


x = Double((3,), numbers)
x.dtype = other
refuse_all(x)
for entry in entries:  # every way is learned
    kept = [Double((3,), numbers) for _ in range(2)]
    for each in kept:
        entry(each)
refuse_all(x)
refuse_all(Old())
