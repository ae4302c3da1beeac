"""A fork with columns that are exported, which the child drops."""

import gc
import os

import dlshim
from doubles.arrow import Column
from doubles.asking import live
from doubles.producers import P1

before = live()
x = P1((3,), "int32")
columns, pair = [Column(dlshim.from_dlpack(x))], dlshim.from_dlpack(x).__arrow_c_array__()
alive = live()
pid = os.fork()
if pid == 0:
    assert columns[0].values() == [0, 1, 2]
    columns.pop().release()
    del pair
    gc.collect()
    assert live() == before and [made.deleted for made in x.exports] == [1, 1]
    Column(dlshim.from_dlpack(x)).release()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
assert live() == alive and columns[0].values() == [0, 1, 2]
columns.pop().release()
del pair
assert live() == before and [made.deleted for made in x.exports] == [1, 1]
print("end")
