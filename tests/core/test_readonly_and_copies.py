"""T8: no read-only flag is lost, no copy is hidden, and what is copied belongs to one."""

from __future__ import annotations

import gc
import warnings

import pytest

import dlshim
from doubles import capsules as caps
from doubles import consumers, producers
from doubles.asking import ASKINGS, bare, counting, scribble, tells, versioned, walk
from doubles.capsules import IS_COPIED, READ_ONLY
from doubles.producers import (
    EDITIONS,
    P1,
    P2,
    P3,
    CopiesAlways,
    P1b,
    P1Numpy124,
    P2LegacyOfReadonly,
    P2NoCopyNoDevice,
    P2Pyarrow26,
    P2Torch,
    P2TvmFfi,
    P3TableOnly,
    Tensorflow,
    VersionedAlways,
    fresh,
    jax_like,
    tensorflow_like,
)

BOTH = pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())
WORDS = ["error", "copy", "share"]
STATED = [P2, P2LegacyOfReadonly, P2Pyarrow26, VersionedAlways, P3TableOnly]


# --- READ_ONLY ------------------------------------------------------------------------


@pytest.mark.parametrize("cls", STATED)
def test_T8_a_stated_flag_reaches_versioned_consumers(cls):
    x = cls(readonly=True)
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.view.flags == READ_ONLY
        assert imported.view.element_zero == x.element_zero
    tensor = dlshim.from_dlpack(x)
    assert tensor.readonly
    with versioned(tensor) as imported:
        assert imported.view.flags == READ_ONLY


@pytest.mark.parametrize("cls", STATED)
def test_T8_a_stated_flag_is_refused_to_legacy_consumers(cls):
    x = cls(readonly=True)
    with pytest.raises(BufferError) as error:
        dlshim.upgrade(x).__dlpack__()
    tells(error.value, cls.__name__, "read-?only", "readonly=", "share", "copy")
    with pytest.raises(BufferError) as error:
        dlshim.to_capsule(x)
    tells(error.value, cls.__name__, "readonly=")
    with pytest.raises(BufferError) as error:
        dlshim.from_dlpack(x).__dlpack__()
    tells(error.value, "read-?only")


@pytest.mark.parametrize("cls", STATED)
def test_T8_share_gives_the_memory_all_the_same(cls):
    x = cls(readonly=True)
    upgraded = dlshim.upgrade(x, readonly="share")
    with bare(upgraded) as imported:
        assert imported.view.element_zero == x.element_zero
        assert imported.values() == x.values()
    with versioned(upgraded) as imported:
        assert imported.view.flags == READ_ONLY  # those who can be told are told
    with caps.take(dlshim.to_capsule(x, readonly="share")) as imported:
        assert imported.view.element_zero == x.element_zero


@pytest.mark.parametrize("cls", STATED)
def test_T8_copy_gives_every_consumer_a_private_copy(cls):
    x = cls(readonly=True)
    upgraded = dlshim.upgrade(x, readonly="copy")
    for ask in (bare, versioned):
        with ask(upgraded) as imported:
            assert imported.view.flags == (None if ask is bare else IS_COPIED)
            assert imported.view.element_zero != x.element_zero
            assert imported.values() == x.values()
            imported.view.write(0, 77)
        assert caps.look(x._versioned()).values() == x.values()  # the original is untouched


PRIVATE = {
    "order": (lambda: P2((40, 50), "float32", strides=(1, 40), readonly=True), {"order": "C"}),
    "align": (lambda: P2((40, 50), "float32", start=1, readonly=True), {"align": 64}),
}


@pytest.mark.parametrize(("source", "options"), PRIVATE.values(), ids=PRIVATE.keys())
def test_T8_a_private_copy_of_read_only_memory_goes_to_legacy_consumers(source, options):
    x = source()
    with bare(dlshim.upgrade(x, **options)) as imported:
        assert imported.view.name == "dltensor" and imported.values() == x.values()
        assert imported.view.element_zero != x.element_zero
    with pytest.raises(BufferError, match="read-only"):
        bare(dlshim.upgrade(x, copy=False, **options))
    with pytest.raises(BufferError, match="read-only"):
        bare(dlshim.upgrade(P2((40, 50), "float32", readonly=True), order="C"))


@BOTH
def test_T8_the_words_do_nothing_to_writable_memory(ask):
    for word in WORDS:
        x = P2()
        with ask(dlshim.upgrade(x, readonly=word)) as imported:
            assert imported.view.element_zero == x.element_zero


@pytest.mark.parametrize("ask", consumers.LEGACY_ONLY.values(), ids=lambda f: f.__name__)
def test_T8_read_only_memory_reaches_every_legacy_consumer_once_a_word_says_so(ask):
    """jax#40789: JAX asks for legacy only and refuses read-only NumPy arrays."""
    x = P2(readonly=True)
    with pytest.raises((BufferError, TypeError)):
        ask(dlshim.upgrade(x))
    gc.collect()
    for word in ("share", "copy"):
        imported = ask(dlshim.upgrade(x, readonly=word))
        assert imported.values() == x.values()
        imported.release()


def test_T8_unmarked_legacy_memory_is_writable():
    """NumPy imports legacy capsules read-only; upgraded they are what their producer thinks."""
    for cls in (P1, P1b, Tensorflow):
        with versioned(dlshim.upgrade(cls())) as imported:
            assert imported.view.flags == 0
        assert not dlshim.from_dlpack(cls()).readonly


def drjit_like():
    """A copy of one shares its memory until it is changed by drjit itself."""
    # mitsuba-renderer/drjit, src/python/base.cpp: every array type derives from drjit.ArrayBase
    base = producers.masquerade(P1, "ArrayBase", "drjit")
    return type("Float", (base,), {"__module__": "drjit.llvm"})


def mlx_like():
    """MLX computes later: what was written would change results that are not there yet."""
    return producers.masquerade(P1, "array", "mlx.core")


LIKE = pytest.mark.parametrize(
    "like", [jax_like, tensorflow_like, drjit_like, mlx_like], ids=lambda f: f.__name__
)


@LIKE
def test_T8_a_type_known_to_be_immutable_is_marked(like):
    """Legacy consumers get what the source itself hands to them (T12: works bare)."""
    x = like()()
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.view.flags == READ_ONLY
    assert dlshim.from_dlpack(x).readonly
    with bare(dlshim.upgrade(x)) as imported:
        assert imported.view.element_zero == x.element_zero


@BOTH
@LIKE
def test_T8_the_words_count_for_memory_that_is_only_known_to_be_read_only(like, ask):
    """`"error"` is for consumers that cannot be told; `"copy"` for all."""
    x = like()()
    with ask(dlshim.upgrade(x, readonly="share")) as imported:
        assert imported.view.element_zero == x.element_zero
    with ask(dlshim.upgrade(x, readonly="copy")) as imported:
        assert imported.view.element_zero != x.element_zero
        assert imported.view.flags == (None if ask is bare else IS_COPIED)
    if ask is versioned:
        versioned(dlshim.upgrade(x, readonly="error")).release()
    else:
        with pytest.raises(BufferError, match="readonly="):
            bare(dlshim.upgrade(x, readonly="error"))


def test_T8_the_caller_may_mark_memory_read_only():
    for x in (P1(), P2(), P1b()):
        upgraded = dlshim.upgrade(x, readonly=True)
        with versioned(upgraded) as imported:
            assert imported.view.flags == READ_ONLY
        with pytest.raises(BufferError) as error:
            upgraded.__dlpack__()
        tells(error.value, "readonly=")


def test_T8_the_caller_may_vouch():
    for x in (P2(readonly=True), jax_like()(), VersionedAlways(readonly=True)):
        upgraded = dlshim.upgrade(x, readonly=False)
        with versioned(upgraded) as imported:
            assert imported.view.flags == 0
        with bare(upgraded) as imported:
            assert imported.view.element_zero == x.element_zero


def test_T8_what_only_legacy_could_say_stays_refused():
    """NumPy 1.24 refuses read-only itself, and there is no other way in here."""
    x = P1Numpy124(readonly=True)
    for ask in (bare, versioned):
        with pytest.raises(BufferError) as error:
            ask(dlshim.upgrade(x, readonly="share"))
        tells(chain(error.value), "readonly")


def chain(error: BaseException) -> BaseException:
    return Exception(f"{error!r} {error.__cause__!r}")


# --- copies ---------------------------------------------------------------------------

WAYS_TO_COPY = {
    "consumer": ({}, {"copy": True}),
    "option": ({"copy": True}, {}),
    "both": ({"copy": True}, {"copy": True}),
}


@BOTH
@pytest.mark.parametrize(("options", "asked"), WAYS_TO_COPY.values(), ids=WAYS_TO_COPY.keys())
def test_T8_a_copy_is_made_by_dlshim_and_never_asked_for(ask, options, asked):
    def check(cls):
        x = cls((3, 2), "int32", strides=(1, 3))
        with counting() as count:
            imported = ask(dlshim.upgrade(x, **options), **asked)
        assert count.copied == 1
        assert imported.view.element_zero % 64 == 0
        assert imported.view.strides == (2, 1)
        assert imported.values() == x.values()
        if imported.view.versioned:
            assert imported.view.flags == IS_COPIED
        assert all(not keywords.get("copy") for keywords in x.keywords)
        assert not x.exports or x.last.deleted == 1  # what was copied from is given back at once
        imported.view.write(0, 99)
        imported.release()
        with ask(dlshim.upgrade(x)) as again:
            assert again.values() == x.values()

    walk(EDITIONS, check)


@pytest.mark.parametrize("cls", [P2Pyarrow26, P2TvmFfi, P2Torch, P2NoCopyNoDevice])
def test_T8_copies_are_right_where_the_producers_own_are_not(cls):
    """pyarrow copies the wrong bytes, tvm-ffi none, torch sets no flag, cuda.core refuses."""
    x = cls((4,), "int32", strides=(2,))
    with versioned(dlshim.upgrade(x), copy=True) as imported:
        assert imported.values() == [0, 2, 4, 6]
        assert imported.view.copied


def test_T8_a_copy_of_read_only_memory_is_writable_unless_told():
    x = P2(readonly=True)
    with versioned(dlshim.upgrade(x), copy=True) as imported:
        assert imported.view.flags == IS_COPIED
    with bare(dlshim.upgrade(x), copy=True) as imported:
        assert imported.values() == x.values()
    with versioned(dlshim.upgrade(x, readonly=True), copy=True) as imported:
        assert imported.view.flags == IS_COPIED | READ_ONLY
    assert not dlshim.from_dlpack(x, copy=True).readonly


@BOTH
def test_T8_copies_of_empty_and_of_scalars(ask):
    for shape in ((), (0,), (3, 0, 2), (1, 1)):
        x = P2(shape, "complex128")
        with ask(dlshim.upgrade(x), copy=True) as imported:
            assert imported.view.shape == shape
            assert imported.view.strides in (caps.row_major(shape), None if shape == () else ())
            assert imported.values() == x.values()


@BOTH
def test_T8_each_copy_is_a_fresh_one(ask):
    upgraded = dlshim.upgrade(P2(), copy=True)
    imports = [ask(upgraded) for _ in range(3)]
    assert len({imported.view.data for imported in imports}) == 3
    for k, imported in enumerate(imports):
        imported.view.write(0, 10 + k)
    assert [imported.values()[0] for imported in imports] == [10, 11, 12]


@pytest.mark.parametrize(
    ("option", "asked"), [(True, False), (False, True)], ids=["copies/False", "never/True"]
)
def test_copy_true_against_false(option, asked):
    for ask in ASKINGS.values():
        x = P2()
        with pytest.raises(dlshim.CopyRequiredError) as error:
            ask(dlshim.upgrade(x, copy=option), copy=asked)
        assert isinstance(error.value, BufferError) and isinstance(error.value, ValueError)
        tells(error.value, "copy")
        assert error.value.reason == "copy"


@BOTH
def test_copy_false_is_never_a_copy(ask):
    for cls in (P1, P1b, P2, P2NoCopyNoDevice, P2Pyarrow26):
        x = cls(readonly=False)
        with ask(dlshim.upgrade(x), copy=False) as imported:
            assert imported.view.element_zero == x.element_zero
            assert not imported.view.copied


# --- IS_COPIED ------------------------------------------------------------------------


def test_T8_the_producers_own_copy_is_flagged_on():
    x = CopiesAlways()
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.view.flags == IS_COPIED


def test_T8_memory_that_a_tensor_can_hand_out_again_is_not_flagged():
    for x, copy in ((CopiesAlways(), None), (P2(), True), (P1(), True)):
        tensor = dlshim.from_dlpack(x, copy=copy)
        assert tensor.is_copied
        for _ in range(2):
            with versioned(tensor) as imported:
                assert not imported.view.copied
                assert imported.view.element_zero == tensor.data_ptr()
        with versioned(tensor, copy=True) as imported:
            assert imported.view.copied


def test_T8_memory_of_a_taken_capsule_is_not_flagged():
    upgraded = dlshim.upgrade(caps.make(version=(1, 0), flags=IS_COPIED))
    for _ in range(2):
        with versioned(upgraded) as imported:
            assert not imported.view.copied
    with versioned(dlshim.upgrade(caps.make()), copy=True) as imported:
        assert imported.view.copied


def test_T8_is_copied_is_false_for_shared_memory():
    assert not dlshim.from_dlpack(P2()).is_copied
    assert not dlshim.from_dlpack(P1()).is_copied


# --- memory made for one export (mpi4py 3.1 to 4.0) -----------------------------------

MADE_FOR_ONE = {
    "copy option": (P2, {"copy": True}),
    "order": (lambda: P2((40, 50), "float32", strides=(1, 40)), {"order": "C"}),
    "order, of legacy": (lambda: P1((40, 50), "float32", strides=(1, 40)), {"order": "C"}),
    "read-only memory": (lambda: P2((40, 50), readonly=True), {"readonly": "copy"}),
    "alignment": (lambda: P2((40, 50), "float32", start=1), {"align": 64}),
    "the producer's copy": (lambda: CopiesAlways((40, 50), "float32"), {}),
}


@pytest.mark.parametrize(("source", "options"), MADE_FOR_ONE.values(), ids=MADE_FOR_ONE.keys())
@pytest.mark.parametrize(
    "ask",
    [consumers.ask_like_mpi4py31, consumers.ask_like_mpi4py40, bare, versioned],
    ids=lambda f: f.__name__,
)
def test_T8_memory_made_for_an_export_outlives_a_deleter_called_at_once(ask, source, options):
    x = source()
    if ask is consumers.ask_like_mpi4py40 and options:
        pytest.skip("mpi4py 4.0 asks copy=False, which these exports cannot obey")
    imported = ask(dlshim.upgrade(x, **options))  # it keeps the object, and nothing else
    scribble(40 * 50 * 4)
    gc.collect()
    assert imported.values() == x.values()
    imported.release()


def test_T8_the_next_export_frees_what_the_last_was_made_of():
    x = CopiesAlways()
    upgraded = dlshim.upgrade(x)
    consumers.ask_like_mpi4py31(upgraded)
    first = x.last
    assert first.deleted == 0
    imported = consumers.ask_like_mpi4py31(upgraded)
    assert first.deleted == 1
    assert imported.values() == x.values()
    second = x.last
    imported.release()
    del upgraded
    assert second.deleted == 1


def test_T8_memory_made_for_an_export_outlives_the_producer_object():
    for x, options in ((P2(), {"copy": True}), (CopiesAlways(), {})):
        upgraded = dlshim.upgrade(x, **options)
        imported = versioned(upgraded)
        del upgraded
        gc.collect()
        scribble(64)
        assert imported.values() == x.values()
        imported.release()


# --- consumers that never write, and memory that is hidden or shared -----------------------


JAX = """
def from_dlpack(x, **asked):
    return x.__dlpack__(stream=None, **asked)
def by_device(x):
    return x.__dlpack_device__(), x.__dlpack__(stream=None)
"""


def module_of(name, source=JAX):
    """Functions of a module of this name, which ask as jax/_src/dlpack.py does, or as told."""
    module = {"__name__": name}
    exec(source, module)
    return module


@pytest.mark.parametrize("cls", [P2, P3, P2LegacyOfReadonly], ids=lambda c: c.__name__)
def test_T8_jax_gets_read_only_memory_without_an_option(cls):
    """It never writes, and cannot be told (T8); whoever else asks so is refused."""
    jax, other = module_of("jax._src.dlpack"), module_of("other._src.dlpack")
    for learned in (False, True):
        x = fresh(cls)(readonly=True)
        if learned:
            versioned(dlshim.upgrade(x)).release()
        with caps.take(jax["from_dlpack"](dlshim.upgrade(x))) as imported:
            assert imported.view.element_zero == x.element_zero
        with caps.take(jax["by_device"](dlshim.upgrade(x))[1]) as imported:
            assert imported.values() == x.values()
        with pytest.raises(BufferError, match="readonly="):
            other["from_dlpack"](dlshim.upgrade(x))


def test_T8_an_option_that_is_given_goes_before_what_jax_is_known_for():
    jax = module_of("jax._src.dlpack")
    x = P2(readonly=True)
    with pytest.raises(BufferError, match="readonly="):
        jax["from_dlpack"](dlshim.upgrade(x, readonly="error"))
    with caps.take(jax["from_dlpack"](dlshim.upgrade(x, readonly="copy"))) as imported:
        assert imported.view.element_zero != x.element_zero
    with pytest.raises(BufferError, match="readonly="):
        dlshim.to_capsule(x)


# --- consumers that do not heed the flag ----------------------------------------------

# pytorch/pytorch, torch/utils/dlpack.py, from_dlpack(): the device first, then the capsule.
TORCH = """
def from_dlpack(x, copy=None):
    x.__dlpack_device__()
    return x.__dlpack__(max_version=(1, 0)) if copy is None else (
        x.__dlpack__(max_version=(1, 0), copy=copy))
def without_a_question(x):
    return x.__dlpack__(max_version=(1, 0))
"""


@pytest.fixture(params=["torch.utils.dlpack", "paddle.utils.dlpack"])
def writer(request):
    """Takes a versioned capsule from code that is known to write to read-only memory."""
    module = module_of(request.param, TORCH)
    return lambda x, **asked: caps.take(module["from_dlpack"](x, **asked))


def warned(call):
    """What it gave, and the messages of its ReadOnlyWarnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        given = call()
    assert all(each.category is dlshim.ReadOnlyWarning for each in seen)
    assert all(each.filename == __file__ for each in seen)  # the line that called the consumer
    return given, [str(each.message) for each in seen]


SHOWN_BY = {
    "Producer": lambda x, **options: dlshim.upgrade(x, **options),
    "Tensor": lambda x, **options: dlshim.from_dlpack(x, **options),
    "Producer of a Tensor": lambda x, **options: dlshim.upgrade(dlshim.from_dlpack(x, **options)),
}
SHOWN = pytest.mark.parametrize("show", SHOWN_BY.values(), ids=SHOWN_BY.keys())


@SHOWN
@pytest.mark.parametrize("cls", STATED)
def test_T8_a_consumer_that_does_not_heed_the_flag_gets_it_with_a_warning(cls, show, writer):
    x = cls(readonly=True)
    for _ in range(2):  # met for the first time, and learned
        imported, told = warned(lambda: writer(show(x)))
        assert len(told) == 1
        tells(Exception(told[0]), "read-only", '"copy"', '"share"', '"error"')
        assert imported.view.element_zero == x.element_zero and imported.view.flags == READ_ONLY
        imported.release()


@SHOWN
def test_T8_the_words_decide_for_a_consumer_that_does_not_heed_the_flag(show, writer):
    x = P2(readonly=True)
    with pytest.raises(BufferError, match=r"read-only.*\n.*readonly="):
        writer(show(x, readonly="error"))
    for word in ("copy", "share"):
        imported, told = warned(lambda word=word: writer(show(x, readonly=word)))
        assert told == []
        assert (imported.view.element_zero == x.element_zero) is (word == "share")
        assert imported.view.flags == (READ_ONLY if word == "share" else IS_COPIED)
        imported.release()
    imported, told = warned(lambda: writer(show(x, readonly=False)))
    assert told == [] and imported.view.flags == 0
    imported.release()
    imported, told = warned(lambda: writer(show(P2(), readonly=True)))
    assert len(told) == 1 and imported.view.flags == READ_ONLY
    imported.release()


def test_T8_nobody_is_warned_of_memory_that_may_be_written_or_is_private(writer):
    strided = P2((40, 50), "float32", strides=(1, 40), readonly=True)
    for call in (
        lambda: writer(dlshim.upgrade(P2())),
        lambda: writer(dlshim.upgrade(P1())),
        lambda: writer(dlshim.upgrade(P2(readonly=True), copy=True)),
        lambda: writer(dlshim.upgrade(P2(readonly=True)), copy=True),
        lambda: writer(dlshim.upgrade(strided, order="C")),
        lambda: writer(dlshim.upgrade(strided, order="C", readonly="error")),
    ):
        imported, told = warned(call)
        assert told == []
        imported.release()


@LIKE
def test_T8_nobody_is_warned_of_memory_that_did_not_state_it(like, writer):
    """Bare such arrays reach torch without a word."""
    x = like()()
    imported, told = warned(lambda: writer(dlshim.upgrade(x)))
    assert told == [] and imported.view.flags == READ_ONLY
    imported.release()
    with pytest.raises(BufferError, match="readonly="):
        writer(dlshim.upgrade(x, readonly="error"))


def test_T8_consumers_that_are_told_and_heed_it_are_not_warned():
    x = P2(readonly=True)
    torch, other = module_of("torch.utils.dlpack", TORCH), module_of("mylib", TORCH)
    for ask in (other["from_dlpack"], torch["without_a_question"]):
        capsule, told = warned(lambda ask=ask: ask(dlshim.upgrade(x, readonly="error")))
        assert told == []
        caps.take(capsule).release()
    capsule, told = warned(lambda: dlshim.to_capsule(x, max_version=(1, 0)))
    assert told == []
    caps.take(capsule).release()


@SHOWN
def test_T8_a_warning_that_is_an_error_refuses_and_takes_nothing(show, writer):
    x = P2(readonly=True)
    shown = show(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(dlshim.ReadOnlyWarning, match="read-only"):
                writer(shown)
    del shown
    gc.collect()
    caps.close_accounts()
    imported, told = warned(lambda: writer(show(x)))
    assert len(told) == 1 and imported.values() == x.values()
    imported.release()


def test_T12_a_mask_that_hides_elements_is_refused_with_cures_that_work():
    np = pytest.importorskip("numpy", reason="masked arrays are NumPy's")
    numbers = np.arange(3.0)
    for mask in ([0, 1, 0], True, [1, 1, 1]):
        x = np.ma.array(numbers, mask=mask)
        for _ in range(2):
            with pytest.raises(BufferError, match="mask") as error:
                versioned(dlshim.upgrade(x))
        tells(error.value, "MaskedArray", r"x\.filled\(value\)", r"numpy\.ma\.getdata\(x\)")
        with versioned(dlshim.upgrade(np.ma.getdata(x))) as imported:
            assert imported.values() == [0, 1, 2]
        versioned(dlshim.upgrade(x.filled(7))).release()
    for visible in (np.ma.array(numbers), np.ma.array(numbers, mask=[0, 0, 0])):
        with versioned(dlshim.upgrade(visible)) as imported:
            assert imported.values() == [0, 1, 2]
            assert imported.view.element_zero == visible.ctypes.data


def test_T12_a_mask_of_astropy_names_its_own_cure():
    np = pytest.importorskip("numpy", reason="masked arrays are NumPy's")
    # astropy/astropy, astropy/utils/masked/core.py: class MaskedNDArray(Masked, np.ndarray)
    cls = type("MaskedNDArray", (np.ndarray,), {"__module__": "astropy.utils.masked.core"})
    quantity = type("MaskedQuantity", (cls,), {"__module__": "astropy.utils.masked.core"})
    for kind in (cls, quantity):
        x = np.arange(3.0).view(kind)
        x.mask, x.unmasked = np.array([False, True, False]), np.arange(3.0)
        with pytest.raises(BufferError, match="mask") as error:
            versioned(dlshim.upgrade(x))
        tells(error.value, kind.__name__, r"x\.unmasked")
        x.mask = np.zeros(3, bool)
        versioned(dlshim.upgrade(x)).release()


def test_a_mask_of_another_meaning_hides_nothing():
    np = pytest.importorskip("numpy", reason="a subclass of NumPy's arrays")
    x = np.arange(3.0).view(type("Image", (np.ndarray,), {}))
    x.mask = np.array([True, False, True])
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.values() == [0, 1, 2]


@pytest.mark.parametrize("cls", [P1, P1b, P2])
def test_T8_a_tensor_remembers_that_the_user_said_read_only(cls):
    """Its source cannot say it, but the user did: as with `upgrade`, it is not dropped."""
    tensor = dlshim.from_dlpack(dlshim.upgrade(cls(), readonly=True))
    assert tensor.readonly
    for ask in (tensor.__dlpack__, lambda: dlshim.to_capsule(tensor)):
        with pytest.raises(BufferError, match="read-only"):
            ask()
    with bare(dlshim.upgrade(tensor, readonly="share")) as imported:
        assert imported.view.element_zero == tensor.data_ptr()
    with bare(dlshim.upgrade(tensor, readonly=False)) as imported:
        assert imported.view.element_zero == tensor.data_ptr()


@pytest.mark.parametrize("name", [None, 5, b"jax._src.dlpack"])
def test_T8_code_without_a_name_is_not_taken_for_jax(name):
    module = {} if name is None else {"__name__": name}
    exec(JAX, module)
    with pytest.raises(BufferError, match="readonly="):
        module["from_dlpack"](dlshim.upgrade(P2(readonly=True)))


def test_T12_a_mask_that_cannot_be_asked_hides_nothing():
    np = pytest.importorskip("numpy", reason="masked arrays are NumPy's")
    base = type("MaskedNDArray", (np.ndarray,), {"__module__": "astropy.utils.masked.core"})

    def raises(kind):
        def get(self):
            raise kind("no")

        return property(get)

    numbers = np.arange(3.0)
    odd = type("Odd", (list,), {"any": raises(ValueError)})([1])
    for mask in (raises(ValueError), raises(AttributeError), odd, property(lambda self: [1])):
        x = numbers.view(type("Kind", (base,), {"mask": mask}))
        versioned(dlshim.upgrade(x)).release()
    with pytest.raises(KeyboardInterrupt):
        versioned(
            dlshim.upgrade(numbers.view(type("Kind", (base,), {"mask": raises(KeyboardInterrupt)})))
        )
    members = {"mask": True, "unmasked": raises(ValueError)}  # one bool for all elements
    with pytest.raises(BufferError, match="mask"):
        versioned(dlshim.upgrade(numbers.view(type("Kind", (base,), members))))


# --- copy=False, and a producer that copies for each export ---------------------------------


class CopiesUnlessForbidden(P2):
    """Each export is a copy, and says so; `copy=False` is answered by ``when_forbidden``."""

    when_forbidden = BufferError("each export is a copy")

    def answer(self, copy=None, max_version=None, **keywords):
        if copy is False and self.when_forbidden is not None:
            raise self.when_forbidden
        version = self.version if max_version else None
        return super().answer(**keywords) if copy is False else self._copied(version)


UNCOPIED = {
    "from_dlpack": lambda x: dlshim.from_dlpack(x, copy=False),
    "upgrade": lambda x: dlshim.upgrade(x, copy=False).__dlpack__(max_version=(1, 3)),
    "upgrade, legacy": lambda x: dlshim.upgrade(x, copy=False).__dlpack__(),
    "__dlpack__": lambda x: dlshim.upgrade(x).__dlpack__(max_version=(1, 3), copy=False),
}


REFUSALS = [BufferError("a copy"), ValueError("a copy"), NotImplementedError(), RuntimeError("no")]


@pytest.mark.parametrize("error", REFUSALS, ids=repr)
@pytest.mark.parametrize("take", UNCOPIED.values(), ids=UNCOPIED.keys())
def test_T8_the_refusal_of_copy_false_is_the_cause(take, error):
    """A producer is told copy=False when it has copied, and asked again."""
    x = CopiesUnlessForbidden()
    x.when_forbidden = error
    for _ in range(2):  # the first exchange of a type, and a learned one
        with pytest.raises(dlshim.CopyRequiredError, match="its producer copies") as caught:
            take(x)
        assert caught.value.__cause__ is error
    assert x.exports and all(made.deleted == 1 for made in x.exports)


@pytest.mark.parametrize("take", UNCOPIED.values(), ids=UNCOPIED.keys())
def test_T8_copy_false_takes_what_a_producer_shares_when_it_is_told(take):
    x = CopiesUnlessForbidden()
    x.when_forbidden = None
    for _ in range(2):
        taken = take(x)
        capsule = isinstance(taken, caps.Capsule)
        with caps.take(taken) if capsule else versioned(taken) as imported:
            assert imported.view.element_zero == x.element_zero and not imported.view.copied


def test_T8_a_producer_that_knows_no_copy_false_gives_its_copy():
    """Bare it gives the same to a consumer that does not ask, with the same flag."""
    x = CopiesUnlessForbidden()
    x.when_forbidden = TypeError("no copy=")
    for _ in range(2):
        assert dlshim.from_dlpack(x, copy=False).is_copied
    assert x.exports and all(made.deleted == 1 for made in x.exports)


def test_T8_a_fatal_error_of_the_second_call_is_passed_on():
    x = CopiesUnlessForbidden()
    x.when_forbidden = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        dlshim.from_dlpack(x, copy=False)
    assert x.exports and all(made.deleted == 1 for made in x.exports)


def test_T8_copy_false_takes_a_capsule_of_a_copy():
    """The copy was made before anybody asked dlshim."""
    capsule = caps.make(version=(1, 0), flags=IS_COPIED)
    assert dlshim.from_dlpack(capsule, copy=False).shape == (2, 3)
