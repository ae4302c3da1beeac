"""Libraries that take arrays of any kind: a Producer, or ``numpy.asarray`` of it or of a Tensor.

test_tensors_taken.py has what they make of a Tensor.
"""

from __future__ import annotations

import io
import multiprocessing
import pickle
from typing import Any

import numpy as np
import pytest

import dlshim

WRAP = pytest.mark.parametrize("wrap", [dlshim.upgrade, dlshim.from_dlpack])
VALUES = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def library(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} is not installed here", exc_type=ImportError)


def tensor(dtype: str = "float32") -> dlshim.Tensor:
    return dlshim.from_dlpack(np.array(VALUES, dtype))


def producer(dtype: str = "float32") -> dlshim.Producer:
    return dlshim.upgrade(np.array(VALUES, dtype))


# --- a Producer as it is ---------------------------------------------------------------


def test_dask() -> None:
    da = library("dask.array")
    assert da.asarray(producer()).compute().tolist() == VALUES
    assert da.from_array(np.asarray(tensor()), chunks=2).sum().compute() == 15


def test_zarr() -> None:
    zarr = library("zarr")
    assert zarr.array(producer())[:].tolist() == VALUES
    made = zarr.zeros((2, 3))
    made[:] = np.asarray(tensor())
    assert made[:].tolist() == VALUES


def test_xgboost() -> None:
    xgboost = library("xgboost")
    for x in (producer(), np.asarray(tensor())):
        assert xgboost.DMatrix(x, label=np.zeros(2)).num_row() == 2


@WRAP
def test_blosc2(wrap: Any) -> None:
    blosc2 = library("blosc2")
    assert blosc2.asarray(np.asarray(wrap(np.array(VALUES))))[:].tolist() == VALUES
    assert blosc2.asarray(producer())[:].tolist() == VALUES


@WRAP
def test_sklearn(wrap: Any) -> None:
    preprocessing = library("sklearn.preprocessing")
    scaled = preprocessing.StandardScaler().fit_transform(np.asarray(wrap(np.array(VALUES))))
    assert scaled.tolist() == [[-1] * 3, [1] * 3]
    assert preprocessing.StandardScaler().fit_transform(wrap(np.array(VALUES))).shape == (2, 3)


@WRAP
def test_h5py(wrap: Any) -> None:
    h5py = library("h5py")
    with h5py.File(io.BytesIO(), "w") as file:
        file.create_dataset("a", data=wrap(np.array(VALUES)))
        made = file.create_dataset("b", (2, 3))
        made[...] = wrap(np.array(VALUES))
        assert file["a"][:].tolist() == made[:].tolist() == VALUES


@WRAP
def test_xarray(wrap: Any) -> None:
    xarray = library("xarray")
    assert xarray.DataArray(np.asarray(wrap(np.array(VALUES)))).values.tolist() == VALUES


def test_a_data_array_is_told_by_the_array_inside() -> None:
    """Which passes without a copy, wherever it lies; numpy.asarray takes it to the host."""
    xarray = library("xarray")
    inside = np.array(VALUES)
    with pytest.raises(BufferError, match=r"pass x\.data instead"):
        dlshim.from_dlpack(xarray.DataArray(inside))
    assert dlshim.from_dlpack(xarray.DataArray(inside).data).data_ptr() == inside.ctypes.data


# --- what the guide warns of ------------------------------------------------------------


def test_columns_of_pandas_and_polars_want_a_tensor_or_an_array() -> None:
    """Both store a Producer as one object, without a word: this is not dlshim's to change."""
    pandas, polars = library("pandas"), library("polars")
    row = dlshim.upgrade(np.arange(3.0))
    assert pandas.Series(row).dtype == object and len(pandas.Series(row)) == 1
    assert polars.DataFrame({"a": row}).shape == (1, 1)
    for taken in (dlshim.from_dlpack(row), np.asarray(row)):
        assert pandas.Series(taken).tolist() == [0, 1, 2]
        assert polars.Series(taken).to_list() == [0, 1, 2]


def test_jax_device_put_and_safetensors_want_an_array() -> None:
    numpy_files = library("safetensors.numpy")
    data = numpy_files.save({"a": np.asarray(tensor())})
    assert numpy_files.load(data)["a"].tolist() == VALUES
    jax = library("jax")
    with pytest.raises(TypeError):
        jax.device_put(tensor())
    assert jax.device_put(np.asarray(tensor())).tolist() == VALUES


def test_triton_reads_a_tensor_as_a_kernels_argument() -> None:
    ml = library("ml_dtypes")
    mangle = library("triton.runtime.jit").mangle_type
    for dtype, told in {"float32": "*fp32", "int64": "*i64", "bool": "*u1"}.items():
        assert mangle(tensor(dtype)) == told
    assert mangle(dlshim.from_dlpack(np.zeros(3, ml.bfloat16))) == "*bf16"
    assert tensor().data_ptr() % 8 == 0, "it is called, as torch's"


# --- images -----------------------------------------------------------------------------


def test_pillow_takes_strided_bytes_by_tobytes() -> None:
    image = library("PIL.Image")
    pixels = np.arange(24, dtype=np.uint8).reshape(4, 6)
    for x in (pixels, pixels[:, ::2], pixels.T):
        made = image.fromarray(dlshim.from_dlpack(x))
        assert np.asarray(made).tolist() == x.tolist()
        assert image.frombytes("L", x.shape[::-1], dlshim.from_dlpack(x).tobytes()).size


# --- other processes --------------------------------------------------------------------


def total(t: dlshim.Tensor) -> tuple[float, dlshim.Tensor]:
    return float(np.asarray(t).sum()), t


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_multiprocessing(method: str) -> None:
    with multiprocessing.get_context(method).Pool(1) as pool:
        (result, back) = pool.map(total, [tensor()])[0]
    assert result == 15 and np.asarray(back).tolist() == VALUES


def test_joblib() -> None:
    joblib = library("joblib")
    results = joblib.Parallel(n_jobs=2)(joblib.delayed(total)(tensor()) for _ in range(2))
    assert [result for result, _ in results] == [15, 15]
    file = io.BytesIO()
    joblib.dump(tensor(), file)
    file.seek(0)
    assert np.asarray(joblib.load(file)).tolist() == VALUES


def test_dask_serialises_out_of_band_without_a_copy() -> None:
    protocol = library("distributed.protocol")
    t = tensor()
    header, frames = protocol.serialize(t)
    views = [memoryview(frame) for frame in frames]
    assert [v.nbytes for v in views if v.nbytes == t.nbytes] == [t.nbytes]
    own = next(v for v in views if v.nbytes == t.nbytes)
    assert np.frombuffer(own, "u1").ctypes.data == t.data_ptr()
    assert np.asarray(protocol.deserialize(header, frames)).tolist() == VALUES


def test_a_local_cluster_of_dask() -> None:
    distributed = library("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        with distributed.Client(cluster) as client:
            result, back = client.submit(total, tensor()).result()
    assert result == 15 and back.dtype == "float32" and np.asarray(back).tolist() == VALUES


def test_a_pickle_of_bfloat16_needs_no_library() -> None:
    ml = library("ml_dtypes")
    t = dlshim.from_dlpack(np.arange(3).astype(ml.bfloat16))
    assert np.asarray(pickle.loads(pickle.dumps(t, 5))).dtype == ml.bfloat16
