"""Producers and Tensors that die leave their memory to the next ones, and nothing else."""

from __future__ import annotations

import gc
import weakref

import pytest

import dlshim
from doubles import child
from doubles.asking import versioned
from doubles.producers import P1, P2

MANY = 40  # more than are ever kept, so that some are made of new memory

KINDS = {
    "Producer": lambda x: dlshim.upgrade(x),
    "Tensor": lambda x: dlshim.from_dlpack(x),
    "Tensor of the buffer": lambda x: dlshim.from_dlpack(bytearray(3)),
}
SHAPES = [(), (3,), (2, 3), (1, 2, 3), (1, 1, 2, 3), (1, 1, 1, 2, 3)]


def facts(made):
    """What a new object says of itself, and the collector of it."""
    tensor = isinstance(made, dlshim.Tensor)
    said = (made.shape, made.strides, made.device, made.readonly) if tensor else made.source
    return type(made), gc.is_tracked(made), weakref.getweakrefcount(made), said


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_new_object_is_new_whatever_died_before(make, shape):
    source = P2(shape)
    dlshim.upgrade(source).__dlpack__()  # the type is known from here on
    fresh = [facts(thing) for thing in [make(source) for _ in range(MANY)]]
    assert all(fact == fresh[0] for fact in fresh)
    deaths = []
    for _ in range(3):
        others = [
            *(dlshim.upgrade(P1(shape), readonly=True, order="C") for _ in range(MANY)),
            *(dlshim.from_dlpack(P1(shape), stream=-1) for _ in range(MANY)),
            *(dlshim.upgrade(dlshim.from_dlpack(P2(shape))) for _ in range(MANY)),
        ]
        watched = [weakref.ref(other, deaths.append) for other in others]
        for other in others:
            other.__dlpack_device__()
            versioned(other).release()
        del others, other
        assert [facts(thing) for thing in [make(source) for _ in range(MANY)]] == fresh
        del watched[:]
    assert len(deaths) == 9 * MANY


def test_each_number_of_dimensions_has_its_own():
    for _ in range(3):
        for shape in SHAPES + SHAPES[::-1]:
            made = dlshim.from_dlpack(P2(shape))
            assert made.shape == shape
            with versioned(made) as imported:
                assert imported.view.shape == shape


@pytest.mark.once
def test_they_are_given_back_at_the_end():
    """Also where objects outlive the module's own clearing."""
    out = child.program("objects_at_the_end")
    assert out.split() == ["end"]
