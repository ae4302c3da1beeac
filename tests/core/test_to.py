"""`dlshim.to` with NumPy alone, and with classes and modules that the tests make."""

from __future__ import annotations

import array
import importlib
import sys
import types
import typing
import warnings

import pytest

import dlshim
from dlshim import to
from doubles import child

np = pytest.importorskip("numpy", reason="its arrays are looked at")

pytestmark = pytest.mark.once


class Mine:
    """A library's array, of which dlshim knows its from_dlpack alone."""

    def __init__(self, tensor):
        self.tensor = tensor

    @classmethod
    def from_dlpack(cls, x):
        return cls(dlshim.from_dlpack(x))

    def __dlpack__(self, **asked):
        return self.tensor.__dlpack__(**asked)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def fixed(values):
    values.flags.writeable = False
    return values


def shares(made, x):
    return dlshim.from_dlpack(made).data_ptr() == dlshim.from_dlpack(x).data_ptr()


# ---- the library that is named -------------------------------------------------------------------


@pytest.mark.parametrize("library", ["numpy", np, np.ndarray, np.zeros(1)], ids=repr)
def test_a_library_is_named_by_its_name_module_class_or_array(library):
    memory = array.array("f", [1, 2, 3])
    made = to(memory, library)
    assert type(made) is np.ndarray and made.dtype == "f4" and made.tolist() == [1, 2, 3]
    made[0] = 9
    assert memory[0] == 9


def test_a_name_is_imported(monkeypatch):
    module = types.ModuleType("a_library_of_mine")
    module.from_dlpack = Mine.from_dlpack
    monkeypatch.setattr(importlib.machinery.PathFinder, "find_spec", lambda *_: None)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert type(to(b"abc", "a_library_of_mine")) is Mine
    assert type(to(b"abc", module)) is Mine


def test_a_library_that_is_not_there():
    with pytest.raises(ModuleNotFoundError, match="no module 'torhc' here\n  install") as raised:
        to(b"abc", "torhc")
    assert raised.value.name == "torhc"


def test_the_failing_import_of_a_library_passes_unchanged(tmp_path, monkeypatch):
    (tmp_path / "half_a_library.py").write_text("import what_it_needs_is_not_here")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'what_it_needs") as raised:
        to(b"abc", "half_a_library")
    assert raised.value.name == "what_it_needs_is_not_here"


@pytest.mark.parametrize("library", ["json", importlib.import_module("json")])
def test_a_module_that_has_no_arrays(library):
    with pytest.raises(TypeError, match=r"'json' has no arrays .*\n.* pass \"numpy\""):
        to(b"abc", library)


@pytest.mark.parametrize("library", [None, 3, 1.5, ["numpy"], ("numpy",), {}])
def test_what_names_no_library(library):
    with pytest.raises(TypeError, match=f"takes the name .* not '{type(library).__name__}'"):
        to(b"abc", library)


@pytest.mark.parametrize("library", [object, int, object()])
def test_a_class_that_is_none_of_arrays(library):
    with pytest.raises(TypeError, match="no class of arrays"):
        to(b"abc", library)


def test_a_module_that_is_imported_anew_is_found_anew(monkeypatch):
    first, second = types.ModuleType("some_arrays"), types.ModuleType("some_arrays")
    first.from_dlpack, second.from_dlpack = (lambda x: "first"), (lambda x: "second")
    monkeypatch.setitem(sys.modules, "some_arrays", first)
    assert to(b"abc", "some_arrays") == "first"
    monkeypatch.setitem(sys.modules, "some_arrays", second)
    assert to(b"abc", "some_arrays") == "second"


# ---- what is shared, and what is copied ----------------------------------------------------------


def test_the_same_library_gives_the_object_itself():
    for x in (np.ones(3), np.ma.array([1, 2], mask=[0, 1]), np.array(["text"]), np.array([None])):
        assert to(x, "numpy") is x
        assert to(x, "numpy", device="cpu") is x
        copied = to(x, "numpy", copy=True)
        assert type(copied) is type(x) and not np.shares_memory(copied, x)
    tensor = dlshim.from_dlpack(b"abc")
    assert to(tensor, "dlshim") is tensor and to(tensor, dlshim.Tensor) is tensor


def test_a_scalar_of_numpy_is_an_array_without_axes():
    made = to(np.float32(3), "numpy")
    assert type(made) is np.ndarray and made.shape == () and made == 3


def test_memory_that_must_not_change_is_copied_for_who_writes():
    for x in (fixed(np.arange(3.0)), b"abc", np.broadcast_to(np.ones(3), (2, 3))):
        made = to(x, Mine)
        assert not made.tensor.readonly and not shares(made, x)
    writable = np.arange(3.0)
    assert shares(to(writable, Mine), writable)


def test_who_heeds_the_mark_shares():
    x = fixed(np.arange(3.0))
    for library in ("dlshim", np):
        made = to(dlshim.from_dlpack(x), library)
        assert shares(made, x)
    assert not to(memoryview(b"abc"), "numpy").flags.writeable
    assert to(dlshim.from_dlpack(x), "dlshim").readonly


def test_strides():
    x = np.arange(12.0).reshape(3, 4)
    for view in (x[::-1], x[:, ::-1]):
        made = to(view, Mine)
        assert not shares(made, view) and made.tensor.numpy().tolist() == view.tolist()
        assert np.shares_memory(to(dlshim.from_dlpack(view, order="K"), "numpy"), x)
    for view in (x.T, x[:, ::2], x[1:]):
        assert shares(to(view, Mine), view)


def test_what_dlpack_cannot_describe_and_a_copy_can():
    record = np.zeros(3, "u1,f8")
    record["f1"] = 1, 2, 3
    for x in (np.arange(3, dtype=">i4"), record["f1"]):
        with pytest.raises(BufferError):
            dlshim.from_dlpack(x)
        made = to(x, Mine)
        assert made.tensor.numpy().tolist() == x.tolist()
        assert made.tensor.dtype == x.dtype.newbyteorder("=")
        with pytest.raises(dlshim.CopyRequiredError, match="but copy=False was asked"):
            to(x, Mine, copy=False)


def test_copy_true_makes_one_copy():
    for x in (np.arange(3.0), fixed(np.arange(3.0))[::-1], np.arange(3, dtype=">i4")):
        before = dlshim.stats()["copied"]
        made = to(x, Mine, copy=True)
        assert made.tensor.numpy().tolist() == x.tolist() and not made.tensor.readonly
        assert not np.shares_memory(made.tensor.numpy(), x)
        assert dlshim.stats()["copied"] - before <= 1


def test_copy_false_never_copies():
    x = np.arange(3.0)
    assert shares(to(x, Mine, copy=False), x)
    with pytest.raises(dlshim.CopyRequiredError, match="not take its strides, and copy=") as raised:
        to(x[::-1], Mine, copy=False)
    assert raised.value.reason == "order"
    with pytest.warns(dlshim.ReadOnlyWarning, match="read-only, and Mine does not heed") as told:
        made = to(fixed(x), Mine, copy=False)
    assert shares(made, x)
    assert [each.filename for each in told] == [__file__]


def test_copy_false_and_the_warning_an_error_makes_nothing():
    x = fixed(np.arange(3.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(dlshim.ReadOnlyWarning):
            to(x, Mine, copy=False)


def test_copy_false_and_a_library_that_copies():
    class Copies(Mine):
        @classmethod
        def from_dlpack(cls, x):
            return cls(dlshim.from_dlpack(x, copy=True))

    with pytest.raises(dlshim.CopyRequiredError, match="Copies copies it, and copy=False"):
        to(np.ones(3), Copies, copy=False)


def test_a_wrapper_keeps_its_options():
    days = np.array(["2020-01-01", "2020-01-02"], "M8[D]")
    made = to(dlshim.upgrade(days, reinterpret="int64"), "numpy")
    assert made.tolist() == days.view("i8").tolist()
    x = fixed(np.arange(3.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert shares(to(dlshim.upgrade(x, readonly="share"), Mine), x)
    assert not shares(to(dlshim.upgrade(x, readonly="copy"), "dlshim"), x)


def test_a_cure_is_typed_as_it_is_told():
    days = np.array(["2020-01-01"], "M8[D]")
    with pytest.raises(BufferError) as raised:
        to(days, Mine)
    assert 'dlshim.upgrade(x, reinterpret="int64")' in str(raised.value)
    made = to(dlshim.upgrade(days, reinterpret="int64"), Mine)
    assert made.tensor.numpy().tolist() == days.view("i8").tolist()


def test_an_error_of_a_library_is_told_with_its_name():
    class Picky(Mine):
        @classmethod
        def from_dlpack(cls, x):
            raise KeyError("unknown")

    with pytest.raises(BufferError, match="Picky refuses it: KeyError: 'unknown'") as raised:
        to(b"abc", Picky)
    assert isinstance(raised.value.__cause__, KeyError)


def test_the_cures_of_lists_give_the_values():
    """What each text names is typed in."""
    json = importlib.import_module("json")
    with pytest.raises(TypeError, match=r'if its functions take .* pass "numpy"$'):
        to(b"ab", json)
    assert json.dumps(to(b"ab", "numpy").tolist()) == "[97, 98]"
    with pytest.raises(ValueError, match=r"put a number in its place, such as float\('nan'\)$"):
        to([1.0, None], "numpy")
    assert np.isnan(to([1.0, float("nan")], "numpy")).tolist() == [False, True]
    inner = [np.ones(2), np.zeros(2)]
    with pytest.raises(ValueError, match=r"stack the inner ones first$"):
        to([inner, inner], "numpy")
    assert to([np.stack(inner), np.stack(inner)], "numpy").shape == (2, 2, 2)
    with pytest.raises(ValueError, match=r"pass them one by one, or convert them$"):
        to([np.ones(2), np.ones(2, "f4")], "numpy")
    assert to([np.ones(2), np.ones(2, "f4").astype("f8")], "numpy").shape == (2, 2)
    with pytest.raises(ValueError, match=r"convert them first$"):
        to([2**63 + 1, -1], "numpy")
    assert to([float(2**63 + 1), -1.0], "numpy").dtype == "f8"


def test_memory_of_a_device_does_not_go_to_numpy():
    class OnDevice:
        def __dlpack__(self, **asked):
            return dlshim.to_capsule(b"abc", max_version=(1, 0), assume_device=(12, 0))

        def __dlpack_device__(self):
            return (12, 0)

    with pytest.raises(BufferError, match=r'numpy has host memory alone.*\n  pass device="cpu"'):
        to(OnDevice(), "numpy")


# ---- Python's own --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "dtype"),
    [([1, 2], "i8"), ((1.5, 2), "f8"), (range(3), "i8"), (7, "i8"), (True, "?"), ([[1j]], "c16")],
)
def test_numbers_go_by_the_constructor(x, dtype):
    made = to(x, "numpy")
    assert made.dtype == dtype and made.tolist() == np.array(x).tolist()
    assert to(x, Mine).tensor.numpy().tolist() == np.array(x).tolist()


def test_integers_are_exact_or_an_error():
    made = to([2**63, 1], "numpy")
    assert made.dtype == "u8" and made.tolist() == [2**63, 1]
    for x in ([2**63 + 1, -1], [[2**63 + 1], [-1]], [2**70], [2**64, 1]):
        with pytest.raises(ValueError, match="numpy has no dtype for"):
            to(x, "numpy")


def test_a_list_of_texts_is_an_array_of_numpy():
    made = to(["a", "bc"], "numpy")
    assert made.dtype == "<U2" and made.tolist() == ["a", "bc"]
    with pytest.raises(BufferError, match="its elements are text"):
        to(["a", "bc"], "dlshim")


def test_a_list_that_contains_itself_is_refused():
    one = [1.0]
    one.append(one)
    two = []
    two.append(([two],))
    for x in (one, two):
        with pytest.raises(ValueError, match="the list contains itself"):
            to(x, "numpy")
    inner = [1.0]
    assert to([inner, inner], "numpy").shape == (2, 1)


class Pair(typing.NamedTuple):
    a: float
    b: float


def test_subclasses_are_what_their_bases_are():
    class Numbers(list):
        pass

    class Number(int):
        pass

    class Array(np.ndarray):
        pass

    for x, values in ((Numbers([1, 2]), [1, 2]), (Pair(1.0, 2.0), [1, 2]), (Number(3), 3)):
        assert to(x, "numpy").tolist() == values
        assert to(x, Mine).tensor.numpy().tolist() == values
    own = np.arange(2.0).view(Array)
    assert to(own, "numpy") is own and shares(to(own, Mine), own)


def test_a_number_that_is_an_array_is_no_number_of_python():
    """numpy.float64 is a float, and has a dtype of its own."""
    assert to(np.float64(3), "dlshim").dtype == "float64"


@pytest.mark.parametrize(
    "x",
    [np.ones(2), [1.0, 2.0], b"ab", dlshim.from_dlpack(b"ab")],
    ids=["array", "list", "bytes", "Tensor"],
)
def test_values_of_keywords_that_are_none(x):
    for library in ("numpy", "dlshim", Mine):
        for copy in ("x", 1, 0, np.True_):
            with pytest.raises(TypeError, match="copy must be None, True or False, not"):
                to(x, library, copy=copy)
        with pytest.raises(ValueError, match="device='nope' names no device"):
            to(x, library, device="nope")
        with pytest.raises(TypeError, match=r"device=3\.5 names no device"):
            to(x, library, device=3.5)
        assert to(x, library, device="cpu", copy=True) is not x


def test_lists_that_are_no_array():
    with pytest.raises(ValueError, match=r"None is in the list, .* no missing values"):
        to([1, None], "numpy")
    with pytest.raises(ValueError, match=r"numpy.array refuses the list: ValueError"):
        to([[1], [2, 3]], "numpy")


def test_a_list_of_arrays_is_stacked():
    made = to([np.ones((2, 3)), np.zeros((2, 3))], "numpy")
    assert made.shape == (2, 2, 3) and made.sum() == 6
    made = to([dlshim.from_dlpack(b"ab"), dlshim.from_dlpack(b"cd")], Mine)
    assert made.tensor.tobytes() == b"abcd"
    with pytest.raises(ValueError, match=r"different shapes \(\(2,\), \(3,\)\)"):
        to([np.ones(2), np.ones(3)], "numpy")
    with pytest.raises(ValueError, match="different dtypes"):
        to([np.ones(2), np.ones(2, "f4")], "numpy")


def test_the_short_way_gives_what_the_longer_gives():
    """Types that were met go it, and what it refuses goes the longer one."""
    first = to(dlshim.from_dlpack(b"abc"), "numpy")
    again = to(dlshim.from_dlpack(b"abc"), "numpy")
    assert first.tolist() == again.tolist() and not again.flags.writeable
    turned = dlshim.from_dlpack(np.arange(3.0)[::-1], order="K")
    assert to(turned, "numpy").tolist() == [2, 1, 0]


def test_arguments():
    with pytest.raises(TypeError):
        to(b"abc")
    with pytest.raises(TypeError, match="dtype"):
        to(b"abc", "numpy", dtype="f4")
    with pytest.raises(dlshim.UnsupportedObjectError):
        to(object(), "numpy")


def test_an_immutable_array_is_not_written_through_what_shares_it(monkeypatch):
    """MLX computes with the memory later, and its arrays carry no mark."""
    module = types.ModuleType("mlx.core")
    monkeypatch.setitem(sys.modules, "mlx.core", module)

    class Immutable:
        __module__ = "mlx.core"
        values = np.arange(3.0)

        def __dlpack__(self, **asked):
            return self.values.__dlpack__(**asked)

        def __dlpack_device__(self):
            return (1, 0)

    for x in (Immutable(), dlshim.upgrade(Immutable())):
        for _ in range(2):
            made = to(x, "numpy")
            assert made.tolist() == [0, 1, 2] and not made.flags.writeable
            assert not shares(to(x, Mine), x)


def test_a_list_of_masked_arrays_is_refused_as_one_is():
    hidden = np.ma.array([1.0, 2.0], mask=[False, True])
    for x in (hidden, [hidden, hidden], (hidden,)):
        with pytest.raises(BufferError, match="its mask hides elements"):
            to(x, "dlshim")


def test_copy_false_stacks_nothing():
    with pytest.raises(dlshim.CopyRequiredError, match="memory of their own"):
        to([np.ones(2), np.ones(2)], "numpy", copy=False)
    with pytest.raises(dlshim.CopyRequiredError, match="in no memory of an array"):
        to([1.0, 2.0], "numpy", copy=False)


@pytest.mark.parametrize("word", ["share", "copy", "error"])
@pytest.mark.parametrize("copy", [None, False, True])
def test_the_word_of_a_wrapper_beside_copy(word, copy):
    x = fixed(np.arange(3.0))
    told = dlshim.upgrade(x, readonly=word)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if copy is False and word == "copy":
            with pytest.raises(dlshim.CopyRequiredError, match='which readonly="copy" copies'):
                to(told, Mine, copy=copy)
        elif copy is False and word == "error":
            text = r"^'numpy\.ndarray' object: it is read-only, and Mine does not heed that\n  drop"
            with pytest.raises(BufferError, match=text):
                to(told, Mine, copy=copy)
            assert not shares(to(told, Mine), x)
        else:
            assert shares(to(told, Mine, copy=copy), x) == (word == "share" and copy is not True)
        if word != "copy":
            assert shares(to(told, "dlshim", copy=copy), x) == (copy is not True)


def test_an_order_and_a_reinterpretation_hold_beside_copy():
    turned = np.arange(6.0).reshape(2, 3).T
    in_c = dlshim.upgrade(turned, order="C", reinterpret="uint64")
    made = to(in_c, Mine, copy=True)
    assert made.tensor.numpy().tolist() == turned.copy().view("u8").tolist()
    assert made.tensor.dtype == "uint64" and made.tensor.strides == (2, 1)
    with pytest.raises(dlshim.CopyRequiredError):
        to(in_c, Mine, copy=False)


def test_a_text_names_the_source_and_not_its_wrapper():
    with pytest.raises(dlshim.CopyRequiredError, match=r"^'numpy\.ndarray' object: Mine does"):
        to(dlshim.upgrade(np.arange(3.0)[::-1]), Mine, copy=False)


def test_a_wrapper_keeps_its_word_at_each_call():
    fixed = np.arange(3.0)
    fixed.flags.writeable = False
    for _ in range(3):
        assert shares(to(dlshim.upgrade(fixed, readonly="share"), "numpy"), fixed)


def test_the_first_use_in_threads():
    """They import the module, find the library and the road at the same time."""
    out = child.program("first_use_of_to")
    assert out.split() == ["all"]


def test_warnings_that_are_errors_end_no_exchange():
    """Nothing is told where nothing is wrong."""
    x = np.arange(6.0).reshape(2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for source in (x, x[::-1], x.T, fixed(np.ones(3)), b"abc", [1, 2], np.ones(2, ">f4")):
            for library in ("numpy", "dlshim", Mine):
                for copy in (None, True):
                    to(source, library, copy=copy)


def test_a_package_without_a_word_on_strides_leaves_them_to_its_row():
    from dlshim.conversion.targets import _layout
    from dlshim.habits import PACKAGES, TAKES

    silent = {package for package, _, layout, _, _ in PACKAGES if layout == "ANY"} & set(TAKES)
    assert "polars" in silent
    for name in silent:
        assert _layout(TAKES[name], name) == TAKES[name].layout
