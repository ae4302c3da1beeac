"""Objects of each kind that is refused with a cure, or without one, by the library that has them.

A function makes the objects of a library, by name: each a function, because some are used up, or a
pair of it and the values that the object's library does not tell.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

Objects = dict[str, Any]

#: No float64 holds it.
ODD = 2**53 + 1
UUID = "00000000-0000-0000-0000-000000000001"
KINDS: dict[str, Callable[[Path], Objects]] = {}


def of(library: str) -> Callable[[Callable[[Path], Objects]], None]:
    def register(function: Callable[[Path], Objects]) -> None:
        KINDS[library] = function

    return register


# ---- lists --------------------------------------------------------------------------------------


@of("numpy")
def python_and_numpy(folder: Path) -> Objects:
    masked = numpy.ma.array([1, ODD], mask=[True, False])
    halves = numpy.arange(3, dtype="f2")
    fields = numpy.zeros(2, [("a", "i4"), ("b", "f4")])
    saved = io.BytesIO()
    numpy.save(saved, numpy.array(["1970-01-02", "1970-01-03"], "M8[D]"))
    return {
        "list of integers": lambda: [1, ODD],
        "list of integers above int64": lambda: [2**63 + 1, 2],
        "list of integers on both sides": lambda: [2**63 + 1, -1],
        "list of integers above 64 bits": lambda: [2**70 + 1, 2],
        "list of integers and fractions": lambda: [ODD, 0.5],
        "list of small integers and fractions": lambda: [2, 0.5],
        "list of integers and complex numbers": lambda: [ODD, 1j],
        "list of bools": lambda: [True, False],
        "list of bools and integers": lambda: [True, ODD],
        "list of missing numbers": lambda: [ODD, None],
        "list of nothing": list,
        "list of decimals": lambda: [decimal.Decimal("0.1"), decimal.Decimal(2)],
        "list of fractions of Python": lambda: [fractions.Fraction(1, 3)],
        "list of rows": lambda: [[1, 2], (3, ODD)],
        "list of rows of several lengths": lambda: [[1, 2], [3]],
        "list of rows and numbers": lambda: [[1, 2], 3],
        "list that holds itself": (lambda: (lambda x: (x.append(x), x)[1])([]), []),
        "list of text": lambda: ["a", "b"],
        "list of mappings": lambda: [{"a": 1}],
        "list of arrays": lambda: [numpy.array([1, ODD]), numpy.array([3, 4])],
        "list of lists of arrays": lambda: [[numpy.array([1, ODD])], [numpy.array([3, 4])]],
        "list of arrays of several shapes": lambda: [numpy.ones(2), numpy.ones(3)],
        "list of arrays of several dtypes": lambda: [numpy.array([ODD]), numpy.array([0.5])],
        "list of masked arrays": lambda: [masked, masked],
        "list of a masked and a plain array": lambda: [masked, masked.data],
        "list of lists of masked arrays": lambda: [[masked], [masked]],
        "list of scalars of NumPy": lambda: [numpy.float32(1), numpy.float32(2)],
        "list of scalars of NumPy of two kinds": lambda: [numpy.int64(ODD), numpy.float32(2)],
        "list of halves": lambda: [halves, halves],
        "tuple": lambda: (1, ODD),
        "tuple of masked arrays": lambda: (masked, masked),
        "range": lambda: range(ODD, ODD + 2),
        "range above int64": lambda: range(2**63, 2**63 + 2),
        "range on both sides": lambda: range(-1, 2**63 + 3, 2**63 + 2),
        "empty range": lambda: range(0),
        "masked array": lambda: masked,
        "fields": lambda: fields,
        "dates": lambda: numpy.load(io.BytesIO(saved.getvalue())),
        "other byte order": lambda: numpy.arange(3, dtype=">f4"),
        "objects": lambda: numpy.array([1.5, 2.0], object),
        "in memory of a file": (lambda: io.BytesIO(b"abc"), [97, 98, 99]),
    }


# ---- masks --------------------------------------------------------------------------------------


@of("netCDF4")
def variables(folder: Path) -> Objects:
    import netCDF4

    with netCDF4.Dataset(folder / "a.nc", "w") as file:
        file.createDimension("x", 3)
        masked = numpy.ma.array([1.0, 2, 3], mask=[1, 0, 0])
        file.createVariable("float", "f8", ("x",))[:] = masked
        file.createVariable("int", "i4", ("x",))[:] = masked.astype("i4")
        file.createVariable("none missing", "i2", ("x",))[:] = [1, 2, 3]
        scaled = file.createVariable("scaled", "i2", ("x",))
        scaled.scale_factor = 0.5
        scaled[:] = [0.5, 1, 1.5]
        file.createVariable("text", str, ("x",))
    names = ["float", "int", "none missing", "scaled", "text"]
    return {name: lambda name=name: netCDF4.Dataset(folder / "a.nc")[name] for name in names}


@of("astropy")
def tables_and_images(folder: Path) -> Objects:
    from astropy import nddata, units
    from astropy.io import fits
    from astropy.table import Table
    from astropy.utils.masked import Masked

    mask = numpy.array([True, False])
    hidden = {"values": [None, 2.0]}
    fits.writeto(folder / "a.fits", numpy.arange(3, dtype="f4"))
    return {
        "NDData": (lambda: nddata.NDData(numpy.array([1.0, 2]), mask=mask), [None, 2.0]),
        "NDData with a list as mask": (
            lambda: nddata.NDData(numpy.array([1.0, 2]), mask=[True, False]),
            hidden["values"],
        ),
        "NDData without a mask": (lambda: nddata.NDData(numpy.array([1.0, 2])), [1.0, 2.0]),
        "NDDataArray": (lambda: nddata.NDDataArray([1.0, 2], mask=mask), [None, 2.0]),
        "CCDData": (lambda: nddata.CCDData([1.0, 2], mask=mask, unit="adu"), [None, 2.0]),
        "CCDData without a mask": (lambda: nddata.CCDData([1.0, 2], unit="adu"), [1.0, 2.0]),
        "table": (lambda: Table({"a": [1, ODD], "b": [0.5, 1]}), [1, ODD]),
        "masked table": (
            lambda: Table({"a": numpy.ma.array([1, ODD], mask=mask)}, masked=True),
            [None, ODD],
        ),
        "masked column": (
            lambda: Table({"a": numpy.ma.array([1, ODD], mask=mask)}, masked=True)["a"],
            [None, ODD],
        ),
        "masked quantity": (lambda: Masked([1.0, 2] * units.m, mask=mask), [None, 2.0]),
        "list of masked quantities": (lambda: [Masked([1.0, 2], mask=mask)] * 2, []),
        "image of a file": (lambda: fits.open(folder / "a.fits")[0], [0.0, 1.0, 2.0]),
    }


@of("dask")
def lazy(folder: Path) -> Objects:
    import dask.array
    import dask.bag
    import dask.dataframe
    import pandas

    def frame(x: Any) -> Any:
        return dask.dataframe.from_pandas(x, npartitions=1)

    return {
        "array": lambda: dask.array.arange(3),
        "array of bfloat16": lambda: dask.array.from_array(numpy.ones(2, bfloat16())),
        "masked array": (lambda: dask.array.ma.masked_equal(dask.array.arange(3), 1), [0, None, 2]),
        "sparse array": (lambda: dask.array.eye(2).map_blocks(_coo()), [[1.0, 0.0], [0.0, 1.0]]),
        "integers, one missing": (
            lambda: frame(pandas.Series([ODD, None], dtype="Int64")),
            [ODD, None],
        ),
        "bools, one missing": (
            lambda: frame(pandas.Series([True, None], dtype="boolean")),
            [True, None],
        ),
        "numbers": (lambda: frame(pandas.Series([ODD, 2])), [ODD, 2]),
        "several dtypes": (
            lambda: frame(pandas.DataFrame({"a": [ODD, 2], "b": [0.5, 1.0]})),
            [[ODD, 0.5], [2, 1.0]],
        ),
        "bag": (lambda: dask.bag.from_sequence([1, 2]), [1, 2]),
    }


def _coo() -> Any:
    import sparse

    return sparse.COO.from_numpy


def bfloat16() -> Any:
    import ml_dtypes

    return ml_dtypes.bfloat16


# ---- files --------------------------------------------------------------------------------------


@of("h5py")
def datasets_of_hdf5(folder: Path) -> Objects:
    import h5py

    file = h5py.File(folder / "a.h5", "w")
    file["numbers"] = [1, ODD]
    file["bools"] = [True, False]
    file["scalar"] = 1.5
    file["other byte order"] = numpy.arange(3, dtype=">f4")
    file["fields"] = numpy.zeros(2, [("a", "i4"), ("b", "f4")])
    file["empty"] = h5py.Empty("f4")
    file["text"] = ["a", "b"]
    file["bytes of one length"] = numpy.array([b"ab", b"cd"])
    file.create_dataset("rows of several lengths", (2,), dtype=h5py.vlen_dtype("i4"))
    file.create_dataset("references", (1,), dtype=h5py.ref_dtype)
    objects = {name: lambda name=name: file[name] for name in file if name != "fields"}
    objects["fields"] = (lambda: file["fields"], [0, 0])
    objects["a field"] = (lambda: file["fields"].fields("a"), [0, 0])
    objects["another dtype"] = (lambda: file["numbers"].astype("f4"), [1.0, float(2**53)])
    objects["empty"] = (objects["empty"], [])
    return objects


@of("zarr")
def arrays_of_zarr(folder: Path) -> Objects:
    import zarr

    fields = numpy.zeros(2, [("a", "i4"), ("b", "f4")])
    return {
        "numbers": lambda: zarr.array([1, ODD]),
        "bools": lambda: zarr.array([True, False]),
        "scalar": lambda: zarr.array(numpy.float32(2)),
        "dates": lambda: zarr.array(numpy.array(["1970-01-02"], "M8[s]")),
        "fields": (lambda: zarr.array(fields), [0, 0]),
        "text": lambda: zarr.array(numpy.array(["a", "b"])),
    }


@of("nibabel")
def images_of_nibabel(folder: Path) -> Objects:
    import nibabel

    for name, slope in ("plain", 1), ("scaled", 2):
        image = nibabel.Nifti1Image(numpy.arange(8, dtype="i2").reshape(2, 2, 2), numpy.eye(4))
        image.header.set_slope_inter(slope, 0)
        nibabel.save(image, folder / f"{name}.nii")
    files = {name: folder / f"{name}.nii" for name in ("plain", "scaled")}
    objects: Objects = {}
    for name, file in files.items():
        told = nibabel.load(file).get_fdata().tolist()
        objects[f"{name} image"] = (lambda file=file: nibabel.load(file), told)
        objects[f"array in a {name} image"] = (lambda file=file: nibabel.load(file).dataobj, told)
    return objects


@of("tifffile")
def pages_of_tifffile(folder: Path) -> Objects:
    import tifffile

    told = numpy.arange(12, dtype="u2").reshape(3, 4)
    tifffile.imwrite(folder / "a.tif", told)
    file = tifffile.TiffFile(folder / "a.tif")
    return {
        "page": (lambda: file.pages[0], told.tolist()),
        "series": (lambda: file.series[0], told.tolist()),
        "file": (lambda: file, told.tolist()),
    }


@of("rasterio")
def bands(folder: Path) -> Objects:
    import rasterio

    told = numpy.array([[[1, -1], [2, 3]]], "i2")
    for name, nodata in ("hidden", -1), ("plain", None):
        kind = {"driver": "GTiff", "height": 2, "width": 2, "count": 1, "dtype": "int16"}
        scale = rasterio.transform.from_origin(0, 0, 1, 1)
        with rasterio.open(
            folder / f"{name}.tif", "w", nodata=nodata, transform=scale, **kind
        ) as file:
            file.write(told)
    return {
        "hidden": (lambda: rasterio.open(folder / "hidden.tif"), [[[1, None], [2, 3]]]),
        "plain": (lambda: rasterio.open(folder / "plain.tif"), told.tolist()),
    }


@of("safetensors")
def slices(folder: Path) -> Objects:
    import safetensors.numpy

    arrays = {
        "numbers": numpy.array([[1, ODD]]),
        "bools": numpy.array([True, False]),
        "halves": numpy.ones(2, "f2"),
        "bfloat16": numpy.ones(2, bfloat16()),
        "nothing": numpy.ones(0),
        "scalar": numpy.array(2.0),
    }
    safetensors.numpy.save_file(arrays, folder / "a.safetensors")
    file = safetensors.safe_open(folder / "a.safetensors", "np")
    return {
        name: (lambda name=name: file.get_slice(name), array.tolist())
        for name, array in arrays.items()
    }


@of("onnx")
def protos(folder: Path) -> Objects:
    import onnx

    make = onnx.helper.make_tensor
    kinds = onnx.TensorProto
    return {
        "numbers": (lambda: make("a", kinds.INT64, [2], [1, ODD]), [1, ODD]),
        "raw": (lambda: onnx.numpy_helper.from_array(numpy.ones(2, "f2")), [1.0, 1.0]),
        "bfloat16": (lambda: make("a", kinds.BFLOAT16, [2], [1, 2]), [1.0, 2.0]),
        "bools": (lambda: make("a", kinds.BOOL, [2], [1, 0]), [True, False]),
        "four bits": (lambda: make("a", kinds.INT4, [2], [1, -2]), [1, -2]),
    }


# ---- columns ------------------------------------------------------------------------------------


@of("pandas")
def columns_of_objects(folder: Path) -> Objects:
    import pandas

    arrays = [numpy.array([1, ODD]), numpy.array([3, 4])]
    masked = numpy.ma.array([1.0, 2], mask=[True, False])
    return {
        "arrays": lambda: pandas.Series(arrays),
        "lists": lambda: pandas.Series([[1, ODD], [3, 4]]),
        "tuples in an index": lambda: pandas.Index([(1, ODD), (3, 4)], tupleize_cols=False),
        "lists of several lengths": lambda: pandas.Series([[1, 2], [3]]),
        "lists that round": lambda: pandas.Series([[ODD, 0.5]]),
        "arrays of several shapes": lambda: pandas.Series([numpy.ones(2), numpy.ones(3)]),
        "arrays of several dtypes": lambda: pandas.Series([arrays[0], numpy.ones(2)]),
        "arrays, one missing": lambda: pandas.Series([arrays[0], None]),
        "masked arrays": lambda: pandas.Series([masked, masked]),
        "fractions of Python": lambda: pandas.Series([fractions.Fraction(1, 3)]),
        "mappings": lambda: pandas.Series([{"a": 1}]),
        "intervals": (lambda: pandas.Series(pandas.interval_range(0, 2)), [0, 1]),
        "periods": lambda: pandas.Series(pandas.period_range("1970-01", periods=2, freq="M")),
        "periods, one missing": lambda: pandas.Series(["1970-01", None], dtype="period[M]"),
        "fractions as objects": lambda: pandas.Series([0.5, 1.5], dtype=object),
        "fractions as objects, one missing": lambda: pandas.Series([0.5, None], dtype=object),
        "decimals": lambda: pandas.Series([decimal.Decimal("0.1")]),
        "decimals, one missing": lambda: pandas.Series([decimal.Decimal("0.1"), None]),
        "a frame of arrays": (lambda: pandas.DataFrame({"a": arrays}), [[1, ODD], [3, 4]]),
        "codes of many": lambda: pandas.Series(
            [str(each) for each in range(200)], dtype="category"
        ),
    }


class Foreign:
    """A column of a library that dlshim does not know."""

    def __init__(self, column: Any) -> None:
        self._column = column

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self._column.__arrow_c_array__(requested_schema)


class Reader:
    """A stream of such a library, which is read once."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)

    def read_all(self) -> Any:
        return self._table


@of("polars")
def series(folder: Path) -> Objects:
    import polars

    def array(*rows: Any, of: Any) -> Any:
        return polars.Series(rows, dtype=polars.Array(of, 2))

    return {
        "nothing": lambda: polars.Series([None, None]),
        "times": lambda: polars.Series([datetime.time(0, 0, 1), None]),
        "arrays of text": lambda: array(["a", "b"], of=polars.String),
        "arrays in arrays, one missing": lambda: polars.Series(
            [[[1, 2], None]], dtype=polars.Array(polars.Array(polars.Int64, 2), 2)
        ),
    }


@of("pyarrow")
def dictionaries(folder: Path) -> Objects:
    import pyarrow as pa

    objects: Objects = {}
    for sign in ("int", "uint"):
        for bits in (8, 16, 32, 64):
            for last in (0, None):
                codes = pa.array([0, 1, last], f"{sign}{bits}")
                column = pa.DictionaryArray.from_arrays(codes, pa.array(["a", "b"]))
                name = f"{sign}{bits}{', one missing' if last is None else ''}"
                told = codes.to_pylist()
                objects[f"codes in {name}"] = (lambda column=column: column, told)
                objects[f"foreign codes in {name}"] = (lambda c=column: Foreign(c), told)
                chunks = pa.chunked_array([column, column])
                objects[f"chunks of codes in {name}"] = (lambda c=chunks: c, told * 2)

    class Own(pa.ExtensionType):  # type: ignore[misc]
        """Of lists, which are no array."""

        def __init__(self) -> None:
            super().__init__(pa.list_(pa.int64()), "dlshim.kinds")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

    lists = pa.ExtensionArray.from_storage(Own(), pa.array([[1], [2, 3]]))
    uuid, tensors = pa.uuid(), pa.fixed_shape_tensor(pa.int64(), [2])
    storage = pa.array([[1, 2]], pa.list_(pa.int64(), 2))
    own = {
        "bytes of one length": pa.array([b"abcd", None], pa.binary(4)),
        "nothing": pa.nulls(2),
        "bools of a byte": pa.array([1, 0], pa.bool8()),
        "bools of a byte, one missing": pa.array([1, None], pa.bool8()),
        "uuids": pa.ExtensionArray.from_storage(uuid, pa.array([b"a" * 16], pa.binary(16))),
        "uuids, one missing": pa.ExtensionArray.from_storage(
            uuid, pa.array([b"a" * 16, None], pa.binary(16))
        ),
    }
    own["type of its own"] = lists
    objects |= {name: (lambda c=column: c, column.to_pylist()) for name, column in own.items()}
    objects["reader"] = (lambda: Reader(pa.table({"a": [1, ODD]})), [[1], [ODD]])
    for name, column in {
        "missing": pa.array([ODD, None]),
        "tensors": pa.ExtensionArray.from_storage(tensors, storage),
        "bools of a byte": own["bools of a byte"],
        "type of its own": lists,
        "bools": pa.array([True, None]),
        "text": pa.array(["a", None]),
        "decimals": pa.array([decimal.Decimal("0.1")]),
        "lists": pa.array([[1], [2, 3]]),
        "fields": pa.array([{"a": 1}]),
        "runs": pa.compute.run_end_encode(pa.array([ODD, ODD])) if hasattr(pa, "compute") else None,
    }.items():
        if column is not None:
            objects[f"foreign {name}"] = (lambda c=column: Foreign(c), column.to_pylist())
    return objects


@of("duckdb")
def relations(folder: Path) -> Objects:
    import duckdb

    columns = {
        "arrays": ("[1, 2]::INT[2]", [[1, 2]] * 2),
        "lists": ("[1, 2]", [[1, 2]] * 2),
        "text": ("'x'", ["x"] * 2),
        "enums": ("'a'::ENUM('a', 'b')", ["a"] * 2),
        "decimals in lists": ("[1.5::decimal(4, 1)]", [[1.5]] * 2),
        "structs": ("{'b': 1}", [{"b": 1}] * 2),
        "missing numbers": ("null::int", [None] * 2),
        "bytes": ("'ab'::blob", [b"ab"] * 2),
        "times": ("time '00:00:01'", [datetime.time(0, 0, 1)] * 2),
        "uuids": (f"'{UUID}'::uuid", [UUID] * 2),
        "maps": ("map {1: 2}", [[(1, 2)]] * 2),
    }
    return {
        name: (lambda text=text: duckdb.sql(f"select {text} a from range(2)"), told)
        for name, (text, told) in columns.items()
    }


@of("datasets")
def datasets_of_hugging_face(folder: Path) -> Objects:
    import datasets

    made = datasets.Dataset.from_dict(
        {"a": [1, ODD, 3], "b": [[1, 2], [3, 4], [5, 6]], "c": [1, None, 3], "t": ["a", "b", "a"]}
    )
    return {
        "column": (lambda: made["a"], [1, ODD, 3]),
        "column of lists": (lambda: made["b"], [[1, 2], [3, 4], [5, 6]]),
        "column, one missing": (lambda: made["c"], [1, None, 3]),
        "column of text": (lambda: made["t"], ["a", "b", "a"]),
        "table": (lambda: made, [1, ODD, 3]),
        "selected rows": (lambda: made.select([2, 0]), [3, 1]),
        "with a format": (lambda: made.with_format("numpy"), [1, ODD, 3]),
        "several": (lambda: datasets.DatasetDict({"train": made}), [1, ODD, 3]),
        "stream": (lambda: made.to_iterable_dataset(), []),
        "without columns": (lambda: datasets.Dataset.from_dict({}), []),
    }


@of("narwhals")
def columns_of_narwhals(folder: Path) -> Objects:
    import narwhals
    import polars

    def series(*values: Any, **more: Any) -> Any:
        return narwhals.from_native(polars.Series(values, **more), series_only=True)

    return {
        "missing": lambda: series(ODD, None),
        "categories": (lambda: series("a", "b", "a", dtype=polars.Categorical), ["a", "b", "a"]),
        "missing categories": (lambda: series("a", None, dtype=polars.Categorical), ["a", None]),
        "text": lambda: series("a", "b"),
    }


# ---- others -------------------------------------------------------------------------------------


@of("sparse")
def sparse_arrays(folder: Path) -> Objects:
    import scipy.sparse
    import sparse

    eye = [[1.0, 0.0], [0.0, 1.0]]
    return {
        "COO": (lambda: sparse.COO.from_numpy(numpy.eye(2)), eye),
        "COO with a filler": (
            lambda: sparse.COO.from_numpy(numpy.eye(2)) + 1,
            [[2.0, 1], [1, 2.0]],
        ),
        "GCXS": (lambda: sparse.GCXS.from_numpy(numpy.eye(2)), eye),
        "csr": (lambda: scipy.sparse.csr_array(numpy.eye(2)), eye),
        "list of COO": (lambda: [sparse.COO.from_numpy(numpy.eye(2))] * 2, [eye, eye]),
    }


@of("xarray")
def labelled(folder: Path) -> Objects:
    import dask.array
    import sparse
    import xarray

    lazy = xarray.DataArray(dask.array.arange(3), dims="x")
    eye = [[1.0, 0.0], [0.0, 1.0]]
    return {
        "sparse": (lambda: xarray.DataArray(sparse.COO.from_numpy(numpy.eye(2))), eye),
        "lazy": lambda: lazy,
        "variables of several shapes": (
            lambda: xarray.Dataset({"a": ("x", [1, ODD]), "b": (("x", "y"), [[1], [2]])}),
            [1, ODD],
        ),
    }


@of("torch")
def tensors(folder: Path) -> Objects:
    import torch

    masked = torch.masked.masked_tensor
    data, kept = torch.tensor([1.0, 2.0]), torch.tensor([False, True])
    return {
        "list that requires grad": (
            lambda: [torch.ones(2, requires_grad=True)] * 2,
            [[1.0, 1.0]] * 2,
        ),
        "list of parameters": (lambda: [torch.nn.Parameter(torch.ones(2))], [[1.0, 1.0]]),
        "list of bfloat16": (lambda: [torch.ones(2).bfloat16()] * 2, [[1.0, 1.0]] * 2),
        "list of several shapes": (lambda: [torch.ones(2), torch.ones(3)], []),
        "list of several dtypes": (
            lambda: [torch.tensor([ODD]), torch.tensor([0.5])],
            [[ODD], [0.5]],
        ),
        "list of lists of tensors": (lambda: [[torch.ones(2)]], []),
        "list of masked tensors": (lambda: [masked(data, kept)], []),
        "masked tensor": (lambda: masked(data, kept), [None, 2.0]),
        "storage": (
            lambda: torch.arange(3).untyped_storage(),
            [0] * 8 + [1] + [0] * 7 + [2] + [0] * 7,
        ),
        "storage with a dtype": (lambda: torch.arange(3.0).storage(), [0.0, 1.0, 2.0]),
        "nested": (
            lambda: torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]),
            [[1.0], [1.0, 1.0]],
        ),
        "quantized": lambda: torch.quantize_per_tensor(data, 0.5, 0, torch.quint8),
        "sparse": (lambda: torch.eye(2).to_sparse(), [[1.0, 0.0], [0.0, 1.0]]),
    }


@of("jax")
def arrays_of_jax(folder: Path) -> Objects:
    import jax.numpy as jnp

    class Holder:
        """As a variable of Flax."""

        shape, dtype = (2,), jnp.bfloat16

        def __jax_array__(self) -> Any:
            return jnp.ones(2, jnp.bfloat16)

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return numpy.ones(2, "f4")

    return {
        "holder": (Holder, [1.0, 1.0]),
        "list": (lambda: [jnp.ones(2, jnp.bfloat16)] * 2, [[1.0, 1.0]] * 2),
    }


@of("tensorflow")
def tensors_of_tensorflow(folder: Path) -> Objects:
    import tensorflow as tf

    return {
        "ragged": (lambda: tf.ragged.constant([[1, 2], [3]]), [[1, 2], [3]]),
        "list": (lambda: [tf.constant([1.0])] * 2, [[1.0]] * 2),
        "variable": lambda: tf.Variable([1.0, 2.0]),
    }


@of("multiprocessing")
def shared_memory(folder: Path) -> Objects:
    from multiprocessing.shared_memory import SharedMemory

    made = SharedMemory(create=True, size=8)
    told = made.buf.tolist()
    made.unlink()
    return {"shared memory": (lambda: made, told)}


@of("cffi")
def memory_of_cffi(folder: Path) -> Objects:
    import cffi

    return {
        "characters": (lambda: cffi.FFI().new("char[]", b"ab"), [97, 98, 0]),
        "integers": (lambda: cffi.FFI().new("int[]", [1, 2]), [1, 0, 0, 0, 2, 0, 0, 0]),
    }


# ---- objects of no library ----------------------------------------------------------------------


@of("ml_dtypes")
def made_here(folder: Path) -> Objects:
    """What one look at an object tells: its dtype, its shape, its mask."""

    class Kind:
        def __init__(self, name: str) -> None:
            self.name = name

        def __str__(self) -> str:
            return self.name

    class Array:
        """Makes an array of NumPy, and says of itself what it is given."""

        def __init__(self, array: Any, **said: Any) -> None:
            self.array = array
            self.__dict__.update(said)

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return self.array

    class Frame(Array):
        pass

    ones = numpy.ones(2, "f4")
    mask = numpy.array([True, False])
    return {
        "plain": (lambda: Array(ones, dtype=numpy.dtype("f4"), shape=(2,)), [1.0, 1.0]),
        "a dtype by name": (lambda: Array(ones, dtype=Kind("float32")), [1.0, 1.0]),
        "nothing said": (lambda: Array(ones), [1.0, 1.0]),
        "bfloat16 widened": (lambda: Array(ones, dtype=Kind("bfloat16")), [1.0, 1.0]),
        "integers widened": (lambda: Array(numpy.array([2.0**53]), dtype=Kind("Int64")), [ODD]),
        "an unknown dtype": (lambda: Array(ones, dtype=Kind("posit16")), [1.5, 1.5]),
        "several dtypes": (
            lambda: Frame(numpy.array([[2.0**53, 0.5]]), dtypes=["int64", "float64"]),
            [[ODD, 0.5]],
        ),
        "a mask beside it": (lambda: Array(ones, mask=mask, shape=(2,)), [None, 1.0]),
        "a mask inside": (lambda: Array(numpy.ma.array(ones, mask=mask)), [None, 1.0]),
        "a mask of another library": (
            lambda: Array(ones, mask=memoryview(b"\1\0"), shape=(2,)),
            [None, 1.0],
        ),
        "a mask that is a switch": (lambda: Array(ones, mask=True, shape=(2,)), [1.0, 1.0]),
        "a view of another shape": (
            lambda: type("Held", (), {"data": ones, "shape": (2, 1)})(),
            [[1.0], [1.0]],
        ),
        "a view of elements with a name of their own": (
            lambda: type("Held", (), {"data": ones, "dtype": "q4_0"})(),
            [1.5, 1.5],
        ),
        "text": (lambda: Array(numpy.array(["a"], object), dtype=numpy.dtype(object)), ["a"]),
        "a view without its mask": (
            lambda: type("Held", (), {"data": ones, "mask": mask, "shape": (2,)})(),
            [None, 1.0],
        ),
    }
