"""The class of an importer goes: results then stay Tensors, and its slot is not given again."""

import gc
import threading
import weakref

import numpy as np

import dlshim
from doubles import capsules as caps
from doubles.ctable import Table
from doubles.producers import P2


def new_class():
    class Own(P2):
        @classmethod
        def from_dlpack(cls, tensor):
            return [cls, np.from_dlpack(tensor)]

    return Own


def result(table):
    made = caps.Made(shape=(2, 3), dtype="float32", version=(1, 3))
    made.handed_out = True
    return table.to_object(made.address)


Own = new_class()
table = Table(type(dlshim.upgrade(Own())))
assert result(table)[0] is Own
gone = weakref.ref(Own)
del Own
gc.collect()
assert gone() is None
results = []
thread = threading.Thread(target=lambda: results.append(result(table)))
thread.start()
thread.join()
assert type(results[0]) is dlshim.Tensor and type(result(table)) is dlshim.Tensor
other = Table(type(dlshim.upgrade(new_class()())))
assert other.address != table.address
print("end")
