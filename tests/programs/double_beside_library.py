"""A double of a consumer asks as the installed library does.

sys.argv holds how the library is imported, its function, and the name of the double.
"""

import sys

from doubles import consumers
from doubles.producers import P1, P2, P1a, P1b, Raises, VersionedAlways

try:
    exec(sys.argv[1])
    real = eval(sys.argv[2])
except (ImportError, AttributeError) as missing:
    print("missing", missing)
    sys.exit()
fake = getattr(consumers, sys.argv[3])


def outcome(ask, x):
    try:
        ask(x)
    except Exception:
        return "refused"
    return "taken"


for make in (
    lambda: P2((6,)),
    lambda: P1((6,)),
    lambda: P1a((6,)),
    lambda: P1b((6,)),
    lambda: P2((6,), readonly=True),
    lambda: VersionedAlways((6,)),
    lambda: Raises(BufferError("data"), (6,)),
    lambda: Raises(NotImplementedError("no"), (6,)),
):
    a, b = make(), make()
    assert outcome(real, a) == outcome(fake, b), type(a)
    assert a.calls == b.calls, (type(a), a.calls, b.calls)
    assert bool(a.device_calls) == bool(b.device_calls), type(a)
print("same")
