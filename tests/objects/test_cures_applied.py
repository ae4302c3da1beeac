"""The cures that messages name, applied to objects of real libraries.

An object that cannot be exported is refused with a cure; what the cure gives can be exported, or
is refused with a cure of its own once more.  A library that is not installed here is skipped.
Each has a process of its own, because some cannot be imported beside others.
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec

import numpy
import pytest

import dlshim

STEPS = 2

#: Library, how the object is made, and what comes out in the end (a list), or None: not compared.
OBJECTS = {
    "scipy.sparse": {"m.eye(2)": [[1, 0], [0, 1]]},
    "sparse": {"m.COO.from_numpy(numpy.eye(2))": [[1, 0], [0, 1]]},
    "pandas": {
        "m.Series([1.0, 2.0])": [1, 2],
        "m.DataFrame({'to_dlpack': [1.0], 'b': [2.0]})": [[1, 2]],
    },
    "polars": {
        "m.Series([1.0, 2.0])": [1, 2],
        "m.DataFrame({'a': [1.0, 2.0]})": [[1], [2]],
        "m.LazyFrame({'a': [1.0, 2.0]})": [[1], [2]],
    },
    "xarray": {
        "m.DataArray([1.0, 2.0])": [1, 2],
        "m.Dataset({'a': ('x', [1.0, 2.0])})": [[1, 2]],
    },
    "pyarrow": {
        "m.array([1.0, None])": None,
        "m.array([True, False])": [True, False],
        "m.chunked_array([[1, 2]])": [1, 2],
        "m.table({'a': [1.0, 2.0]})": [[1], [2]],
    },
    "SimpleITK": {"m.GetImageFromArray(numpy.eye(2, dtype='f4'))": [[1, 0], [0, 1]]},
    "av": {"m.VideoFrame(4, 2, 'gray')": None},
    "pygame": {"m.Surface((4, 2), depth=32)": None},
    "cv2": {"m.UMat(numpy.eye(2))": [[1, 0], [0, 1]]},
    "tinygrad": {"m.Tensor([1.0, 2.0])": [1, 2]},
    "h5py": {
        "m.File('x', 'w', driver='core', backing_store=False).create_dataset('a', data=[1])": [1]
    },
    "zarr": {"m.array([1.0, 2.0])": [1, 2]},
    "dask.array": {"m.arange(3)": [0, 1, 2]},
    "openvino": {"m.Tensor(numpy.eye(2))": [[1, 0], [0, 1]]},
    "duckdb": {"m.sql('select 1 as a')": None},
    "cffi": {"m.FFI().new('char[]', b'ab')": [97, 98, 0]},
    "torch": {
        "m.eye(2).to_sparse()": [[1, 0], [0, 1]],
        "m.eye(2).to_sparse_csr()": [[1, 0], [0, 1]],
        "m.quantize_per_tensor(m.tensor([1.0, 2.0]), 1.0, 0, m.quint8)": [1, 2],
        "m.nested.nested_tensor([m.tensor([1.0]), m.tensor([1.0, 2.0])])": [[1, 0], [1, 2]],
    },
    "tensorflow": {
        "m.RaggedTensor.from_row_splits([1, 2], [0, 1, 2])": [[1], [2]],
        "m.sparse.from_dense([[1.0, 0.0]])": [[1, 0]],
        "m.Variable([1.0, 2.0])": [1, 2],
        "m.bitcast(m.constant([1, 2], m.int8), m.qint8)": [1, 2],
    },
    "paddle": {"m.sparse.sparse_coo_tensor([[0], [1]], [5.0], [1, 2])": [[0, 5]]},
}


def cured(x: object, cure: str) -> object:
    """As a user types it: of two cures the first."""
    first = cure.split(" or ")[0]
    names = {"x": x, "numpy": numpy, **sys.modules}
    if first.startswith("ffi"):
        names["ffi"] = import_module("cffi").FFI()
    if first.startswith("tf."):
        names["tf"] = import_module("tensorflow")
    return eval(f"x{first}" if first.startswith(".") else first, names)


def follow(x: object) -> tuple[object, list[str]]:
    """A capsule of the object, or of what the cures make of it, and these cures."""
    cures: list[str] = []
    options: dict[str, str] = {}
    while True:
        try:
            return dlshim.to_capsule(x, max_version=(1, 0), **options), cures
        except (BufferError, dlshim.UnsupportedObjectError) as error:
            found = re.search(r"pass (\S+( or \S+)?) instead|pass (order=)\"C\"", str(error))
            assert found and found[1] != "an", error
            cures.append(found[1] or found[3])
            assert len(cures) <= STEPS, cures
            if found[3]:
                options = {"order": "C"}
            else:
                x = cured(x, found[1])


def check(name: str) -> None:
    """All objects of one library, in a process of its own."""
    module = import_module(name)
    for text, expected in OBJECTS[name].items():
        capsule, cures = follow(eval(text, {"m": module, "numpy": numpy}))
        assert cures, f"{text} can be exported as it is: the case shows nothing"
        values = numpy.asarray(dlshim.from_dlpack(capsule)).tolist()
        assert expected is None or values == expected, (text, cures, values)
        print(f"{text}: {cures}")


@pytest.mark.parametrize("name", OBJECTS)
def test_the_cures_of_refusals_work(name):
    if find_spec(name.split(".")[0]) is None:
        pytest.skip(f"{name} is not installed here")
    done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True)
    print(done.stdout)
    if "ImportError" in done.stderr or "OSError" in done.stderr:
        pytest.skip(f"{name} cannot be imported here: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= len(OBJECTS[name])


if __name__ == "__main__":
    check(sys.argv[1])
