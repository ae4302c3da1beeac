"""Takes arrays that rule T12 counts, bare and upgraded, beside what the tables say of them.

Run by test_counted.py, a process for each consumer, whose name is the argument: for each array a
line of JSON with the seen and the said outcomes, and what became of the cure.
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
from dlshim.verdicts import expected

from . import libraries
from .consumers import Consumer
from .verdicts import verdict_of

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
    """How it ends, and the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = consumer.take(made())
        except Exception as error:
            return ["refused", type(error).__name__]
        data = consumer.look(result).data
    return ["works" if data == wanted.tobytes() else "wrong", ""]


def tell(consumer: Consumer, x: Any, wanted: np.ndarray) -> dict[str, Any]:
    verdicts = [
        verdict_of(expected(x, consumer.known, export=export), consumer) for export in (False, True)
    ]
    told: dict[str, Any] = {
        "bare": outcome(consumer, lambda: x, wanted),
        "upgraded": outcome(consumer, lambda: dlshim.upgrade(x), wanted),
        "said": [
            {part: [getattr(v, part).result, getattr(v, part).raises] for part in PARTS}
            for v in verdicts
        ],
        "cures": [v.cure for v in verdicts],
    }
    cure = verdicts[1].cure.partition("(")[2].removesuffix(")")
    if cure:
        given = lambda: eval(cure, {"dlshim": dlshim, "x": x})  # noqa: E731
        told["cured"] = outcome(consumer, given, wanted)
    return told


PARTS = ("bare", "upgraded")


def main(name: str) -> None:
    here = [n for n in MODULES if importlib.util.find_spec(n.partition(".")[0])]
    modules = {n: importlib.import_module(n) for n in here}
    adapters = [*libraries.CONSUMERS, *libraries.INSPECTED]
    consumer = next(each for each in adapters if each.name == name)()
    for title, x, wanted in arrays(modules):
        print(json.dumps({"array": title, **tell(consumer, x, wanted)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
