"""An import anew uses the same slots, also of libraries whose importers are functions of dlshim."""

import gc
import sys
import types

import numpy as np

from doubles import capsules as caps
from doubles.ctable import Table


class Inner:
    def __dlpack__(self, **keywords):
        return np.zeros(3).__dlpack__(**keywords)

    def __dlpack_device__(self):
        return (1, 0)


def library(name, **contents):
    sys.modules[name] = types.SimpleNamespace(**contents)
    return type("Array", (Inner,), {"__module__": name})()


sources = [
    np.zeros(3),
    library("jax", numpy=types.SimpleNamespace(from_dlpack=lambda x: ("jax", np.from_dlpack(x)))),
    library("paddle", from_dlpack=lambda x: ("paddle", np.from_dlpack(x))),
]
addresses, kept = set(), []


def result(table):
    made = caps.Made(shape=(2, 3), dtype="float32", version=(1, 3))
    made.handed_out = True
    kept.append(made)
    return table.to_object(made.address)


for _ in range(80):
    import dlshim

    producers = [dlshim.upgrade(source) for source in sources]
    assert len({type(each) for each in producers}) == 3
    for each in producers:
        addresses.add(type(each).__c_dlpack_exchange_api__)
        assert isinstance(each, dlshim.Producer) and type(each) is not dlshim.Producer
    results = [result(Table(type(each))) for each in producers]
    assert type(results[0]) is np.ndarray and [r[0] for r in results[1:]] == ["jax", "paddle"]
    del producers, each, results, dlshim
    for name in [n for n in sys.modules if n.split(".")[0] == "dlshim"]:
        del sys.modules[name]
    gc.collect()
assert len(addresses) == 3, addresses
print("end")
