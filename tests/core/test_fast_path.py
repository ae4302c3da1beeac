"""The fast path gives what an exchange in full gives, for every struct.

A type is learned by a plain export; then its next export is of a struct that the fast path
must leave alone, or may take.  Without handing-on (the hook) the fast path is closed.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
from typing import Any

import pytest

import dlshim
from dlshim import _core
from doubles import capsules as caps
from doubles import structs
from doubles.asking import bare, versioned
from doubles.producers import P2
from doubles.structs import BLOCK, MAX

# What the learned producer gives next, as fields of caps.Made.
STRUCTS: dict[str, dict[str, Any]] = {
    **structs.ANY,
    "another host": {"device": (3, 0)},
    # NULL strides are row-major order: NumPy up to 2.3 writes them.
    "no strides, one dimension": {"shape": (7,), "strides": None},
    "no strides, extents of one": {"shape": (1, 3, 1), "strides": None},
    "no strides, many dimensions": {"shape": (1,) * 64, "strides": None},
    "no strides, scalar": {"shape": (), "strides": None},
    "no strides, empty": {"shape": (2, 0, 3), "strides": None},
    "no strides, negative extents": {"shape": (-2, -3), "strides": None, "data": 64},
    "no strides, overflow": {"shape": (2**32, 2**32), "strides": None, "memory": BLOCK},
    "no strides, bytes that overflow": {"shape": (MAX // 2,), "strides": None, "memory": BLOCK},
    "no strides, no deleter": {"strides": None, "deleter": False},
    "no strides, another device": {"strides": None, "device": (1, 1)},
    "no strides, no shape": {"strides": None, "null_shape": True},
    "an odd address": {"shape": (3,), "strides": (1,), "start": 1},
}
VERSIONED_ONLY = {
    **structs.VERSIONED_ONLY,
    "no strides, read-only": {"strides": None, "flags": 1},
    "no strides, copied": {"strides": None, "flags": 2},
    "no strides, unknown flag": {"strides": None, "flags": 8},
}


def producer(version: tuple[int, int] | None, second: dict[str, Any]) -> Any:
    """Its first exports are plain, later ones are `second`."""

    class Source:
        later = False
        first: dict[str, Any] = {}

        def give(self) -> Any:
            fields = {"shape": (2, 3), "version": version}
            fields |= second if self.later else self.first
            return caps.make(fields.pop("shape"), **fields)

        if version is None:

            def __dlpack__(self) -> Any:
                return self.give()

        else:

            def __dlpack__(self, *, max_version: Any = None) -> Any:
                return self.give()

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    return Source()


def seen(capsule: Any) -> dict[str, Any]:
    facts = _core._peek(capsule)
    for address in ("data", "has_deleter"):
        facts[address] = bool(facts[address])
    facts.pop("version")  # ours, or the producer's own
    if facts["ndim"] == 0:
        facts.update(shape=None, strides=None)  # nothing, in two spellings
    return facts


def described(tensor: Any) -> tuple[Any, ...]:
    return (
        tensor.shape,
        tensor.strides,
        tensor.dtype,
        tensor.device,
        tensor.readonly,
        tensor.is_copied,
        tensor.version,
        tensor.byte_offset,
    )


ASKS = {
    "legacy": lambda w, x: seen(w.__dlpack__()),
    "versioned": lambda w, x: seen(w.__dlpack__(max_version=(1, 0))),
    "stream -1": lambda w, x: seen(w.__dlpack__(stream=-1, max_version=(1, 3))),
    "copy, legacy": lambda w, x: seen(w.__dlpack__(copy=True)),
    "copy, versioned": lambda w, x: seen(w.__dlpack__(max_version=(1, 0), copy=True)),
    "Tensor": lambda w, x: described(dlshim.from_dlpack(x)),
    "Tensor, copy": lambda w, x: described(dlshim.from_dlpack(x, copy=True)),
    "Tensor, legacy": lambda w, x: seen(dlshim.from_dlpack(x).__dlpack__()),
    "Tensor, versioned": lambda w, x: seen(dlshim.from_dlpack(x).__dlpack__(max_version=(1, 3))),
    "to_capsule, legacy": lambda w, x: seen(dlshim.to_capsule(x)),
    "to_capsule, versioned": lambda w, x: seen(dlshim.to_capsule(x, max_version=(1, 0))),
    "to_capsule, old": lambda w, x: seen(dlshim.to_capsule(x, max_version=(0, 8))),
    "to_capsule, order": lambda w, x: seen(dlshim.to_capsule(x, order="C")),
}


#: Options that change nothing of some memory, and the whole of other memory.
IDLE: dict[str, dict[str, Any]] = {
    "order K": {"order": "K"},
    "order C": {"order": "C"},
    "order auto, readonly copy": {"order": "auto", "readonly": "copy"},
    "readonly error": {"readonly": "error"},
    "readonly share": {"readonly": "share"},
    "align": {"align": 8},
    "all": {"order": "C", "readonly": "copy", "align": 8},
    # Not idle: they change everything, or are passed on.
    "readonly True": {"readonly": True, "order": "C"},
    "readonly False": {"readonly": False, "align": 8},
    "copy False": {"copy": False, "order": "C"},
}
WORDS: dict[str, dict[str, Any]] = {
    "legacy": {},
    "versioned": {"max_version": (1, 0)},
    "numpy": {"max_version": (1, 0), "dl_device": None, "copy": None},
    "stream": {"stream": -1, "max_version": (1, 0)},
}


def asks_with(options: dict[str, Any], words: dict[str, Any], question: bool) -> Any:
    def ask(_: Any, x: Any) -> Any:
        wrapper = dlshim.upgrade(x, **options)
        if question:  # as torch does
            wrapper.__dlpack_device__()
        given = []
        for _ in range(2):
            try:
                given.append(seen(wrapper.__dlpack__(**words)))
            except BufferError as error:
                given.append((type(error), str(error)))
        return given

    return ask


def outcome(source: Any, ask: Any, fast: bool) -> Any:
    source.later = False
    _core._hook("hand_on", True)
    wrapper = dlshim.upgrade(source)
    for _ in range(2):
        with contextlib.suppress(BufferError):  # no legacy capsule says that memory is read-only
            ask(wrapper, source)
    source.later = True
    _core._hook("hand_on", fast)
    try:
        return ask(wrapper, source)
    except (BufferError, TypeError, ValueError) as error:
        return type(error), str(error)
    finally:
        _core._hook("hand_on", True)


CASES = [
    (version, name, fields)
    for version, cases in [(None, STRUCTS), ((1, 1), {**STRUCTS, **VERSIONED_ONLY})]
    for name, fields in cases.items()
]


@pytest.mark.once
@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS.keys())
@pytest.mark.parametrize(
    "version, fields",
    [(version, fields) for version, _, fields in CASES],
    ids=[f"{name}-{'versioned' if version else 'legacy'}" for version, name, _ in CASES],
)
def test_the_fast_path_gives_the_same(version, fields, ask):
    full = outcome(producer(version, fields), ask, False)
    fast = outcome(producer(version, fields), ask, True)
    assert fast == full


@pytest.mark.once
@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS.keys())
@pytest.mark.parametrize("learned", [None, (1, 1)], ids=["legacy", "versioned"])
def test_the_fast_path_gives_the_same_of_an_immutable_type(learned, ask):
    """pyarrow's arrays state READ_ONLY since 26; what cannot say so is marked (T8)."""
    for version, _, fields in CASES:
        given = []
        for fast in (False, True):
            source = producer((1, 1), {**fields, "version": version})
            type(source).__module__, type(source).__qualname__ = "pyarrow.lib", "Array"
            type(source).first = {"version": learned, "flags": 1 if learned else 0}
            given.append(outcome(source, ask, fast))
        assert given[0] == given[1], fields


@pytest.mark.once
@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS.keys())
@pytest.mark.parametrize("options", IDLE.values(), ids=IDLE.keys())
def test_idle_options_give_the_same_on_the_fast_path(options, words):
    compared = 0
    for version, _, fields in CASES:
        for question in (False, True):
            ask = asks_with(options, words, question)
            full = outcome(producer(version, fields), ask, False)
            assert outcome(producer(version, fields), ask, True) == full, (fields, question)
            compared += isinstance(full[0], dict)
    assert compared > 20 or (options.get("readonly") is True and words == {})


@pytest.mark.once
@pytest.mark.parametrize("options", IDLE.values(), ids=IDLE.keys())
def test_idle_options_give_the_same_tensor_on_the_fast_path(options):
    def ask(_: Any, x: Any) -> Any:
        return described(dlshim.from_dlpack(x, **options))

    compared = 0
    for version, _, fields in CASES:
        full = outcome(producer(version, fields), ask, False)
        assert outcome(producer(version, fields), ask, True) == full, fields
        compared += isinstance(full[0], tuple)
    assert compared > 20


@pytest.mark.once
@pytest.mark.parametrize("version", [None, (1, 0)])
@pytest.mark.parametrize("name", ["broadcast", "null data", "absurd ndim"])
@pytest.mark.parametrize("asked", [{}, {"copy": True}], ids=["as it is", "copy"])
def test_nobody_is_called_twice(version, name, asked):
    source = producer(version, STRUCTS[name])
    calls = []
    inner = type(source).give
    type(source).give = lambda self: calls.append(1) or inner(self)
    wrapper = dlshim.upgrade(source)
    for _ in range(2):
        wrapper.__dlpack__(max_version=(1, 0), **asked)
    source.later = True
    for ask in (
        lambda: wrapper.__dlpack__(max_version=(1, 0), **asked),
        lambda: dlshim.from_dlpack(source, **asked),
        lambda: dlshim.to_capsule(source, **asked),
        lambda: dlshim.to_capsule(source, max_version=(1, 0), **asked),
        lambda: dlshim.from_dlpack(source, order="C", readonly="copy", align=1 << 20),
    ):
        calls.clear()
        with contextlib.suppress(BufferError):
            ask()
        assert len(calls) == 1


@pytest.mark.once
def test_a_copy_on_the_fast_path_is_kept_by_its_producer():
    """As in full (T8): until the next copy, or until the Producer goes."""
    wrapper = dlshim.upgrade(P2((2, 3), "float32", strides=(1, 2)))
    for _ in range(3):
        before = _core._peek(wrapper.__dlpack__(max_version=(1, 0), copy=True))["data"]
        assert ctypes.string_at(before, 24) == array.array("f", [0, 2, 4, 1, 3, 5]).tobytes()
    with versioned(wrapper, copy=True) as kept:
        del wrapper
        assert kept.values() == [0, 2, 4, 1, 3, 5]


@pytest.mark.once
def test_copies_around_the_size_from_which_other_threads_run():
    for count in (65536 // 8 - 1, 65536 // 8):
        block = array.array("d", range(count))
        for view in (memoryview(block), memoryview(block)[::-1]):
            x = dlshim.from_dlpack(view)
            for source in (x, dlshim.upgrade(x)):
                copied = memoryview(dlshim.from_dlpack(source, copy=True))
                assert (copied[0], copied[-1]) == (view[0], view[-1])


ANEW = {  # keywords, and what comes of them
    "version": ({"max_version": (1, 0)}, "dltensor_versioned"),
    "newer": ({"max_version": (1, 70)}, "dltensor_versioned"),
    "huge minor": ({"max_version": (1, 1 << 40)}, "dltensor_versioned"),
    "legacy": ({"max_version": (0, 8)}, "dltensor"),
    "major 2": ({"max_version": (2, 0)}, "dltensor_versioned"),
    "no version": ({"max_version": None}, "dltensor"),
    "stream": ({"stream": -1, "max_version": (1, 3)}, "dltensor_versioned"),
    "all": (
        {"copy": None, "dl_device": None, "stream": None, "max_version": (1, 0)},
        "dltensor_versioned",
    ),
    "copy": ({"copy": False, "max_version": (1, 0)}, "dltensor_versioned"),
    "unknown": ({"max_version": (1, 0), "streams": None}, TypeError),
    "unknown alone": ({"versions": None}, TypeError),
    "no pair": ({"max_version": 1}, TypeError),
    "negative": ({"max_version": (1, -1)}, TypeError),
}


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("made", [None, (1, 0)])
def test_keywords_that_are_made_for_each_call(made, order):
    """f(**dict) makes a new tuple of names each time, and consumers new version tuples."""
    wrapper = dlshim.upgrade(producer(made, {}))
    for _ in range(20):
        for text, (keywords, expected) in list(ANEW.items())[::order]:
            fresh = {
                name: tuple(map(int, value)) if isinstance(value, tuple) else value
                for name, value in keywords.items()
            }
            if isinstance(expected, str):
                assert caps.name_of(wrapper.__dlpack__(**fresh)) == expected, text
            else:
                with pytest.raises(expected):
                    wrapper.__dlpack__(**fresh)


# --- where the fast path and the full record part: stream=-1 -------------------------------


@pytest.mark.parametrize("words", [{"stream": -1}, {"stream": -1, "max_version": (1, 0)}], ids=str)
@pytest.mark.parametrize("refuses", [False, True])
def test_a_type_seen_on_the_host_may_lie_elsewhere(refuses, words, hand_on):
    """The fast path asks as if it were on the host, drops that, and asks for the device once.

    The negotiation off the host is the same on both ways, and what it teaches is kept.
    """

    class Moody(P2):
        refuses = False

        def answer(self, **asked):
            if self.refuses and "stream" in asked:
                raise TypeError("its own reason")
            return super().answer(**asked)

    versioned(dlshim.upgrade(Moody())).release()
    bare(dlshim.upgrade(Moody())).release()
    x = Moody(device=(7, 0))
    x.refuses = refuses
    with caps.take(dlshim.upgrade(x).__dlpack__(**words)) as imported:
        assert imported.view.device == (7, 0)
    assert len(x.keywords) == (3 if refuses else 1) + hand_on
    y = Moody(device=(7, 0))
    caps.take(dlshim.upgrade(y).__dlpack__(**words)).release()
    assert len(y.keywords) == 1
    host = Moody()
    caps.take(dlshim.upgrade(host).__dlpack__(**words)).release()
    assert len(host.keywords) == 1
