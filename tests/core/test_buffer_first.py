"""N2: a library whose buffer is cheaper than its `__dlpack__` (JAX) is read by its buffer first."""

from __future__ import annotations

import gc
import os
import sys
import types
import weakref

import pytest

import dlshim
from doubles import capsules as caps
from doubles import consumers
from doubles.asking import ASKINGS, bare, tells, versioned
from doubles.capsules import READ_ONLY
from doubles.producers import jax_buffer_like

ONES, COUNTED = [1] * 6, [0, 1, 2, 3, 4, 5]
BOTH = pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())


@pytest.fixture
def release(monkeypatch):
    """Makes it look as if this release of JAX were imported."""

    def pretend(version):
        made = types.ModuleType("jax")
        made.__version__ = version
        monkeypatch.setitem(sys.modules, "jax", made)

    return pretend


@BOTH
def test_N2_the_buffer_is_read_and_dlpack_is_not_asked(ask):
    x = jax_buffer_like()()
    for _ in range(3):
        with ask(dlshim.upgrade(x)) as imported:
            assert imported.values() == ONES
    assert dlshim.from_dlpack(x).tobytes() == bytes(ONES)
    assert x.keywords == [] and x.device_calls == 0


def test_N2_inspect_shows_the_order():
    assert dlshim.inspect(jax_buffer_like()()).plan[:2] == ("buffer protocol", "__dlpack__")


@pytest.mark.parametrize(
    ("ask", "states"),
    # Who states READ_ONLY gives nothing to a consumer of 0.x.
    [*((ask, False) for ask in ASKINGS.values()), (versioned, True)],
)
def test_N2_a_refused_buffer_leads_to_dlpack_at_each_exchange(ask, states):
    """Also where __dlpack__ gives what the fast path could hand on."""
    made = jax_buffer_like(states=states)
    shown, refusing = made(), made()
    refusing.close()
    for _ in range(3):
        with ask(dlshim.upgrade(refusing)) as imported:
            assert imported.values() == COUNTED
        with ask(dlshim.upgrade(shown)) as imported:
            assert imported.values() == ONES
    assert len(refusing.keywords) == 3 and shown.keywords == []


@BOTH
def test_N2_the_error_is_that_of_dlpack(ask, monkeypatch):
    made = jax_buffer_like()
    x = made()
    x.close()
    error = RuntimeError("Array has been deleted")
    monkeypatch.setattr(made, "__dlpack__", lambda self, **asked: (_ for _ in ()).throw(error))
    with pytest.raises(BufferError) as raised:
        ask(dlshim.upgrade(x))
    assert raised.value.__cause__ is error
    tells(raised.value, "Array has been deleted")


def test_N5_the_device_question_stays_the_library_s():
    x = jax_buffer_like()(device=(2, 0))
    assert dlshim.upgrade(x).__dlpack_device__() == (2, 0)
    assert x.device_calls == 1


def test_N5_the_question_is_put_once_where_the_type_has_been_read():
    x = jax_buffer_like()()
    with versioned(dlshim.upgrade(x)):
        pass
    assert dlshim.upgrade(x).__dlpack_device__() == (1, 0)
    assert x.device_calls == 1


def test_T8_before_012_read_only_is_not_stated(release):
    release("0.11.0")
    x = jax_buffer_like()()
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.view.flags == READ_ONLY
    with bare(dlshim.upgrade(x)) as imported:
        assert imported.values() == ONES


@pytest.mark.parametrize("closed", [False, True], ids=["by buffer", "by __dlpack__"])
def test_T8_from_012_on_it_is_stated(release, closed):
    release("0.12.0")
    x = jax_buffer_like(states=True)()
    if closed:
        x.close()
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.view.flags == READ_ONLY
        assert imported.values() == (COUNTED if closed else ONES)
    with pytest.raises(BufferError, match="read-only"):
        bare(dlshim.upgrade(x))


def test_T8_a_copy_is_writable_and_holds_no_buffer():
    x = jax_buffer_like()()
    with versioned(dlshim.upgrade(x), copy=True) as imported:
        x.close()
        assert imported.values() == ONES and not imported.view.flags & READ_ONLY


def test_a_stream_object_without_a_handle_is_refused():
    with pytest.raises(TypeError):
        dlshim.upgrade(jax_buffer_like()()).__dlpack__(stream=object())


@pytest.mark.skipif(not caps.has_c_threads(), reason="no pthread_create in the C library")
@BOTH
@pytest.mark.parametrize("where", ["released", "c-thread"])
def test_T10_the_buffer_goes_back_on_any_thread(ask, where):
    x = jax_buffer_like()()
    seen = weakref.ref(x)
    imported = ask(dlshim.upgrade(x))
    with pytest.raises(BufferError):
        x.close()
    imported.release(where)
    x.close()
    imported = ask(dlshim.upgrade(jax_buffer_like()()))
    del x
    gc.collect()
    assert seen() is None
    imported.release(where)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.once
# The threads are those of NumPy's BLAS, where another test has imported it.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_T10_a_forked_child_gives_its_buffers_back():
    x = jax_buffer_like()()
    imported, tensor = versioned(dlshim.upgrade(x)), dlshim.from_dlpack(x)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            same = imported.values() == ONES and tensor.tobytes() == bytes(ONES)
            imported.release("released")
            del tensor
            x.close()
            code = 0 if same else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert imported.values() == ONES
    imported.release("released")


def test_consumers_of_all_kinds_take_it():
    x = jax_buffer_like()()
    for ask in (consumers.ask_like_numpy2, consumers.ask_like_torch213, consumers.ask_like_jax):
        with ask(dlshim.upgrade(x)) as imported:
            assert imported.values() == ONES
