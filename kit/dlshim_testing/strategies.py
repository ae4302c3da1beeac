"""Strategies for hypothesis: tensors of every layout, and producers of every generation.

``tensors()`` gives the fields of a tensor, which every class in ``doubles.producers`` takes;
``producers()`` gives objects that hold such a tensor; ``capsules()`` raw capsules of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from hypothesis import strategies as st

from .doubles import capsules as caps
from .doubles import producers as made
from .doubles.layouts import lowest
from .partner import DTYPES

#: The generations of the protocol, oldest first, and a producer of each.
GENERATIONS: dict[str, type[Any]] = {
    "capsule method": made.P0ToDlpack,
    "no keywords": made.P1a,
    "no keywords, no device": made.P1aNoDevice,
    "stream": made.P1,
    "stream by position": made.P1Positional,
    "every keyword, answers 0.x": made.P1b,
    "versioned": made.P2,
    "versioned, like torch": made.P2Torch,
    "versioned, no copies": made.P2NoCopyNoDevice,
    "C table": made.P3,
    "C table without borrowing": made.P3NoBorrow,
}
#: Those that every consumer of the standard takes.
WITH_METHODS = tuple(name for name in GENERATIONS if name not in ("capsule method",))


class Tensor(NamedTuple):
    """What a tensor is: the fields that ``doubles.producers`` take."""

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]
    start: int
    byte_offset: int
    readonly: bool

    def values(self) -> list[Any]:
        """What must be read of it, in row-major order."""
        return caps.numbers(self.shape, self.dtype, self.strides, self.start)

    def of(self, kind: Callable[..., Any], **fields: Any) -> Any:
        """A producer of this kind that holds this tensor."""
        return kind(**self._asdict() | fields)


def shapes(dimensions: int = 4, side: int = 4, *, empty: bool = True) -> st.SearchStrategy[Any]:
    """Tuples of extents; zero extents only with ``empty``."""
    return st.lists(st.integers(0 if empty else 1, side), max_size=dimensions).map(tuple)


@st.composite
def layouts(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """(strides, start) of this shape: permuted, with gaps, reversed or repeated; all of it lies in
    a block that begins at element zero."""
    strides, step = [0] * len(shape), 1
    for axis in draw(st.permutations(range(len(shape)))):
        step *= draw(st.sampled_from((1, 1, 1, 2, 3)))
        strides[axis] = step
        step *= max(1, shape[axis])
    strides = [s * draw(st.sampled_from((1, 1, 1, 1, -1, 0))) for s in strides]
    return tuple(strides), lowest(shape, strides) + draw(st.sampled_from((0, 0, 1, 8)))


def among(what: str, names: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """One name, or several; a ValueError where one is not known, or there is none."""
    names, known = (names,) if isinstance(names, str) else tuple(names), tuple(known)
    wrong = [name for name in names if name not in known]
    if wrong or not names:
        found = f"{wrong[0]!r} is no name" if wrong else "no name is given"
        raise ValueError(f"{what}: {found}; the names are {', '.join(map(repr, known))}")
    return names


def tensors(
    *,
    dtypes: Iterable[str] = DTYPES,
    dimensions: int = 4,
    empty: bool = True,
    strided: bool = True,
    byte_offsets: bool = True,
    read_only: bool = True,
) -> st.SearchStrategy[Tensor]:
    """Tensors; each keyword leaves a peculiarity out.  `dtypes` is a name, or several."""
    names = among("dtypes", dtypes, caps.DTYPES)
    return _tensors(names, dimensions, empty, strided, byte_offsets, read_only)


@st.composite
def _tensors(
    draw: st.DrawFn,
    dtypes: tuple[str, ...],
    dimensions: int,
    empty: bool,
    strided: bool,
    byte_offsets: bool,
    read_only: bool,
) -> Tensor:
    shape = draw(shapes(dimensions, empty=empty))
    strides, start = draw(layouts(shape)) if strided else (caps.row_major(shape), 0)
    dtype = draw(st.sampled_from(dtypes))
    size = caps.itemsize_of(dtype)
    offset = draw(st.sampled_from((0, start * size))) if byte_offsets else 0
    readonly = draw(st.booleans()) if read_only else False
    return Tensor(shape, dtype, strides, start, offset, readonly)


def producers(
    tensor: st.SearchStrategy[Tensor] | None = None,
    generations: Iterable[str] = WITH_METHODS,
) -> st.SearchStrategy[Any]:
    """Objects that offer a tensor by one generation of the protocol; `generations` is a name, or
    several."""
    return _producers(tensor, among("generations", generations, GENERATIONS))


@st.composite
def _producers(
    draw: st.DrawFn, tensor: st.SearchStrategy[Tensor] | None, generations: tuple[str, ...]
) -> Any:
    kind = GENERATIONS[draw(st.sampled_from(generations))]
    return draw(tensors() if tensor is None else tensor).of(kind)


@st.composite
def capsules(
    draw: st.DrawFn,
    tensor: st.SearchStrategy[Tensor] | None = None,
    versions: tuple[tuple[int, int] | None, ...] = (None, (1, 0), (1, 3)),
) -> Any:
    """Raw capsules, of DLPack 0.x where the version is None."""
    one = draw(tensors() if tensor is None else tensor)
    version = draw(st.sampled_from(versions))
    fields = one._asdict()
    readonly = fields.pop("readonly")
    flags = caps.READ_ONLY if readonly and version else 0
    return caps.make(version=version, flags=flags, **fields)
