"""What an extension says where dlshim is not found as it should be, which sys.argv[1] arranges."""

import sys
import types  # noqa: F401 - for sys.argv[1]

exec(sys.argv[1])
import c_interface as ext  # noqa: E402

for call in (
    ext.load,
    lambda: ext.take(b"1"),
    lambda: ext.lend(b"1"),
    lambda: ext.give(0, 1, 0, 0),
    lambda: ext.array((1,), None, 0, 32, (1, 0), 0, 0),
):
    try:
        call()
    except ImportError as error:
        print(type(error).__name__, error)
