"""Exports of producer/example.c live as long as their consumers, and longer than its module."""

import gc
import sys
import threading

import example
import numpy as np

x = example.zeros((3, 4), "float64")
y = np.from_dlpack(x[::2, ::-1])
assert (y.shape, y.strides) == ((2, 4), (64, -8)), (y.shape, y.strides)
y[...] = 7
x = None
gc.collect()
assert y.tolist() == [[7.0] * 4] * 2  # the export keeps the memory
before = sys.getrefcount(example.Array)


def many(zeros=example.zeros):
    for _ in range(500):
        np.from_dlpack(zeros(4))


threads = [threading.Thread(target=many) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sys.getrefcount(example.Array) == before
fixed = example.zeros(3, "int32", readonly=True)
assert not np.from_dlpack(fixed).flags.writeable
try:
    fixed.__dlpack__()
except BufferError as error:
    assert "read-only" in str(error)
else:
    raise AssertionError
copy = np.from_dlpack(fixed, copy=True)
assert copy.flags.writeable and copy.ctypes.data % 64 == 0
assert "dlshim" not in sys.modules
far = example.zeros((2**31 + 16,), "uint8")  # offsets of more than 31 bits
offset = np.from_dlpack(far[2**31 :]).ctypes.data - np.from_dlpack(far).ctypes.data
assert offset == 2**31, offset
wrongs = [{"max_version": [1, 0]}, {"max_version": 1}, {"dl_device": [1, 0]}, {"dl_device": (1,)}]
for wrong in wrongs:
    try:
        fixed.__dlpack__(**wrong)
    except TypeError as error:
        assert "two integers" in str(error)
    else:
        raise AssertionError(wrong)
kept = fixed.__dlpack__(max_version=(1, 0))  # an export that is alive at the end
del sys.modules["example"], example, many, far, fixed, x  # a deleter outlives its module
gc.collect()
assert y.tolist() == [[7.0] * 4] * 2
del y
gc.collect()
print("done")
