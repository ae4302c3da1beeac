"""Takes arrays that rule T12 counts, bare and upgraded.

Run by test_counted.py, a process for each consumer, whose name is the argument: for each array a
line of JSON with the outcomes, whether the error is counted, and which cures of the rule work.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import dlshim
from dlshim.counted import counted

from . import libraries
from .consumers import Consumer

#: In this order they can live in one process.
MODULES = ("torch", "jax.numpy", "paddle", "tensorflow", "pyarrow")


def arrays(modules: dict[str, Any]) -> Iterator[tuple[str, Any, np.ndarray]]:
    """The name of each array, the array, and what a consumer must see."""
    ones = np.ones(3, "float32")
    frozen = ones.copy()
    frozen.flags.writeable = False
    yield "numpy, read-only", frozen, ones
    yield "numpy, no dimension", np.array(1, "float32"), ones[0]
    yield "numpy, two dimensions", np.ones((2, 3), "float32"), np.ones((2, 3), "float32")
    yield "numpy, bool", np.array([True, False]), np.array([True, False])
    if torch := modules.get("torch"):
        z = torch.tensor([1 + 2j, 3, 4], dtype=torch.complex64)
        yield "torch, requires grad", torch.ones(3, requires_grad=True), ones
        yield "torch, conjugate bit", z.conj(), z.conj().resolve_conj().numpy()
        yield "torch, negative bit", z.conj().imag, z.conj().resolve_conj().imag.numpy()
    if jnp := modules.get("jax.numpy"):
        yield "jax", jnp.ones(3, "float32"), ones
    if tensorflow := modules.get("tensorflow"):
        yield "tensorflow", tensorflow.ones(3), ones
    if pyarrow := modules.get("pyarrow"):
        yield "pyarrow.Array", pyarrow.array(ones), ones


def outcome(consumer: Consumer, made: Callable[[], Any], wanted: np.ndarray) -> list[str]:
    """How it ends, the class of the error, and what it says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = consumer.take(made())
        except Exception as error:
            return ["refused", type(error).__name__, str(error)]
        data = consumer.look(result).data
    return ["works" if data == wanted.tobytes() else "wrong", "", ""]


#: What the rows of rule T12 name.
CURES = ("detach=True", "copy=True", "readonly='copy'", "readonly=False", "order='auto'")
GIVEN = (*(f"dlshim.upgrade(x, {cure})" for cure in CURES), "dlshim.from_dlpack(x)")


def tell(consumer: Consumer, x: Any, wanted: np.ndarray) -> dict[str, Any]:
    def by(line: str) -> list[str]:
        return outcome(consumer, lambda: eval(line, {"dlshim": dlshim, "x": x}), wanted)

    upgraded = by("dlshim.upgrade(x)")
    return {
        "bare": outcome(consumer, lambda: x, wanted)[:2],
        "upgraded": upgraded[:2],
        "counted": counted(upgraded[2]) is not None,
        "cured": [line for line in GIVEN if upgraded[0] != "works" and by(line)[0] == "works"],
    }


def main(name: str) -> None:
    here = [n for n in MODULES if importlib.util.find_spec(n.partition(".")[0])]
    modules = {n: importlib.import_module(n) for n in here}
    adapters = [*libraries.CONSUMERS, *libraries.COUNTED]
    consumer = next(each for each in adapters if each.name == name)()
    for title, x, wanted in arrays(modules):
        print(json.dumps({"array": title, **tell(consumer, x, wanted)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
