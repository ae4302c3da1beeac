"""Which function makes an array of a type's library, where the library is a double."""

from __future__ import annotations

import sys
import types

import pytest

import dlshim
from dlshim.importers import importer_of, numpy_array

np = pytest.importorskip("numpy", reason="its arrays are looked at")

pytestmark = pytest.mark.once


@pytest.fixture
def module(monkeypatch):
    """Make modules that are imported for the length of a test."""

    def make(name, **contents):
        made = types.ModuleType(name)
        for key, value in contents.items():
            if getattr(value, "__module__", None) == __name__:
                value.__module__ = name
            setattr(made, key, value)
        monkeypatch.setitem(sys.modules, name, made)
        return made

    return make


def function():
    return types.FunctionType((lambda tensor: ("made", tensor)).__code__, {"__name__": __name__})


def made(module, bases=(), **contents):
    return type("Array", bases, {"__module__": module, **contents})


def test_the_module_of_a_class_and_the_packages_around_it(module):
    inner, outer = function(), function()
    module("fake_arrays.core", from_dlpack=inner)
    module("fake_arrays", from_dlpack=outer)
    assert importer_of(made("fake_arrays.core")) is inner
    assert importer_of(made("fake_arrays.other")) is outer
    assert importer_of(made("fake_arrays.core", (made("elsewhere"),))) is inner
    assert importer_of(made("elsewhere", (made("fake_arrays.core"),))) is inner


def test_a_module_that_comes_later_is_found_later(module):
    cls = made("fake_arrays")
    assert importer_of(cls) is None
    there = module("fake_arrays", from_dlpack=function())
    assert importer_of(cls) is there.from_dlpack


def test_a_function_of_another_library_is_not_the_class_s(module):
    """A program that has said ``from numpy import from_dlpack`` has no importer by that."""
    module("fake_program", from_dlpack=np.from_dlpack)
    assert importer_of(made("fake_program")) is None


def test_a_function_that_tells_no_module_counts(module):
    plain = function()
    module("fake_arrays", from_dlpack=plain)
    plain.__module__ = None
    assert importer_of(made("fake_arrays")) is plain


@pytest.mark.parametrize("kind", [classmethod, staticmethod])
def test_the_class_s_own_goes_before_the_module_s(module, kind):
    module("fake_arrays", from_dlpack=function())
    if kind is classmethod:
        cls = made("fake_arrays", from_dlpack=kind(lambda cls, x: (cls, x)))
        assert importer_of(made("x", (cls,)))("tensor")[1] == "tensor"
    else:
        cls = made("fake_arrays", from_dlpack=kind(lambda x: ("class", x)))
        assert importer_of(made("x", (cls,)))("tensor") == ("class", "tensor")


def test_a_subclass_of_a_library_s_class_may_have_its_own():
    made_of = made("x", (np.ndarray,), from_dlpack=staticmethod(lambda x: ("own", x)))
    assert importer_of(made_of)("tensor") == ("own", "tensor")


def test_a_method_of_objects_is_none(module):
    cls = made("elsewhere", from_dlpack=lambda self, x: x)
    assert importer_of(cls) is None
    there = module("fake_arrays", from_dlpack=function())
    assert importer_of(made("fake_arrays", (cls,))) is there.from_dlpack
    assert importer_of(made("elsewhere", from_dlpack=3)) is None


@pytest.mark.parametrize("cls", [dlshim.Tensor, dlshim.Producer, bytes, memoryview, object, int])
def test_types_without_one(cls):
    assert importer_of(cls) is None


def test_NumPy_s_subclasses_come_back_as_plain_arrays():
    for cls in (np.ndarray, np.matrix, np.ma.MaskedArray, np.float32, made("x", (np.ndarray,))):
        importer = importer_of(cls)
        assert importer in (np.from_dlpack, numpy_array)
        x = importer(dlshim.from_dlpack(np.ones(2)))
        assert type(x) is np.ndarray and x.flags.writeable


@pytest.mark.parametrize(
    ("release", "old"),
    [("1.26.4", True), ("2.1.3", True), ("2.2.4", True), ("2.2.5", False), ("2.5.0rc1", False)],
)
def test_old_NumPy_makes_writable_arrays_of_buffers(monkeypatch, release, old):
    """Its from_dlpack makes them read-only up to 2.2.4."""
    monkeypatch.setattr(np, "__version__", release)
    expected = numpy_array if old else np.from_dlpack
    assert importer_of(np.ndarray) is expected


def test_a_class_whose_module_is_no_name(module):
    cls = made("elsewhere")
    cls.__module__ = 3
    assert importer_of(cls) is None


@pytest.mark.parametrize("start", range(0, 64, 4))
@pytest.mark.parametrize("count", [0, 1, 6])
def test_tensorflow_is_given_aligned_memory(module, start, count):
    """It computes with no other, and says so by ending the process; what is aligned is shared."""
    room = np.arange(64, dtype="f4")
    first = -room.ctypes.data % 64 // 4 + start // 4
    x = room[first : first + count]
    dlpack = types.SimpleNamespace(from_dlpack=lambda capsule: dlshim.from_dlpack(capsule))
    module("tensorflow", experimental=types.SimpleNamespace(dlpack=dlpack))
    tensor = dlshim.from_dlpack(x)
    given = importer_of(made("tensorflow.python.framework.ops"))(tensor)
    assert given.numpy().tolist() == x.tolist() and given.shape == x.shape
    if count:
        assert given.data_ptr() % 64 == 0
        assert (given.data_ptr() == x.ctypes.data) is (start == 0)


def test_libraries_by_their_rows(module):
    seen = []
    numpy = types.SimpleNamespace(from_dlpack=lambda x: seen.append(("jax", type(x))))
    module("jax", numpy=numpy)
    module("jaxlib")
    tensorflow = types.SimpleNamespace(
        from_dlpack=lambda x: seen.append(("tensorflow", type(x).__name__))
    )
    module("tensorflow", experimental=types.SimpleNamespace(dlpack=tensorflow))
    old = types.SimpleNamespace(from_dlpack=lambda x: seen.append(("paddle", type(x).__name__)))
    module("paddle", utils=types.SimpleNamespace(dlpack=old))
    for name in ("jaxlib._jax", "tensorflow.python.framework.ops", "paddle"):
        importer_of(made(name))(dlshim.from_dlpack(np.ones(2)))
    assert seen == [
        ("jax", dlshim.Tensor), ("tensorflow", "PyCapsule"), ("paddle", "PyCapsule")
    ]  # fmt: skip
