"""What the collector is shown of an object of dlshim, and what of it names the object.

python referents.py CASE            for tests/core/test_traversal.py
"""

import array
import gc
import sys

import dlshim
from dlshim import _core
from doubles.asking import versioned
from doubles.older import InterfaceOnly
from doubles.producers import P2


def agree(obj, *wanted):
    """gc.get_referents names what is wanted, and gc.get_referrers the object for each of them."""
    assert gc.is_tracked(obj), obj
    referents = gc.get_referents(obj)
    for each in wanted:
        assert any(each is one for one in referents), (obj, each)
    for each in referents:
        assert any(one is obj for one in gc.get_referrers(each)), (obj, each)
    return len(referents)


class Source(P2):
    pass


class Bytes(bytearray):
    pass


class Stream:
    def __cuda_stream__(self):
        return 0, 5


def producer():
    x = Source()
    agree(dlshim.upgrade(x), x, dlshim.Producer)


def producer_with_options():
    x, stream, named = Source(), Stream(), Stream()
    upgraded = dlshim.upgrade(x, stream=stream, producer_stream=named)
    agree(upgraded, x, stream, named)


def tensor_of_a_buffer():
    x = Bytes(6)
    agree(dlshim.from_dlpack(x), x, dlshim.Tensor)


def tensor_of_an_interface():
    agree(dlshim.from_dlpack(InterfaceOnly()))


def tensor_of_a_tensor():
    x = Bytes(6)
    agree(dlshim.from_dlpack(dlshim.from_dlpack(x)))


def words(first, second):
    """What the kernels here call."""


def a_kernel():
    kernel = dlshim.kernel(words)
    agree(kernel, words, dlshim.Tensor, type(kernel), kernel.__dict__)


def a_kernel_with_options():
    stream = Stream()
    kernel = dlshim.kernel(words, stream=stream, dtypes={"first": "float32"}, like=bytearray())
    agree(kernel, words, stream)


def a_method_of_a_kernel():
    holder = type("Holder", (), {"kernel": dlshim.kernel(words)})
    agree(holder().kernel.__func__, words)


def module():
    for version in ((1, 0), (1, 1)):
        dlshim.upgrade(Source()).__dlpack__(max_version=version, copy=None)
    versioned(dlshim.upgrade(Source())).release()
    dlshim.upgrade(array.array("i", [1])).__dlpack_device__()
    assert agree(_core, dlshim.Producer, dlshim.Tensor, dlshim.CopyRequiredError) > 12


if __name__ == "__main__":
    globals()[sys.argv[1]]()
