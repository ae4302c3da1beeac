"""The cures that messages name, applied to objects of real libraries.

An object that cannot be exported is refused with a cure; what the cure gives can be exported, or
is refused with a cure of its own once more.  A library that is not installed here is skipped.
Each has a process of its own, because some cannot be imported beside others.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy
import pytest

import dlshim
from dlshim.cures_by_library import BY_LIBRARY

STEPS = 3

#: An integer that no float64 holds: who makes floats of integers is seen.
ODD = 2**53 + 1

NAN = float("nan")
#: NaT, as an integer.
MIN = -(2**63)
#: A sharding over the two devices that XLA_FLAGS asks for.
SHARDS = (
    "m.sharding.NamedSharding(m.sharding.Mesh(numpy.array(m.devices()), 'i'), "
    "m.sharding.PartitionSpec('i'))"
)

#: The values of Arrow, of which the second lies under a missing struct.
FIXED = (
    "m.ExtensionArray.from_storage(m.fixed_shape_tensor({0}, [2]), m.array({1}, m.list_({0}, 2)))"
)
STRUCT = "StructArray.from_arrays([m.array([ODD, 99])], ['a'], mask=m.array([False, True]))"
#: Of pandas, as Arrow has them; the second is missing.
DAYS = "m.Series(m.to_datetime(['1970-01-02', None], utc=True)).astype('{}[pyarrow]')"
#: Of awkward, the second is missing.
MASKED = "m.mask(m.Array(numpy.array({}, '{}')), [True, False])"

#: A tensor of openvino of a type that NumPy has not, with these bytes.
OPENVINO = (
    "(lambda x: (x.data.view('u1').__setitem__(..., {2}), x)[1])"
    "(m.Tensor(m.Type.{0}, [4 // numpy.dtype('{1}').itemsize]))"
)

CONSTANT = "m.op.Constant(m.Type.{}, m.Shape([2]), [{}])"

#: Library, how the object is made, and what comes out in the end (a list whose integers, floats and
#: bools are told apart) or an array (its dtype counts too), or None: not compared.
OBJECTS = {
    "scipy.sparse": {"m.eye(2)": [[1.0, 0.0], [0.0, 1.0]]},
    "sparse": {"m.COO.from_numpy(numpy.eye(2))": [[1.0, 0.0], [0.0, 1.0]]},
    "pandas": {
        "m.Series([1.0, 2.0])": [1.0, 2.0],
        "m.Series([ODD, None], dtype='Int64')": [ODD, 0],
        "m.Series([ODD, 2], dtype='Int64')": [ODD, 2],
        "m.Series([ODD, None], dtype='object')": [ODD, 0],
        "m.Series([ODD, 2], dtype='object')": [ODD, 2],
        "m.Series([0.5, None], dtype='Float64').fillna(2)": [0.5, 2.0],
        "m.Series(m.arrays.SparseArray([0, ODD]))": [0, ODD],
        "m.Series([True, None], dtype='boolean')": [True, False],
        "m.Series([True, None], dtype='object')": [True, False],
        "m.array([ODD, None], dtype='Int64')": [ODD, 0],
        "m.Index([ODD, None], dtype='Int64')": [ODD, 0],
        "m.Index([ODD, 2], dtype='Int64')": [ODD, 2],
        "m.MultiIndex.from_tuples([(ODD, 1)])": [ODD],
        "m.Series(['b', 'a', 'b'])": [1, 0, 1],
        "m.Index(['b', 'a', 'b'])": [1, 0, 1],
        "m.Series(['b', 'a', None], dtype='category')": [1, 0, -1],
        "m.Categorical(['b', 'a', None])": [1, 0, -1],
        "m.Series([ODD, 2, ODD], dtype='category')": [ODD, 2, ODD],
        "m.Series(m.to_datetime(['1970-01-02', None]).tz_localize('UTC'))": [86400 * 10**6, MIN],
        DAYS.format("timestamp[us, tz=Europe/Berlin]"): [86400 * 10**6, MIN],
        f"m.Index({DAYS})".format("timestamp[us, tz=UTC]"): [86400 * 10**6, MIN],
        DAYS.format("date32"): [86400, MIN],
        f"m.Index({DAYS})".format("date32"): [86400, MIN],
        "m.Series([2**63 + 1, ODD], dtype='object')": [2**63 + 1, ODD],
        "m.Series([2**63 + 1, None, ODD], dtype='object')": [2**63 + 1, 0, ODD],
        "m.Index([2**63 + 1, None], dtype='object')": [2**63 + 1, 0],
        "m.Series([2**70, 1], dtype='object')": [2.0**70, 1.0],
        "m.Series([2**63, -1, None], dtype='object')": [2.0**63, -1.0, NAN],
        "m.Series([2**70, m.NA], dtype='object')": [2.0**70, NAN],
        "m.DataFrame({'to_dlpack': [1.0], 'b': [2.0]})": [[1.0, 2.0]],
        "m.DataFrame({'a': [ODD], 'b': [0.5]})": [ODD],
        "m.DataFrame({'a': [ODD, None]}, dtype='Int64')": [ODD, 0],
        "m.DataFrame([[ODD, 0.5]], columns=['a', 'a'])": [ODD],
    },
    "polars": {
        "m.Series([1.0, 2.0])": [1.0, 2.0],
        "m.Series([ODD, 2])": [ODD, 2],
        "m.Series([ODD, None])": [ODD, 0],
        "m.Series([True, None])": [True, False],
        "m.Series([True, False])": [True, False],
        "m.Series([0.5, None]).fill_null(2.0)": [0.5, 2.0],
        "m.Series(['b', 'a', 'b'])": [0, 1, 0],
        "m.Series(['b', 'a', None])": [0, 1, -1],
        "m.Series(['b', None], dtype=m.Enum(['a', 'b']))": [1, -1],
        "m.Series([1, None]).cast(m.Date)": [1, 0],
        "m.Series([ODD, 2]).cast(m.Datetime)": [ODD, 2],
        "m.Series(['0.5', '1.5']).cast(m.Decimal(10, 2))": [0.5, 1.5],
        "m.Series([[1, 2], [3]])": [1, 2, 3],
        "m.Series([[1, 2], [3, ODD]])": [[1, 2], [3, ODD]],
        "m.Series([[1, None], [3, ODD]])": [[1, 0], [3, ODD]],
        "m.concat([m.Series([1]), m.Series([ODD])], rechunk=False)": [1, ODD],
        "m.Series([[1, 2], [3, 4]], dtype=m.Array(m.Int64, 2))": [[1, 2], [3, 4]],
        "m.Series([[ODD, None], [3, 4]], dtype=m.Array(m.Int64, 2))": [[ODD, 0], [3, 4]],
        "m.Series([[ODD, 2], None], dtype=m.Array(m.Int64, 2))": [[ODD, 2]],
        "m.Series([[True, None]], dtype=m.Array(m.Boolean, 2))": [[True, False]],
        "m.Series([[1.5, None]], dtype=m.Array(m.Float32, 2))": [[1.5, NAN]],
        "m.Series([[0, None]]).cast(m.Array(m.Date, 2))": [[0, 0]],
        "m.Series([[ODD, 2], None])": [ODD, 2],
        "m.Series([[1], [], [2]])": [1, 2],
        "m.Series([{'a': ODD}])": [ODD],
        "m.Series([ODD, 2], dtype=m.Int128)": [ODD, 2],
        "m.Series([ODD, None], dtype=m.Int128)": [ODD, 0],
        "m.Series([2**63 + 1, None], dtype=m.Int128)": [2**63 + 1, 0],
        "m.Series([2**70, None], dtype=m.Int128)": [2.0**70, NAN],
        "m.Series([None], dtype=m.Int128)": [0],
        "m.DataFrame({'a': [ODD]}, {'a': m.Int128})": [ODD],
        "m.DataFrame({'a': [1.0, 2.0]})": [[1.0], [2.0]],
        "m.DataFrame({'a': [ODD], 'b': [0.5]})": [ODD],
        "m.DataFrame({'a': [ODD, None]})": [ODD, 0],
        "m.LazyFrame({'a': [1.0, 2.0]})": [[1.0], [2.0]],
    },
    "xarray": {
        "m.DataArray([1.0, 2.0])": [1.0, 2.0],
        "m.Dataset({'a': ('x', [1.0, 2.0])})": [[1.0, 2.0]],
        "m.Dataset({'a': ('x', [ODD]), 'b': ('x', [0.5])})": [ODD],
        "m.Variable('x', [ODD])": [ODD],
        "m.DataArray([1.0, 2.0], coords={'x': [3, 4]}, dims='x').coords['x']": [3, 4],
    },
    "pyarrow": {
        "m.array([ODD, None])": [ODD, 0],
        "m.array([0.5, None], m.float16())": None,
        "m.array([True, False])": [True, False],
        "m.array([True, None])": [True, False],
        "m.array(['b', 'a', None])": [0, 1, -1],
        "m.array(['b', 'a']).dictionary_encode()": [0, 1],
        "m.array([ODD, None], m.timestamp('us'))": [ODD, 0],
        "m.array([ODD, 2], m.timestamp('us'))": [ODD, 2],
        "m.array([1, None], m.date32())": [1, 0],
        "m.array(['0.5', '1.5']).cast(m.decimal128(10, 2))": [0.5, 1.5],
        "m.array([[1, 2], [ODD]])": [1, 2, ODD],
        "m.array([[1, None], [ODD, 4]], m.list_(m.int64(), 2))": [[1, 0], [ODD, 4]],
        "m.array([[1, None], None, [ODD, 4]], m.list_(m.int64(), 2))": [[1, 0], [ODD, 4]],
        "m.array([[1, 2], None, [ODD, 4]], m.list_(m.int64(), 2))": [[1, 2], [ODD, 4]],
        "m.array([[1.5, None]], m.list_(m.float64(), 2))": [[1.5, NAN]],
        "m.array([[1, 2], [3, ODD]])": [[1, 2], [3, ODD]],
        "m.chunked_array([[[1, 2]], [[3, ODD]]])": [[1, 2], [3, ODD]],
        "m.chunked_array([[1, 2], [ODD]])": [1, 2, ODD],
        "m.array([[True, None]], m.list_(m.bool_(), 2))": [True, False],
        "m.array([[1, 2], None, [ODD]])": [1, 2, ODD],
        "m.array([{'a': ODD}])": [ODD],
        f"m.{STRUCT}": [ODD, 0],
        f"m.chunked_array([m.{STRUCT}])": [ODD, 0],
        "m.chunked_array([[1, ODD]])": [1, ODD],
        "m.chunked_array([[ODD, None], [3]])": [ODD, 0, 3],
        "m.chunked_array([['b', 'a'], ['b']])": [0, 1, 0],
        FIXED.format("m.int64()", "[[1, ODD], None]"): [1, ODD],
        FIXED.format("m.bool_()", "[[True, False]]"): [True, False],
        "m.table({'a': [1.0, 2.0]})": [[1.0], [2.0]],
        "m.table({'a': [ODD, None]})": [ODD, 0],
        "m.table({'a': [ODD], 'b': [0.5]})": [ODD],
        "m.record_batch({'a': [ODD, None]})": [ODD, 0],
        "m.table({'a': [ODD, None]}).to_reader()": [ODD, 0],
        "m.compute.run_end_encode(m.array([ODD, ODD, 2]))": [ODD, ODD, 2],
        "m.compute.run_end_encode(m.array([ODD, None]))": [ODD, 0],
        "m.chunked_array([m.compute.run_end_encode(m.array([ODD, ODD]))])": [ODD, ODD],
        "m.Table.from_arrays([m.array([ODD, None]), m.array([1, 2])], ['a', 'a'])": [ODD, 0],
    },
    "arro3.core": {
        "m.Array([ODD, 2], m.DataType.int64())": [ODD, 2],
        "m.Array([ODD, None], m.DataType.int64())": [ODD, 0],
        "m.Array([True, None], m.DataType.bool())": [1, 0],
        "m.Array(['b', 'a', None], m.DataType.utf8())": [0, 1, -1],
        "m.ChunkedArray([m.Array([ODD, None], m.DataType.int64())])": [ODD, 0],
        "m.ChunkedArray([m.Array([ODD], m.DataType.int64())] * 2)": [ODD, ODD],
        "m.Table({'a': m.Array([ODD], m.DataType.int64())})": [ODD],
        "m.RecordBatch({'a': m.Array([ODD], m.DataType.int64())})": [ODD],
    },
    "nanoarrow": {
        "m.Array([True, None], m.bool_())": [1, 0],
        "m.Array(['b', 'a', None], m.string())": [0, 1, -1],
        "m.c_array(['b', None], m.string())": [0, -1],
        "m.Array([ODD, 2], m.int64())": [ODD, 2],
        "m.Array([ODD, None], m.int64())": [ODD, 0],
        "m.Array.from_chunks([m.Array([ODD], m.int64())] * 2)": [ODD, ODD],
        "m.c_array([ODD, 2], m.int64())": [ODD, 2],
        "m.ArrayStream([ODD, 2], m.int64())": [ODD, 2],
    },
    "SimpleITK": {"m.GetImageFromArray(numpy.eye(2, dtype='f4'))": [[1.0, 0.0], [0.0, 1.0]]},
    "av": {"m.VideoFrame(4, 2, 'gray')": None},
    "pygame": {"m.Surface((4, 2), depth=32)": None},
    "cv2": {"m.UMat(numpy.eye(2))": [[1.0, 0.0], [0.0, 1.0]]},
    "tinygrad": {"m.Tensor([1.0, 2.0])": [1.0, 2.0]},
    "h5py": {
        "m.File('x', 'w', driver='core', backing_store=False).create_dataset('a', data=[ODD])": [
            ODD
        ]
    },
    "zarr": {"m.array([1.0, 2.0])": [1.0, 2.0]},
    "dask.array": {"m.arange(3)": [0, 1, 2]},
    "openvino": {
        "m.Tensor(numpy.eye(2))": [[1.0, 0.0], [0.0, 1.0]],
        **{f"m.Tensor(numpy.array([1, 2], {kind!r}))": [1, 2] for kind in ("i1", "u2", "i8")},
        "m.Tensor(numpy.array([True, False]))": [True, False],
        "m.Tensor(numpy.array([1, 2], 'f2'))": [1.0, 2.0],
        OPENVINO.format("bf16", "f2", [0x80, 0x3F, 0, 0x40]): [1.0, 2.0],
        OPENVINO.format("f8e4m3", "u1", [0x38, 0x40, 0x38, 0x40]): [1.0, 2.0, 1.0, 2.0],
        OPENVINO.format("f8e5m2", "u1", [0x3C, 0x40, 0x3C, 0x40]): [1.0, 2.0, 1.0, 2.0],
        OPENVINO.format("f8e8m0", "u1", [0x7F, 0x80, 0x7F, 0x80]): [1.0, 2.0, 1.0, 2.0],
        CONSTANT.format("f32", "1, 2"): [1.0, 2.0],
        CONSTANT.format("f16", "1, 2"): numpy.array([1, 2], "f2"),
        CONSTANT.format("bf16", "1, 2"): [1.0, 2.0],
        CONSTANT.format("f8e4m3", "1, 2"): [1.0, 2.0],
        CONSTANT.format("boolean", "1, 0"): [1, 0],
    },
    "pint": {"m.Quantity(numpy.ones(2, __import__('ml_dtypes').bfloat16), 'm')": [1.0, 1.0]},
    "duckdb": {
        "m.sql('select 9007199254740993 as a, 0.5 as b')": [ODD],
        "m.connect().execute('select 9007199254740993 as \"a b\"')": [ODD],
        "m.sql('select sum(i) as s from (values (9007199254740993), (2)) t(i)')": [ODD + 2],
        "m.sql('select \\'b\\' as t, 9007199254740993::hugeint as \"a\"\"b\"')": [ODD],
        "m.sql('select 9007199254740993::uhugeint as s')": [ODD],
        "m.sql('select 9007199254740993::hugeint as s union all select null')": [ODD, 7],
        "m.sql('select 1.5::decimal(10, 2) as s')": [1.5],
        "m.connect().execute('select 9007199254740993::hugeint as s')": [ODD],
        "m.connect().execute('select unnest([9007199254740993::hugeint, null]) as s')": [ODD, 0],
        "m.sql(\"select 1::tinyint as i, 'b' as t\")": [1],
        "m.sql(\"select 'b' as s\")": [0],
        "m.sql(\"select 'b'::enum('b') as s\")": [0],
        "m.sql('select [1, 2] as s')": [[1, 2]],
        "m.sql('select [1.5::decimal(4, 1)] as s')": [1.5],
    },
    "cffi": {"m.FFI().new('char[]', b'ab')": [97, 98, 0]},
    "torch": {
        "m.eye(2).to_sparse()": [[1.0, 0.0], [0.0, 1.0]],
        "m.eye(2).to_sparse_csr()": [[1.0, 0.0], [0.0, 1.0]],
        "m.quantize_per_tensor(m.tensor([1.0, 2.0]), 1.0, 0, m.quint8)": [1.0, 2.0],
        "m.nested.nested_tensor([m.tensor([1.0]), m.tensor([1.0, 2.0])])": [[1.0, 0.0], [1.0, 2.0]],
    },
    "jax": {
        "m.random.key(7)": [0, 7],
        f"m.device_put(m.numpy.arange(4), {SHARDS})": [0, 1, 2, 3],
    },
    "awkward": {
        "m.Array([[1, ODD], [3, 4]])": [[1, ODD], [3, 4]],
        "m.Array([ODD, None])": [ODD, 0],
        "m.Array([[1, ODD], [3]])": [1, ODD, 3],
        "m.Array([[[1], [ODD, 3]], []])": [1, ODD, 3],
        "m.Array([{'a': ODD, 'b': 0.5}])": [ODD],
        "m.Array([[1, None], [ODD]])": [1, 0, ODD],
        "m.Array([[1, None], [ODD, 2]])": [[1, 0], [ODD, 2]],
        "m.Array([[1, ODD], None])": [[1, ODD]],
        MASKED.format("[2**63 + 1, 1]", "uint64"): [2**63 + 1, 0],
        MASKED.format("[1, 1]", "int8"): numpy.array([1, 0], "int8"),
        MASKED.format("[0.5, 1]", "float32"): numpy.array([0.5, NAN], "float32"),
        MASKED.format("[0.5, 1]", "complex64"): numpy.array([0.5, NAN], "complex64"),
        MASKED.format("[True, True]", "bool"): [True, False],
        MASKED.format("[ODD, 1]", "datetime64[us]"): [ODD, MIN],
        "m.Array([None, None])": [0, 0],
        "m.Array([0.5, None])": [0.5, NAN],
        "m.Array([[0.5, None], [1.5]])": [0.5, NAN, 1.5],
        "m.Array([(ODD, 0.5)])": [ODD],
    },
    "tensorflow": {
        "m.RaggedTensor.from_row_splits([1, 2], [0, 1, 2])": [[1], [2]],
        "m.sparse.from_dense([[1.0, 0.0]])": [[1.0, 0.0]],
        "m.Variable([1.0, 2.0])": [1.0, 2.0],
        "m.bitcast(m.constant([1, 2], m.int8), m.qint8)": [1, 2],
    },
    "paddle": {"m.sparse.sparse_coo_tensor([[0], [1]], [5.0], [1, 2])": [[0.0, 5.0]]},
}

#: Library, and how an object is made that has no numbers: the message says so, and why.
NOT_NUMBERS = {
    "openvino": {
        **{
            f"m.Tensor(m.Type.{kind}, [4])": "because its shape is (4,) of "
            for kind in ("u1", "u2", "u3", "u4", "u6", "i4", "nf4", "f4e2m1")
        },
        **{
            CONSTANT.format(kind, "1, 0"): f"elements are uint{kind[1]}"
            for kind in ("u1", "u2", "u4")
        },
        "m.Tensor(['a'])": "because its elements are no numbers",
    },
    "awkward": {
        "m.Array([1, 'a'])": "its elements are of several types",
        "m.Array([1, None, [2]])": "its elements are of several types",
        "m.Array(['a', None])": "its elements are no numbers",
    },
    "duckdb": {
        "m.connect().execute(\"select 'b' as s\")": "its column 's' are no numbers (VARCHAR)",
    },
}

#: These are exported as they are, by Arrow or by pandas' own values.
SERVED = {
    *(CONSTANT.format(kind, "1, 2") for kind in ("f32", "f16")),
    CONSTANT.format("boolean", "1, 0"),
    "m.Series([1.0, 2.0])",
    "m.Series([ODD, 2])",
    "m.Series([ODD, 2], dtype='Int64')",
    "m.Index([ODD, 2], dtype='Int64')",
    "m.Series([0.5, None], dtype='Float64').fillna(2)",
    "m.Series([0.5, None]).fill_null(2.0)",
    "m.Series([[1, 2], [3, 4]], dtype=m.Array(m.Int64, 2))",
    "m.chunked_array([[1, ODD]])",
    "m.Array([ODD, 2], m.int64())",
    "m.Array([ODD, 2], m.DataType.int64())",
    "m.c_array([ODD, 2], m.int64())",
    "m.ArrayStream([ODD, 2], m.int64())",
}

#: Of these the cure says that it gives other values than the object has.
SAYING = {
    "m.Series([[1], [], [2]])": "which has its elements in fewer dimensions",
    "m.array([[1, 2], None, [ODD]])": "and leaves out what is missing",
    "m.Series(['0.5', '1.5']).cast(m.Decimal(10, 2))": "which rounds",
    "m.array(['0.5', '1.5']).cast(m.decimal128(10, 2))": "which rounds",
    "m.Series(['b', 'a', 'b'])": "which numbers its different values",
    "m.array(['b', 'a']).dictionary_encode()": "which numbers its different values",
    "m.Array([[1, ODD], [3]])": "which has its elements in fewer dimensions",
    "m.Series([2**70, 1], dtype='object')": "which rounds to 53 bits",
    "m.Series([2**70, None], dtype=m.Int128)": "which rounds to 53 bits",
    "m.sql('select 1.5::decimal(10, 2) as s')": "which rounds to 53 bits",
}

#: "pass x.y() instead", or an option.
CURE = re.compile(r"pass (.+?) (?:instead|to put)|(?:pass|such as) (\w+)=\"(\w+)\"")
#: Two devices of JAX, on the host.
DEVICES = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}


def cured(x: object, cure: str) -> object:
    """As a user types it: of two cures the first."""
    first = cure.split(" or ")[0]
    if first.startswith("pyarrow."):  # a user has imported it
        import_module("pyarrow.compute")
    names = {**sys.modules, "x": x, "numpy": numpy, "value": 7}
    if "ml_dtypes." in first:
        names["ml_dtypes"] = import_module("ml_dtypes")
    if first.startswith("ffi"):
        names["ffi"] = import_module("cffi").FFI()
    if first.startswith("tf."):
        names["tf"] = import_module("tensorflow")
    return eval(first, names)


def follow(x: object) -> tuple[object, list[str], str]:
    """A capsule of the object, or of what the cures make of it, these cures, and all messages."""
    cures: list[str] = []
    said = ""
    options: dict[str, Any] = {}
    while True:
        try:
            return dlshim.to_capsule(x, max_version=(1, 0), **options), cures, said
        except (BufferError, dlshim.UnsupportedObjectError) as error:
            said += str(error)
            found = CURE.search(str(error))
            assert found and not (found[1] or "").startswith("an "), error
            cures.append(found[1] or found[2])
            assert len(cures) <= STEPS, cures
            if found[2]:
                options = {found[2]: found[3]}
            else:
                x = cured(x, found[1])


def told(x: object, action: Any) -> tuple[str, list[Any]]:
    """The refusal, or nothing, and the warnings of the exchange."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter(action)
        try:
            dlshim.to_capsule(x, max_version=(1, 0))
        except (BufferError, dlshim.UnsupportedObjectError) as error:
            return str(error), seen
    return "", seen


def check(name: str) -> None:
    """All objects of one library, in a process of its own."""
    module = import_module(name)
    if name == "pyarrow":
        import_module("pyarrow.compute")
    for text, expected in OBJECTS[name].items():
        made = partial(eval, text, {"m": module, "numpy": numpy, "ODD": ODD})
        said, seen = told(made(), "error")
        assert (said, seen) == told(made(), "always"), (text, said, seen)
        capsule, cures, said = follow(made())
        assert bool(cures) != (text in SERVED), (text, cures)
        array = numpy.asarray(dlshim.from_dlpack(capsule))
        values = array.tolist()
        assert SAYING.get(text, "") in said, (text, said)
        if isinstance(expected, numpy.ndarray):
            assert array.dtype == expected.dtype, (text, cures, array.dtype)
            expected = expected.tolist()
        assert expected is None or repr(values) == repr(expected), (text, cures, values)
        print(f"{text}: {cures}")
    for text, why in NOT_NUMBERS.get(name, {}).items():
        with pytest.raises((BufferError, dlshim.UnsupportedObjectError)) as error:
            dlshim.to_capsule(eval(text, {"m": module, "numpy": numpy, "ODD": ODD}))
        assert why in str(error.value) and " instead" not in str(error.value), (text, error.value)


@pytest.mark.parametrize("engine", ["scipy", "netcdf4", "h5netcdf"])
def test_an_array_of_xarray_that_lies_in_a_file_is_not_read_for_a_message(engine, tmp_path):
    xarray = pytest.importorskip("xarray", reason="its arrays are refused")
    pytest.importorskip({"netcdf4": "netCDF4"}.get(engine, engine), reason="it reads the file")
    coords = {"y": [1, 2]}
    made = xarray.DataArray([[1.0], [2.0]], dims=("y", "x"), coords=coords, name="v")
    made.to_netcdf(tmp_path / "a.nc", engine=engine)

    def refused(x):
        with pytest.raises((BufferError, dlshim.UnsupportedObjectError)) as error:
            dlshim.to_capsule(x)
        return CURE.search(str(error.value))[1]

    with xarray.open_dataset(tmp_path / "a.nc", engine=engine) as kept:
        for x in (kept["v"], kept["v"].variable):
            assert refused(x) == "x.data" and dlshim.inspect(x)
        refused(kept)
        assert not kept["v"]._in_memory
        assert numpy.asarray(dlshim.upgrade(kept["v"].data)).tolist() == [[1.0], [2.0]]
    if find_spec("dask"):
        with xarray.open_dataset(tmp_path / "a.nc", engine=engine, chunks={}) as kept:
            assert refused(kept["v"]) == "numpy.asarray(x)" and kept["v"].chunks
            assert numpy.asarray(dlshim.upgrade(numpy.asarray(kept["v"]))).shape == (2, 1)


@pytest.mark.parametrize("name", OBJECTS)
def test_the_cures_of_refusals_work(name):
    if find_spec(name.split(".")[0]) is None:
        pytest.skip(f"{name} is not installed here")
    done = subprocess.run(
        [sys.executable, __file__, name], capture_output=True, text=True, env=os.environ | DEVICES
    )
    print(done.stdout)
    if "ImportError" in done.stderr or "OSError" in done.stderr:
        pytest.skip(f"{name} cannot be imported here: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= len(OBJECTS[name])


def test_every_library_that_is_asked_has_objects():
    """But torch, whose old release is in tests/interop/test_torch.py, Keras, as TensorFlow, and
    datasets, whose objects are in tests/cures/kinds.py.
    """
    roots = {name.partition(".")[0] for name in OBJECTS} | {"jaxlib", "_duckdb", "keras"}
    assert set(BY_LIBRARY) - {"torch", "datasets"} <= roots


if __name__ == "__main__":
    check(sys.argv[1])
