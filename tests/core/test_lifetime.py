"""T10: deleters on any thread, at the end of the interpreter, after it, and in a forked child."""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref

import pytest

import dlshim
from doubles import capsules as caps
from doubles import child, consumers
from doubles.asking import ASKINGS, bare, live, scribble, versioned, walk
from doubles.producers import (
    EDITIONS,
    P1,
    P2,
    CopiesAlways,
    P1b,
    P3TableOnly,
    jax_buffer_like,
    onnxruntime_like,
)

BOTH = pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())
C_THREADS = pytest.mark.skipif(
    not caps.has_c_threads(), reason="no pthread_create in the C library"
)

SOURCES = {
    "legacy": lambda: dlshim.upgrade(P1()),
    "half-modern": lambda: dlshim.upgrade(P1b()),
    "modern": lambda: dlshim.upgrade(P2()),
    "table": lambda: dlshim.upgrade(P3TableOnly()),
    "NULL deleter": lambda: dlshim.upgrade(P1(deleter=False)),
    "copy": lambda: dlshim.upgrade(P2(), copy=True),
    "producer's copy": lambda: dlshim.upgrade(CopiesAlways()),
    "buffer": lambda: dlshim.upgrade(memoryview(bytearray(24)).cast("f", (2, 3))),
    "buffer first": lambda: dlshim.upgrade(jax_buffer_like()()),
    "raw": lambda: dlshim.upgrade(caps.make()),
    "raw of C": lambda: dlshim.upgrade(caps.make_of_c()),
    "tensor": lambda: dlshim.from_dlpack(P2()),
}
EVERY = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())


# --- deleters -------------------------------------------------------------------------


@BOTH
def test_T10_a_deleter_is_never_null_on_output(ask):
    def check(cls):
        for deleter in (True, False):
            with ask(dlshim.upgrade(cls(deleter=deleter))) as imported:
                assert imported.view.deleter
            with ask(dlshim.from_dlpack(cls(deleter=deleter))) as imported:
                assert imported.view.deleter

    walk(EDITIONS, check)


@BOTH
@pytest.mark.parametrize("version", [None, (1, 0)])
def test_T10_a_null_deleter_is_borne_on_input(version, ask):
    for _ in range(2):
        capsule = caps.make(version=version, deleter=False)
        with ask(dlshim.upgrade(capsule)) as imported:
            assert imported.values() == [0, 1, 2, 3, 4, 5]
        del capsule
    tensor = dlshim.from_dlpack(caps.make(version=version, deleter=False))
    del tensor


@EVERY
@BOTH
@pytest.mark.parametrize("how", ["held", "released", pytest.param("c-thread", marks=C_THREADS)])
def test_T10_a_deleter_runs_on_any_thread(source, ask, how):
    before = live()
    imported = ask(source())
    gc.collect()
    assert len(imported.values()) == 6
    imported.release(how)
    del imported
    assert live() == before


@EVERY
@BOTH
def test_T10_a_deleter_runs_on_another_python_thread(source, ask):
    imported = ask(source())
    thread = threading.Thread(target=imported.release)
    thread.start()
    thread.join()


@C_THREADS
def test_T10_foreign_deleters_run_on_the_thread_that_calls_ours():
    """Not handed over to anybody else: the consumer's thread is the one that frees."""
    x = P1()
    imported = versioned(dlshim.upgrade(x))
    imported.release("c-thread")
    assert x.last.deleted_by and x.last.deleted_by[0] != threading.get_native_id()


# --- what an export keeps alive -------------------------------------------------------


@BOTH
@pytest.mark.parametrize("cls", [P1, P1b, P2, P3TableOnly], ids=lambda c: c.__name__)
def test_T10_a_translated_export_holds_struct_and_source(cls, ask):
    class NoOwner(cls):
        """Its struct keeps nothing alive: only dlshim can."""

        def _export(self, version, **fields):
            return super()._export(version, **(fields | {"owner": None}))

        def __del__(self):
            caps.poison(self.memory)

    x = NoOwner(null_strides=True)  # what needs no change might be handed on
    values, made, dead = x.values(), None, weakref.ref(x)
    imported = ask(dlshim.upgrade(x))
    made = x.last
    del x
    gc.collect()
    assert dead() is not None and not made.deleted
    assert imported.values() == values
    imported.release()
    gc.collect()
    assert dead() is None and made.deleted == 1


@pytest.mark.parametrize(
    "ask", [bare, versioned, consumers.ask_like_numpy2], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("wrap", [dlshim.upgrade, dlshim.from_dlpack], ids=lambda f: f.__name__)
def test_T10_memory_that_the_capsule_does_not_own(wrap, ask):
    """onnxruntime 1.31: drop the OrtValue and every bare import reads freed memory."""
    x = onnxruntime_like()((400,), "float32")
    values, memory = x.values(), x.memory
    dead = weakref.ref(x)
    imported = ask(wrap(x))
    del x
    gc.collect()
    scribble(1600)
    assert dead() is not None
    assert imported.values() == values
    imported.release()
    gc.collect()
    assert dead() is None
    del memory


@BOTH
def test_T10_a_tensor_holds_struct_and_source(ask):
    for cls in (P1, P2, onnxruntime_like()):
        x = cls()
        dead = weakref.ref(x)
        tensor = dlshim.from_dlpack(x)
        made = x.last
        imported = ask(tensor)
        del x, tensor
        gc.collect()
        assert not made.deleted and dead() is not None
        imported.release()
        gc.collect()
        assert made.deleted == 1
        caps.close_accounts()
        del made, imported
        gc.collect()
        assert dead() is None


@BOTH
@EVERY
def test_T10_everything_else_may_go_first(source, ask):
    upgraded = source()
    imported = ask(upgraded)
    values = imported.values()
    del upgraded
    gc.collect()
    assert imported.values() == values
    imported.release()


# --- NumPy < 1.24: deleters that want the GIL -----------------------------------------


@C_THREADS
@pytest.mark.once
@pytest.mark.parametrize("version", ["1.22.4", "1.23.5", "1.9.0"])
def test_T10_beside_an_old_numpy_every_legacy_deleter_gets_the_gil(version):
    out = child.program("beside_an_old_numpy", version)
    assert out.split() == ["0", "0", "end"]


@C_THREADS
@child.not_sanitized
@pytest.mark.once
@pytest.mark.parametrize("version", ["1.24.0", "2.0.0", "2.10.1", "10.0"])
def test_T10_beside_a_newer_numpy_they_do_not(version):
    """The control: the same deleter crashes, so the test above proves something."""
    with pytest.raises(AssertionError, match="ended with -"):
        child.program("beside_an_old_numpy", version)


# --- the end of the interpreter -------------------------------------------------------

KEEP = {
    "legacy, Python deleter": "dlshim.upgrade(P1()).__dlpack__(max_version=(1, 0))",
    "versioned, Python deleter": "dlshim.upgrade(P2()).__dlpack__()",
    "handed on": "dlshim.upgrade(P1()).__dlpack__()",
    "taken": "caps.take(dlshim.upgrade(P1()).__dlpack__(max_version=(1, 0)))",
    "producer": "dlshim.upgrade(P1())",
    "tensor": "dlshim.from_dlpack(P1())",
    "memoryview": "memoryview(dlshim.from_dlpack(P1()))",
    "buffer": "dlshim.upgrade(bytearray(9)).__dlpack__()",
    "buffer first": "dlshim.upgrade(jax_buffer_like()()).__dlpack__()",
    "copy": "dlshim.upgrade(bytearray(9), copy=True).__dlpack__()",
    "raw": "dlshim.upgrade(caps.make())",
    "raw of C": "dlshim.upgrade(caps.make_of_c()).__dlpack__(max_version=(1, 0))",
    "table": "dlshim.upgrade(P3TableOnly()).__dlpack__()",
}
PLACES = {
    "global": "keep = {0}",
    "builtins": "import builtins; builtins.keep = {0}",
    "sys": "sys.keep = {0}",
    "cycle": "keep = [{0}]; keep.append(keep)",
    "class": "class Keep: kept = {0}",
    "module": "import types; sys.modules['keeper'] = types.ModuleType('keeper');"
    " sys.modules['keeper'].keep = {0}",
    "thread-local": "import threading; keep = threading.local(); keep.x = {0}",
}
HEAD = """
import sys
import dlshim
from doubles import capsules as caps
from doubles.producers import P1, P2, P3TableOnly, jax_buffer_like
"""


@pytest.mark.once
@pytest.mark.parametrize("keep", KEEP.values(), ids=KEEP.keys())
def test_T10_what_is_alive_at_exit_does_no_harm(keep):
    """Freed by Python itself while the interpreter ends, the GIL held."""
    for place in ("global", "cycle", "sys"):
        child.run(HEAD + PLACES[place].format(keep), silent=True)


@pytest.mark.once
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
def test_T10_wherever_it_is_kept(place):
    child.run(HEAD + place.format(KEEP["legacy, Python deleter"]))


@pytest.mark.once
@pytest.mark.parametrize("first", [True, False], ids=["before dlshim", "after dlshim"])
def test_T10_atexit_handlers_may_do_everything(first):
    """Registered before or after the import, which runs them after or before ours."""
    register = """
import atexit
def last():
    global kept
    kept.release()
    x = P1()
    imported = caps.take(dlshim.upgrade(x).__dlpack__(max_version=(1, 0)))
    assert imported.values() == x.values()
    imported.release("c-thread")
    assert x.last.deleted == 1
    kept = dlshim.upgrade(P2()).__dlpack__()
    print("done")
atexit.register(last)
"""
    rest = HEAD + "kept = caps.take(dlshim.upgrade(P1()).__dlpack__(max_version=(1, 0)))\n"
    assert child.run(register + rest if first else rest + register).strip() == "done"


# After Py_Finalize returned: exit() calls these in reverse order, so our deleter runs first and
# _exit(42) tells that it came back.
AFTER = """
import ctypes
libc = ctypes.CDLL(None)
libc.__cxa_atexit.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
def address(function):
    return ctypes.cast(function, ctypes.c_void_p).value
def call_after_the_end(imported):
    kind = caps.ManagedTensorVersioned if imported.view.versioned else caps.ManagedTensor
    deleter = kind.from_address(imported.view.address).deleter
    assert libc.__cxa_atexit(deleter, imported.view.address, None) == 0
    imported.forget()
assert libc.__cxa_atexit(address(libc._exit), 42, None) == 0
"""
LATE = {
    "Python deleter": "dlshim.upgrade(P1())",
    "Python deleter of a taken capsule": "dlshim.upgrade(caps.make())",
    "table": "dlshim.upgrade(P3TableOnly(null_strides=True))",
    "buffer": "dlshim.upgrade(bytearray(9))",
    "buffer first": "dlshim.upgrade(jax_buffer_like()())",
    "copy": "dlshim.upgrade(bytearray(9), copy=True)",
    "producer's copy": "dlshim.upgrade(CopiesAlways())",
    "raw of C": "dlshim.upgrade(caps.make_of_c())",
    "tensor": "dlshim.from_dlpack(P1())",
    "tensor over a buffer": "dlshim.from_dlpack(bytearray(9))",
}


@pytest.mark.once
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs glibc's __cxa_atexit")
@pytest.mark.parametrize("source", LATE.values(), ids=LATE.keys())
def test_T10_nothing_foreign_is_called_after_the_interpreter_has_gone(source):
    """A deleter written in Python would be a jump into freed memory there."""
    for asked in ("(1, 0)", "None"):
        if asked == "None" and source == LATE["Python deleter"]:
            continue  # handed on: that deleter is the producer's own, not ours
        child.run(
            HEAD
            + "from doubles.producers import CopiesAlways\n"
            + AFTER
            + f"call_after_the_end(caps.take({source}.__dlpack__(max_version={asked})))\n",
            returncode=42,
        )


@child.not_sanitized
@pytest.mark.once
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs glibc's __cxa_atexit")
def test_T10_the_control_crashes():
    """A bare capsule's Python deleter called there does crash: the tests above would see it.

    CPython 3.15 never lets that thread go on instead."""
    code = HEAD + AFTER + "call_after_the_end(caps.take(P1().__dlpack__()))\n"
    with pytest.raises(AssertionError, match=r"ended with -|hangs"):
        child.run(code, timeout=20)


@pytest.mark.once
def test_T10_daemon_threads_that_go_on_exchanging():
    child.run(
        HEAD
        + """
import threading, time
ready = threading.Event()
def work():
    source = bytearray(24)
    while True:
        caps.take(dlshim.upgrade(source).__dlpack__(max_version=(1, 0))).release("released")
        ready.set()
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
assert ready.wait(400)
""")  # fmt: skip


@pytest.mark.once
def test_T10_import_during_shutdown_and_again():
    child.run("""
import atexit
def late():
    import dlshim
    dlshim.from_dlpack(bytearray(3))
atexit.register(late)
""")
    child.program("imported_again")


# --- a forked child -------------------------------------------------------------------


@pytest.mark.once
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("source", KEEP.values(), ids=KEEP.keys())
def test_T10_a_forked_child_may_free_and_export(source):
    child.program("fork_with_exports", source)


@pytest.mark.once
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_T10_a_fork_while_another_thread_holds_the_locks():
    """That thread is not in the child, so nobody would give them back there."""
    child.program("fork_beside_held_locks")


@pytest.mark.once
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_T10_a_forked_child_that_ends_in_order():
    child.run(
        HEAD
        + """
import os
kept = dlshim.upgrade(P1()).__dlpack__(max_version=(1, 0))
tensor = dlshim.from_dlpack(bytearray(3))
pid = os.fork()
if pid:
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status
""")  # fmt: skip


# --- subinterpreters ------------------------------------------------------------------


@pytest.mark.once
def test_T10_a_subinterpreter_may_import_exchange_and_end():
    try:
        import _testcapi
    except ImportError:
        pytest.skip("this Python has no _testcapi to make subinterpreters with")
    if not hasattr(_testcapi, "run_in_subinterp"):
        pytest.skip("this _testcapi has no run_in_subinterp")
    inner = """
import dlshim
source = bytearray(b"abc")
for _ in range(3):
    tensor = dlshim.from_dlpack(dlshim.upgrade(source))
    assert bytes(tensor) == b"abc"
    del tensor
    source.append(1)
    del source[3:]
kept = dlshim.upgrade(source).__dlpack__()
"""
    child.run(f"""
import _testcapi
import dlshim
outer = dlshim.upgrade(bytearray(24)).__dlpack__(max_version=(1, 0))
for _ in range(2):
    assert _testcapi.run_in_subinterp({inner!r}) == 0
del outer
dlshim.from_dlpack(b"x")
""")  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize("first", ["outside", "inside"])
def test_dead_objects_stay_with_the_interpreter_that_allocated_them(first):
    """One with an allocator of its own cannot free what another's has made."""
    pytest.importorskip("_interpreters", reason="isolated interpreters come with CPython 3.13")
    child.program("objects_of_isolated_interpreters", first)


@pytest.mark.once
@pytest.mark.parametrize("gil", ["own", "shared"])
@pytest.mark.parametrize(
    "made",
    ["upgrade(Source())", "from_dlpack(Source())", "upgrade(Memory(8))",
     "upgrade(Source(), copy=True)"],
)  # fmt: skip
def test_T10_a_deleter_on_a_thread_of_an_interpreter_without_dlshim(made, gil):
    """The main interpreter's objects die there: the other one has an allocator of its own."""
    pytest.importorskip("_interpreters", reason="ctypes loads in isolated ones from 3.13 on")
    child.program("deleters_elsewhere", made, gil)


@pytest.mark.once
@pytest.mark.parametrize("gil", ["own", "shared"])
def test_T10_the_array_of_a_column_outlives_the_block_that_it_lies_in(gil, monkeypatch):
    """The deleter frees the block at once, and the main interpreter releases the array later."""
    pytest.importorskip("_interpreters", reason="ctypes loads in isolated ones from 3.13 on")
    monkeypatch.setenv("MALLOC_PERTURB_", "165")  # glibc: what was freed is overwritten
    child.program("deleters_elsewhere", "upgrade(column)", gil)
