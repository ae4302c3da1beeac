"""Functions of array libraries that the C code asks: for capsules, streams and devices.

``habits`` names each function, and ``src/types/library.c`` calls it with an array, and with the
number of a device where that matters.  Its docstring says what is asked, as the
documentation shows it.  Nothing here imports a library: it is looked up among the imported modules.
An AttributeError says that the library is not imported, or lacks the attribute.
"""

from __future__ import annotations

import sys
from _functools import partial  # functools would cost `import dlshim` more than all else

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _imported(module: str) -> Any:
    """Return a module, or None, which has none of its attributes."""
    return sys.modules.get(module)


# ---- capsules where __dlpack__ is missing: each returns a function that makes one --------------


def torch_capsule(array: Any) -> Callable[[], Any]:
    """``torch.utils.dlpack.to_dlpack``"""
    return partial(_imported("torch").utils.dlpack.to_dlpack, array)


def jax_capsule(array: Any) -> Callable[[], Any]:
    """``jax.dlpack.to_dlpack``"""
    return partial(_imported("jax").dlpack.to_dlpack, array)


def tensorflow_capsule(array: Any) -> Callable[[], Any]:
    """``tensorflow.experimental.dlpack.to_dlpack``"""
    return partial(_imported("tensorflow").experimental.dlpack.to_dlpack, array)


def paddle_capsule(array: Any) -> Callable[[], Any]:
    """``paddle.utils.dlpack.to_dlpack``"""
    return partial(_imported("paddle").utils.dlpack.to_dlpack, array)


def onnxruntime_capsule(array: Any) -> Any:
    """``._ortvalue.to_dlpack`` or ``._ortvalue.__dlpack__``"""
    try:
        return array._ortvalue.to_dlpack
    except AttributeError:
        return array._ortvalue.__dlpack__


# ---- the stream on which a library works now, as an object or a handle -------------------------


def torch_stream(array: Any, device: int) -> Any:
    """``torch.cuda.current_stream(device)``"""
    return _imported("torch").cuda.current_stream(device)


def torch_xpu_stream(array: Any, device: int) -> Any:
    """``torch.xpu.current_stream(device of the object)``"""
    # torch and its capsules number the devices differently (S6).
    return _imported("torch").xpu.current_stream(array.device)


def cupy_stream(array: Any, device: int) -> Any:
    """``cupy.cuda.get_current_stream()``"""
    return _imported("cupy").cuda.get_current_stream()


def paddle_stream(array: Any, device: int) -> Any:
    """``paddle.device.cuda.current_stream(device)``"""
    return _imported("paddle").device.cuda.current_stream(device)


def nvcv_stream(array: Any, device: int) -> Any:
    """``nvcv.cuda.Stream.current``, or ``cvcuda.Stream.current``"""
    before = _imported("nvcv")
    return before.cuda.Stream.current if before else _imported("cvcuda").Stream.current


def tvm_ffi_stream(array: Any, device: int) -> Any:
    """``tvm_ffi.get_raw_stream(device of the object)``"""
    # The stream that the user has set for the device (use_raw_stream).
    return _imported("tvm_ffi").get_raw_stream(array.device)


def stream_of_device(array: Any, device: int) -> Any:
    """the object's ``.device.stream``"""
    return array.device.stream


def stream_of_array(array: Any, device: int) -> Any:
    """the object's ``.stream``"""
    return array.stream


def queue_of_array(array: Any, device: int) -> Any:
    """the object's ``.sycl_queue``"""
    return array.sycl_queue


# ---- other questions to a library --------------------------------------------------------------


def torch_device_guard(array: Any, device: int) -> Any:
    """Return a context manager that makes the device torch's current one; None: it is."""
    cuda = _imported("torch").cuda
    return None if cuda.current_device() == device else cuda.device(device)


def paddle_device_guard(array: Any, device: int) -> Any:
    """Return a context manager that makes the device Paddle's current one; None: it is."""
    paddle, place = _imported("paddle"), f"gpu:{device}"
    # Older than the edges of Paddle's __dlpack__ (PaddlePaddle/Paddle#73964, #76840).
    return None if paddle.device.get_device() == place else paddle.device.device_guard(place)


def torch_plain_calls(array: Any) -> Any:
    """Return the class of a context manager under which subclasses answer without their hook."""
    # torch's own hook makes the same guard, in Python; torch 1.13 has it under another name only.
    return _imported("torch")._C.DisableTorchFunctionSubclass


def torch_read_only_table(array: Any) -> Any:
    """Return the C table that exports tensors as read-only; torch has it from 2.14 on."""
    return _imported("torch")._C._const_dlpack_exchange_api()


def torch_mps_wait(array: Any) -> Any:
    """Return the function by which the host waits for all work of torch on Metal."""
    return _imported("torch").mps.synchronize
