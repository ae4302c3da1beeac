"""N9: ways of asking tell which consumers support negative strides, and are used for that alone."""

from __future__ import annotations

import threading

import pytest

import dlshim
from doubles import consumers
from doubles.asking import asks, bare, tells, versioned
from doubles.producers import P1, P2, P1b, P3TableOnly, VersionedAlways

SOURCES = pytest.mark.parametrize("cls", [P1, P1b, P2, P3TableOnly, VersionedAlways])
ROOMS = pytest.mark.parametrize("wrap", [dlshim.upgrade, dlshim.from_dlpack])


def backwards(cls=P2, **more):
    return cls((4,), "int32", strides=(-1,), start=3, **more)


SUPPORT = {
    "NumPy's three keywords": {"dl_device": None, "copy": None, "max_version": (1, 0)},
    "bare": {},
    "max_version alone": {"max_version": (1, 0)},
    "max_version alone, newer": {"max_version": (1, 3)},
    "stream": {"stream": None},
    "stream and max_version": {"stream": None, "max_version": (1, 3)},
}


@ROOMS
@SOURCES
@pytest.mark.parametrize("asked", SUPPORT.values(), ids=SUPPORT.keys())
def test_N9_consumers_known_to_support_them_get_them(cls, wrap, asked):
    x = backwards(cls)
    with consumers.caps.take(wrap(x).__dlpack__(**asked)) as imported:
        assert imported.view.strides == (-1,)
        assert imported.view.element_zero == x.element_zero
        assert imported.values() == [3, 2, 1, 0]


AFTER_THE_DEVICE = {
    "torch <= 2.8 and Paddle 3.2": {},
    "torch and mpi4py": {"max_version": (1, 0)},
    "Paddle 3.3": {"max_version": (1, 2)},
    "torch copy=False, mpi4py": {"max_version": (1, 0), "copy": False},
    "torch device=": {"max_version": (1, 0), "dl_device": (1, 0)},
    "torch device=, copy=False": {"max_version": (1, 0), "dl_device": (1, 0), "copy": False},
    "torch on a GPU": {"max_version": (1, 0), "stream": 1},
    "torch on a GPU, all": {
        "max_version": (1, 0), "stream": 1, "dl_device": (1, 0), "copy": False,
    },
}  # fmt: skip


@ROOMS
@SOURCES
@pytest.mark.parametrize("asked", AFTER_THE_DEVICE.values(), ids=AFTER_THE_DEVICE.keys())
def test_N9_others_are_refused(cls, wrap, asked):
    """torch aborts the process on them up to 2.13, Paddle breaks at the first read."""
    wrapped = wrap(backwards(cls))
    wrapped.__dlpack_device__()
    with pytest.raises(BufferError) as error:
        wrapped.__dlpack__(**asked)
    tells(error.value, "negative", "order", "copy", '"C"', '"K"')


@ROOMS
def test_N9_the_mark_is_used_up(wrap):
    wrapped = wrap(backwards())
    wrapped.__dlpack_device__()
    with pytest.raises(BufferError):
        wrapped.__dlpack__()
    bare(wrapped).release()  # the next consumer did not ask the device
    wrapped.__dlpack_device__()
    with pytest.raises(BufferError):
        wrapped.__dlpack__(max_version=(1, 0))
    versioned(wrapped).release()


@ROOMS
def test_N9_a_copy_uses_the_mark_up_too(wrap):
    wrapped = wrap(backwards())
    for _ in range(2):  # as at first, and as it was learned
        wrapped.__dlpack_device__()
        versioned(wrapped, copy=True).release()
        versioned(wrapped).release()  # refused if the mark were left


@ROOMS
@pytest.mark.parametrize(
    "asked",
    [
        {"stream": None},
        {"stream": 1},
        {"stream": None, "max_version": (1, 3)},
        {"stream": 1, "max_version": (1, 3)},
        {"stream": 1, "max_version": (1, 0), "copy": None},
        SUPPORT["NumPy's three keywords"],
    ],
)
def test_N9_a_device_question_does_not_take_them_from_these(wrap, asked):
    """JAX, cuda.core and CuPy ask with a stream, awkward asks the device and then as NumPy does."""
    wrapped = wrap(backwards())
    wrapped.__dlpack_device__()
    with consumers.caps.take(wrapped.__dlpack__(**asked)) as imported:
        assert imported.values() == [3, 2, 1, 0]


@ROOMS
def test_N9_the_mark_carries_the_thread(wrap):
    """Another thread's device question is not ours."""
    wrapped = wrap(backwards())
    wrapped.__dlpack_device__()
    failures = []

    def ask():
        try:
            bare(wrapped).release()
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert not failures


@ROOMS
def test_N9_each_object_has_its_own_mark(wrap):
    first, second = wrap(backwards()), wrap(backwards())
    first.__dlpack_device__()
    bare(second).release()
    with pytest.raises(BufferError):
        bare(first)


@SOURCES
def test_N9_to_capsule_cannot_see_its_consumer(cls):
    for asked in ({}, {"max_version": (1, 0)}):
        with pytest.raises(BufferError) as error:
            dlshim.to_capsule(backwards(cls), **asked)
        tells(error.value, "negative", "order")
        for order, strides in (("K", (-1,)), ("C", (1,))):
            capsule = dlshim.to_capsule(backwards(cls), order=order, **asked)
            with consumers.caps.take(capsule) as imported:
                assert (imported.view.strides, imported.values()) == (strides, [3, 2, 1, 0])


def test_N9_who_wants_no_copy_is_told_both_words():
    upgraded = dlshim.upgrade(backwards())
    upgraded.__dlpack_device__()
    with pytest.raises(BufferError, match="pass copy=None and order=") as error:
        upgraded.__dlpack__(max_version=(1, 0), copy=False)
    tells(error.value, 'order="auto"', 'order="C"')


#: The options, what is asked after the device question, and the strides that come.
MENDED = {
    "order=K": ({"order": "K"}, {}, (-1,)),
    "order=C": ({"order": "C"}, {}, (1,)),
    "order=C, versioned": ({"order": "C"}, {"max_version": (1, 0), "copy": None}, (1,)),
    "order=auto": ({"order": "auto"}, {"max_version": (1, 0), "copy": None}, (1,)),
    "copy=True": ({}, {"max_version": (1, 0), "copy": True}, (1,)),
}


@SOURCES
@pytest.mark.parametrize(("options", "asked", "strides"), MENDED.values(), ids=MENDED)
def test_N9_others_get_what_an_option_makes_of_it(cls, options, asked, strides):
    x = backwards(cls)
    upgraded = dlshim.upgrade(x, **options)
    upgraded.__dlpack_device__()
    with consumers.caps.take(upgraded.__dlpack__(**asked)) as imported:
        assert (imported.view.version is not None) is ("max_version" in asked)
        assert (imported.view.strides, imported.values()) == (strides, [3, 2, 1, 0])
        assert (imported.view.element_zero == x.element_zero) is (strides == (-1,))


@ROOMS
def test_N9_nothing_else_hangs_on_the_question(wrap):
    for fields in ({}, *STRIDED.values()):
        wrapped = wrap(P2((2, 3), "int32", **fields))
        wrapped.__dlpack_device__()
        bare(wrapped).release()
        wrapped.__dlpack_device__()
        versioned(wrapped, copy=False).release()


def test_N9_what_the_real_call_shapes_get():
    """Nobody is killed: refused where the library would die, given the array where it would not."""
    for name, ask in consumers.OBJECT_CONSUMERS.items():
        x = backwards()
        try:
            imported = ask(dlshim.upgrade(x))
        except consumers.Killed as killed:
            raise AssertionError(f"{name} was killed: {killed}") from killed
        except (BufferError, RuntimeError, ValueError, TypeError):
            continue
        assert imported.values() == x.values(), name
        imported.release()


def test_from_dlpack_supports_negative_strides():
    tensor = dlshim.from_dlpack(backwards())
    assert tensor.strides == (-1,)
    assert memoryview(tensor).tolist() == [3, 2, 1, 0]


# ---- consumers that ignore strides (N9) -----------------------------------------------------


STRIDED = {
    "transposed": {"strides": (1, 2)},
    "every second column": {"strides": (6, 2)},
    "repeated": {"strides": (0, 1)},
}


@ROOMS
@SOURCES
@pytest.mark.parametrize("fields", STRIDED.values(), ids=STRIDED.keys())
def test_N9_who_ignores_strides_gets_row_major_memory_only(cls, wrap, fields):
    """MAX reads the elements one after the other, whatever the strides are."""
    x, ask = cls((2, 3), "int32", **fields), asks("max.driver.buffer")
    for _ in range(2):
        with pytest.raises(BufferError) as error:
            ask(wrap(x))
        tells(error.value, "strides", "max", 'order="auto"', 'order="C"', 'order="K"')
    with ask(wrap(dlshim.upgrade(x, order="C"))) as imported:
        assert imported.view.strides in (None, (3, 1))
        assert imported.values() == x.values()
    with ask(dlshim.upgrade(x, order="K")) as imported:
        assert imported.view.strides == fields["strides"]


def test_N9_who_wants_a_versioned_capsule_looks_at_strides():
    space = {"__name__": "max.driver.buffer", "to_capsule": dlshim.to_capsule}
    space["x"] = P2((2, 3), "int32", strides=(1, 2))
    with pytest.raises(BufferError, match="ignores strides"):
        eval("to_capsule(x)", space)
    with consumers.caps.take(eval("to_capsule(x, max_version=(1, 0))", space)) as imported:
        assert imported.values() == space["x"].values()


@ROOMS
@pytest.mark.parametrize("module", ["maximum", "maxx.driver", "mymax.driver", "max"])
def test_N9_other_modules_are_not_known_to_ignore_strides(wrap, module):
    x = P2((2, 3), "int32", strides=(1, 2))
    with asks(module)(wrap(x)) as imported:
        assert imported.values() == x.values()


# ---- consumers that lose scalars (N9) -------------------------------------------------------


NANOARROWS = {"keywords": "stream=None", "question": "pass"}


@SOURCES
@pytest.mark.parametrize("options", [{}, {"copy": True}, {"order": "C"}, {"align": 1}], ids=str)
def test_N9_who_takes_a_scalar_for_an_empty_array_is_refused_it(cls, options):
    """nanoarrow.c_buffer is silent and empty; of a Tensor it takes the buffer."""
    x, ask = cls((), "int32"), asks("nanoarrow.c_buffer", **NANOARROWS)
    for _ in range(3):  # learned by then
        with pytest.raises(BufferError) as error:
            ask(dlshim.upgrade(x, **options))
        assert "no dimensions" in str(error.value)
        assert "nanoarrow" in str(error.value) and "pass dlshim.from_dlpack(x) " in str(error.value)
    assert [memoryview(dlshim.from_dlpack(x)).tolist()] == x.values()


@pytest.mark.parametrize("module", ["nanoarrow", "nanoarrows.c_buffer", "jax._src.dlpack"])
def test_N9_others_that_ask_with_a_stream_get_scalars(module):
    x, ask = P2((), "int32"), asks(module, **NANOARROWS)
    for _ in range(3):
        with ask(dlshim.upgrade(x)) as imported:
            assert imported.view.shape == () and imported.values() == x.values()


@pytest.mark.parametrize(("shape", "dtype"), [((1,), "int32"), ((0,), "int32"), ((), "bfloat16")])
def test_N9_what_is_no_scalar_or_has_no_buffer_is_left_to_nanoarrow(shape, dtype):
    x, ask = P2(shape, dtype), asks("nanoarrow.c_buffer", **NANOARROWS)
    for _ in range(3):
        ask(dlshim.upgrade(x)).release()
