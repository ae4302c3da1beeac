"""Memory of oneAPI, by the objects of dpctl: queues, copies and the forms of a ``syclobj``.

The C code calls these functions by name.  ``copy_queue``, ``fetch`` and ``send`` return None where
dpctl is not imported, or lacks what is needed.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _absent(*_: Any, **__: Any) -> None:
    return None


def _of_dpctl(name: str, module: str = "dpctl") -> Any:
    return getattr(sys.modules.get(module), name, _absent)


class _Shown:
    """Memory that shows SYCL's interface and nothing else."""

    def __init__(self, shown: dict[str, Any]) -> None:
        self.__sycl_usm_array_interface__ = shown


_queues: dict[tuple[Any, int], Any] = {}


def copy_queue(number: int) -> Any:
    """Find the queue of a device in which copies are made.

    One is kept for each device.  A queue for each copy would cost ten times as much, and after some
    hundred of them OpenCL's runtime for the CPU does not start the next kernel.  Devices have no
    names in DLPack, but a filter string may be their number.
    """
    make = _of_dpctl("SyclQueue")
    if (make, number) not in _queues:
        _queues[make, number] = make(str(number))
    return _queues[make, number]


def fetch(to: memoryview, address: int, syclobj: Any) -> Any:
    """Copy bytes of oneAPI memory, and wait for that.

    The caller frees what `to` shows, and a traceback may keep it: it is released.
    """
    with to:
        shown = {
            "data": (address, False),
            "shape": (to.nbytes,),
            "strides": None,
            "typestr": "|u1",
            "version": 1,
            "syclobj": syclobj,
        }
        view = _of_dpctl("as_usm_memory", "dpctl.memory")
        memory = view(_Shown(shown))
        if memory is not None:
            memory.sycl_queue.memcpy(to, memory, to.nbytes)
        return memory


def send(source: memoryview, alignment: int, number: int) -> Any:
    """Copy to new memory, in the queue that dpctl itself uses for the device.

    The result is its address, and what the reader of the SYCL interface makes of memory
    (src/protocols/sycl_interface.c).
    """
    with source:
        queue = _of_dpctl("get_device_cached_queue")(str(number))
        # An empty array has memory as well: dpctl takes none whose address is NULL.
        new = queue and _of_dpctl("MemoryUSMDevice", "dpctl.memory")
        memory = new and new(source.nbytes or 1, alignment=alignment, queue=queue)
        if memory is None:
            return None
        if source.nbytes:
            memory.sycl_queue.memcpy(memory, source, source.nbytes)
        return int(memory._pointer), (memory, memory.__sycl_usm_array_interface__, queue)


def wait(queue: Any) -> None:
    """Have the host wait for a queue (dpctl) or a stream (torch)."""
    method = getattr(queue, "wait", None) or getattr(queue, "synchronize", None)
    if not method:
        raise TypeError(f"{queue!r} has neither wait() nor synchronize()")
    method()


def order(first: Any, then: Any) -> None:
    """Make a queue wait for another: a barrier in that one, and one here that waits for it.

    Where one of them knows no barriers, the host waits.
    """
    if first is then or first == then:  # two objects of one queue
        return
    known = hasattr(then, "submit_barrier")
    barrier = getattr(first, "submit_barrier", None) if known else None
    if barrier:
        then.submit_barrier([barrier()])
    else:
        wait(first)


def read_syclobj(value: Any, numbered: bool, kind: str = "") -> Any:
    """Read a syclobj: a form that may be shown again, its device's number, whether it is a queue.

    kind: the class that opens the capsule `value`.  The number is None if only dpctl could tell it,
    and if it is not wanted.  Returns (capsule,) if only a capsule is there, () if value is no
    syclobj.
    """
    if kind:
        value = _of_dpctl(kind)(value)
        if value is None:
            return None, None, False
    is_queue = False
    if isinstance(value, str):
        device = _of_dpctl("SyclDevice")(value)
    elif (device := getattr(value, "sycl_device", _absent)) is not _absent:
        is_queue = True
    elif devices := getattr(value, "get_devices", None):
        device = devices()[0]  # memory in a context is taken to lie on the first
    elif capsule := getattr(value, "_get_capsule", None):
        return (capsule(),)
    else:
        return ()
    return value, device.get_device_id() if numbered and device is not None else None, is_queue
