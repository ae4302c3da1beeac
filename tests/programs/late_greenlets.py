"""Greenlets that are imported late, and one that ends inside of a method."""

import array
import sys

import dlshim


@dlshim.producer
class Waits(array.array):
    def __dlpack__(self, **_):
        wait()
        return dlshim.upgrade(array.array("b", [7])).__dlpack__()


def nothing():
    pass


wait = nothing


x = Waits("b", [1])
for _ in range(3):
    assert memoryview(dlshim.from_dlpack(x)).tolist() == [7]
assert "greenlet" not in sys.modules
from greenlet import getcurrent, greenlet  # noqa: E402

main, got = getcurrent(), []
wait = main.switch
started = [greenlet(lambda: got.append(dlshim.from_dlpack(x))) for _ in range(3)]
for each in started:
    each.switch()
del started[0], each  # it ends where it waits
for each in started:
    each.switch()
wait = nothing
got.append(dlshim.from_dlpack(x))
print([memoryview(tensor).tolist() for tensor in got])
