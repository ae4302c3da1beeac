"""Fake consumers of CUDA memory, over the fake driver: what each passes, and where it reads.

Each is written after the source that its row names (repository, file, commit).  ``ask`` does what
the library does with the object that a user hands it, on behalf of a user whose work is on the
stream `s`; it gives the import that it took, the memory's address, and the stream on which the
library's kernels then read.  A stream that the library does not tell anybody is `own`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from drivers.control import LEGACY, Driver

from . import capsules as caps
from .capsules import LEGACY as LEGACY_NAME
from .ctable import Table


@dataclass(frozen=True)
class Asked:
    """What was taken, and the stream of the kernel that reads it."""

    taken: Any
    address: int
    stream: int


@dataclass(frozen=True)
class Situation:
    """The driver, the stream of the user's work, and a stream of the library's own."""

    drv: Driver
    s: int
    own: int


def _imported(capsule: Any, stream: int) -> Asked:
    taken = caps.take(capsule)
    return Asked(taken, taken.view.data, stream)


def _insist_on_legacy(capsule: Any) -> Any:
    if caps.name_of(capsule) != LEGACY_NAME:
        raise RuntimeError("the capsule is none of DLPack 0.x")
    return capsule


def torch(x: Any, at: Situation) -> Asked:
    device_type, _ = x.__dlpack_device__()
    assert device_type == 2
    stream = at.s or LEGACY
    try:
        capsule = x.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:
        capsule = x.__dlpack__(stream=stream)
    return _imported(capsule, at.s)


def torch28(x: Any, at: Situation) -> Asked:
    x.__dlpack_device__()
    return _imported(_insist_on_legacy(x.__dlpack__(stream=at.s or LEGACY)), at.s)


def cupy(x: Any, at: Situation) -> Asked:
    device_type, _ = x.__dlpack_device__()
    assert device_type in (2, 13)
    stream = at.s or LEGACY
    try:
        capsule = x.__dlpack__(stream=stream, max_version=(1, 0), copy=None)
    except TypeError:
        capsule = x.__dlpack__(stream=stream)
    return _imported(capsule, at.s)


def _is_tensorflow_tensor(x: Any) -> bool:
    t = type(x)
    ops = "tensorflow.python.framework.ops"
    return t.__qualname__ == "EagerTensor" and t.__module__.endswith(ops)


def jax(x: Any, at: Situation) -> Asked:
    """None for TensorFlow's arrays, which take no stream, and for pinned memory."""
    device_type, _ = x.__dlpack_device__()
    assert device_type in (2, 3)
    stream = None if _is_tensorflow_tensor(x) or device_type == 3 else at.own
    return _imported(_insist_on_legacy(x.__dlpack__(stream=stream)), at.own)


def tensorflow(capsule: Any, at: Situation) -> Asked:
    return _imported(_insist_on_legacy(capsule), at.own)


def warp(x: Any, at: Situation) -> Asked:
    """For pinned memory, too, a stream: that of the current device."""
    device_type, _ = x.__dlpack_device__()
    assert device_type in (1, 2, 3, 13)
    stream = None if device_type == 1 else at.s or LEGACY
    return _imported(_insist_on_legacy(x.__dlpack__(stream=stream)), at.s)


def paddle(x: Any, at: Situation) -> Asked:
    """A stream for device memory alone: none for managed memory."""
    device_type, _ = x.__dlpack_device__()
    asked = {"stream": at.s or LEGACY} if device_type == 2 else {}
    try:
        capsule = x.__dlpack__(max_version=(1, 2), **asked)
    except TypeError:
        capsule = x.__dlpack__(**asked)
    return _imported(capsule, at.s)


def numba(x: Any, at: Situation) -> Asked:
    """`cuda.as_cuda_array`, which knows the CUDA array interface alone."""
    interface = x.__cuda_array_interface__
    stream = interface.get("stream")
    if stream is not None:
        at.drv.call("cuStreamSynchronize", stream)
    return Asked(interface, interface["data"][0], at.s)


def nanobind(x: Any, at: Situation) -> Asked:
    try:
        capsule = x.__dlpack__(max_version=(1, 1))
    except TypeError:
        capsule = x.__dlpack__()
    return _imported(capsule, at.s)


def cuda_core(x: Any, at: Situation) -> Asked:
    x.__dlpack_device__()
    try:
        capsule = x.__dlpack__(stream=at.s, max_version=(1, 3))
    except TypeError:
        capsule = x.__dlpack__(stream=at.s)
    return _imported(capsule, at.s)


def numba_kernel(x: Any, at: Situation) -> Asked:
    """`kernel[grid, block, stream](x)`: once to learn the type, and once to launch.  What has no
    `__dlpack__` is taken by its CUDA array interface."""
    if not hasattr(x, "__dlpack__"):
        return numba(x, at)
    typeof = cuda_core(x, Situation(at.drv, -1, at.own))
    release = getattr(typeof.taken, "release", None)
    if release is not None:
        release()
    return cuda_core(x, at)


def tvm_ffi(x: Any, at: Situation) -> Asked:
    """A C table where the type has one, and its stream; else bare, and L."""
    if hasattr(type(x), "__dlpack_c_exchange_api__"):
        table = Table(type(x))
        taken = table.owned(x)
        stream = table.stream((2, taken.view.device[1])) or LEGACY
        return Asked(taken, taken.view.data, stream)
    return _imported(x.__dlpack__(), LEGACY)


def mpi4py(x: Any, at: Situation) -> Asked:
    x.__dlpack_device__()
    try:
        capsule = x.__dlpack__(stream=-1, max_version=(1, 0))
    except TypeError:
        capsule = x.__dlpack__(stream=-1)
    return _imported(capsule, at.own)


@dataclass(frozen=True)
class Consumer:
    """`takes`: what a user hands it, an "object", a "capsule", or an object of the CUDA array
    "interface"."""

    ask: Callable[[Any, Situation], Asked]
    source: str
    takes: str = "object"


CONSUMERS = {
    "torch >= 2.9": Consumer(torch, "pytorch/pytorch torch/utils/dlpack.py@00960f7"),
    "torch < 2.9": Consumer(torch28, "pytorch/pytorch torch/utils/dlpack.py, 2.8"),
    "CuPy": Consumer(cupy, "cupy/cupy cupy/_core/dlpack.pyx@6b6d956"),
    "JAX": Consumer(jax, "jax-ml/jax jax/_src/dlpack.py@cec06d1"),
    "TensorFlow": Consumer(tensorflow, "tensorflow/tensorflow c/eager/dlpack.cc", "capsule"),
    "Warp": Consumer(warp, "NVIDIA/warp warp/_src/dlpack.py@9934a4e"),
    "Paddle": Consumer(paddle, "PaddlePaddle/Paddle python/paddle/utils/dlpack.py, 3.3.1"),
    "numba": Consumer(numba, "NVIDIA/numba-cuda numba_cuda/numba/cuda/api.py@b18b944", "interface"),
    "numba kernel": Consumer(
        numba_kernel, "NVIDIA/numba-cuda numba_cuda/numba/cuda/typing/typeof.py, 0.30.4"
    ),
    "nanobind": Consumer(nanobind, "wjakob/nanobind src/nb_ndarray.cpp@1bd3139"),
    "cuda.core": Consumer(cuda_core, "NVIDIA/cuda-python cuda/core/_memoryview.pyx@a86b235"),
    "tvm-ffi": Consumer(tvm_ffi, "apache/tvm-ffi python/tvm_ffi/cython/function.pxi@620fece"),
    "mpi4py": Consumer(mpi4py, "mpi4py/mpi4py MPI.src/asdlpack.pxi@7c8dac2"),
}
