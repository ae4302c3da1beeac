"""What bad input gets: a clear error of the designed class; nothing leaked or half-consumed."""

from __future__ import annotations

from contextlib import suppress

import pytest

import dlshim
from dlshim import _core
from doubles import capsules as caps
from doubles import child
from doubles.asking import ASKINGS, bare, live, tells, versioned, walk
from doubles.older import InterfaceOnly
from doubles.producers import P1, P2, GivesRubbish, P3TableOnly, Raises, VersionedAlways

BOTH = pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())
TAKERS = pytest.mark.parametrize(
    "take", [dlshim.upgrade, dlshim.from_dlpack, dlshim.to_capsule], ids=lambda f: f.__name__
)


# --- objects with nothing to offer ----------------------------------------------------

NOTHING = [object(), [1, 2], (1.0,), 3, 3.0, 1j, None, True, "text", {}, {1}, range(3), print,
           Ellipsis, iter([]), dlshim, type("Own", (), {})()]  # fmt: skip


@TAKERS
def test_nothing_to_offer(take):
    def check(x):
        with pytest.raises(dlshim.UnsupportedObjectError) as error:
            take(x)
        assert isinstance(error.value, TypeError) and isinstance(error.value, AttributeError)
        # What a class of Python's own offers is known to everybody.
        ways = [] if type(x).__module__ == "builtins" else ["__dlpack__"]
        tells(error.value, type(x).__name__, *ways, "None" if x is None else "array")

    walk(NOTHING, check)


@TAKERS
@pytest.mark.parametrize("cls", [P1, P2, InterfaceOnly, bytearray], ids=lambda c: c.__name__)
def test_a_class_instead_of_its_instance(cls, take):
    with pytest.raises((dlshim.UnsupportedObjectError, BufferError)) as error:
        taken = take(cls)
        taken.__dlpack__()
    tells(error.value, "type")


@TAKERS
def test_the_long_and_the_odd_name(take):
    cls = type("N" * 5000, (), {})
    with pytest.raises(dlshim.UnsupportedObjectError) as error:
        take(cls())
    tells(error.value, "NNNN")
    weird = type("Größe%s%n", (), {})
    with pytest.raises(dlshim.UnsupportedObjectError) as error:
        take(weird())
    assert "%s%n" in str(error.value)


def test_error_classes():
    assert issubclass(dlshim.CopyRequiredError, BufferError)
    assert issubclass(dlshim.CopyRequiredError, ValueError)
    assert issubclass(dlshim.UnsupportedObjectError, TypeError)
    assert issubclass(dlshim.UnsupportedObjectError, AttributeError)
    assert dlshim.CopyRequiredError.__module__ == "dlshim"
    assert dlshim.CopyRequiredError("made by other code").reason == ""
    assert dlshim.UnsupportedObjectError.__module__ == "dlshim"


# --- T11: structs that lie ------------------------------------------------------------

BIG = 2**62
LIES = {
    "negative ndim": {"ndim": -1},
    "most negative ndim": {"ndim": -(2**31)},
    "absurd ndim": {"ndim": 2**31 - 1},
    "NULL shape": {"null_shape": True},
    "negative extent": {"shape": (2, -3), "strides": (3, 1)},
    "most negative extent": {"shape": (-(2**63),), "strides": (1,)},
    "negative beside zero": {"shape": (0, -3), "strides": (3, 1)},
    "overflowing extents": {"shape": (2**40, 2**40), "strides": (0, 0)},
    "overflowing bytes": {"shape": (BIG,), "strides": (0,)},
    "overflowing span": {"shape": (3, 3), "strides": (BIG, 1)},
    "overflowing negative span": {"shape": (3, 3), "strides": (-BIG, -BIG)},
    "most negative stride": {"shape": (2,), "strides": (-(2**63),)},
    "NULL data with elements": {"data": None},
    "no bits": {"dtype": (2, 0, 1)},
    "no lanes": {"dtype": (2, 32, 0)},
    "unknown flag": {"flags": 1 << 40, "version": (1, 0)},
    "major 2": {"version": (2, 0)},
}


def lie(fields, version):
    fields = {"shape": (2, 3), "version": version} | fields
    memory = caps.filled((64,), "float32")
    if "data" not in fields:
        fields["data"] = caps.address_of(memory)
    return caps.Made(memory=memory, **fields)


def producer(made):
    return GivesRubbish(made.capsule())


def table(made):
    made.handed_out = True
    return type("Lies", (P3TableOnly,), {"table_export": lambda self: made})()


#: How a struct comes, and of which version it is, unless the lie is about that.
ROADS = {
    "a legacy capsule": (caps.Made.capsule, None),
    "a versioned capsule": (caps.Made.capsule, (1, 0)),
    "a legacy producer": (producer, None),
    "a versioned producer": (producer, (1, 0)),
    "a table": (table, (1, 3)),
}
CONSUMERS = [
    dlshim.from_dlpack,
    lambda x: bare(dlshim.upgrade(x)),
    lambda x: versioned(dlshim.upgrade(x)),
    lambda x: bare(dlshim.upgrade(x), copy=True),
    lambda x: versioned(dlshim.upgrade(x), copy=True),
]


@pytest.mark.parametrize("fields", LIES.values(), ids=LIES)
@pytest.mark.parametrize(("make", "version"), ROADS.values(), ids=ROADS)
def test_T11_a_struct_that_lies_is_refused_and_freed_once(make, version, fields):
    """Overflows are found before any byte is read or allocated for a copy."""
    for take in CONSUMERS:
        made = lie(fields, version)
        x = make(made)
        with pytest.raises(BufferError) as error:
            take(x)
        assert type(error.value) is BufferError
        tells(error.value, type(x).__name__)
        del x, error
        assert made.deleted == 1


@pytest.mark.parametrize(
    ("extent", "lanes", "fits"),
    [
        (2**38 - 1, 1, True),
        (2**38, 1, True),
        (2**45, 1, True),
        (2**38 - 1, 65535, True),
        (2**46, 65535, False),
        (2**60, 1, False),
        (2**62, 1, False),
    ],
)
def test_T11_extents_that_no_memory_has_are_judged_alike_everywhere(extent, lanes, fits):
    """Row-major to the letter, from a type that was met: on the fast path and in full."""
    for cls in (P1, P2):
        for ask in (bare, versioned):
            ask(dlshim.upgrade(cls()))
            x = cls((extent,), (2, 64, lanes), strides=(1,), memory=cls().memory)
            if fits:
                got = ask(dlshim.upgrade(x)).view
                assert (got.shape, got.strides) == ((extent,), (1,))
            else:
                with pytest.raises(BufferError, match="overflow"):
                    ask(dlshim.upgrade(x))


def test_T11_a_copy_too_large_for_memory():
    """Lawful sizes, but 2**50 bytes: MemoryError, and nothing is kept."""
    x = P2((2**47,), "float64", strides=(0,))
    with pytest.raises(MemoryError):
        versioned(dlshim.upgrade(x), copy=True)
    assert [made.deleted for made in x.exports] == [1] * len(x.exports)


@pytest.mark.once
def test_T11_lies_are_found_before_anything_is_followed():
    """Pointers that lead nowhere, beside a field that gives the struct away."""
    child.program("lies")


# --- a producer that raises anything at any step --------------------------------------

ANYTHING = [ValueError, TypeError, RuntimeError, NotImplementedError, AssertionError, BufferError,
            KeyError, OSError, MemoryError, KeyboardInterrupt, SystemExit, RecursionError,
            UnicodeDecodeError, StopIteration]  # fmt: skip


def instance(kind):
    return kind("utf-8", b"", 0, 1, "bad") if kind is UnicodeDecodeError else kind("anything")


@BOTH
@pytest.mark.parametrize("kind", ANYTHING, ids=lambda k: k.__name__)
def test_dlpack_raises(kind, ask):
    before = live()
    with pytest.raises((BufferError, kind)):
        ask(dlshim.upgrade(Raises(instance(kind))))
    with pytest.raises((BufferError, kind)):
        dlshim.from_dlpack(Raises(instance(kind)))
    assert live() == before


@BOTH
@pytest.mark.parametrize("kind", ANYTHING, ids=lambda k: k.__name__)
def test_dlpack_device_raises(kind, ask):
    class Device(P2):
        def __dlpack_device__(self):
            raise instance(kind)

    x = Device()
    with suppress(BufferError, kind):
        ask(dlshim.upgrade(x)).release()
    with suppress(BufferError, kind):
        assert dlshim.upgrade(x).__dlpack_device__() == (1, 0)


@BOTH
@pytest.mark.parametrize("name", ["__dlpack__", "__dlpack_device__", "toDlpack",
                                  "__array_interface__", "__array_struct__",
                                  "__dlpack_c_exchange_api__"])  # fmt: skip
def test_looking_an_attribute_up_raises(name, ask):
    def check(kind):
        def read(self):
            raise instance(kind)

        x = type("Explodes", (P1,), {name: property(read)})()
        try:
            imported = ask(dlshim.upgrade(x))
        except (BufferError, TypeError, kind) as error:
            assert not isinstance(error, SystemError)
            return
        assert imported.values() == x.values()  # it had another way in
        imported.release()

    walk(ANYTHING, check)


@BOTH
def test_an_error_after_the_capsule_was_made(ask):
    """A producer that fails late has its own capsule to free, and nobody else frees it."""

    class Late(VersionedAlways):
        def answer(self, **asked):
            super().answer(**asked)
            raise RuntimeError("too late")

    x = Late()
    with pytest.raises(BufferError):
        ask(dlshim.upgrade(x))
    assert [made.deleted for made in x.exports] == [1] * len(x.exports)


def test_reentrance():
    """A producer that upgrades itself while it is asked."""

    class Nested(P2):
        depth = 0

        def answer(self, **asked):
            if self.depth < 3:
                self.depth += 1
                bare(dlshim.upgrade(self)).release()
            return super().answer(**asked)

    x = Nested()
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.values() == x.values()


@pytest.mark.parametrize(
    "meanwhile",
    [lambda self: _core._hook("forget_plans"), lambda self: setattr(self, "__class__", P1)],
    ids=["its plan is forgotten", "its class changes"],
)
def test_what_happens_to_a_source_while_it_is_asked(meanwhile):
    class Asked(P2):
        def answer(self, **asked):
            meanwhile(self)
            return super().answer(**asked)

    x = Asked()
    for _ in range(3):
        with versioned(dlshim.upgrade(x)) as imported:
            assert imported.values() == x.values()


# --- the doors themselves -------------------------------------------------------------


def test_from_dlpack_and_upgrade_and_to_capsule_want_one_argument():
    for take in (dlshim.upgrade, dlshim.from_dlpack, dlshim.to_capsule):
        for arguments in ((), (P1(), P1())):
            with pytest.raises(TypeError) as error:
                take(*arguments)
            tells(error.value, take.__name__)


@pytest.mark.parametrize("version", [None, (1, 1)])
def test_peek_reads_and_consumes_nothing(version):
    capsule = caps.make(version=version, flags=caps.READ_ONLY, byte_offset=4, start=2)
    found, view = _core._peek(capsule), caps.look(capsule)
    for key in ("name", "device", "dtype", "ndim", "shape", "strides", "byte_offset", "data"):
        assert found[key] == getattr(view, key), key
    assert found["has_deleter"] is True
    assert found["version"] == version or version is None
    assert (found["flags"] or 0) == (view.flags or 0)
    with caps.take(capsule):
        pass
    nothing = caps.make((2,), strides=None, deleter=False)
    assert _core._peek(nothing)["strides"] is None
    assert _core._peek(nothing)["has_deleter"] is False


#: An offset, and whether the data lie so far before the memory that the sum comes round to it.
OFFSETS = [
    (2**62, True), (2**63, True), (2**63, False),
    (2**64 - 8, True), (2**64 - 8, False), (2**64 - 4, False),
]  # fmt: skip


@pytest.mark.parametrize(("offset", "comes_round"), OFFSETS)
@pytest.mark.parametrize("device", [caps.CPU, caps.PINNED, caps.OPENCL, (99, 0)])
def test_T11_no_address_is_computed_of_an_offset_that_lies(device, offset, comes_round):
    """`nox -s sanitize` saw the pointer wrap around; beside a handle, the offset passes (T5)."""
    capsule = caps.make((3,), device=device, byte_offset=offset if comes_round else 0)
    caps.made_of(capsule).struct.dl_tensor.byte_offset = offset
    if device[0] in caps.ADDRESS_DEVICES:
        with pytest.raises(BufferError, match="byte_offset"):
            dlshim.upgrade(capsule)
    else:
        assert caps.look(dlshim.to_capsule(capsule)).byte_offset == offset


@pytest.mark.parametrize("device", [(2, 0), (10, 0), (14, 0)])
def test_T6_an_offset_of_an_empty_array_without_memory_is_no_address(device):
    capsule = caps.make((0,), device=device, data=None, byte_offset=5)
    tensor = dlshim.from_dlpack(dlshim.upgrade(capsule, stream=-1))
    assert (tensor.data_ptr(), tensor.byte_offset) == (0, 5)
