"""T12: whatever works bare works upgraded, but for the refusals that are meant; most of the rest
works too.

Every edition of producer meets every consumer's way of asking in every layout, once bare and
once upgraded.  This is the matrix of the interop suite in small, on doubles.
"""

from __future__ import annotations

import gc

import pytest

import dlshim
from doubles import consumers
from doubles.producers import EDITIONS, P2, P3, P2Dpctl, P2LegacyOfReadonly, VersionedAlways

LAYOUTS = {
    "plain": {"shape": (2, 3)},
    "0-d": {"shape": ()},
    "empty": {"shape": (0, 3)},
    "empty in the middle": {"shape": (3, 0, 4), "strides": (0, 0, 0)},
    "empty, NULL data": {"shape": (0,), "data": None},
    "transposed": {"shape": (3, 2), "strides": (1, 3)},
    "step": {"shape": (3,), "strides": (2,)},
    "broadcast": {"shape": (2, 3), "strides": (0, 1)},
    "slice": {"shape": (2, 2), "strides": (5, 1), "start": 3},
    "size-1": {"shape": (2, 1, 3), "strides": (3, 1, 1)},
    "offset": {"shape": (3,), "start": 2, "byte_offset": 8},
    "negative": {"shape": (4,), "strides": (-1,), "start": 3},
    "read-only": {"shape": (2, 3), "readonly": True},
    "no deleter": {"shape": (2, 3), "deleter": False},
    "bool": {"shape": (3,), "dtype": "bool"},
    "bfloat16": {"shape": (3,), "dtype": "bfloat16"},
    "unknown dtype": {"shape": (3,), "dtype": (77, 16, 1)},
}

# The meant refusals, by layout; each must be a BufferError of ours or the consumer's own words.
MEANT = {
    "negative": "asked in a way not known to support negative strides (N9)",
    "read-only": "stated READ_ONLY towards a legacy consumer (T8)",
}

REFUSED = (BufferError, TypeError, ValueError, RuntimeError, AssertionError, AttributeError,
           NotImplementedError, consumers.Killed)  # fmt: skip


def exchange(ask, x):
    """The values that arrive, or the exception's class: never both."""
    try:
        imported = ask(x)
    except REFUSED as failure:
        return type(failure)
    try:
        return imported.values()
    finally:
        imported.release()


@pytest.mark.parametrize("ask", consumers.OBJECT_CONSUMERS.values(), ids=lambda f: f.__name__)
def test_T12_whatever_works_bare_works_upgraded(ask):
    broken, cured, refused = [], 0, 0
    for edition, cls in EDITIONS.items():
        for layout, fields in LAYOUTS.items():
            x = cls(**fields)
            if layout == "empty in the middle" and x.null_strides:
                x = cls(fields["shape"])
            wanted = x.values()
            bare = exchange(ask, x)
            upgraded = exchange(ask, dlshim.upgrade(x))
            if upgraded == wanted:
                cured += bare != wanted
                continue
            assert isinstance(upgraded, type), (edition, layout, upgraded)  # no wrong values
            assert upgraded is not consumers.Killed, (edition, layout)
            refused += 1
            if bare == wanted and layout not in MEANT:
                broken.append((edition, layout, upgraded.__name__))
    gc.collect()
    assert not broken
    assert cured > refused / 4, (cured, refused)


@pytest.mark.once
@pytest.mark.parametrize("ask", consumers.OBJECT_CONSUMERS.values(), ids=lambda f: f.__name__)
def test_T12_a_policy_lifts_the_meant_refusals(ask):
    """With order="C" and readonly="share" nothing is refused that the consumer can hold."""
    for edition, cls in EDITIONS.items():
        for layout, fields in LAYOUTS.items():
            x = cls(**fields)
            if x.readonly and cls.__name__ == "P1Numpy124":
                continue  # refuses by itself, and there is no other way in
            upgraded = dlshim.upgrade(x, order="C", readonly="share")
            outcome = exchange(ask, upgraded)
            if ask is consumers.ask_like_nanobind3_rw and x.readonly:
                assert outcome in (TypeError, x.values())
            elif ask is consumers.ask_like_mpi4py41 or ask is consumers.ask_like_mpi4py40:
                assert outcome in (x.values(), dlshim.CopyRequiredError)  # it asks copy=False
            else:
                assert outcome == x.values(), (edition, layout, outcome)


@pytest.mark.parametrize(
    "cls", [P2, P2LegacyOfReadonly, P2Dpctl, VersionedAlways, P3], ids=lambda c: c.__name__
)
def test_T12_the_meant_refusals_are_bufferrors(cls):
    upgraded = dlshim.upgrade(cls((4,), strides=(-1,), start=3))
    upgraded.__dlpack_device__()
    with pytest.raises(BufferError):
        upgraded.__dlpack__()
    with pytest.raises(BufferError):
        dlshim.upgrade(cls(readonly=True)).__dlpack__()
