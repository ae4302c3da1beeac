"""What is imported for a class that `dlshim.producer` changes: a list of names."""

import sys

import dlshim

before = set(sys.modules)


@dlshim.producer(inner="inner")
class Held:
    inner = memoryview(b"123")


assert memoryview(dlshim.from_dlpack(Held())).tolist() == [49, 50, 51]
print(*sorted(set(sys.modules) - before - {"abc", "types"}))
