"""Functions of newer CPythons: every fallback is forced and must do the same.

The one exception are the buffer functions, which have no substitute: without them dlshim
takes no buffers, and says so.
"""

from __future__ import annotations

import pytest

import dlshim
from dlshim import _core
from doubles import child, scenarios
from doubles.asking import versioned


@pytest.fixture
def forced():
    _core._hook("fallback", True)
    yield
    _core._hook("fallback", False)


@pytest.mark.parametrize("name", [n for n in scenarios.ALL if n not in scenarios.NEED_BUFFERS])
def test_every_scenario_on_the_fallbacks(name, forced):
    for _ in range(3):
        scenarios.ALL[name]()


@pytest.mark.parametrize("name", scenarios.NEED_BUFFERS)
def test_without_buffer_functions_buffers_are_refused(name, forced):
    for _ in range(2):
        with pytest.raises((dlshim.UnsupportedObjectError, BufferError)):
            scenarios.ALL[name]()


def test_a_buffer_taken_before_is_given_back():
    """The real release goes with the real request, whatever is forced in between."""
    source = bytearray(b"abc")
    imported = versioned(dlshim.upgrade(source))
    _core._hook("fallback", True)
    imported.release()
    source.append(1)


@pytest.mark.once
def test_forcing_is_seen():
    before = _core._compat()
    assert before and all(type(real) is bool for real in before.values())
    _core._hook("fallback", True)
    assert not any(_core._compat().values())
    _core._hook("fallback", False)
    assert _core._compat() == before


@pytest.mark.once
def test_errors_are_the_same_on_the_fallbacks(forced):
    """Attribute look-ups that raise something else than AttributeError must not be swallowed."""

    class Property:
        @property
        def __dlpack__(self):
            raise RuntimeError("from the property")

    class Getattr:
        def __getattr__(self, name):
            raise KeyError(name)

    for cls in (Property, Getattr):
        for force in (True, False):
            _core._hook("fallback", force)
            _core._hook("forget_plans")
            with pytest.raises(Exception) as error:
                dlshim.upgrade(cls()).__dlpack__()
            if force:
                first = (type(error.value), str(error.value))
            else:
                assert (type(error.value), str(error.value)) == first


@pytest.mark.once
def test_newer_functions_are_used_where_this_python_has_them():
    import sys

    compat = _core._compat()
    since = {
        "PyObject_VectorcallMethod": (3, 9),
        "PyObject_Vectorcall": (3, 11),
        "PyObject_GetOptionalAttr": (3, 13),
        "PyThreadState_GetUnchecked": (3, 13),
    }
    for name, version in since.items():
        assert compat[name] is (sys.version_info[:2] >= version), name


@pytest.mark.once
def test_fallbacks_at_the_end_of_the_interpreter():
    child.run("""
        from dlshim import _core
        _core._hook("fallback", True)
        import dlshim
        from doubles.producers import P1
        keep = dlshim.upgrade(P1()).__dlpack__(max_version=(1, 0))
        tensor = dlshim.from_dlpack(P1())
    """)
