"""The objects that the witness inspects; each is an expression that the command line evaluates.

They need the standard library, our doubles, NumPy and ml_dtypes, and look alike with every release
of these.  Memory that is in `PAGE` begins a page, so that its alignment is no accident.
"""

from __future__ import annotations

import mmap
from typing import Any

import dlshim
from doubles import capsules as caps
from doubles.older import InterfaceOnly, StructOnly
from doubles.producers import EDITIONS, P2

PAGE = mmap.mmap(-1, 4096)
#: Capsules that are shown and not consumed; they live to the end.
KEPT: list[Any] = []


class Nothing:
    """Offers nothing."""


class Flipped:
    """A producer whose device is no pair."""

    def __dlpack__(self, **asked: Any) -> Any:
        raise BufferError("not today")

    def __dlpack_device__(self) -> str:
        return "gpu"


def page(code: str = "f", shape: tuple[int, ...] = (2, 3)) -> memoryview:
    count = 1
    for extent in shape:
        count *= extent
    flat = memoryview(PAGE).cast(code)[:count]
    return flat.cast("B").cast(code, shape) if len(shape) != 1 else flat


def numpy(expression: str) -> Any:
    """An array of NumPy over the page: `page` is a row of 64 float32."""
    import ml_dtypes
    import numpy as np

    space = {"np": np, "ml": ml_dtypes, "page": np.frombuffer(PAGE, "f4", 64)}
    return eval(expression, space)


def read_only(array: Any) -> Any:
    array.setflags(write=False)
    return array


def capsule(**fields: Any) -> Any:
    KEPT.append(caps.make((2, 3), "float32", **fields))
    return KEPT[-1]


def consumed() -> Any:
    made = capsule()
    with caps.take(made):
        return made


def edition(name: str) -> Any:
    return EDITIONS[name]()


def up(x: Any, **options: Any) -> Any:
    return dlshim.upgrade(x, **options)


def tensor(x: Any, **options: Any) -> Any:
    return dlshim.from_dlpack(x, **options)


PLAIN = [
    "b'bytes'", "bytearray(8)", "array.array('d', [1, 2])", "array.array('B', [1])",
    "memoryview(bytearray(8))[::-1]", "memoryview(bytearray(8))[::2]", "memoryview(b'')",
    "mmap.mmap(-1, 4096)", "stock.page()", "stock.page('B', (4,))", "stock.page('d', ())",
    "[1, 2]", "'text'", "3.5", "None", "int", "range(3)", "io.BytesIO(b'abc')", "stock.Nothing()",
    "stock.Flipped()",
]  # fmt: skip
NUMPY = [
    "page", "page[:6].reshape(2, 3)", "page[::-1]", "page[::2]", "page[:6].reshape(2, 3).T",
    "page[:0]", "page[:1].reshape(())", "page.view('i8')", "page.view('u2')", "page.view('i1')",
    "page.view('?')", "page.view('c8')", "page.view('f2')", "page.view('M8[s]')",
    "page.view('>f4')", "page.view(ml.bfloat16)", "page.view(ml.float8_e4m3fn)",
    "page.view(ml.float8_e5m2)[::2]", "page.view('S4')", "page.view('V4')",
    "np.array([1, 'a'], object)", "np.broadcast_to(page[:1], (3,))", "page.view([('a', 'f4')])",
    "page[:8].reshape(2, 4)[:, 1:3]", "np.ma.array(page[:2], mask=[0, 1])",
]  # fmt: skip
CAPSULES = [
    "stock.capsule()", "stock.capsule(version=None)", "stock.consumed()",
    "stock.capsule(flags=1)", "stock.capsule(version=(2, 0))", "stock.capsule(strides=(1, 2))",
]  # fmt: skip
OPTIONS = [
    "", "copy=True", "order='C'", "order='K'", "readonly=True", "readonly=False", "align=4096",
    "reinterpret='int32'", "assume_device=(1, 0)", "detach=False", "device='cpu'", "stream=-1",
]  # fmt: skip

#: Consumers that ask in ways of their own, for objects that are told apart by how they answer.
DOUBLES = [f"stock.edition({name!r})" for name in EDITIONS]
UNALIGNED = [
    *PLAIN, *CAPSULES,
    "stock.P2((2, 3), 'float32', readonly=True)", "stock.InterfaceOnly()", "stock.StructOnly()",
    "stock.numpy('np.float32(2)')",
]  # fmt: skip
ALIGNED = [
    *(f"stock.numpy({each!r})" for each in NUMPY),
    "stock.read_only(stock.numpy('page[:6]'))",
    *(f"stock.up(stock.page(), {each})".replace(", )", ")") for each in OPTIONS),
    *(f"stock.up(stock.numpy('page[::-1]'), {each})".replace(", )", ")") for each in OPTIONS[:4]),
    "stock.up(stock.capsule(strides=(1, 2)))",
    "stock.up(stock.up(stock.page(), order='C'), copy=True)",
    "stock.up(stock.tensor(stock.page()))", "stock.tensor(stock.page())",
    "stock.tensor(stock.page('B', (4,)))", "stock.tensor(stock.page('f', (4,))[::-1])",
    "stock.tensor(stock.numpy('page.view(ml.bfloat16)'))",
    "stock.tensor(stock.page(), readonly=True)",
    "stock.tensor(stock.page(), copy=True)", "stock.tensor(b'')",
]  # fmt: skip

assert P2 and InterfaceOnly and StructOnly  # named by expressions
