"""An operation of TensorFlow on each kind of memory.

It ends the process where it finds memory that is not aligned to 64 bytes.
"""

import numpy as np
import tensorflow as tf

import dlshim
from dlshim.importers import importer_of

room = np.arange(64, dtype="f4")
start = -room.ctypes.data % 64 // 4  # the first element whose address is a multiple of 64
take, importer = tf.experimental.dlpack.from_dlpack, importer_of(type(tf.ones(1)))
fixed = room.copy()
fixed.flags.writeable = False
sources = {
    "even": room[start : start + 6],
    "odd": room[start + 1 : start + 7],
    "odd, of two axes": room[start + 3 : start + 9].reshape(2, 3),
    "odd, without elements": room[start + 1 : start + 1],
    "odd, without axes": room[start + 1 : start + 2].reshape(()),
}
for name, x in sources.items():
    for made in (take(dlshim.to_capsule(x, align=64)), importer(dlshim.from_dlpack(x))):
        assert ((-made).numpy() == -x).all() and made.shape == x.shape, name
        shared = dlshim.from_dlpack(made).data_ptr() == x.ctypes.data
        assert shared == (name == "even") or not x.size, name
odd = fixed[1:7]
for options in ({}, {"readonly": "copy"}, {"readonly": "share"}, {"order": "C"}):
    made = take(dlshim.to_capsule(odd, align=64, **options))
    assert ((-made).numpy() == -odd).all(), options
if hasattr(tf.ones(1), "__dlpack__"):  # before 2.13 its tensors are no arrays to a kernel
    made = dlshim.kernel(lambda a: sources["odd"])(tf.ones(3))
    assert isinstance(made, type(tf.ones(1))), made
    assert float(tf.reduce_sum(made)) == sources["odd"].sum()
