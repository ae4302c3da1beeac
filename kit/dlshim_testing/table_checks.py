"""What is checked of a producer's C table (DLPack's C exchange API, from 1.2 on)."""

from __future__ import annotations

import ctypes as C
from typing import Any

from .catalogue import Broken, NotApplicable, check, insist
from .doubles import capsules as caps
from .doubles.ctable import NAME, Refused, Table
from .exports import (
    FEW,
    LAYOUTS,
    answers,
    laid_out_and_filled,
    on_host,
    prepared,
    read_only_array,
    view_of,
)
from .field_checks import REFUSED, one_of
from .lifetime_checks import BLOCK, EXPORTS, blocks_left_by
from .partner import Producer, given, said

NEW, OLD = "__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"
FUNCTIONS = (
    "managed_tensor_allocator",
    "managed_tensor_from_py_object_no_sync",
    "managed_tensor_to_py_object_no_sync",
    "current_work_stream",
)


def table_of(array: Any) -> Table:
    """The table of an array's type; NotApplicable without one that can be used."""
    if not hasattr(type(array), NEW):
        raise NotApplicable("the type has no C table")
    value = getattr(type(array), NEW)
    if not isinstance(value, caps.Capsule) or caps.name_of(value).encode() != NAME:
        raise NotApplicable(f"the attribute is {value!r}")
    table = Table(type(array))
    if table.struct.header.major != 1:
        raise NotApplicable("the table is of another major version")
    return table


@check("producer", "table-capsule")
def table_is_in_a_capsule(p: Producer) -> None:
    array = p.make((2, 3))
    if not hasattr(type(array), NEW):
        raise NotApplicable("the type has no C table")
    value = getattr(type(array), NEW)
    insist(isinstance(value, caps.Capsule), f"{NEW} is {type(value).__name__}, no capsule")
    insist(caps.name_of(value).encode() == NAME, f"the capsule is named {caps.name_of(value)!r}")


@check("producer", "table-spelling")
def table_has_its_name(p: Producer) -> None:
    kind = type(p.make((2, 3)))
    if not hasattr(kind, OLD):
        raise NotApplicable(
            "the type has no C table under the name of DLPack 1.2, __c_dlpack_exchange_api__"
        )
    insist(hasattr(kind, NEW), f"there is {OLD} and no {NEW}")


@check("producer", "table-version")
def table_has_its_version(p: Producer) -> None:
    array = p.make((2, 3))
    if not hasattr(type(array), NEW):
        raise NotApplicable("the type has no C table")
    try:
        header = Table(type(array)).struct.header
    except Exception as error:
        raise NotApplicable(f"the table is not read: {said(error)}") from error
    insist(header.major == 1, f"the table's version is {header.major}.{header.minor}")


@check("producer", "table-functions", FUNCTIONS)
def table_has_its_functions(p: Producer, name: str) -> None:
    insist(getattr(table_of(p.make((2, 3))).struct, name), f"{name} is NULL")


def exported(array: Any, owned: bool) -> Any:
    table = table_of(array)
    field = f"{'managed_tensor' if owned else 'dltensor'}_from_py_object_no_sync"
    if not getattr(table.struct, field):
        raise NotApplicable(f"{field} is NULL")
    try:
        return table.owned(array) if owned else table.borrow(array)
    except AssertionError as error:
        raise Broken(f"{field}: {str(error) or 'it fails without an exception'}") from error
    except Exception as error:
        raise NotApplicable(f"the table refuses: {said(error)}") from error


def same_as_method(array: Any, view: Any) -> None:
    error = answers(array, max_version=(1, 0))
    if error is not None:
        raise NotApplicable(f"__dlpack__ refuses: {said(error)}")
    capsule = array.__dlpack__(max_version=(1, 0))
    method = view_of(capsule)
    for name in ("shape", "dtype", "device"):
        one, other = getattr(view, name), getattr(method, name)
        insist(one == other, f"{name}: the table says {one}, __dlpack__ {other}")
    if 0 not in view.shape:
        steps = [each.strides or caps.row_major(each.shape) for each in (view, method)]
        insist(steps[0] == steps[1], f"strides: the table says {steps[0]}, __dlpack__ {steps[1]}")
        insist(view.element_zero == method.element_zero, "the memory lies elsewhere")
    if view.flags is not None and method.flags is not None:
        flags = view.flags & caps.READ_ONLY, method.flags & caps.READ_ONLY
        insist(flags[0] == flags[1], "READ_ONLY: the table says {}, __dlpack__ {}".format(*flags))


@check("producer", "table-export", LAYOUTS, risky=True)
def table_exports(p: Producer, layout: str) -> None:
    array = prepared(p, layout, "float32")
    with exported(array, owned=True) as taken:
        view = taken.view
        insist(view.version and view.version[0] == 1, f"the struct's version is {view.version}")
        newer = view.version and view.version >= (1, 2) and view.ndim
        insist(not newer or view.strides is not None, "strides are NULL in DLPack 1.2 or newer")
        same_as_method(array, view)


@check("producer", "table-export", ("read-only",), risky=True)
def table_exports_read_only_memory(p: Producer, which: str) -> None:
    array = read_only_array(p)
    with exported(array, owned=True) as taken:
        same_as_method(array, taken.view)


@check("producer", "table-borrow", LAYOUTS, risky=True)
def table_lends(p: Producer, layout: str) -> None:
    array = prepared(p, layout, "float32")
    same_as_method(array, exported(array, owned=False))


@check("producer", "table-deleter", FEW, risky=True)
def table_deleter(p: Producer, dtype: str) -> None:
    array, wanted, *kept = laid_out_and_filled(p, "cube", dtype)
    del kept  # the memory must be kept by what the table gives
    taken = exported(array, owned=True)
    del array
    if wanted is not None and taken.view.device[0] == 1:
        insist(taken.view.elements() == wanted, "the memory changed when the array went")
    taken.release("c-thread" if caps.has_c_threads() else "held")


@check("producer", "table-import", FEW, risky=True)
def table_imports(p: Producer, dtype: str) -> None:
    array = prepared(p, "cube", dtype)
    table = table_of(array)
    taken = exported(array, owned=True)
    try:
        made = table.to_object(taken.view.address)
    except Exception as error:
        taken.forget()  # nobody has settled who owns it after a failure
        raise NotApplicable(f"the table refuses its own export: {said(error)}") from error
    taken.forget()
    capsule = made.__dlpack__(max_version=(1, 0))
    again = view_of(capsule)
    insist(again.element_zero == taken.view.element_zero, "what was imported lies elsewhere")


@check("producer", "table-stream", risky=True)
def table_stream(p: Producer) -> None:
    table = table_of(p.make((2, 3)))
    if not table.struct.current_work_stream:
        raise NotApplicable("current_work_stream is NULL")
    out = C.c_void_p()
    try:
        code = table._stream(1, 0, C.byref(out))
    except Exception as error:
        raise Broken(f"current_work_stream(kDLCPU): {said(error)}") from error
    insist(code == 0, f"current_work_stream(kDLCPU) gives {code}")


def export_and_release(array: Any) -> None:
    exported(array, owned=True).release("held")


def import_and_drop(array: Any) -> None:
    taken = exported(array, owned=True)
    try:
        made = table_of(array).to_object(taken.view.address)
    except Exception as error:
        raise NotApplicable(f"the table refuses its own export: {said(error)}") from error
    finally:
        taken.forget()
    del made


def lend(array: Any) -> None:
    exported(array, owned=False)


USES = {"export": export_and_release, "import": import_and_drop, "borrow": lend}


@check("producer", "table-frees", USES, risky=True)
def table_leaves_nothing(p: Producer, which: str) -> None:
    def use() -> None:
        for _ in range(EXPORTS):
            USES[which](p.make((2, 3)))

    array = p.make((2, 3))
    on_host(exported(array, owned=False))
    grown = min([blocks_left_by(use) for _ in range(4)][1:])
    insist(
        grown < EXPORTS * BLOCK,
        f"after {EXPORTS} uses of the table ({which}), {grown} bytes more are in use, each time",
    )


ALLOCATED: dict[str, tuple[tuple[int, ...], str]] = {
    "rows": ((2, 3), "float32"),
    "wide": ((2, 3), "int64"),
    "vector": ((5,), "uint8"),
    "scalar": ((), "float32"),
}


@check("producer", "table-allocator", ALLOCATED, risky=True)
def table_allocates(p: Producer, which: str) -> None:
    shape, dtype = ALLOCATED[which]
    made = allocated(p, shape, caps.DTYPES[dtype])
    with made:
        view = made.view
        told, meant = (view.shape, view.dtype, view.device), (shape, caps.DTYPES[dtype], caps.CPU)
        insist(told == meant, f"asked for {meant}, the allocator gives {told}")
        insist(view.data, f"the allocator gives NULL for data, and shape {shape}")


def allocated(p: Producer, shape: tuple[int, ...], dtype: tuple[int, int, int]) -> Any:
    table = table_of(p.make((2, 3)))
    if not table.struct.managed_tensor_allocator:
        raise NotApplicable("the allocator is NULL")
    try:
        return table.allocate(shape, dtype)
    except Refused as error:
        raise NotApplicable(f"the allocator refuses {shape} of {dtype}: {error}") from error
    except AssertionError as error:
        raise Broken(
            f"the allocator fails for shape {shape} and dtype {dtype}, and does not call SetError "
            "once, or it calls it and does not fail"
        ) from error
    except Exception as error:
        raise Broken(f"the allocator leaves an exception beside SetError: {said(error)}") from error


@check("producer", "table-allocator", ("refused",), ((99, 8, 1), (2, 24, 1)), risky=True)
def allocator_tells_its_refusal(p: Producer, which: str, dtype: tuple[int, int, int]) -> None:
    allocated(p, (2, 3), dtype).release("held")


@check("producer", "table-failure", REFUSED, risky=True)
def table_fails_with_an_exception(p: Producer, which: str) -> None:
    name, make = one_of(p, "refused", which)
    array = given(f"refused=[{name!r}]", make)
    table, out = table_of(array), C.c_void_p()
    if table._owned is None:
        raise NotApplicable("the function is NULL")
    try:
        code = table._owned(array, C.addressof(out))
    except Exception:
        return
    insist(code == 0, f"{name}: the export gives {code}, and sets no exception")
    insist(out.value, f"{name}: the export gives 0, and no tensor")


@check("producer", "table-refusals", REFUSED, risky=True)
def table_refusals(p: Producer, which: str) -> None:
    name, make = one_of(p, "refused", which)
    array = given(f"refused=[{name!r}]", make)
    table = table_of(array)
    error = answers(array, max_version=(1, 0))
    if error is None:
        raise NotApplicable(f"{name}: __dlpack__ exports it")
    try:
        table.owned(array).release()
    except (BufferError, AssertionError):  # a failure without an exception has a rule of its own
        return
    except Exception as other:
        raise Broken(f"{name}: the table raises {said(other)}") from other
    raise Broken(f"{name}: __dlpack__ refuses it ({said(error)}), and the table exports it")
