"""Targets for libraries whose functions do not fit ``make(shape, dtype)`` or ``consume(x)`` as they
are, and arrays of theirs that are special: ``--dlpack-producer dlshim_testing.libraries:torch``.

A target is made when it is asked for, so that nothing is imported but the library in question.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from .partner import Consumer, Producer

_PRODUCERS: dict[str, Callable[[], Producer]] = {}
_CONSUMERS: dict[str, Callable[[], Consumer]] = {}


def __getattr__(name: str) -> Any:
    """``NAME`` is a producer, ``from_NAME`` a consumer; its own arrays are those of ``NAME``."""
    if name in _PRODUCERS:
        return _PRODUCERS[name]()
    if name.startswith("from_") and name.removeprefix("from_") in _CONSUMERS:
        made = _CONSUMERS[name.removeprefix("from_")]()
        own = _PRODUCERS.get(name.removeprefix("from_"))
        made.own = made.own or (own and own())
        return made
    raise AttributeError(f"module {__name__!r} has no target {name!r}")


def producers() -> list[str]:
    return list(_PRODUCERS)


def consumers() -> list[str]:
    return [f"from_{name}" for name in _CONSUMERS]


def producer(make: Callable[[], Producer]) -> Callable[[], Producer]:
    _PRODUCERS[make.__name__.strip("_")] = make
    return make


def consumer(make: Callable[[], Consumer]) -> Callable[[], Consumer]:
    _CONSUMERS[make.__name__.strip("_").removeprefix("from_")] = make
    return make


def counting(shape: tuple[int, ...], dtype: str, *, read_only: bool = False) -> Any:
    """A NumPy array that counts up, as a source for libraries that make arrays of it."""
    import numpy

    size = 1
    for extent in shape:
        size *= extent
    if dtype == "bfloat16":  # in DLPack's doubles the k-th element has the bits of k
        bits = numpy.arange(size, dtype="u2")
        found = bits.view(importlib.import_module("ml_dtypes").bfloat16)
    else:
        found = numpy.arange(size).astype(dtype)
    found = found.reshape(shape)
    found.flags.writeable = not read_only
    return found


# ---- NumPy and what stands on it -------------------------------------------------------------


@producer
def _numpy() -> Producer:
    np = importlib.import_module("numpy")
    refused = {
        "other byte order": lambda: np.zeros(3, ">f4" if np.little_endian else "<f4"),
        "objects": lambda: np.array([None]),
        "dates": lambda: np.zeros(3, "M8[s]"),
        "fields": lambda: np.zeros(3, [("a", "i4")]),
        "strides between elements": lambda: np.zeros(3, [("a", "i1"), ("b", "i4")])["b"],
    }
    special = {
        "odd stride along an extent of one": lambda: (
            np.ndarray((3, 1), "f4", np.arange(3, dtype="f4"), strides=(4, 2)),
            [0.0, 1.0, 2.0],
        ),
    }
    return Producer(np.zeros, namespace=np, special=special, refused=refused)


@consumer
def _from_numpy() -> Consumer:
    np = importlib.import_module("numpy")
    return Consumer(np.from_dlpack, namespace=np)


@producer
def _array_api_strict() -> Producer:
    xp = importlib.import_module("array_api_strict")
    return Producer(xp.zeros, namespace=xp)


@consumer
def _from_array_api_strict() -> Consumer:
    xp = importlib.import_module("array_api_strict")
    return Consumer(xp.from_dlpack, namespace=xp)


# ---- frameworks ---------------------------------------------------------------------------------


@producer
def _torch() -> Producer:
    torch = importlib.import_module("torch")
    special = {
        "negative bit": lambda: (torch.tensor([1 + 2j, 3 + 4j]).conj().imag, [-2.0, -4.0]),
    }
    refused = {
        "requires grad": lambda: torch.zeros(3, requires_grad=True),
        "conjugate bit": lambda: torch.tensor([1 + 2j]).conj(),
        "sparse": lambda: torch.zeros(3).to_sparse(),
        "quantized": lambda: torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8),
        "meta": lambda: torch.zeros(3, device="meta"),
    }
    return Producer(torch.zeros, namespace=torch, special=special, refused=refused)


@consumer
def _from_torch() -> Consumer:
    torch = importlib.import_module("torch")
    return Consumer(torch.from_dlpack, namespace=torch)


@producer
def _jax() -> Producer:
    importlib.import_module("jax").config.update("jax_enable_x64", True)
    jnp = importlib.import_module("jax.numpy")

    def make(shape: tuple[int, ...], dtype: Any) -> Any:
        return jnp.array(counting(shape, jnp.dtype(dtype).name), copy=True)

    return Producer(make, namespace=jnp, read_only=lambda: jnp.zeros(3))


@consumer
def _from_jax() -> Consumer:
    importlib.import_module("jax").config.update("jax_enable_x64", True)
    jnp = importlib.import_module("jax.numpy")
    return Consumer(jnp.from_dlpack, namespace=jnp)


@producer
def _tensorflow() -> Producer:
    tf = importlib.import_module("tensorflow")

    def make(shape: tuple[int, ...], dtype: str) -> Any:
        return tf.constant(counting(shape, tf.dtypes.as_dtype(dtype).name))

    return Producer(make, read_only=lambda: tf.constant([1.0, 2.0]))


@consumer
def _from_tensorflow() -> Consumer:
    tf = importlib.import_module("tensorflow")
    tf.constant(0.0)  # the context must be there
    return Consumer(tf.experimental.dlpack.from_dlpack, wants="legacy capsule")


@producer
def _paddle() -> Producer:
    paddle = importlib.import_module("paddle")

    def make(shape: tuple[int, ...], dtype: str) -> Any:
        return paddle.zeros(list(shape), dtype=dtype)

    return Producer(make)


@consumer
def _from_paddle() -> Consumer:
    paddle = importlib.import_module("paddle")
    return Consumer(paddle.from_dlpack)


@producer
def _mlx() -> Producer:
    mx = importlib.import_module("mlx.core")
    mx.set_default_device(mx.cpu)

    def make(shape: tuple[int, ...], dtype: str) -> Any:
        made = mx.zeros(shape, dtype=getattr(mx, {"bool": "bool_"}.get(dtype, dtype)))
        mx.eval(made)
        return made

    def rows() -> Any:
        made = mx.array([1.0, 2.0, 3.0])[1:]
        mx.eval(made)
        return made, [2.0, 3.0]

    return Producer(make, special={"slice": rows})


@consumer
def _from_mlx() -> Consumer:
    mx = importlib.import_module("mlx.core")
    return Consumer(mx.from_dlpack)


@producer
def _max() -> Producer:
    buffer = importlib.import_module("max.driver").Buffer

    def make(shape: tuple[int, ...], dtype: str) -> Any:
        return buffer.from_numpy(counting(shape, dtype))

    return Producer(make)


@consumer
def _from_max() -> Consumer:
    buffer = importlib.import_module("max.driver").Buffer
    return Consumer(buffer.from_dlpack)


@producer
def _warp() -> Producer:
    wp = importlib.import_module("warp")
    wp.config.quiet = True

    def make(shape: tuple[int, ...], dtype: str) -> Any:
        return wp.zeros(shape, dtype=getattr(wp, dtype), device="cpu")

    return Producer(make)


@consumer
def _from_warp() -> Consumer:
    wp = importlib.import_module("warp")
    wp.config.quiet = True
    wp.init()
    return Consumer(wp.from_dlpack)


# ---- tables and files --------------------------------------------------------------------------


def not_bool(dtype: str) -> str:
    """Arrow's bool is bits: what it makes of NumPy's is an array of bytes."""
    if dtype == "bool":
        raise TypeError("bool becomes uint8")
    return dtype


@producer
def _pyarrow_tensor() -> Producer:
    pa = importlib.import_module("pyarrow")

    def make(shape: tuple[int, ...], dtype: str) -> Any:
        return pa.Tensor.from_numpy(counting(shape, not_bool(dtype)))

    def strided() -> Any:
        whole = counting((4, 6), "float32")[:, ::2]
        return pa.Tensor.from_numpy(whole), whole.ravel().tolist()

    return Producer(
        make,
        special={"every second column": strided},
        read_only=lambda: pa.Tensor.from_numpy(counting((2, 3), "float32", read_only=True)),
    )


@producer
def _pyarrow_strided() -> Producer:
    """Tensors of pyarrow over memory with gaps, for what copies of them hold."""
    pa = importlib.import_module("pyarrow")

    def make(shape: tuple[int, ...], dtype: str) -> Any:
        not_bool(dtype)
        if not shape:
            return pa.Tensor.from_numpy(counting(shape, dtype))
        wide = counting((*shape[:-1], 2 * shape[-1]), dtype)
        wide[..., ::2] = counting(shape, dtype)
        return pa.Tensor.from_numpy(wide[..., ::2])

    return Producer(make)


@consumer
def _from_pyarrow_tensor() -> Consumer:
    pa = importlib.import_module("pyarrow")
    return Consumer(pa.Tensor.from_dlpack)


@producer
def _pyarrow_array() -> Producer:
    pa = importlib.import_module("pyarrow")

    def make(shape: tuple[int, ...], dtype: str) -> Any:
        if len(shape) != 1:
            shape = (6,) if shape == (2, 3) else shape
        return pa.array(counting(shape, dtype))

    refused = {
        "nulls": lambda: pa.array([1, None]),
        "bits": lambda: pa.array([True, False]),
        "strings": lambda: pa.array(["a"]),
        "lists": lambda: pa.array([[1], [2]]),
    }
    return Producer(make, refused=refused, read_only=lambda: pa.array([1, 2, 3]))


@producer
def _pyarrow_interchange() -> Producer:
    """Buffers of the dataframe interchange protocol, which have the methods and no support."""
    pa = importlib.import_module("pyarrow")

    def make(shape: tuple[int, ...], dtype: str) -> Any:
        shape = (6,) if shape == (2, 3) else shape
        table = pa.table({"a": pa.array(counting(shape, not_bool(dtype)))})
        return table.__dataframe__().get_column(0).get_buffers()["data"][0]

    return Producer(make)


@consumer
def _from_pyarrow_array() -> Consumer:
    pa = importlib.import_module("pyarrow")
    return Consumer(pa.Array.from_dlpack, one_dimension=True)


@producer
def _nanoarrow() -> Producer:
    na = importlib.import_module("nanoarrow")

    def make(shape: tuple[int, ...], dtype: str) -> Any:
        shape = (6,) if shape == (2, 3) else shape
        return na.c_buffer(counting(shape, not_bool(dtype))).view()

    return Producer(make)


@consumer
def _from_nanoarrow() -> Consumer:
    na = importlib.import_module("nanoarrow")
    return Consumer(na.c_buffer, one_dimension=True, flat=True, is_from_dlpack=False)


@producer
def _onnxruntime() -> Producer:
    ort = importlib.import_module("onnxruntime")

    def make(shape: tuple[int, ...], dtype: str) -> Any:
        return ort.OrtValue.ortvalue_from_numpy(counting(shape, dtype))

    return Producer(make)


@consumer
def _from_onnxruntime() -> Consumer:
    ort = importlib.import_module("onnxruntime")
    return Consumer(ort.OrtValue.from_dlpack)


# ---- compilers, messages, views -------------------------------------------------------------


@producer
def _tvm_ffi() -> Producer:
    tvm_ffi = importlib.import_module("tvm_ffi")

    def make(shape: tuple[int, ...], dtype: str) -> Any:
        return tvm_ffi.from_dlpack(counting(shape, dtype))

    return Producer(make)


@consumer
def _from_tvm_ffi() -> Consumer:
    tvm_ffi = importlib.import_module("tvm_ffi")
    return Consumer(tvm_ffi.from_dlpack)


@consumer
def _from_mpi4py() -> Consumer:
    importlib.import_module("mpi4py").rc.initialize = False
    buffer = importlib.import_module("mpi4py.MPI").buffer
    return Consumer(lambda x: buffer.frombuffer(x, readonly=True), flat=True, is_from_dlpack=False)


@producer
def _open3d() -> Producer:
    core = importlib.import_module("open3d.core")

    def make(shape: tuple[int, ...], dtype: str) -> Any:
        return core.Tensor.from_numpy(counting(shape, dtype))

    return Producer(make)


@consumer
def _from_open3d() -> Consumer:
    core = importlib.import_module("open3d.core")
    return Consumer(core.Tensor.from_dlpack, wants="legacy capsule")


@producer
def _cuda_core() -> Producer:
    view = importlib.import_module("cuda.core.utils").StridedMemoryView

    def make(shape: tuple[int, ...], dtype: str) -> Any:
        return view.from_dlpack(counting(shape, dtype), stream_ptr=-1)

    def locked() -> Any:
        return view.from_dlpack(counting((2, 3), "float32", read_only=True), stream_ptr=-1)

    return Producer(make, read_only=locked)


@consumer
def _from_cuda_core() -> Consumer:
    view = importlib.import_module("cuda.core.utils").StridedMemoryView
    return Consumer(lambda x: view.from_dlpack(x, stream_ptr=-1), is_from_dlpack=False)


@producer
def _dpctl() -> Producer:
    """Memory of oneAPI, which needs a SYCL device; dpctl 0.22 has no arrays any more."""
    tensor = importlib.import_module("dpctl.tensor")

    def locked() -> Any:
        array = tensor.zeros((2, 3), dtype="float32")
        array.flags.writable = False
        return array

    return Producer(tensor.zeros, namespace=tensor, read_only=locked)


@consumer
def _from_dpctl() -> Consumer:
    tensor = importlib.import_module("dpctl.tensor")
    return Consumer(tensor.from_dlpack, namespace=tensor)


# ---- dlshim itself ---------------------------------------------------------------------------


@producer
def _dlshim() -> Producer:
    dlshim = importlib.import_module("dlshim")

    def make(shape: tuple[int, ...], dtype: str) -> Any:
        return dlshim.upgrade(counting(shape, dtype))

    return Producer(
        make,
        claims="2025.12",
        read_only=lambda: dlshim.upgrade(counting((2, 3), "float32", read_only=True)),
    )


@producer
def _dlshim_tensor() -> Producer:
    dlshim = importlib.import_module("dlshim")

    def make(shape: tuple[int, ...], dtype: str) -> Any:
        return dlshim.from_dlpack(counting(shape, dtype))

    return Producer(
        make,
        claims="2025.12",
        read_only=lambda: dlshim.from_dlpack(counting((2, 3), "float32", read_only=True)),
    )


@consumer
def _from_dlshim() -> Consumer:
    return Consumer(importlib.import_module("dlshim").from_dlpack, claims="2025.12")
