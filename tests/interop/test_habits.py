"""What users type without a thought: ``np.asarray(t)``, ``np.dtype(t.dtype)``, ``jnp.asarray(t)``.

With the real libraries of each environment, NumPy 1.23 and 1.26 among them.  Both wrappers are
tried, because a library that looks for ``__array__`` finds it on both.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import dlshim

np = pytest.importorskip("numpy", reason="this environment has no NumPy")
NUMPY = tuple(int(part) for part in np.__version__.split(".")[:2])

WRAP = pytest.mark.parametrize("wrap", [dlshim.upgrade, dlshim.from_dlpack])
VALUES = [[0, 1, 2], [3, 4, 5]]


def library(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} is not installed here", exc_type=ImportError)


def source(**changes: Any) -> Any:
    a = np.array(VALUES, dtype=changes.get("dtype", "float32"))
    a.flags.writeable = not changes.get("readonly", False)
    return a


@WRAP
def test_numpy_reads_both_without_a_word(wrap: Any) -> None:
    a = source()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for made in (np.asarray(wrap(a)), np.array(wrap(a), copy=False)):
            assert np.shares_memory(made, a) and made.dtype == a.dtype and made.flags.writeable
        assert np.array(wrap(a), dtype="float64").tolist() == VALUES
        assert not np.shares_memory(np.array(wrap(a)), a)
        assert np.concatenate([wrap(a), wrap(a)]).shape == (4, 3)
        assert np.asarray(wrap(a[:, ::-1])).tolist() == [[2, 1, 0], [5, 4, 3]]
        assert not np.asarray(wrap(source(readonly=True))).flags.writeable


def test_numpy_reads_the_dtype() -> None:
    t = dlshim.from_dlpack(source())
    assert np.dtype(t.dtype) == t.dtype == np.float32
    assert np.zeros(2, dtype=t.dtype).dtype == t.dtype
    assert np.empty(t.shape, t.dtype).nbytes == t.nbytes
    with warnings.catch_warnings():
        # Before 2.4, NumPy says of the Tensor itself that its .dtype is not NumPy's own.
        warnings.simplefilter("error" if NUMPY >= (2, 4) else "ignore")
        assert np.result_type(t) == np.result_type(t, np.int8) == np.float32
        assert np.dtype(t) == np.float32


@WRAP
def test_bfloat16_is_ml_dtypes(wrap: Any) -> None:
    ml = library("ml_dtypes")
    a = np.arange(3).astype(ml.bfloat16)
    made = np.asarray(wrap(a))
    assert made.dtype == ml.bfloat16 and np.shares_memory(made, a)
    assert np.dtype(dlshim.from_dlpack(a).dtype) == ml.bfloat16


@WRAP
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_jax(wrap: Any, dtype: str) -> None:
    jax = library("jax")
    a = source() if dtype == "float32" else jax.numpy.arange(6, dtype=dtype).reshape(2, 3)
    for made in (
        jax.numpy.asarray(wrap(a)),
        jax.numpy.array(wrap(a)),
        jax.device_put(np.asarray(wrap(a))),
    ):
        assert made.dtype == dtype and made.tolist() == VALUES


def test_jax_names_devices_and_dtypes() -> None:
    jax = library("jax")
    if jax.__version_info__ < (0, 4, 16):
        pytest.skip("JAX gives its devices other names before 0.4.16")
    t = dlshim.from_dlpack(source(), device=jax.devices("cpu")[0], reinterpret=jax.numpy.int32)
    assert (t.device, t.dtype) == ((1, 0), "int32")


@WRAP
def test_torch(wrap: Any) -> None:
    torch = library("torch")
    made = torch.as_tensor(wrap(source()))
    assert made.dtype == torch.float32 and made.tolist() == VALUES
    bf16 = wrap(torch.ones(3, dtype=torch.bfloat16))
    assert torch.from_dlpack(bf16).dtype == torch.bfloat16


def test_torch_names_devices_and_dtypes() -> None:
    torch = library("torch")
    t = dlshim.from_dlpack(source(), device=torch.device("cpu"), reinterpret=torch.int32)
    assert (str(t.device), str(t.dtype)) == ("cpu", "int32")
    assert "device=(2, 1)" in repr(dlshim.upgrade(source(), device=torch.device("cuda:1")))


def test_torch_compile_is_quiet_as_the_guide_says() -> None:
    torch = library("torch")
    upgrade = torch.compiler.disable(dlshim.upgrade)

    @torch.compile(backend="eager")
    def one_more(x: Any) -> Any:
        return torch.from_dlpack(upgrade(x)) + 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert one_more(torch.zeros(2)).tolist() == [1, 1]


@WRAP
def test_tensorflow(wrap: Any) -> None:
    tf = library("tensorflow")
    for make in (tf.constant, tf.convert_to_tensor):
        assert make(wrap(source())).numpy().tolist() == VALUES


def test_a_symbolic_tensor_of_tensorflow_has_a_cure_that_works() -> None:
    tf = library("tensorflow")
    said = []

    @tf.function
    def traced(x: Any) -> Any:
        with pytest.raises(dlshim.UnsupportedObjectError) as error:
            dlshim.upgrade(x)
        said.append(str(error.value))
        return tf.numpy_function(lambda a: np.from_dlpack(dlshim.upgrade(a)) + 1, [x], tf.float32)

    assert traced(tf.constant([1.0, 2.0])).numpy().tolist() == [2, 3]
    assert said and all("tf.numpy_function" in each for each in said)
