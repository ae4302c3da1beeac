"""The collector is shown every object that an object of dlshim holds, and may stop at any of them.

``gc.get_referents`` walks to the end; ``gc.get_referrers`` stops where it has found what it looks
for.  The two must agree.
"""

from __future__ import annotations

import textwrap

import pytest

from doubles import child

#: In a process of its own: pytest has moved what was there before the tests out of sight
#: (gc.freeze), and get_referrers does not look there.
PRELUDE = """
import array, gc, sys
import dlshim
from dlshim import _core
from doubles.asking import versioned
from doubles.older import InterfaceOnly
from doubles.producers import P2, P3

def agree(obj, *wanted):
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
"""

CASES = {
    "producer": "x = Source(); agree(dlshim.upgrade(x), x, dlshim.Producer)",
    "producer with options": """
        x, stream, named = Source(), Stream(), Stream()
        upgraded = dlshim.upgrade(x, stream=stream, producer_stream=named)
        agree(upgraded, x, stream, named)
    """,
    "tensor of a buffer": "x = Bytes(6); agree(dlshim.from_dlpack(x), x, dlshim.Tensor)",
    "tensor of an interface": "agree(dlshim.from_dlpack(InterfaceOnly()))",
    "tensor of a tensor": "x = Bytes(6); agree(dlshim.from_dlpack(dlshim.from_dlpack(x)))",
    "module": """
        for version in ((1, 0), (1, 1)):
            dlshim.upgrade(Source()).__dlpack__(max_version=version, copy=None)
        versioned(dlshim.upgrade(Source())).release()
        dlshim.upgrade(array.array("i", [1])).__dlpack_device__()
        assert agree(_core, dlshim.Producer, dlshim.Tensor, dlshim.CopyRequiredError) > 12
    """,
}


@pytest.mark.once
@pytest.mark.parametrize("code", CASES.values(), ids=CASES.keys())
def test_the_collector_may_stop_at_any_object(code: str) -> None:
    child.run(PRELUDE + textwrap.dedent(code))
