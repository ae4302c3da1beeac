"""The cures that messages name, applied to objects of real libraries.

An object that cannot be exported is refused with a cure; what the cure gives can be exported, or
is refused with a cure of its own once more.  A library that is not installed here is skipped.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module

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
CASES = [(name, text) for name, texts in OBJECTS.items() for text in texts]


def cured(x: object, cure: str) -> object:
    """As a user types it: of two cures the first."""
    first = cure.split(" or ")[0]
    names = {"x": x, "numpy": numpy, **sys.modules}
    if first.startswith("ffi"):
        names["ffi"] = import_module("cffi").FFI()
    if first.startswith("tf."):
        names["tf"] = import_module("tensorflow")
    return eval(f"x{first}" if first.startswith(".") else first, names)


@pytest.mark.parametrize(("name", "text"), CASES, ids=[text for _, text in CASES])
@pytest.mark.filterwarnings("ignore")
def test_the_cure_of_a_refusal_works(name, text):
    try:
        module = import_module(name)
    except Exception as error:
        pytest.skip(f"{name} cannot be imported here: {error}")
    x = eval(text, {"m": module, "numpy": numpy})
    cures: list[str] = []
    options: dict[str, str] = {}
    while True:
        try:
            capsule = dlshim.to_capsule(x, max_version=(1, 0), **options)
            break
        except (BufferError, dlshim.UnsupportedObjectError) as error:
            found = re.search(r"pass (\S+( or \S+)?) instead|pass (order=)\"C\"", str(error))
            assert found and found[1] != "an", error
            cures.append(found[1])
            assert len(cures) <= STEPS, cures
            if found[3]:
                options = {"order": "C"}
            else:
                x = cured(x, found[1])
    assert cures, "it could be exported as it was: the case shows nothing"
    expected = OBJECTS[name][text]
    if expected is not None:
        values = numpy.asarray(dlshim.from_dlpack(capsule)).tolist()
        assert values == expected
