"""Prints which modules of dlshim an exchange imports that succeeds."""

import copy
import pickle
import sys

import dlshim
from doubles import columns, producers
from doubles.delegating import Source

grown, done = set(), 0


def uses(x, **options):
    tensor = dlshim.from_dlpack(x, **options)
    _ = tensor.dtype, tensor.device, tensor.shape, repr(tensor), tensor.tobytes()
    repr(dlshim.upgrade(tensor, order="C")), dlshim.to_capsule(tensor, copy=True)
    copy.copy(tensor), pickle.loads(pickle.dumps(tensor, protocol=5))
    dlshim.upgrade(x, **options).__dlpack__(), dlshim.upgrade(x).__dlpack_device__()
    dlshim.upgrade(x, **options).__dlpack__(max_version=(1, 0), copy=True)


made = [getattr(producers, name) for name in dir(producers) if name.startswith("P")]
made = [(Source, {}), *((cls, {}) for cls in made if isinstance(cls, type))]
made += [(lambda: columns.column(1, 2, 3)[0], {})]
made += [(lambda: columns.chunked((1, 2), (3,))[0], {"order": "C"})]
for make, options in made:
    before = set(sys.modules)
    try:
        uses(make(), **options)
    except (TypeError, BufferError):
        continue  # a refusal may import the cures
    done += 1
    grown |= set(sys.modules) - before
assert done > 5, done
print(*sorted(name for name in grown if name.startswith("dlshim")))
