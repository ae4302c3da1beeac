"""dlshim.h while memory ends, while errors pass through it, and while modules are not dlshim's."""

from __future__ import annotations

import gc
import weakref

import pytest

import dlshim
import sampling
from dlshim import _core
from doubles import child, extension, gil
from doubles.producers import P1, P2, P3

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("c_interface")


@pytest.fixture(scope="module")
def ext(folder):
    return extension.build("c_interface", folder)


# --- Python's own allocations -----------------------------------------------------------

# The process ends at once: CPython 3.10 frees the cache of a code object twice where it could not
# be allocated.
RUN = """
    import os
    from doubles import c_failures
    print(*c_failures.run({ext!r}, {c!r}, {stride}, {lengths}), flush=True)
    os._exit(0)
"""


@gil.lists_survive
@pytest.mark.parametrize("length", [1, 3000], ids=["one fails", "all fail from then on"])
def test_T9_every_allocation_of_python_may_fail(ext, folder, length):
    """An exception where the result is -1 or NULL, each deleter runs once, and nothing is kept."""
    c = extension.build("no_memory", folder, limited=False)
    stride = sampling.fewer(1, 7)
    out = child.run(RUN.format(ext=ext.__file__, c=c.__file__, stride=stride, lengths=(length,)))
    roads, tried, showed = map(int, out.split())
    assert roads == 240 and tried * stride > 60 * roads
    # Some need not show: a look at a module that is not there, a hint that is left out.
    assert showed > 0.6 * tried, "the failures are not swallowed"


# --- errors that pass through -------------------------------------------------------------


class Raises:
    error: type[BaseException]

    def __dlpack__(self, **_):
        raise self.error

    def __dlpack_device__(self):
        return (1, 0)


@pytest.mark.parametrize("wrap", [lambda x: x, dlshim.upgrade], ids=["itself", "Producer"])
@pytest.mark.parametrize("name", ["take", "lend"])
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, MemoryError, SystemExit, BufferError, TypeError, LookupError]
)
def test_the_object_of_a_failed_import_goes_with_its_last_reference(ext, name, error, wrap):
    """The error knew the frame that refused, and that frame the error: it took a collection."""
    source = Raises()
    source.error = error
    x = wrap(source)
    call, alive = getattr(ext, name), weakref.ref(source)
    gc.disable()
    try:
        with pytest.raises((error, BufferError)) as raised:
            call(x)
        del raised
        del x, source
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("make", [P1, P2, P3])
@pytest.mark.parametrize("wrap", [lambda x: x, dlshim.upgrade, dlshim.from_dlpack])
def test_failed_imports_do_not_use_up_the_errors_of_python(ext, make, wrap):
    """CPython keeps 16 MemoryErrors.  Once all are taken, the next one stays for ever, and with
    it the frames and objects that it knows."""
    x = wrap(make())
    for call in (ext.take, ext.lend):
        for n in (1, 2, 3):
            call(x)
            known = set()
            for _ in range(40):
                _core._hook("fail_alloc", n)
                try:
                    call(x, name="f(): x")
                except MemoryError as error:
                    known.add(id(error))
                finally:
                    _core._hook("fail_alloc", -1)
            assert len(known) <= 3, (call, n)


def test_a_refusal_keeps_the_context_of_the_caller(ext):
    """As an exception that Python code raises in an except clause."""
    for x, request in ((P2(), {"ranks": 1 << 5}), (7, {}), (Raises(), {})):
        Raises.error = KeyError
        try:
            raise LookupError("before")
        except LookupError as before:
            with pytest.raises((BufferError, TypeError, ValueError)) as raised:
                ext.take(x, **request)
            assert raised.value.__context__ is before


# --- sys.modules holds something else -------------------------------------------------------

#: Kinds of objects that stand where dlshim's module was.
OTHERS = {
    "a module": "types.ModuleType('dlshim._core')",
    "a module with a state": "__import__('_struct')",
    "an object": "object()",
    "a mock": "unittest.mock.MagicMock()",
    "a mock of it": "unittest.mock.MagicMock(wraps=dlshim._core)",
    "a copy of its names": "copied",
    "none that can be asked": "Hostile()",
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_the_module_is_found_where_a_test_has_replaced_it(ext, other):
    """It was taken for what it is not, and the process died."""
    out = child.program("module_replaced", ext.__file__, other)
    assert out == "works\n"


@gil.with_gil("CPython 3.13 keeps the classes of a module for ever")
def test_a_module_that_has_gone_is_not_found(ext):
    said = (
        "sys.modules['dlshim._core'] is not dlshim's module\n"
        "  import dlshim before it is replaced\n"
    )
    assert child.program("module_gone", ext.__file__) == said * 2


def test_the_module_that_is_imported_counts_and_not_a_later_one(ext):
    """A test that imports dlshim anew puts the old modules back."""
    assert child.program("module_imported_twice", ext.__file__) == "True\n"
