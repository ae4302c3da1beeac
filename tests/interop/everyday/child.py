"""Does the tasks of tasks.toml on really installed libraries, and tells what came of each.

Run by test_everyday.py: rows come on standard input as JSON, and for each a line goes out with what
every step gave or raised and what it warned of.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import warnings
from typing import Any

#: What rows call the modules; in an order in which they can be imported.
NAMES = {
    "dlshim": "dlshim",
    "np": "numpy",
    "numpy": "numpy",
    "ml_dtypes": "ml_dtypes",
    "torch": "torch",
    "jax": "jax",
    "jnp": "jax.numpy",
    "pa": "pyarrow",
    "pd": "pandas",
    "pl": "polars",
    "polars": "polars",
    "duckdb": "duckdb",
    "Image": "PIL.Image",
    "h5py": "h5py",
    "zarr": "zarr",
    "cv2": "cv2",
    "xr": "xarray",
    "da": "dask.array",
    "numba": "numba",
    "awkward": "awkward",
    "ort": "onnxruntime",
    "safetensors": "safetensors",
    "st_numpy": "safetensors.numpy",
    "st_torch": "safetensors.torch",
    "scipy": "scipy",
    "scipy_sparse": "scipy.sparse",
    "pickle": "pickle",
    "pint": "pint",
    "tempfile": "tempfile",
    "shared_memory": "multiprocessing.shared_memory",
}


def names() -> dict[str, Any]:
    """Everything that a row may name and that is installed.

    A row says what it needs; a release whose import fails for another reason fails the row.
    """
    found: dict[str, Any] = {"mapped": mapped, "hdf": hdf, "shared": shared}
    for name, module in NAMES.items():
        with contextlib.suppress(ModuleNotFoundError):
            found[name] = importlib.import_module(module)
    if "torch" in found:
        found["torch"].set_warn_always(True)  # else some of its warnings come once in a process
    return found


# ---- objects that take more than a line ------------------------------------------------------


def mapped() -> Any:
    """A file of NumPy, mapped into memory to be read."""
    numpy, folder = importlib.import_module("numpy"), importlib.import_module("tempfile").mkdtemp()
    numpy.save(f"{folder}/a.npy", numpy.arange(3.0))
    return numpy.load(f"{folder}/a.npy", mmap_mode="r")


def hdf(values: Any) -> Any:
    """A dataset of an HDF5 file that is kept in memory."""
    file = importlib.import_module("h5py").File("x", "w", driver="core", backing_store=False)
    return file.create_dataset("a", data=values)


def shared(content: bytes) -> Any:
    """A block of shared memory; it is unlinked, and ends with the process."""
    size = len(content)
    block = importlib.import_module("multiprocessing.shared_memory").SharedMemory(
        create=True, size=size
    )
    block.buf[:size] = content
    block.unlink()
    return block


# ---- what a step gave ------------------------------------------------------------------------


def listed(got: Any) -> Any:
    """The values of an array of any library as lists; of what is no array, the value itself."""
    if isinstance(got, (list, tuple)):
        return [listed(each) for each in got]
    if type(got) in (bool, int, float, str, bytes):
        return got.decode("latin1") if isinstance(got, bytes) else got
    for way in ("to_pylist", "tolist", "to_list", "numpy", "to_numpy"):
        if callable(getattr(got, way, None)):
            with contextlib.suppress(TypeError, AttributeError):
                return plain(getattr(got, way)())
    dlshim, numpy = importlib.import_module("dlshim"), importlib.import_module("numpy")
    return plain(numpy.asarray(dlshim.upgrade(got, readonly="share")))


def plain(values: Any) -> Any:
    return values.tolist() if hasattr(values, "tolist") else values


def address(obj: Any) -> int | None:
    return importlib.import_module("dlshim").inspect(obj, export=True).address


def told_of(got: Any, space: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """What a row says of a result: its values, and its dtype or address if they are asked for."""
    told = {"gives": repr(listed(got))}
    if "dtype" in wanted:
        told["dtype"] = str(got.dtype)
    if "shares" in wanted:
        told["shares"] = address(got) == address(space["x"])
    return told


def step(wanted: dict[str, Any], space: dict[str, Any]) -> dict[str, Any]:
    """What became of one step: its last statement is an expression, whose value counts."""
    *before, last = wanted["do"].split("; ")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            exec("\n".join(before), space)
            got = eval(last, space)
            told = told_of(got, space, wanted)
        except Exception as error:
            name = type(error).__qualname__
            told = {"raises": f"{name}: {error}"}
    told["warns"] = [f"{each.category.__name__}: {each.message}" for each in seen]
    return told


def row(task: dict[str, Any], space: dict[str, Any]) -> dict[str, Any]:
    """What became of each step; `make` is done anew before each."""
    told = {}
    for name, wanted in task["steps"].items():
        own = dict(space)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(task.get("make", ""), own)
        told[name] = step(wanted, own)
    return told


def main() -> None:
    tasks = json.load(sys.stdin)
    # Libraries print; what they print is no answer.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    space = names()
    for task in tasks:
        print(json.dumps(row(task, space)), file=out, flush=True)
    out.close()
    os._exit(0)


if __name__ == "__main__":
    main()
