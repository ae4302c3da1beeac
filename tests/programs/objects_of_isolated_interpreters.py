"""Objects that die in an interpreter and in one with an allocator of its own, in turn.

sys.argv[1] says where they are made first: outside or inside.
"""

import gc
import sys

import _interpreters as interpreters

import dlshim  # noqa: F401 - for the code

config = interpreters.new_config("isolated", gil="shared")
each = "(dlshim.upgrade(b'abc'), dlshim.from_dlpack(b'abc'))"
code = f"made = [{each} for _ in range(20)]; made = None"


def outside():
    exec(code, globals())


def inside():
    inner = interpreters.create(config)
    failure = interpreters.run_string(inner, "import dlshim\n" + f"{code}\n" * 20)
    assert failure is None, failure.formatted
    interpreters.destroy(inner)
    gc.collect()


if sys.argv[1] == "outside":
    outside()
for _ in range(2):
    inside()
    outside()
