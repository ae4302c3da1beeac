"""How real consumers ask: one function per library, and what each then reads.

Call shapes and limits are those that were logged from the real libraries; each docstring
names library and version.  A function returns an :class:`~doubles.capsules.Import`, which owns
what was taken in the way that the library owns it.  What the library refuses is refused here
with the same class; where the library would kill the process, :class:`Killed` is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import capsules as caps
from .capsules import LEGACY, VERSIONED, Capsule, Import


class Killed(Exception):
    """The real consumer would have aborted, crashed, or read wrong memory at this point."""


def _plain_ints(device: Any) -> tuple[int, int]:
    """JAX, cuda.core and mpi4py unpack the device into C ints."""
    kind, index = device
    for part in (kind, index):
        if not isinstance(part, int):
            raise TypeError(f"an integer is required (got type {type(part).__name__})")
    return int(kind), int(index)


def _only(capsule: Any, name: str) -> Any:
    if caps.name_of(capsule) != name:
        raise ValueError(f"PyCapsule_GetPointer called with incorrect name, not {name}")
    return capsule


def _host(imported: Import, *device_types: int) -> Import:
    if imported.view.device[0] not in device_types:
        raise RuntimeError(f"Unsupported device_type: {imported.view.device[0]}")
    return imported


def _known_major(capsule: Any) -> Any:
    view = caps.look(capsule)
    if view.version is not None and view.version[0] > 1:
        raise BufferError("DLPack major version is not supported")
    return capsule


def _no_offset(imported: Import) -> Import:
    """torch <= 2.9, warp, TensorFlow of old, cuda.core read at `data` and miss the offset."""
    if imported.view.byte_offset:
        raise Killed("byte_offset ignored: wrong values")
    return imported


def _no_negative(imported: Import) -> Import:
    view = imported.view
    if any(s < 0 for s in view.strides or ()):
        raise Killed("negative strides abort the process")
    return imported


# --- NumPy ----------------------------------------------------------------------------


def ask_like_numpy1(x: Any) -> Import:
    """NumPy 1.22 to 2.0: `type(x).__dlpack__(x)`, legacy; the method is looked up on the type."""
    return _host(caps.take(_only(type(x).__dlpack__(x), LEGACY)), 1, 3, 11, 13)


def ask_like_numpy2(x: Any, *, copy: bool | None = None, device: Any = None) -> Import:
    """NumPy 2.1 to 2.5: three keywords; bare after a TypeError, if copy and device are None."""
    try:
        capsule = x.__dlpack__(dl_device=device, copy=copy, max_version=(1, 0))
    except TypeError:
        if copy is not None or device is not None:
            raise
        capsule = x.__dlpack__()
    view = caps.look(_known_major(capsule))
    if view.data == 0 and 0 not in view.shape:
        raise Killed("NumPy makes up memory for NULL data")
    return _host(caps.take(capsule), 1, 3, 11, 13)


# --- torch ----------------------------------------------------------------------------


def ask_like_torch28(x: Any) -> Import:
    """torch 1.10 to 2.8: the device first, then bare; legacy; ignores byte_offset."""
    if isinstance(x, Capsule):
        return _no_offset(_no_negative(caps.take(_only(x, LEGACY))))
    kind, _ = x.__dlpack_device__()
    capsule = x.__dlpack__(stream=1) if kind in (2, 10) else x.__dlpack__()
    if caps.name_of(capsule) != LEGACY:
        raise RuntimeError("from_dlpack received an invalid capsule")
    return _host(_no_offset(_no_negative(caps.take(capsule))), 1, 2, 4, 8, 10, 12, 14)


def ask_like_torch29(x: Any) -> Import:
    """torch 2.9: the device, then `max_version=(1, 0)`, without it after a TypeError."""
    x.__dlpack_device__()
    try:
        capsule = x.__dlpack__(max_version=(1, 0))
    except TypeError:
        capsule = x.__dlpack__()
    return _host(_no_offset(_no_negative(caps.take(_known_major(capsule)))), 1, 2, 8, 10, 12, 14)


def ask_like_torch213(x: Any, *, copy: bool | None = None, device: Any = None) -> Import:
    """torch 2.10 to 2.13: as 2.9, drops max_version, then copy, then dl_device on TypeErrors."""
    x.__dlpack_device__()
    asked: dict[str, Any] = {"max_version": (1, 0)}
    if copy is not None:
        asked["copy"] = copy
    if device is not None:
        asked["dl_device"] = device
    for dropped in ("max_version", "copy", "dl_device", None):
        try:
            capsule = x.__dlpack__(**asked)
            break
        except TypeError:
            if dropped is None:
                raise
            asked.pop(dropped, None)
    view = caps.look(_known_major(capsule))
    if view.byte_offset and view.strides is None:
        raise ValueError("byte_offset without strides")
    return _host(_no_negative(caps.take(capsule)), 1, 2, 8, 10, 12, 14)


# --- JAX, TensorFlow, Paddle ----------------------------------------------------------


def ask_like_jax(x: Any) -> Import:
    """JAX 0.4.16 to 0.11: the device in plain ints, then `stream=None`; legacy only."""
    _plain_ints(x.__dlpack_device__())
    capsule = x.__dlpack__(stream=None)
    if caps.name_of(capsule) != LEGACY:
        raise RuntimeError("INVALID_ARGUMENT: DLPack tensor must be dltensor")
    view = caps.look(capsule)
    if 0 not in view.shape and any(s < 0 for s in view.strides or ()):
        raise RuntimeError("UNIMPLEMENTED: from_dlpack got array with non-default layout")
    return caps.take_and_clear(capsule)


def ask_like_tensorflow(capsule: Any) -> Import:
    """TensorFlow 2.2 to 2.12: a raw legacy capsule, exact row-major strides, offset ignored."""
    view = caps.look(_only(capsule, LEGACY))
    if view.strides is not None and view.strides != caps.row_major(view.shape):
        raise RuntimeError("InvalidArgumentError: strides are not compact row-major")
    return _no_offset(caps.take(capsule))


def ask_like_paddle32(x: Any) -> Import:
    """Paddle 3.0 to 3.2: the device, then bare; legacy."""
    x.__dlpack_device__()
    return _no_negative(caps.take(_only(x.__dlpack__(), LEGACY)))


def ask_like_paddle33(x: Any) -> Import:
    """Paddle 3.3: the device, then `max_version=(1, 2)`, without it after a TypeError."""
    x.__dlpack_device__()
    try:
        capsule = x.__dlpack__(max_version=(1, 2))
    except TypeError:
        capsule = x.__dlpack__()
    return _no_negative(_no_offset(caps.take(capsule)))


# --- pyarrow, nanoarrow ---------------------------------------------------------------


def ask_like_pyarrow26(x: Any) -> Import:
    """pyarrow 26: `max_version=(1, 3)` and the other two; versioned only, strides required."""
    capsule = x.__dlpack__(max_version=(1, 3), dl_device=None, copy=None)
    if caps.name_of(capsule) != VERSIONED:
        raise ValueError('DLPack producer did not produce a "dltensor_versioned" PyCapsule')
    view = caps.look(capsule)
    if view.version[0] != 1:
        raise ValueError("unsupported DLPack version")
    if view.ndim and view.strides is None:
        raise ValueError("strides must not be NULL")
    return caps.take(capsule)


def ask_like_nanoarrow(x: Any) -> Import:
    """nanoarrow 0.6 to 0.9 `c_buffer`: `stream=None`, legacy, never renames."""
    capsule = _only(x.__dlpack__(stream=None), LEGACY)
    view = caps.look(capsule)
    if view.ndim != 1 and view.strides is not None:
        raise NotImplementedError("strides with ndim != 1")
    return caps.hold(capsule)


# --- mpi4py ---------------------------------------------------------------------------


def _mpi_layout(imported: Import) -> Import:
    view = imported.view
    strides = caps.row_major(view.shape) if view.strides is None else view.strides
    orders = (caps.row_major(view.shape), caps.column_major(view.shape))
    wide = [k for k, extent in enumerate(view.shape) if extent > 1]
    if 0 not in view.shape and not any(all(strides[k] == o[k] for k in wide) for o in orders):
        raise BufferError("dlpack: buffer is not contiguous")
    return imported


def ask_like_mpi4py31(x: Any) -> Import:
    """mpi4py 3.1: the device, bare, the deleter called at once, only the object kept."""
    _plain_ints(x.__dlpack_device__())
    return _mpi_layout(caps.gulp(_only(x.__dlpack__(), LEGACY), x))


def ask_like_mpi4py40(x: Any) -> Import:
    """mpi4py 4.0: versioned unless a TypeError came; the deleter called at once."""
    return _mpi_layout(caps.gulp(_mpi_capsule(x), x))


def ask_like_mpi4py41(x: Any) -> Import:
    """mpi4py 4.1: as 4.0, but never renames and keeps the capsule."""
    return _mpi_layout(caps.hold(_mpi_capsule(x)))


def _mpi_capsule(x: Any) -> Any:
    _plain_ints(x.__dlpack_device__())
    try:
        capsule, wanted = x.__dlpack__(max_version=(1, 0), copy=False), VERSIONED
    except TypeError:
        capsule, wanted = x.__dlpack__(), LEGACY
    if caps.name_of(capsule) != wanted:
        raise BufferError("dlpack: invalid capsule object")
    return capsule


# --- tvm-ffi, nanobind, MLX -----------------------------------------------------------


def ask_like_tvmffi(x: Any) -> Import:
    """tvm-ffi 0.1.15 `from_dlpack` without a table: bare, legacy; raw capsules of both names."""
    if isinstance(x, Capsule):
        return caps.take_and_clear(x)
    capsule = x.__dlpack__()
    if caps.name_of(capsule) != LEGACY:
        raise ValueError("Expect a dltensor field, PyCapsule can only be consumed once")
    return caps.take_and_clear(capsule)


def ask_like_nanobind2(x: Any) -> Import:
    """nanobind <= 2.9: bare, legacy, any error means its next way in and then a TypeError."""
    try:
        capsule = x.__dlpack__()
    except Exception:
        raise TypeError("incompatible function arguments") from None
    if caps.name_of(capsule) != LEGACY:
        raise TypeError("incompatible function arguments")
    return caps.take_and_clear(capsule)


def _nanobind3(x: Any, *shapes: dict[str, Any]) -> Import:
    method = type(x).__dlpack__
    for asked in shapes:
        try:
            capsule = method(x, **asked)
        except (TypeError, BufferError):
            continue
        except Exception:
            break
        return caps.seize(capsule)
    raise TypeError("incompatible function arguments")


def ask_like_nanobind3_rw(x: Any) -> Import:
    """nanobind 3.1 `ndarray<>`: `max_version=(1, 1)`, then bare; refuses read-only."""
    imported = _nanobind3(x, {"max_version": (1, 1)}, {})
    if imported.view.readonly:
        raise TypeError("incompatible function arguments")
    return imported


def ask_like_nanobind3_ro(x: Any) -> Import:
    """nanobind 3.1 `ndarray<ro>`: bare, then `max_version=(1, 1)`; clears the destructor only."""
    return _nanobind3(x, {}, {"max_version": (1, 1)})


def ask_like_mlx(x: Any) -> Import:
    """MLX 0.32 `from_dlpack`: as nanobind's read-only, refuses negative strides."""
    imported = ask_like_nanobind3_ro(x)
    if any(s < 0 for s in imported.view.strides or ()):
        raise ValueError("[convert] Cannot convert array to mlx.")
    return imported


# --- the others -----------------------------------------------------------------------


def ask_like_warp(x: Any) -> Import:
    """warp 1.9 to 1.19: the device, `stream=None`, an assertion on the name; offset ignored."""
    kind, _ = x.__dlpack_device__()
    capsule = x.__dlpack__(stream=1 if int(kind) in (2, 3, 13) else None)
    if caps.name_of(capsule) != LEGACY:
        raise AssertionError("invalid capsule")
    return _no_offset(caps.take(capsule))


def ask_like_cudacore(x: Any, *, stream: Any = None) -> Import:
    """cuda.core 1.2 `StridedMemoryView`: `stream` and `max_version=(1, 3)`, then `stream`."""
    _plain_ints(x.__dlpack_device__())
    try:
        capsule = x.__dlpack__(stream=stream, max_version=(1, 3))
    except TypeError:
        capsule = x.__dlpack__(stream=stream)
    return _no_offset(caps.take_by_used_name(capsule))


def ask_like_cupy13(x: Any, *, stream: int = 1) -> Import:
    """CuPy 10 to 13.3: the device, `stream=` a pointer; legacy."""
    x.__dlpack_device__()
    return caps.take(_only(x.__dlpack__(stream=stream), LEGACY))


def ask_like_cupy14(x: Any, *, stream: int = 1, copy: bool | None = None) -> Import:
    """CuPy 13.4 and 14: `stream`, `max_version`, `copy`; then `stream` alone."""
    x.__dlpack_device__()
    try:
        capsule = x.__dlpack__(stream=stream, max_version=(1, 0), copy=copy)
    except TypeError:
        if copy is not None:
            raise
        capsule = x.__dlpack__(stream=stream)
    return caps.take(_known_major(capsule))


def ask_like_dpctl(x: Any, *, device: Any = None, copy: bool | None = None) -> Import:
    """dpctl >= 0.17, dpnp 0.20: three keywords and no stream; bare after a TypeError."""
    try:
        capsule = x.__dlpack__(max_version=(1, 0), dl_device=device, copy=copy)
    except TypeError:
        capsule = x.__dlpack__()
    if not caps.look(capsule).deleter:
        raise Killed("calls the deleter without a NULL check")
    return _no_offset(caps.take(capsule))


def ask_like_onnxruntime(x: Any) -> Import:
    """onnxruntime 1.31 `OrtValue.from_dlpack`: bare, legacy, literally contiguous."""
    capsule = _only(x.__dlpack__(), LEGACY)
    view = caps.look(capsule)
    if view.strides is not None and view.strides != caps.row_major(view.shape):
        raise RuntimeError("ORT only supports contiguous tensor for now.")
    return _no_offset(caps.take(capsule))


def ask_like_cutedsl(x: Any) -> Import:
    """CuTe DSL 4.7 without tvm-ffi: `stream=-1`, then bare; never looks at the name."""
    try:
        capsule = x.__dlpack__(stream=-1)
    except Exception:
        capsule = x.__dlpack__()
    if caps.name_of(capsule) != LEGACY:
        raise Killed("reads a versioned struct as a legacy one")
    return caps.blind(capsule)


def ask_like_mxnet(capsule: Any) -> Import:
    """MXNet 1.9.1 `from_dlpack`: a raw legacy capsule, exactly compact strides."""
    return ask_like_tensorflow(capsule)


def ask_like_open3d(capsule: Any) -> Import:
    """open3d 0.20 `Tensor.from_dlpack`: a raw legacy capsule of any strides."""
    return caps.take(_only(capsule, LEGACY))


def ask_like_triton(x: Any) -> Import:
    """Triton python_backend: `stream=1` whatever the device; literally row-major strides."""
    capsule = _only(x.__dlpack__(stream=1), LEGACY)
    view = caps.look(capsule)
    if view.strides is not None and view.strides != caps.row_major(view.shape):
        raise RuntimeError("DLPack tensor is not contiguous.")
    return caps.take(capsule)


Ask = Callable[[Any], Import]

# Consumers that take an object, by what they can hold.
LEGACY_ONLY: dict[str, Ask] = {
    f.__name__: f
    for f in (
        ask_like_numpy1,
        ask_like_torch28,
        ask_like_jax,
        ask_like_paddle32,
        ask_like_mpi4py31,
        ask_like_tvmffi,
        ask_like_nanobind2,
        ask_like_warp,
        ask_like_cupy13,
        ask_like_onnxruntime,
        ask_like_cutedsl,
        ask_like_triton,
    )
}
VERSIONED_FIRST: dict[str, Ask] = {
    f.__name__: f
    for f in (
        ask_like_numpy2,
        ask_like_torch29,
        ask_like_torch213,
        ask_like_paddle33,
        ask_like_pyarrow26,
        ask_like_mpi4py40,
        ask_like_mpi4py41,
        ask_like_nanobind3_rw,
        ask_like_cudacore,
        ask_like_cupy14,
        ask_like_dpctl,
    )
}
# These begin bare and go on to versioned only after a TypeError or a BufferError.
LEGACY_FIRST: dict[str, Ask] = {f.__name__: f for f in (ask_like_nanobind3_ro, ask_like_mlx)}
OBJECT_CONSUMERS: dict[str, Ask] = LEGACY_ONLY | VERSIONED_FIRST | LEGACY_FIRST
CAPSULE_CONSUMERS: dict[str, Ask] = {
    f.__name__: f for f in (ask_like_tensorflow, ask_like_mxnet, ask_like_open3d)
}
# nanoarrow takes one dimension only once strides are filled in.
ONE_DIMENSION: dict[str, Ask] = {"ask_like_nanoarrow": ask_like_nanoarrow}
