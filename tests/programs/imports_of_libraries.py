"""What a line of Python with dlshim imports.

sys.argv holds the modules that it must not look for, and the line.  Prints which of these it looked
for, and what it imported that is neither of Python nor of dlshim.
"""

import contextlib
import sys

forbidden, code = sys.argv[1].split(","), sys.argv[2]
wanted = []


class Trap:
    """A finder before all others: whoever looks for one of these is caught, installed or not."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in forbidden:
            wanted.append(name)
        return None


def is_others(name):
    return not (name.partition(".")[0] in sys.stdlib_module_names or name.startswith("dlshim"))


sys.meta_path.insert(0, Trap())
before = set(sys.modules)
import dlshim  # noqa: E402, F401

with contextlib.suppress(TypeError, BufferError):
    exec(code)
print(wanted, sorted(filter(is_others, set(sys.modules) - before)))
