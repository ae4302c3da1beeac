"""What each round of tests/programs/embedded.c runs; it ends with exports alive."""

import array
import builtins

import dlshim

SIX = list(range(6))


class Source:
    def __init__(self):
        self.memory = array.array("i", SIX)

    def __dlpack__(self, **keywords):
        return dlshim.upgrade(self.memory).__dlpack__(**keywords)

    def __dlpack_device__(self):
        return (1, 0)


x = array.array("i", SIX)
for source in (x, Source()):
    assert memoryview(dlshim.from_dlpack(dlshim.upgrade(source))).tolist() == SIX
    assert memoryview(dlshim.from_dlpack(dlshim.to_capsule(source))).tolist() == SIX
newer = {"max_version": (1, 0)}
readable = [dlshim.upgrade(source, copy=True).__dlpack__(**newer) for source in (x, Source())]
kept = [
    dlshim.upgrade(source).__dlpack__(**newer) for source in (x, Source(), dlshim.from_dlpack(x))
]
builtins.alive = [dlshim.from_dlpack(x), dlshim.upgrade(Source()), dlshim.upgrade(x).__dlpack__()]
