"""Objects of SYCL as dpctl 0.21 and 0.22 make them, and arrays that speak only its interface.

No device, no queue of any runtime: queues write down what they are told.  :func:`library` is a
module like `dpctl`, for dlshim finds its classes among the imported modules.
"""

from __future__ import annotations

import ctypes as C
import itertools
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

from . import capsules as caps
from .older import InterfaceOnly, typestr_of
from .producers import Array

QUEUE, CONTEXT = "SyclQueueRef", "SyclContextRef"
_NAMES = {name: name.encode() for name in (QUEUE, CONTEXT, "SyclDeviceRef")}
_USED = {name: f"used_{name}".encode() for name in (QUEUE, CONTEXT)}
_new = C.PYFUNCTYPE(C.py_object, C.c_void_p, C.c_char_p, C.c_void_p)(("PyCapsule_New", C.pythonapi))
_set_name = C.PYFUNCTYPE(C.c_int, C.py_object, C.c_char_p)(("PyCapsule_SetName", C.pythonapi))
_pointer = C.PYFUNCTYPE(C.c_void_p, C.py_object, C.c_char_p)(("PyCapsule_GetPointer", C.pythonapi))

#: What the pointers in capsules stand for.
_behind: dict[int, Any] = {}
_numbers = itertools.count(0x5000, 0x10)


def capsule(name: str, content: Any) -> Any:
    """`_get_capsule()` of a SyclQueue or SyclContext: a new capsule each time."""
    address = next(_numbers)
    _behind[address] = content
    return _new(address, _NAMES[name], None)


def use(used_up: Any, name: str) -> Any:
    """What `SyclQueue(capsule)` does: it copies the content and calls the capsule used."""
    if caps.name_of(used_up) != name:
        raise TypeError(f"Positional argument {used_up!r} is not a filter string or a SyclDevice")
    address = _pointer(used_up, _NAMES[name])
    assert _set_name(used_up, _USED[name]) == 0
    return _behind[address]


class SyclDeviceCreationError(Exception):
    """`dpctl.SyclDeviceCreationError`: no BufferError, no ValueError."""


class Device:
    """`dpctl.SyclDevice`: made from a filter string too; it has no `_get_capsule`."""

    KNOWN = {"opencl:cpu:0": 0, "cpu": 0, "0": 0, "level_zero:gpu:1": 2, "2": 2}

    def __init__(self, what: Any = 0) -> None:
        if isinstance(what, str) and what not in self.KNOWN:
            raise SyclDeviceCreationError(
                f"Could not create a SyclDevice with the selector string '{what}'"
            )
        self.number = self.KNOWN[what] if isinstance(what, str) else what

    def get_device_id(self) -> Any:
        if isinstance(self.number, BaseException):
            raise self.number
        return self.number


class Context:
    """`dpctl.SyclContext`: its devices in a list."""

    def __init__(self, what: Any = None) -> None:
        if type(what).__name__ == "PyCapsule":
            what = use(what, CONTEXT).devices
        self.devices = what if isinstance(what, list) else [Device(what or 0)]

    def get_devices(self) -> list[Device]:
        return self.devices

    def _get_capsule(self) -> Any:
        return capsule(CONTEXT, self)


class Queue:
    """`dpctl.SyclQueue`.  Copies of one queue are equal, and share the log of what was asked."""

    def __init__(self, what: Any = 0) -> None:
        if type(what).__name__ == "PyCapsule":
            of = use(what, QUEUE)
            self.sycl_device, self.log = of.sycl_device, of.log
        else:
            self.sycl_device, self.log = Device(what), []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Queue) and self.log is other.log

    def __hash__(self) -> int:
        return id(self.log)

    @property
    def sycl_context(self) -> Context:
        return Context([self.sycl_device])

    def wait(self) -> None:
        self.log.append("wait")

    def submit_barrier(self, dependent_events: Sequence[Any] = ()) -> Any:
        event = SimpleNamespace(of=self)
        self.log.append(("barrier", *(e.of for e in dependent_events)))
        return event

    def memcpy(self, dest: Any, src: Any, count: int) -> None:
        """Of host buffers and memory objects; it waits (dpctl/_sycl_queue.pyx, `_memcpy_impl`)."""
        if isinstance(src, UsmMemory):
            C.memmove((C.c_char * count).from_buffer(dest), src._pointer, count)
        else:
            C.memmove(dest._pointer, bytes(src)[:count], count)
        self.log.append(("memcpy", count))

    def _get_capsule(self) -> Any:
        return capsule(QUEUE, self)


class Getter:
    """Any object whose `_get_capsule()` gives a capsule of one of the two names."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def _get_capsule(self) -> Any:
        return self.of._get_capsule()


def library() -> ModuleType:
    """What `import dpctl` leaves in `sys.modules`."""
    module = ModuleType("dpctl")
    module.SyclDevice, module.SyclContext, module.SyclQueue = Device, Context, Queue  # type: ignore
    cached: dict[Any, Queue] = {}
    module.get_device_cached_queue = lambda key: cached.setdefault(key, Queue(key))  # type: ignore
    return module


class USMAllocationError(Exception):
    """`dpctl.memory.USMAllocationError`: no BufferError, no MemoryError."""


class UsmMemory:
    """`dpctl.memory.MemoryUSMDevice` as far as copies need it: an allocation, or a view of one.

    dpctl/memory/_memory.pyx of IntelPython/dpctl@aec43507~1: `_cinit_alloc` takes `alignment` and
    `queue` by keyword and no size of 0; `_cinit_other` reads the interface of whatever has one.
    """

    made: list[UsmMemory] = []
    limit = 1 << 20

    def __init__(self, nbytes: int, *, alignment: int = 0, queue: Any = None) -> None:
        if nbytes <= 0:
            raise ValueError("Number of bytes of request allocation must be positive.")
        if nbytes > self.limit:
            raise USMAllocationError("USM allocation failed")
        self.nbytes, self.sycl_queue, self.alignment = nbytes, queue, alignment
        self._block = C.create_string_buffer(nbytes + alignment)
        self._pointer = -(-C.addressof(self._block) // max(alignment, 1)) * max(alignment, 1)
        self.made.append(self)

    @classmethod
    def view(cls, of: Any) -> UsmMemory:
        """`dpctl.memory.as_usm_memory`."""
        fields = of.__sycl_usm_array_interface__
        made = cls.__new__(cls)
        assert (fields["version"], fields["typestr"], fields["strides"]) == (1, "|u1", None)
        made._pointer, (made.nbytes,) = fields["data"][0], fields["shape"]
        syclobj = fields["syclobj"]
        made.sycl_queue = syclobj if isinstance(syclobj, Queue) else Queue(syclobj)
        return made

    @property
    def __sycl_usm_array_interface__(self) -> dict[str, Any]:
        return {
            "data": (self._pointer, True),
            "shape": (self.nbytes,),
            "strides": None,
            "typestr": "|u1",
            "version": 1,
            "syclobj": self.sycl_queue,
        }


def memory_library() -> ModuleType:
    """What `import dpctl.memory` leaves beside `dpctl`."""
    module = ModuleType("dpctl.memory")
    module.as_usm_memory = UsmMemory.view  # type: ignore[attr-defined]
    module.MemoryUSMDevice = UsmMemory  # type: ignore[attr-defined]
    return module


class SyclOnly:
    """`__sycl_usm_array_interface__` and nothing else; its memory is the host's.

    Keys and types as `usm_ndarray` of dpctl 0.21.1 gives them: `typestr` begins with `|` whatever
    the size, strides and offset count elements, `data` is the allocation's base.  `changes`
    replace entries of the dict; an entry set to DROP is left out.
    """

    DROP = InterfaceOnly.DROP
    READONLY = False

    def __init__(
        self,
        shape: Sequence[int] = (2, 3),
        dtype: str = "float32",
        *,
        strides: Sequence[int] | None = None,
        offset: int = 0,
        elements: int = 24,
        readonly: bool | None = None,
        syclobj: Any = None,
        changes: dict[str, Any] | None = None,
    ) -> None:
        self.memory = caps.filled((elements,), dtype, None, 0)
        self.base = caps.address_of(self.memory)
        self.queue = syclobj if syclobj is not None else Queue()
        self.times_asked = 0
        self._entries: dict[str, Any] = {
            "data": (self.base, self.READONLY if readonly is None else readonly),
            "shape": tuple(shape),
            "strides": strides if strides is None else tuple(strides),
            "typestr": f"|{typestr_of(dtype)[1:]}",
            "version": 1,
            "syclobj": self.queue,
            "offset": offset,
        }
        self._entries |= changes or {}

    @property
    def __sycl_usm_array_interface__(self) -> dict[str, Any]:
        self.times_asked += 1
        return {key: value for key, value in self._entries.items() if value is not self.DROP}


def placed(module: str, name: str) -> Any:
    """A class decorator: it comes from there, as far as rows of libraries tell."""

    def place(cls: type) -> type:
        cls.__module__, cls.__qualname__ = module, name
        return cls

    return place


class WaitingArray(SyclOnly):
    """`usm_ndarray` as far as the interface goes: the property waits for the queue."""

    @property
    def __sycl_usm_array_interface__(self) -> dict[str, Any]:
        self.queue.wait()
        return SyclOnly.__sycl_usm_array_interface__.fget(self)  # type: ignore


@placed("dpctl.tensor._usmarray", "usm_ndarray")
class DpctlArray(WaitingArray):
    """dpctl 0.21.1, of which `__dlpack__` is left out."""


@placed("dpnp.tensor._usmarray", "usm_ndarray")
class DpnpTensor(WaitingArray):
    """dpnp 0.20.0: what was dpctl.tensor."""


@placed("dpnp.dpnp_array", "dpnp_array")
class DpnpArray(WaitingArray):
    """dpnp 0.20.0."""


@placed("dpctl.memory._memory", "_Memory")
class _Memory(SyclOnly):
    """Waits for nothing, has no key `offset`, and says True for memory that it writes itself."""

    READONLY = True

    def __init__(self, nbytes: int = 24, **keywords: Any) -> None:
        changes = {"offset": self.DROP} | keywords.pop("changes", {})
        super().__init__((nbytes,), "uint8", elements=nbytes, changes=changes, **keywords)


@placed("dpctl.memory._memory", "MemoryUSMDevice")
class Memory(_Memory):
    """dpctl 0.21.1 and 0.22.1; MemoryUSMShared and MemoryUSMHost are alike."""


# --- torch's Intel GPUs -------------------------------------------------------------------


class XpuStream:
    """`torch.xpu.Stream`: `sycl_queue` is the address of a C++ object, and so is `native_handle`,
    which it has from `torch.Stream`; no barriers by Python."""

    sycl_queue = native_handle = 0x7F00

    def __init__(self, device: Any) -> None:
        self.device, self.log = device, []

    def synchronize(self) -> None:
        self.log.append("synchronize")


def torch_library(*indices: int) -> ModuleType:
    """As much of `torch` as is asked: the current stream of each of these devices."""
    module = ModuleType("torch")
    streams = {f"xpu:{index}": XpuStream(index) for index in indices}
    module.xpu = SimpleNamespace(  # type: ignore[attr-defined]
        current_stream=lambda device: streams[str(device)], streams=streams
    )
    return module


class TorchElsewhere(Array):
    """A tensor of torch 2.10 to 2.15 on a device that is neither CUDA's nor ROCm's,
    `torch/_tensor.py` `Tensor.__dlpack__` (pytorch/pytorch@00f993df).

    Any stream that is an int is taken and ignored, anything else but None is a TypeError.
    """

    requires_grad = False

    def __init__(self, *args: Any, device: tuple[int, int], name: str, **kwargs: Any) -> None:
        super().__init__(*args, device=device, **kwargs)
        self.location, self.device = self.device, name

    def is_conj(self) -> bool:
        return False

    def is_neg(self) -> bool:
        return False

    def __dlpack__(
        self,
        *,
        stream: Any = -1,
        max_version: Any = None,
        dl_device: Any = None,
        copy: bool | None = None,
    ) -> Any:
        self.calls.append(
            ((), {"stream": stream, "max_version": max_version, "dl_device": dl_device})
        )
        if stream is not None and type(stream) is not int:
            raise TypeError("stream must be ``int`` or ``none``")
        if max_version is None or max_version[0] < 1:
            return self._legacy(device=self.location)
        return self._versioned(device=self.location)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.location


@placed("torch", "Tensor")
class TorchXpu(TorchElsewhere):
    """On an Intel GPU: the capsule counts the device among all of SYCL's, `__dlpack_device__` among
    torch's."""

    def __init__(self, *args: Any, index: int = 0, number: int = 0, **kwargs: Any) -> None:
        super().__init__(*args, device=(14, number), name=f"xpu:{index}", **kwargs)
        self.index, self.number = index, number
        self.asked_device = 0

    def __dlpack_device__(self) -> tuple[int, int]:
        self.asked_device += 1
        return (14, self.index)
