"""The C table under threads of C: tests/programs/ctable_threads.c is the consumer."""

from __future__ import annotations

import ctypes as C
import gc
import os
import subprocess
import sys
import sysconfig
from array import array

import pytest
from core.test_readonly_and_copies import jax_like
from project.tree import ROOT, absent, compiler

import dlshim
from doubles import capsules as caps
from doubles.asking import bare, live, versioned
from doubles.ctable import Table
from doubles.older import InterfaceOnly, StructOnly
from doubles.producers import P1, P2, P3, CopiesAlways, P1NullStrides

THREADS, ROUNDS = 4, 200


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    source = ROOT / "tests" / "programs" / "ctable_threads.c"
    library = tmp_path_factory.mktemp("programs") / "ctable_threads.so"
    include = sysconfig.get_path("include")
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread"]
    command = [compiler(), *flags, f"-I{include}", str(source), "-o", str(library)]
    # A sanitizer that is preloaded here is not the compiler's.
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    built = subprocess.run(command, capture_output=True, text=True, env=plain)
    if "Python.h" in built.stderr:
        absent("Python.h is not here")
    assert built.returncode == 0, built.stderr
    return library


@pytest.fixture(scope="module")
def hammer(program):
    function = C.CDLL(str(program)).hammer
    function.argtypes = [C.c_void_p, C.py_object, C.py_object, C.c_int, C.c_int, C.c_char_p]

    def run(a, b, threads=THREADS, rounds=ROUNDS):
        text = C.create_string_buffer(200)
        table = Table(type(a)).address
        failures = function(table, a, b, threads, rounds, text)
        assert failures == 0, text.value.decode()

    return run


MAKERS = {
    "legacy": P1NullStrides,
    "versioned": P2,
    "table": P3,
    "immutable": lambda: jax_like()(),
    "capsule": caps.make,
    "array interface": InterfaceOnly,
    "array struct": StructOnly,
    "buffer": lambda: memoryview(array("f", range(6))).cast("B").cast("f", (2, 3)),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_two_producers_of_one_object(hammer, make):
    x = make()
    first = dlshim.upgrade(x, readonly=False)
    second = dlshim.upgrade(first)
    before = live()
    with caps.short_memory():
        hammer(first, second)
        hammer(first, first)
    assert live() <= before + 3 * THREADS, "one export is kept for the views of each thread"
    del first, second
    assert live() <= before


def test_T13_a_view_stays_while_other_threads_borrow(program):
    """A kernel without the GIL reads what it has borrowed; others borrow from the same Producer."""
    keep = C.PyDLL(str(program)).keep_while_others_borrow
    keep.argtypes = [C.c_void_p, C.py_object, C.c_int]
    x = CopiesAlways()
    wrapped = dlshim.upgrade(x)
    assert keep(Table(dlshim.Producer).address, wrapped, 100) == 0
    alive = [made for made in x.exports if not made.deleted]
    assert 1 < len(alive) <= 2 * 16


def test_T13_each_thread_has_views_of_its_own(hammer):
    """Four threads read what they have borrowed without the lock, while the others borrow."""
    x = CopiesAlways()
    wrapped, before = dlshim.upgrade(x), live()
    with caps.short_memory():
        hammer(wrapped, wrapped)
    alive = [made for made in x.exports if not made.deleted]
    assert len(alive) <= 16 * THREADS and live() - before <= 16 * THREADS
    del wrapped
    assert live() == before


def test_a_tensor(hammer):
    tensor = dlshim.from_dlpack(P2())
    before = live()
    hammer(tensor, tensor)
    assert live() == before


def test_a_table_that_succeeds_with_an_exception_set(program, monkeypatch):
    """The tensor is good; what was left behind is reported, and is nobody's failure."""
    careless = C.PyDLL(str(program)).careless
    careless.argtypes, careless.restype = [C.c_void_p], C.c_void_p
    address = careless(Table(P3).address)
    cls = type("Careless", (P3,), {"__dlpack_c_exchange_api__": address})
    reports = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reports.append(report.exc_value))
    x = cls()
    wrapped = dlshim.upgrade(x)
    for _ in range(3):
        for ask in (bare, versioned):
            with ask(wrapped) as imported:
                assert imported.values() == x.values()
        assert Table(dlshim.Producer).owned(wrapped).values() == x.values()
        assert dlshim.from_dlpack(x).shape == x.shape
    assert x.table_calls and not x.calls
    assert len(reports) == x.table_calls and {str(r) for r in reports} == {"left behind"}


@pytest.mark.parametrize("with_lock", [True, False])
@pytest.mark.parametrize("source", [P1, P2])
def test_an_exception_that_is_pending_survives_what_letting_go_runs(
    program, monkeypatch, source, with_lock
):
    """The last holder of the object is the export, and its finaliser raises."""

    class Dying(source):
        def _export(self, version, **fields):
            # A deleter made by ctypes would run Python by itself.
            return super()._export(version, **(fields | {"owner": None, "deleter": False}))

        def __del__(self):
            raise ValueError("dying")

    give_back = C.PyDLL(str(program)).give_back_while_pending
    give_back.argtypes = [C.c_void_p, C.py_object, C.c_int]
    reports = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reports.append(report.exc_value))
    assert give_back(Table(dlshim.Producer).address, [dlshim.upgrade(Dying())], with_lock) == 1
    gc.collect()
    assert [str(report) for report in reports] == ["dying"]


DECORATED = dlshim.producer(type("Decorated", (P2,), {}))


@pytest.mark.parametrize("cls", [dlshim.Producer, dlshim.Tensor, DECORATED])
def test_a_foreign_object_is_refused_by_the_returned_code_too(program, cls):
    """ctypes raises what is pending, whatever the code; a consumer in C looks at the code."""
    refuses = C.PyDLL(str(program)).refuses
    refuses.argtypes = [C.c_void_p, C.py_object]
    others = () if cls is DECORATED else (P1(),)  # its table takes other arrays, too
    for foreign in (object(), None, P1, *others):
        assert refuses(Table(cls).address, foreign) == 1
    own = DECORATED() if cls is DECORATED else dlshim.upgrade(P2())
    assert refuses(Table(cls).address, own) == 0
