"""The doubles themselves: a fake that is wrong would make every other test worthless."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import sys
import threading

import pytest

from doubles import capsules as caps
from doubles import child, consumers, older, producers
from doubles.asking import bare
from doubles.capsules import LEGACY, USED_LEGACY, USED_VERSIONED, VERSIONED
from doubles.producers import P1, P2, P1b, Recorder

pytestmark = pytest.mark.once


def numpy():
    return pytest.importorskip("numpy", reason="checks the doubles against the real NumPy")


def numpy_version() -> tuple[int, int]:
    return tuple(int(part) for part in numpy().__version__.split(".")[:2])


# --- the books ------------------------------------------------------------------------


def test_books_show_a_deleter_that_never_ran():
    caps.make(destructor=False)
    assert any("never called" in line for line in caps.accounts())
    caps.close_accounts()


def test_books_show_a_deleter_that_ran_twice():
    capsule = caps.make()
    view = caps.look(capsule)
    caps.rename(capsule)
    deleter = caps.made_of(capsule).struct.deleter
    for _ in range(2):
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(view.address)
    assert any("2 times" in line for line in caps.accounts())
    caps.close_accounts()


def test_books_show_a_stray_call():
    made = caps.Made()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(made.struct.deleter)(made.address + 8)
    assert any("nobody made" in line for line in caps.accounts())
    caps.close_accounts()


def test_reading_after_the_end_shows():
    capsule = caps.make((4,), "uint8")
    view = caps.look(capsule)
    assert view.values() == [0, 1, 2, 3]
    del capsule
    assert view.values() == [caps.POISON] * 4


# --- what consumers do to a capsule ---------------------------------------------------


@pytest.mark.parametrize("version", [None, (1, 0)])
@pytest.mark.parametrize("style", [caps.take, caps.take_and_clear, caps.take_by_used_name])
def test_taking_renames_and_gives_back_once(version, style):
    capsule = caps.make(version=version)
    made = caps.made_of(capsule)
    with style(capsule) as imported:
        assert caps.name_of(capsule) == (USED_LEGACY if version is None else USED_VERSIONED)
        assert imported.values() == [0, 1, 2, 3, 4, 5]
        del capsule
        assert made.deleted == 0
    assert made.deleted == 1


def test_seizing_leaves_the_name():
    capsule = caps.make()
    made = caps.made_of(capsule)
    imported = caps.seize(capsule)
    assert caps.name_of(capsule) == LEGACY
    del capsule
    assert made.deleted == 0
    imported.release()
    assert made.deleted == 1


def test_holding_frees_through_the_capsule():
    imported = caps.hold(caps.make(version=(1, 0)))
    made = caps.made_at(imported.view.address)
    assert caps.name_of(imported.capsule) == VERSIONED
    imported.release()
    assert made.deleted == 1


def test_gulping_frees_at_once():
    x = P1()
    imported = caps.gulp(x.__dlpack__(), x)
    assert x.last.deleted == 1
    assert imported.values() == x.values()  # the object keeps its memory


def test_a_dropped_capsule_frees_itself():
    capsule = caps.make()
    made = caps.made_of(capsule)
    del capsule
    assert made.deleted == 1


@pytest.mark.skipif(not caps.has_c_threads(), reason="no pthread_create in the C library")
def test_deleter_on_a_thread_of_c():
    imported = caps.take(caps.make())
    made = caps.made_at(imported.view.address)
    imported.release("c-thread")
    assert made.deleted == 1
    assert made.deleted_by[0] != threading.get_native_id()


@pytest.mark.parametrize("version", [None, (1, 3)])
def test_a_struct_of_c_alone(version):
    with caps.take(caps.make_of_c((2, 2), "int16", version=version)) as imported:
        assert imported.values() == [0, 1, 2, 3]
    caps.make_of_c(version=version)  # dropped: its destructor frees


@pytest.mark.parametrize("dtype", caps.DTYPES)
def test_elements_round_trip(dtype):
    raw = caps.encode(dtype, 1)
    assert len(raw) == caps.itemsize_of(dtype)
    assert caps.encode(dtype, caps.decode(dtype, raw)) == raw


def test_numbers_follow_strides():
    memory = caps.filled((2, 3), "int32", (-3, 2), start=3)
    view = caps.look(caps.make((2, 3), "int32", strides=(-3, 2), start=3, memory=memory))
    assert view.values() == [3, 5, 7, 0, 2, 4] == caps.numbers((2, 3), "int32", (-3, 2), 3)


# --- producers, seen by the real NumPy ------------------------------------------------

WITH_DUNDER = [cls for cls in producers.EDITIONS.values() if hasattr(cls, "__dlpack__")]


@pytest.mark.parametrize("cls", WITH_DUNDER)
def test_producer_and_real_numpy(cls):
    np = numpy()
    x = cls()
    stops = {"Strict": NotImplementedError, "StrictValueError": ValueError,
             "Asserting": AssertionError}  # fmt: skip
    failure = stops.get(cls.__name__) if numpy_version() >= (2, 1) else None
    if cls.__name__ == "VersionedAlways" and numpy_version() < (2, 1):
        failure = ValueError
    if failure is not None:
        with pytest.raises(failure):
            np.from_dlpack(x)
        return
    array = np.from_dlpack(x)
    assert array.ravel().tolist() == x.values()
    assert array.ctypes.data == x.element_zero
    if numpy_version() >= (2, 3):  # legacy comes out read-only, versioned as flagged
        assert array.flags.writeable is (x.exports[-1].name == VERSIONED)
    del array
    gc.collect()
    assert x.last.deleted == 1


@pytest.mark.parametrize("readonly", [False, True])
def test_p2_answers_as_numpy_does(readonly):
    """P2 is a NumPy >= 2.1 in small: same edition, flags and refusals for the same question."""
    np = numpy()
    if numpy_version() < (2, 1):
        pytest.skip("this NumPy is not of edition P2")
    real = np.arange(6, dtype="float32").reshape(2, 3)
    real.flags.writeable = not readonly
    fake = P2(readonly=readonly)
    for asked in ({}, {"max_version": (1, 0)}, {"max_version": (0, 8)}, {"copy": True},
                  {"max_version": (1, 0), "copy": True}, {"max_version": [1, 0]},
                  {"dl_device": (2, 0)}, {"nonsense": 1}):  # fmt: skip
        answers = []
        for x in (real, fake):
            try:
                view = caps.look(x.__dlpack__(**asked))
                answers.append((view.name, view.version, view.flags, view.shape, view.dtype))
            except (TypeError, BufferError, ValueError) as error:
                answers.append(type(error))
        if asked.get("dl_device") and numpy_version() < (2, 4):
            continue  # a ValueError then
        assert answers[0] == answers[1], asked


# --- consumers, fed by the real NumPy -------------------------------------------------


@pytest.mark.parametrize("ask", consumers.OBJECT_CONSUMERS.values(), ids=lambda f: f.__name__)
def test_consumer_and_real_numpy(ask):
    np = numpy()
    array = np.arange(6, dtype="float32").reshape(2, 3)
    try:
        imported = ask(array)
    except (RuntimeError, ValueError, TypeError, AssertionError, BufferError) as error:
        # NumPy refuses a stream that is no None, and TypeErrors end in older ones.
        told = f"{type(error).__name__}: {error}"
        assert "stream" in told or numpy_version() < (2, 3), told
        return
    assert imported.view.element_zero == array.ctypes.data
    assert imported.values() == array.ravel().tolist()
    imported.release()


def test_numpy_call_shape():
    """What the recorder logs from the real NumPy is what its double does."""
    np = numpy()
    if numpy_version() < (2, 1):
        pytest.skip("this NumPy calls __dlpack__() without keywords")
    real, fake = Recorder(), Recorder()
    np.from_dlpack(real)
    consumers.ask_like_numpy2(fake)
    assert real.calls == fake.calls
    assert real.device_calls == fake.device_calls == 0

    old = P1()
    np.from_dlpack(old)
    fake_old = P1()
    consumers.ask_like_numpy2(fake_old)
    assert old.calls == fake_old.calls


def test_killed_where_numpy_makes_memory_up():
    with pytest.raises(consumers.Killed):
        consumers.ask_like_numpy2(P2(data=None))


def test_the_fakes_bite():
    """Exchanges that fail bare with the real libraries fail bare here."""
    cells = [
        (consumers.ask_like_mpi4py41, P1b, BufferError),
        (consumers.ask_like_pyarrow26, P1, TypeError),
        (consumers.ask_like_pyarrow26, P1b, ValueError),
        (consumers.ask_like_torch28, producers.VersionedAlways, RuntimeError),
        (consumers.ask_like_cutedsl, producers.VersionedAlways, consumers.Killed),
        (consumers.ask_like_jax, producers.PaddleDevice, TypeError),
        (consumers.ask_like_jax, producers.P1a, TypeError),
        (consumers.ask_like_warp, producers.P1bOffset, consumers.Killed),
        (consumers.ask_like_torch29, producers.P1aNoDevice, AttributeError),
        (consumers.ask_like_numpy2, producers.Strict, NotImplementedError),
        (consumers.ask_like_cudacore, producers.Tensorflow, None),
        (consumers.ask_like_cupy14, producers.Tensorflow, RuntimeError),
        (consumers.ask_like_numpy1, producers.InstanceOnly, AttributeError),
    ]
    for ask, cls, failure in cells:
        if failure is None:
            ask(cls()).release()
            continue
        with pytest.raises(failure):
            ask(cls())
    gc.collect()


def test_onnxruntime_dangles_bare():
    x = producers.onnxruntime_like()((4,), "uint8")
    imported = consumers.ask_like_numpy2(x)
    memory = x.memory  # kept so that the read below stays inside memory that exists
    del x
    assert imported.values() == [caps.POISON] * 4
    del memory


def test_tensorflow_exports_a_scalar_in_one_dimension():
    for shape, exported in (((), (1,)), ((1,), (1,)), ((2, 3), (2, 3))):
        with bare(producers.tensorflow_like()(shape)) as imported:
            assert imported.view.shape == exported


# --- older protocols, seen by the real NumPy ------------------------------------------


@pytest.mark.parametrize("cls", [older.StructOnly, older.InterfaceOnly])
@pytest.mark.parametrize("readonly", [False, True])
def test_older_and_real_numpy(cls, readonly):
    np = numpy()
    x = cls((3, 2), "int16", strides=(1, 3), readonly=readonly)
    array = np.asarray(x)
    assert array.ctypes.data == x.element_zero
    assert array.ravel().tolist() == x.values()
    assert array.flags.writeable is not readonly


def test_array_struct_is_freed():
    older.freed.clear()
    capsule = older.StructOnly().__array_struct__
    assert not older.freed
    del capsule
    assert len(older.freed) == 1


def test_buffer_requests_against_bytes():
    with older.Request(b"abc", older.FULL_RO) as answer:
        assert (answer.len, answer.itemsize, answer.ndim, answer.readonly) == (3, 1, 1, True)
        assert ctypes.string_at(answer.address, 3) == b"abc"
    with pytest.raises(BufferError):
        with older.Request(b"abc", older.WRITABLE):
            pass


# --- consumers, beside the real libraries that happen to be installed ---------------------

# Library to import, how its import is called, and the double of it.
REAL = {
    "numpy": ("import numpy as np", "np.from_dlpack", "ask_like_numpy2"),
    "torch": ("import torch", "torch.from_dlpack", "ask_like_torch213"),
    "jax": ("import jax", "jax.dlpack.from_dlpack", "ask_like_jax"),
    "pyarrow": ("import pyarrow", "pyarrow.Tensor.from_dlpack", "ask_like_pyarrow26"),
    "tvm_ffi": ("import tvm_ffi", "tvm_ffi.from_dlpack", "ask_like_tvmffi"),
    "mlx": ("import mlx.core as mx", "mx.from_dlpack", "ask_like_mlx"),
    "warp": ("import warp; warp.init()", "warp.from_dlpack", "ask_like_warp"),
    "nanoarrow": ("import nanoarrow", "nanoarrow.c_buffer", "ask_like_nanoarrow"),
    "onnxruntime": ("import onnxruntime", "onnxruntime.OrtValue.from_dlpack",
                    "ask_like_onnxruntime"),
    "paddle": ("import paddle", "paddle.from_dlpack", "ask_like_paddle33"),
}  # fmt: skip


@pytest.mark.parametrize("library", REAL)
def test_a_double_asks_as_the_installed_library_does(library):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed here")
    if library == "tvm_ffi" and sys.version_info >= (3, 12):
        pytest.skip(
            "tvm-ffi drops a refused capsule with its error pending, and from 3.12 on a destructor "
            "in Python dies of that (SIGSEGV in tvm_ffi.core._from_dlpack, without dlshim)"
        )
    importing, function, double = REAL[library]
    if library == "numpy" and numpy_version() < (2, 1):
        double = "ask_like_numpy1"
    out = child.program("double_beside_library", importing, function, double)
    if out.startswith("missing"):
        pytest.skip(f"this {library} cannot be asked: {out.strip()}")
    assert out.split()[-1] == "same"
