"""Raises the messages of messages.toml on really installed libraries, and runs their cures.

Run by test_messages.py: examples come on standard input as JSON, and for each a line goes out
with what was raised and what became of each cure.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import warnings
from typing import Any

#: What examples and cures call the modules; in an order in which they can be imported.
NAMES = {
    "warnings": "warnings",
    "dlshim": "dlshim",
    "numpy": "numpy",
    "np": "numpy",
    "ml_dtypes": "ml_dtypes",
    "torch": "torch",
    "jax": "jax",
    "jnp": "jax.numpy",
    "pa": "pyarrow",
    "tvm_ffi": "tvm_ffi",
    "onnxruntime": "onnxruntime",
    "nanoarrow": "nanoarrow",
    "wp": "warp",
    "mx": "mlx.core",
    "paddle": "paddle",
    "tf": "tensorflow",
}


class Always:
    """Answers the same generation whatever it is asked: None is DLPack 0.x (JAX, TensorFlow)."""

    def __init__(self, array: Any, version: tuple[int, int] | None) -> None:
        self.array = array
        self.keywords = {} if version is None else {"max_version": version}

    def __dlpack__(self, **_keywords: Any) -> Any:
        return self.array.__dlpack__(**self.keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class Modern:
    """An array without its buffer."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class NoDevice:
    """Speaks DLPack without the second method, as JAX before 0.4.16."""

    def __dlpack__(self, **_keywords: Any) -> Any:
        return numpy_array().__dlpack__()


class NoKeyword:
    """Takes no keyword, as MLX before 0.32."""

    def __dlpack__(self) -> Any:
        return numpy_array().__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def numpy_array() -> Any:
    return importlib.import_module("numpy").arange(3.0)


def names() -> dict[str, Any]:
    """Everything that an example may name and that is installed."""
    found: dict[str, Any] = {}
    for name, module in NAMES.items():
        with contextlib.suppress(ImportError):
            found[name] = importlib.import_module(module)
    with contextlib.suppress(ImportError):
        importlib.import_module("mpi4py").rc.initialize = False
        found["MPI"] = importlib.import_module("mpi4py.MPI")
    with contextlib.suppress(ImportError):
        utils = importlib.import_module("cuda.core.utils")
        found["StridedMemoryView"] = utils.StridedMemoryView
    if "wp" in found:
        found["wp"].config.quiet = True
        found["wp"].init()
    made = (Always, Modern, NoDevice, NoKeyword)
    return found | {cls.__name__: cls for cls in made}


def run(code: str, example: dict[str, Any], space: dict[str, Any]) -> str:
    """What it raised, as the last line of a traceback says it; nothing where it did not."""
    own = dict(space)
    made = [f"{name} = {example[name]}" for name in ("x", "consumer") if name in example]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec("\n".join(made), own)
            exec(code, own)
    except Exception as error:
        return f"{type(error).__module__}.{type(error).__qualname__}: {error}"
    return ""


def main() -> None:
    examples = json.load(sys.stdin)
    # Libraries print; what they print is no answer.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    space = names()
    for example in examples:
        raised = run(example["make"], example, space)
        cures = {cure: run(cure, example, space) for cure in example["cures"]}
        print(json.dumps({"raised": raised, "cures": cures}), file=out, flush=True)
    out.close()
    os._exit(0)


if __name__ == "__main__":
    main()
