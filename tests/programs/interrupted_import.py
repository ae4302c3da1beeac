"""The first use that imports a module, sys.argv[1], is used again inside and then interrupted.

Later uses work, as if nothing had been.
"""

import sys

import dlshim

module = sys.argv[1]


def refused():
    try:
        dlshim.upgrade(3)
    except TypeError as error:
        assert "instead" in str(error)


use = {
    "cures": refused,
    "kernels": lambda: dlshim.kernel(len),
    "decorator": lambda: dlshim.producer,
    "tracking": lambda: dlshim.track().stop(),
    "report": lambda: str(dlshim.inspect(bytearray(3))),
    "enums": lambda: str(dlshim.inspect(bytearray(3))),
    "trial.asked": lambda: str(dlshim.inspect(bytearray(3), consumer="builtins.memoryview")),
}[module]

inside = []


def trace(frame, event, arg):
    if frame.f_globals.get("__name__") == f"dlshim.{module}" and event == "line" and not inside:
        sys.settrace(None)
        inside.append(None)
        try:
            use()
        except (ImportError, AttributeError, TypeError) as error:
            inside.append(error)
        raise KeyboardInterrupt
    return trace


sys.settrace(trace)
try:  # noqa: SIM105 - what is traced stays plain
    use()
except (KeyboardInterrupt, TypeError):
    pass
sys.settrace(None)
assert inside, "nothing was imported"
use()
