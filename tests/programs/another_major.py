"""A struct of another major: every field but the version is rubbish.

sys.argv[1] says by which way it comes in: producer, capsule or from_dlpack.
"""

import sys

import dlshim
from doubles import capsules as caps

made = caps.Made(version=(2, 0))
tensor = made.struct.dl_tensor
tensor.ndim, tensor.shape, tensor.strides, tensor.data = 7, 16, 32, 48
made.struct.flags = 2**64 - 1
capsule = made.capsule()


class Wraps:
    def __dlpack__(self, **asked):
        return capsule

    def __dlpack_device__(self):
        return (1, 0)


try:
    if sys.argv[1] == "producer":
        dlshim.upgrade(Wraps()).__dlpack__(max_version=(1, 0))
    elif sys.argv[1] == "capsule":
        dlshim.upgrade(capsule).__dlpack__(max_version=(1, 0))
    else:
        dlshim.from_dlpack(Wraps())
except BufferError as error:
    assert "version" in str(error), error
else:
    raise AssertionError("accepted")
capsule = Wraps = None
assert made.deleted <= 1
