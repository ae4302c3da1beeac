"""Every documented use of the public names, for type checkers; nothing here is run.

tests/project/test_stub.py has mypy check it, as strictly as it can, for each version of Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dlshim
import dlshim.typing


def wrapped(x: Any, stream: object, consumer: Callable[[object], object]) -> list[dlshim.Producer]:
    consumer(dlshim.upgrade(x))
    return [
        dlshim.upgrade(x),
        dlshim.upgrade(x, device="cpu"),
        dlshim.upgrade(x, device=(2, 1)),
        dlshim.upgrade(x, device=(dlshim.DLDeviceType.kDLCUDA, 0)),
        dlshim.upgrade(x, like=x),
        dlshim.upgrade(x, copy=True),
        dlshim.upgrade(x, copy=None),
        dlshim.upgrade(x, readonly=False),
        dlshim.upgrade(x, readonly="share"),
        dlshim.upgrade(x, order="C"),
        dlshim.upgrade(x, order=None, align=64),
        dlshim.upgrade(x, reinterpret="bool"),
        dlshim.upgrade(x, reinterpret=(dlshim.DLDataTypeCode.kDLUInt, 16, 1)),
        dlshim.upgrade(x, assume_device="cuda:1", detach=True),
        dlshim.upgrade(x, stream="wait"),
        dlshim.upgrade(x, stream=-1, producer_stream=stream),
        dlshim.upgrade(x, stream=dlshim.UNSET),
        dlshim.upgrade(x, unknown_stream="legacy", on_release="guard"),
    ]


def brought(x: Any, name: str) -> dlshim.Tensor:
    dlshim.to(x, "torch", copy=False).add_(1)
    here: dlshim.Tensor = dlshim.to(x, "dlshim")
    print(here.shape, dlshim.to(x, x), dlshim.to(x, dlshim.Tensor).data_ptr())
    print(dlshim.to(x, name, device="cuda:1").anything)
    return dlshim.to(x, "dlshim", device=(1, 0), copy=True)


def brought_wrongly(x: Any) -> None:
    """Each line is an error to a type checker: mypy --strict refuses an ignore without one."""
    _1: int = dlshim.to(x, "dlshim")  # type: ignore[assignment]
    _2: int = dlshim.to(x, "numpy")  # type: ignore[assignment, unused-ignore]
    print(dlshim.to(x, "dlshim").nothing)  # type: ignore[attr-defined]
    dlshim.to(x, "torch", copy="yes")  # type: ignore[call-overload]
    dlshim.to(x, "torch", dtype=1)  # type: ignore[call-overload]
    dlshim.to(x)  # type: ignore[call-overload]
    dlshim.to(x=x, library="torch")  # type: ignore[call-overload]


def kernels(x: Any) -> list[int]:
    def size(x: Any, out: Any = None) -> int:
        return 1

    @dlshim.kernel
    def plain(x: Any) -> int:
        return 1

    @dlshim.kernel(takes="torch", returns=None, writes=("out",), order="C")
    def with_options(x: Any, out: Any) -> int:
        return 1

    class Library:
        @dlshim.kernel
        def method(self, x: Any) -> int:
            return 1

        @classmethod
        @dlshim.kernel(order="C")
        def of_class(cls, x: Any) -> int:
            return 1

        @staticmethod
        @dlshim.kernel
        def static(x: Any) -> int:
            return 1

    @dlshim.kernel
    async def later(x: Any) -> int:
        return 1

    async def waits() -> int:
        return await later(x)

    print(waits)
    plain(x, x)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with_options(y=x)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    return [
        Library().method(x),
        Library.of_class(x),
        Library.static(x),
        plain(x),
        with_options(x, out=x),
        dlshim.kernel(size)(x),
        dlshim.kernel(size, writes=1, like=x)(x, x),
        dlshim.kernel(size, writes=True, returns=bytes, device="cpu")(x),
    ]


def capsules(x: Any) -> tuple[object, ...]:
    legacy = dlshim.to_capsule(x)
    versioned = dlshim.to_capsule(x, max_version=(1, 0), readonly="copy")
    asked = dlshim.upgrade(x).__dlpack__(stream=None, max_version=(1, 0), copy=True)
    return legacy, versioned, asked, dlshim.upgrade(legacy).__dlpack_device__()


def described(x: Any) -> memoryview:
    t = dlshim.from_dlpack(x, device="cpu", copy=None)
    shape: tuple[int, ...] = t.shape
    facts: tuple[int, int, int, bool] = (t.data_ptr(), t.ndim, t.nbytes, t.readonly)
    code, bits, lanes = t.dtype
    kind, number = t.device
    interface: dict[str, Any] = t.__array_interface__
    print(shape, t.strides, facts, code, bits, lanes, kind, number, interface)
    return memoryview(t)


def items(t: dlshim.Tensor) -> list[Any]:
    schema, array = t.__arrow_c_array__()
    t.__arrow_c_array__(requested_schema=schema)
    print(array, t.numpy(), t[..., 0], bool(t), 1 in t)
    return [*t][: len(t)]


def inspected(x: Any, function: Callable[..., object]) -> str:
    report: dlshim.Report = dlshim.inspect(x, export=True, consumer="torch")
    dlshim.inspect(x, consumer=function)
    for verdict in report.verdicts:
        told: dlshim.Verdict = verdict
        outcome: dlshim.Outcome = told.upgraded
        if outcome.result == "works" and outcome.copied is False:
            return told.cure
    return f"{report}: {report.shape}, {report.address}"


@dlshim.producer(inner="array")
class Decorated:
    def __init__(self, array: Any) -> None:
        self.array = array


@dlshim.producer
class Old:
    def __dlpack__(self, stream: Any = None) -> Any:
        raise BufferError


class Mixed(dlshim.ProducerMixin, inner="array", array=True):
    array: Any = None


def authored(x: Any) -> tuple[object, ...]:
    device: tuple[int, int] = Mixed().__dlpack_device__()
    array: Any = Decorated(x).array
    return Mixed().__dlpack__(max_version=(1, 0)), device, array, Old().__dlpack__()


def tracked(x: Any) -> dict[str, int]:
    with dlshim.track() as tracking:
        dlshim.from_dlpack(x)
        tracking.stop()
    for one in dlshim.live():
        noted: dlshim.Live = one
        print(noted.kind, noted.device[0], noted.nbytes + 1, noted.where)
    return dlshim.stats()


def refused(x: Any) -> str:
    try:
        dlshim.to_capsule(x, copy=False)
    except dlshim.CopyRequiredError as error:
        return str(error)
    except dlshim.UnsupportedObjectError:
        return "no array"
    return dlshim.__version__ + dlshim.get_include()


def taken(x: dlshim.typing.Array) -> dlshim.Tensor:
    return dlshim.from_dlpack(x)


def given(x: dlshim.Tensor) -> list[dlshim.Tensor]:
    return [taken(x), taken(dlshim.upgrade(x)), taken(b""), taken(memoryview(b""))]
