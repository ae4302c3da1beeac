"""Raises the messages of messages.toml on really installed libraries, and runs their cures.

Run by test_messages.py: examples come on standard input as JSON, and for each a line goes out
with what was raised and what became of each cure, whose values are compared.  An example that
says what happens before the libraries are imported is the only one of its process.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import warnings
from collections.abc import Collection
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
    "pyarrow": "pyarrow",
    "pl": "polars",
    "pd": "pandas",
    "arro3": "arro3.core",
    "tvm_ffi": "tvm_ffi",
    "onnxruntime": "onnxruntime",
    "nanoarrow": "nanoarrow",
    "wp": "warp",
    "mx": "mlx.core",
    "paddle": "paddle",
    "tf": "tensorflow",
    "cv2": "cv2",
    "numba": "numba",
    "Image": "PIL.Image",
    "sys": "sys",
    "drjit": "drjit.scalar",
    "pypocketfft": "scipy.fft._pocketfft.pypocketfft",
}
#: What is named besides, and not imported as it is.
MADE_READY = ("MPI", "StridedMemoryView")


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


class Pinned:
    """Memory of the host that says what CUDA's pinned memory says."""

    def __dlpack__(self, **_keywords: Any) -> Any:
        dlshim = importlib.import_module("dlshim")
        return dlshim.to_capsule(numpy_array(), assume_device=(3, 0), max_version=(1, 0))

    def __dlpack_device__(self) -> tuple[int, int]:
        return 3, 0


def host_only(x: Any) -> Any:
    """Takes nothing but CPU memory, as torch."""
    kind, _ = x.__dlpack_device__()
    if kind != 1:
        raise RuntimeError(f"Unsupported device_type: {kind}")
    return importlib.import_module("numpy").from_dlpack(x)


def look(x: Any) -> Any:
    """A function of nanobind 3 whose parameter must be writable."""
    array = importlib.import_module("numpy").from_dlpack(x)
    if not array.flags.writeable:
        raise TypeError("look(): incompatible function arguments. (ndarray)")
    return array


def numpy_array() -> Any:
    return importlib.import_module("numpy").arange(3.0)


def names(only: Collection[str]) -> dict[str, Any]:
    """What an example may name, as far as it is installed."""
    found: dict[str, Any] = {}
    for name in [each for each in NAMES if each in only]:
        with contextlib.suppress(ImportError):
            found[name] = importlib.import_module(NAMES[name])
    if "MPI" in only:
        with contextlib.suppress(ImportError):
            importlib.import_module("mpi4py").rc.initialize = False
            found["MPI"] = importlib.import_module("mpi4py.MPI")
    if "StridedMemoryView" in only:
        with contextlib.suppress(ImportError):
            utils = importlib.import_module("cuda.core.utils")
            found["StridedMemoryView"] = utils.StridedMemoryView
    if "wp" in found:
        found["wp"].config.quiet = True
        found["wp"].init()
    made = (Always, Modern, NoDevice, NoKeyword, Pinned, host_only, look)
    return found | {cls.__name__: cls for cls in made}


def listed(got: Any) -> Any:
    """The values of an array of any library, as lists; of a buffer of MPI, its bytes."""
    for way in ("tolist", "to_pylist", "numpy", "to_numpy"):
        if callable(getattr(got, way, None)):
            got = getattr(got, way)()
            return got.tolist() if hasattr(got, "tolist") else got
    if type(got).__module__.startswith("mpi4py"):
        return list(got.tobytes())
    if got is None or isinstance(got, list):
        return got
    dlshim, numpy = importlib.import_module("dlshim"), importlib.import_module("numpy")
    return numpy.asarray(dlshim.upgrade(got, detach=hasattr(got, "detach"))).tolist()


def run(code: str, example: dict[str, Any], space: dict[str, Any], values: str = "") -> str:
    """What it raised, as the last line of a traceback says it; nothing where it did not.

    With `values`, what the last statement gives must have these.
    """
    own = dict(space)
    made = [f"{name} = {example[name]}" for name in ("x", "consumer") if name in example]
    *before, last = code.split("; ") if values else (code,)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec("\n".join(made), own)
            exec("\n".join(before if values else [code]), own)
            if values:
                got = listed(eval(last.strip(), own))
                exec("\n".join(made), own)  # a capsule serves once
                want = listed(eval(values, own))
                return "" if got == want else f"it gave {got}, not {want}"
    except Exception as error:
        return f"{type(error).__module__}.{type(error).__qualname__}: {error}"
    return ""


def cured(example: dict[str, Any], space: dict[str, Any]) -> dict[str, str]:
    """What became of each cure."""
    cures, values = example["cures"], example.get("values", "x")
    if isinstance(values, str):
        values = [values] * len(cures)
    pairs = zip(cures, values, strict=True)
    return {cure: run(cure, example, space, want) for cure, want in pairs}


def main() -> None:
    examples = json.load(sys.stdin)
    # Libraries print; what they print is no answer.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    first = examples[0] if examples else {}
    exec(first.get("first", ""), {"sys": sys})
    space = names(first.get("only", (*NAMES, *MADE_READY)))
    for example in examples:
        raised = run(example["make"], example, space)
        print(json.dumps({"raised": raised, "cures": cured(example, space)}), file=out, flush=True)
    out.close()
    os._exit(0)


if __name__ == "__main__":
    main()
