"""What cannot be exported is refused with a cure that works for that very object.

The rows are those of shim/cures.py; each is met by a small class that has what the row names.
Real libraries are asked in tests/objects/test_cures_applied.py.
"""

from __future__ import annotations

import array
import ctypes
import functools
import gc
import io
import queue
import re
import sys
from multiprocessing import shared_memory
from typing import Any
from unittest import mock

import pytest

import dlshim
from dlshim import cure_texts
from dlshim.cures import CURES
from doubles import capsules as caps
from doubles.asking import versioned
from doubles.delegating import PassesOn
from doubles.producers import P2, Raises, fresh, masquerade

MEMORY = bytearray(range(6))


class Namespace:
    """What the cures call on a library by name."""

    @staticmethod
    def asarray(x: Any) -> bytearray:
        return MEMORY

    buffer = GetArrayFromImage = vector_to_array = to_dense = chunked_array = asarray
    asanyarray = to_array = asarray


Namespace.sparse = Namespace.numpy_helper = Namespace  # type: ignore[attr-defined]


def cured(x: object, cure: str) -> Any:
    """The cure as a user types it."""
    names = {"x": x, "value": 0} | dict.fromkeys(
        ["numpy", "SimpleITK", "ffi", "faiss", "pyarrow", "tf", "onnx"], Namespace
    )
    return eval(cure, names)


def object_of(kind: str, what: str, text: str) -> object:
    """An object that the row, and no row before it, fits."""
    if kind == "items":
        return {"list": [1], "tuple": (1,), "range": range(1)}[what]
    if kind == "type":
        module, _, name = what.rpartition(".")
        members: dict[str, Any] = {"__module__": module or "builtins", "get": lambda self: MEMORY}
        members["__getitem__"] = lambda self, key: MEMORY
        return type(name or "Other", (), members)()
    members: dict[str, Any] = {what: True if kind == "flag" else lambda self, **args: MEMORY}
    if kind == "view":
        members[what] = property(lambda self: MEMORY)
    if kind == "held":
        members[what] = MEMORY
    for method in re.findall(r"x\.(\w+)\(", text):
        members[method] = lambda self, *args, **more: MEMORY
    return type("Other", (), members)()


def cure_in(text: str) -> str | None:
    """What the message says to pass."""
    found = re.search(r"pass (.+) instead", text)
    return found.group(1) if found and found.group(1) != "an array" else None


def refused(x: object) -> str:
    """The message for an object that offers nothing."""
    with pytest.raises(dlshim.UnsupportedObjectError) as error:
        dlshim.upgrade(x)
    return str(error.value)


def refused_export(x: object) -> str:
    """The message for an object that offers something, which cannot be exported."""
    with pytest.raises(BufferError) as error:
        versioned(dlshim.upgrade(x))
    return str(error.value)


def test_there_are_rows() -> None:
    assert len(CURES) > 25
    kinds = {"flag", "view", "held", "method", "numpy", "type", "items", "wrapper"}
    assert {kind for kind, _, _ in CURES} == kinds


WRAPPERS = [row for row in CURES if row[0] == "wrapper"]
STRANGERS = [row for row in CURES if row[2] and row[0] != "wrapper"]
PRODUCERS = [row for row in STRANGERS if row[0] not in ("type", "items")]


@pytest.mark.parametrize("row", STRANGERS, ids=lambda row: row[1])
def test_a_stranger_is_refused_with_its_own_cure(row):
    x = object_of(*row)
    assert cure_in(refused(x)) == row[2]
    for cure in row[2].split(" or "):
        with versioned(dlshim.upgrade(cured(x, cure))) as imported:
            assert imported.values() == list(MEMORY)


@pytest.mark.parametrize("row", PRODUCERS, ids=lambda row: row[1])
@pytest.mark.parametrize(
    "failure", [RuntimeError("no"), BufferError("no"), KeyError("no")], ids=repr
)
def test_a_refusal_of_the_producer_names_the_cure(row, failure):
    x = object_of(*row)
    type(x).__dlpack__ = lambda self, **asked: (_ for _ in ()).throw(failure)  # type: ignore
    with pytest.raises(BufferError, match=r"cannot be exported: .*\n  pass") as error:
        versioned(dlshim.upgrade(x))
    assert cure_in(str(error.value)) == row[2]
    assert error.value.__cause__ is failure


@pytest.mark.parametrize("row", WRAPPERS, ids=lambda row: row[1])
def test_a_wrapper_without_memory_names_what_it_wraps(row):
    _, what, text = row
    cls = fresh(P2)
    for name in {what, *re.findall(r"x\.(\w+)\(", text)}:
        setattr(cls, name, lambda self, *args: MEMORY)
    x = cls((3,), data=None)
    told = refused_export(x)
    assert "that of what it wraps" in told and cure_in(told) == text
    with versioned(dlshim.upgrade(cured(x, text))) as imported:
        assert imported.values() == list(MEMORY)
    assert "no memory is behind it" in refused_export(P2((3,), data=None))


# --- what the object's library knows -------------------------------------------------------------


def refuses(self: Any, **_asked: Any) -> Any:
    raise RuntimeError("no")


def of(full: str, **members: Any) -> type:
    """A class that looks like one of a library; real ones are in tests/objects."""
    module, _, name = full.rpartition(".")
    return masquerade(object, name, module, **members)


#: A class, and what the message for its objects says.
LIBRARIES: dict[str, tuple[type, str]] = {
    "a tracer": (
        type("Own", (of("jax._src.core.Tracer", __dlpack__=refuses),), {}),
        ", because a tracer has no values: RuntimeError: no\n"
        "  make the exchange outside of jax.jit, jax.vmap and jax.grad, or in a function that is "
        "given to jax.pure_callback",
    ),
    "a key": (
        of("jax._src.prng.PRNGKeyArray", __array__=refuses),
        "pass jax.random.key_data(x) instead",
    ),
    "deleted": (
        of("jaxlib._jax.ArrayImpl", __dlpack__=refuses, is_deleted=lambda x: True),
        ", because its memory was deleted, or donated to a function: RuntimeError: no\n"
        "  pass what the function returned, or a copy that x.copy() made before",
    ),
    "on other hosts": (
        of("jaxlib._jax.ArrayImpl", __dlpack__=refuses, is_deleted=lambda x: False,
           is_fully_addressable=False),
        ", because other processes have the other shards: RuntimeError: no\n"
        "  pass x.addressable_shards[0].data instead",
    ),
    "a symbolic tensor": (
        of("tensorflow.python.framework.ops.SymbolicTensor", __array__=refuses),
        ", because a symbolic tensor has no values\n  make the exchange outside of tf.function, "
        "or in a function that is given to tf.numpy_function",
    ),
    "bools of an old torch": (
        of("torch.Tensor", __dlpack__=refuses, layout="torch.strided", is_meta=False,
           dtype="torch.bool"),
        'pass x.view(torch.uint8) with reinterpret="bool" instead',
    ),
    "a name of any length": (
        of("duckdb.Relation", fetchnumpy=refuses, description=[("c" * 300, "X")]),
        ", because a table is exchanged one column at a time\n"
        f"  pass x.fetchnumpy()['{'c' * 300}'] instead",
    ),
    "it has what others have": (
        of("pandas.Odd", __array__=refuses),
        "pass numpy.asarray(x) instead, in which integers become floats where values are missing",
    ),
    "it has what arrays have": (
        of("jaxlib.Odd", __array__=refuses), "pass numpy.asanyarray(x) instead",
    ),
    "no library": (of("pandas.Odd"), "pass an array instead"),
}  # fmt: skip


@pytest.mark.parametrize("case", LIBRARIES)
def test_a_library_is_asked_before_the_rows(case):
    cls, text = LIBRARIES[case]
    with pytest.raises((dlshim.UnsupportedObjectError, BufferError)) as error:
        versioned(dlshim.upgrade(cls()))
    assert text in without_protocols(str(error.value))
    assert str(error.value).count(" instead") == text.count(" instead")


@pytest.mark.parametrize("failure", [KeyError("a"), RuntimeError(), RecursionError()], ids=repr)
def test_a_question_that_raises_leaves_the_refusal_as_it_is(failure):
    def fails(self: Any) -> Any:
        raise failure

    cls = of("polars.Series", to_physical=refuses, null_count=fails, dtype=1)
    assert "pass an array instead" in refused(cls())


def test_a_view_may_be_a_producer_too() -> None:
    assert cure_in(refused(type("Holder", (), {"data": P2()})())) == "x.data"


def test_an_attribute_that_runs_code_is_named_and_not_read() -> None:
    """It may read a file: that of a cube of iris, or of an image of astropy."""

    class Descriptor:
        def __get__(self, obj: Any, cls: Any = None) -> Any:
            assert obj is None, "it is read"
            return self

    def read(self: Any) -> Any:
        raise AssertionError("it is read")

    for data in (property(read), functools.cached_property(read), Descriptor()):
        cls = type("Holder", (), {"data": data})
        if isinstance(data, functools.cached_property):
            data.__set_name__(cls, "data")
        for x in (cls(), type("Below", (cls,), {})()):
            assert "pass x.data instead, if that is an array" in refused(x)


#: By what an object says, and how its view shows that: the words of the message, and whether there
#: is a cure.  The memory is that of 1.0 and 2.0 in bfloat16.
VIEWS: dict[str, tuple[dict[str, Any], str, str, bool]] = {
    "the same": ({"dtype": "float16"}, "e", "pass x.data instead", True),
    "nothing": ({}, "e", "pass x.data instead", True),
    "no dtype": ({"dtype": None}, "e", "pass x.data instead", True),
    "a short name": ({"element_type": "f16"}, "e", "pass x.data instead", True),
    "bfloat16 as float16": ({"dtype": "bfloat16"}, "e", 'x.data with reinterpret="bfloat16"', True),
    "bfloat16 as uint16": ({"element_type": "bf16"}, "H", 'with reinterpret="bfloat16"', True),
    "bool as uint8": ({"dtype": "bool"}, "B", 'x.data with reinterpret="bool" instead', True),
    "halves as integers": ({"dtype": "float16"}, "H", "because its elements are float16", False),
    "two in a byte": ({"dtype": "int4", "shape": [8]}, "B", "because its shape is (8,)", False),
    "an odd name": ({"dtype": "q4_0"}, "B", "pass x.data instead, whose elements may be of", True),
    "text": ({"dtype": "string"}, "B", "because its elements are no numbers", False),
    "another shape": ({"shape": (2, 1)}, "H", "pass x.data instead, whose shape is (2,)", True),
    "the same shape": ({"shape": (2,)}, "H", "pass x.data instead", True),
}


@pytest.mark.parametrize("case", VIEWS)
def test_a_view_that_shows_other_elements_is_not_named_as_they_are(case: str) -> None:
    says, form, text, has_cure = VIEWS[case]
    whole = memoryview(array.array("H", [0x3F80, 0x4000])).cast("B")
    view = numpy_view(whole, form) if form == "e" else whole.cast(form)
    told = refused(type("Holder", (), says | {"data": view})())
    assert text in told
    assert (cure_in(told) is not None) == has_cure
    assert ("whose" in told) == ("whose" in text)


def numpy_view(whole: memoryview, form: str) -> Any:
    """memoryview.cast takes no 'e' before CPython 3.12."""
    half = ctypes.c_uint16 * 2
    if sys.version_info >= (3, 12):
        return whole.cast(form)
    np = pytest.importorskip("numpy", reason="makes a view of halves")
    return memoryview(np.frombuffer(half.from_buffer(whole), form))


def test_the_cures_of_views_give_the_values() -> None:
    np = pytest.importorskip("numpy", reason="the view is NumPy's")
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="the cure is its dtype")
    values = np.array([1, 2], ml_dtypes.bfloat16)
    for shown in ("f2", "u2", "i2"):
        x = type("Holder", (), {"dtype": "bfloat16", "data": values.view(shown)})()
        cure = cure_in(refused(x))
        assert cure == "x.data.view(ml_dtypes.bfloat16)"
        taken = dlshim.from_dlpack(eval(cure, {"x": x, "ml_dtypes": ml_dtypes}))
        assert taken.dtype == "bfloat16" and taken.numpy().tolist() == [1, 2]
        x.__class__.data = memoryview(x.data)
        assert cure_in(refused(x)) == 'x.data with reinterpret="bfloat16"'
        taken = dlshim.from_dlpack(x.data, reinterpret="bfloat16")
        assert taken.numpy().tolist() == [1, 2]


def test_no_cure_is_offered_that_is_none() -> None:
    """None, text, mappings and modules; an attribute of another meaning; a mapping's get()."""
    holder = type("Holder", (), {"data": {"a": 1}, "buf": None, "is_sparse": False})()
    asks = type("Reads", (), {"keys": lambda self: [], "get": lambda self, key: key})()
    strange = [queue.Queue(), None, "text", {}, {1}, iter([]), re, object(), int, 3.5, holder, asks]
    for x in strange:
        assert cure_in(refused(x)) is None, x


def test_looking_for_a_cure_runs_nothing_that_the_type_has_not() -> None:
    """A Mock has every attribute; asking it would be seen in its calls."""
    for x in (mock.Mock(), mock.MagicMock()):
        assert (cure_in(refused(x)), x.mock_calls) == (None, [])


@pytest.mark.parametrize(
    "failure", [KeyError, ZeroDivisionError, ValueError], ids=lambda k: k.__name__
)
def test_an_attribute_that_raises_is_no_cure(failure):
    class Fails:
        @property
        def is_sparse(self):
            raise failure

        buf = is_sparse

    assert cure_in(refused(Fails())) is None


def test_of_the_standard_library() -> None:
    memory = shared_memory.SharedMemory(create=True, size=8)
    try:
        objects = {memory: "x.buf", io.BytesIO(b"12345678"): "x.getbuffer()"}
        for x, cure in objects.items():
            assert cure_in(refused(x)) == cure
            with versioned(dlshim.upgrade(cured(x, cure))) as imported:
                assert imported.view.shape == (8,)
    finally:
        memory.close()
        memory.unlink()


# --- elements that DLPack has no dtype for ---------------------------------------------------


class Pair(ctypes.Structure):
    _fields_ = [("x", ctypes.c_int), ("y", ctypes.c_int)]


@pytest.mark.parametrize("made", ["ctypes", "numpy"])
def test_the_cures_of_numpy_and_ctypes_arrays_work(made):
    """The message says x where the object is such an array, else numpy.asarray(x)."""
    numpy = pytest.importorskip("numpy", reason="NumPy makes the arrays")

    def three(factory: Any, dtype: Any) -> Any:
        return numpy.zeros(3, dtype) if made == "numpy" else (factory * 3)()

    kind = ctypes.c_int
    swapped = kind.__ctype_be__ if sys.byteorder == "little" else kind.__ctype_le__
    big = three(swapped, caps.native(">i4"))
    assert 'pass order="C" to get a copy' in refused_export(big)
    versioned(dlshim.upgrade(big, order="C")).release()
    pairs = three(Pair, [("x", "i4"), ("y", "i4")])
    assert "['field']" in refused_export(pairs)
    versioned(dlshim.upgrade(numpy.asarray(pairs)["x"])).release()
    long = three(ctypes.c_longdouble, "g")
    told = refused_export(long)
    way = "x" if made == "numpy" else "numpy.frombuffer(x, 'longdouble')"
    assert f"{way}.astype('float64')" in told and "reinterpret" not in told
    converted = long if made == "numpy" else numpy.frombuffer(long, "longdouble")
    versioned(dlshim.upgrade(converted.astype("float64"))).release()


KINDS = {
    "M8[s]": "x.astype('int64')",
    "m8[s]": "x.astype('int64')",
    "G": "x.astype('complex128')",
    "O": "x.astype('float64')",
    "U3": "numpy.frombuffer(x.tobytes(), 'uint8')",
    "S3": "numpy.frombuffer(x.tobytes(), 'uint8')",
    "V3": "numpy.frombuffer(x.tobytes(), 'uint8')",
}


def test_the_cures_of_numpys_other_kinds_work() -> None:
    numpy = pytest.importorskip("numpy", reason="NumPy makes the arrays")
    for dtype, cure in KINDS.items():
        strided = numpy.zeros((4, 6), dtype)[::2, ::3]
        for x in (numpy.zeros(3, dtype), numpy.zeros((), dtype), strided):
            assert cure in refused_export(x), dtype
            given = eval(cure, {"x": x, "numpy": numpy})
            versioned(dlshim.upgrade(given)).release()
    times = numpy.array(["1969-12-31T23:59:59", "NaT"], "M8[s]")
    assert 'reinterpret="int64"' in refused_export(times)
    with versioned(dlshim.upgrade(times, reinterpret="int64")) as imported:
        assert imported.values() == [-1, -(2**63)]
    if hasattr(numpy.dtypes, "StringDType"):
        text = numpy.array(["a", "\u00e9b"], dtype=numpy.dtypes.StringDType())
        cure = "numpy.frombuffer(x.astype('U20').tobytes(), 'uint32')"
        assert cure in refused_export(text)
        with versioned(dlshim.upgrade(eval(cure, {"x": text, "numpy": numpy}))) as imported:
            assert imported.values()[20:22] == [0xE9, ord("b")]


def test_numpys_own_reason_is_the_cause() -> None:
    numpy = pytest.importorskip("numpy", reason="the error of the real NumPy")
    x = numpy.zeros(3, "g")
    with pytest.raises(BufferError) as own:
        x.__dlpack__()
    with pytest.raises(BufferError) as error:
        versioned(dlshim.upgrade(x))
    assert str(error.value.__cause__) == str(own.value)


# --- a __dlpack__ that exports its own object ----------------------------------------------------


def itself_by_helper(x: Any, **asked: Any) -> Any:
    return dlshim.upgrade(x).__dlpack__(**asked)


@pytest.mark.parametrize(
    "way",
    [
        lambda self, **asked: dlshim.upgrade(self).__dlpack__(**asked),
        lambda self, **asked: itself_by_helper(self, **asked),
        lambda self, **asked: dlshim.to_capsule(self),
        lambda self, **asked: dlshim.from_dlpack(self).__dlpack__(**asked),
    ],
    ids=["upgrade", "helper", "to_capsule", "from_dlpack"],
)
def test_a_dunder_that_exports_its_own_object_is_explained(way):
    gc.collect()  # what other tests have left has no room for its own methods at the limit

    class Own:
        def __dlpack__(self, **asked: Any) -> Any:
            return way(self, **asked)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    with pytest.raises(BufferError, match=r"Own.*asks dlshim to export the object itself") as error:
        versioned(dlshim.upgrade(Own()))
    cause: BaseException | None = error.value
    while cause is not None and not isinstance(cause, RecursionError):
        cause = cause.__cause__
    assert cause is not None


def test_a_recursion_of_what_is_wrapped_is_left_as_it_is() -> None:
    """The wrapper's __dlpack__ has the inner object among its variables, once."""

    class Inner:
        def __dlpack__(self, **asked: Any) -> Any:
            return self.deeper()

        def deeper(self) -> Any:
            return self.deeper()

    class Outer:
        def __dlpack__(self, **asked: Any) -> Any:
            inner = Inner()
            return dlshim.upgrade(inner).__dlpack__(**asked)

    for x in (Inner(), Outer()):
        with pytest.raises(RecursionError):
            versioned(dlshim.upgrade(x))


def test_another_recursion_is_left_as_it_is() -> None:
    class Deep(P2):
        def answer(self, **asked: Any) -> Any:
            return self.answer(**asked)

    with pytest.raises(RecursionError):
        versioned(dlshim.upgrade(Deep()))


def test_an_object_whose_attributes_raise_is_refused_with_its_type() -> None:
    class Raising:
        def __getattr__(self, name: str) -> Any:
            raise KeyError(name)

    for call in (dlshim.upgrade, dlshim.from_dlpack, dlshim.to_capsule, dlshim.inspect):
        with pytest.raises(BufferError, match=r"Raising.*KeyError"):
            call(Raising())


@pytest.mark.parametrize(
    "x, options, option",
    [
        (P2(readonly=True), {"readonly": "error"}, "readonly="),
        (P2(), {"reinterpret": "float64"}, "reinterpret="),
        (P2(), {"detach": True}, ""),
        (P2(), {"device": (8, 0)}, ""),
        (P2((3, 2), strides=(1, 3), device=(8, 0)), {"order": "C"}, ""),
        (Raises(BufferError("only stream=None")), {}, ""),
    ],
    ids=["readonly", "reinterpret", "detach", "device", "order", "other"],
)
def test_an_error_tells_beside_its_text_whether_an_option_helps(
    x: Any, options: dict[str, Any], option: str
) -> None:
    with pytest.raises(BufferError) as error:
        dlshim.upgrade(x, **options).__dlpack__()
    assert getattr(error.value, "_option_helps", False) == bool(option)
    assert option in str(error.value)


def test_an_error_about_an_object_of_the_type_is_passed_on_as_it_is() -> None:
    failing = PassesOn(PassesOn(Raises(BufferError("it is broken"))))
    with pytest.raises(BufferError, match="it is broken") as error:
        dlshim.upgrade(failing).__dlpack__()
    assert str(error.value).count("PassesOn") == 1  # the outer one adds nothing
    told = str(error.value)
    with pytest.raises(BufferError) as error:
        dlshim.upgrade(PassesOn(Raises(BufferError(told)))).__dlpack__()
    assert str(error.value).endswith(told) and str(error.value) != told  # a text alone is no sign


def test_what_is_no_exception_of_the_data_comes_through_with_a_cure_near() -> None:
    cls = fresh(Raises)
    cls.to_dense = lambda self: MEMORY  # type: ignore[attr-defined]
    for failure in (MemoryError(), KeyboardInterrupt(), SystemExit(3)):
        with pytest.raises(type(failure)) as error:
            versioned(dlshim.upgrade(cls(failure)))
        assert error.value is failure


def test_no_cure_is_the_object_itself() -> None:
    for make in (cure_texts.instead, lambda text: cure_texts.converted(text, "which rounds")):
        with pytest.raises(ValueError, match="no cure"):
            make("x")
        assert make("x.data").startswith("\n  pass x.data instead")
    assert "x" not in [text for _, _, text in CURES]


def test_a_fixed_size_list_that_is_refused_has_a_cure() -> None:
    """Of pyarrow: rows of numbers, none missing, whose own protocols refuse for another reason."""

    class Kind(str):
        list_size = 2
        value_type = "int64"

    class Flat:
        null_count = 0

    column = masquerade(
        Raises,
        "FixedSizeListArray",
        "pyarrow.lib",
        type=Kind("fixed_size_list<item: int64>[2]"),
        null_count=0,
        drop_null=lambda self: self,
        flatten=lambda self: Flat(),
        __arrow_c_array__=lambda self, requested_schema=None: self.answer(),
    )(BufferError("no"))
    assert cure_in(refused_export(column)) == "x.flatten()"


# --- lists, and what an object says of the array that it makes -----------------------------------

ODD = 2**53 + 1


class Stacked:
    """An array of this module, whose library is the module: it has `stack`."""

    __array_namespace__ = lambda self: sys.modules[__name__]  # noqa: E731

    def __init__(self, *shape: int, dtype: str = "int8") -> None:
        self.shape, self.dtype = shape, dtype


def stack(items: Any) -> Any:
    return items


STACK = f"pass {__name__}.stack(x) instead"
ROUNDED = "pass numpy.asarray(x, 'float64') instead, which rounds to 53 bits"
#: A list, and how its message ends.
LISTS: dict[str, tuple[Any, str]] = {
    "integers": ([1, ODD], "pass numpy.asarray(x) instead"),
    "integers above int64": ([2**63 + 1, 2], "pass numpy.asarray(x, 'uint64') instead"),
    "integers on both sides": ([2**63 + 1, -1], ROUNDED),
    "integers above 64 bits": ((2**70,), ROUNDED),
    "integers and fractions": ([ODD, 0.5], ROUNDED),
    "small integers and fractions": ([2, 0.5], "pass numpy.asarray(x) instead"),
    "integers in rows": ([[2**63 + 1], (-1,)], ROUNDED),
    "a range on both sides": (range(-1, 2**63 + 3, 2**63 + 2), ROUNDED),
    "an empty range": (range(0), "pass numpy.asarray(x) instead"),
    "nothing": ([], "pass numpy.asarray(x) instead"),
    "complex": (
        [ODD, 1j],
        "pass numpy.asarray(x, 'complex128') instead, which rounds to 53 bits",
    ),
    "missing": (
        [ODD, None],
        "pass numpy.asarray(x, 'float64') instead, in which NaN stands for None, and which rounds "
        "to 53 bits",
    ),
    "several lengths": ([[1, 2], [3]], "because its rows differ in length"),
    "rows and numbers": ([[1, 2], 3], "because its rows differ in length"),
    "text": (["a"], "because its elements are no numbers\n  convert them to numbers first"),
    "mappings": ([{}], "because its items are neither numbers nor arrays that go together"),
    "arrays": ([Stacked(2), Stacked(2)], STACK),
    "arrays of several dtypes": (
        [Stacked(2), Stacked(2, dtype="int64")],
        STACK + ", which makes one dtype of several, and may round",
    ),
    "arrays of several shapes": ([Stacked(2), Stacked(3)], "because its arrays differ in shape"),
    "arrays in rows": ([[Stacked(2)]], "because its items are neither numbers nor arrays"),
    "arrays of two libraries": ([Stacked(2), P2((2,))], "because its items are neither"),
}


@pytest.mark.parametrize("case", LISTS)
def test_the_items_of_a_list_decide(case: str) -> None:
    x, text = LISTS[case]
    told = refused(x)
    assert f"\n  {text}" in told or f", {text}" in told


@pytest.mark.parametrize("case", [case for case in LISTS if "numpy.asarray" in LISTS[case][1]])
def test_the_cures_of_lists_give_the_values_or_say_that_they_round(case: str) -> None:
    np = pytest.importorskip("numpy", reason="the cure is NumPy's")
    x, text = LISTS[case]
    made = eval(text.split(" ", 1)[1].partition(" instead")[0], {"x": x, "numpy": np})
    told = dlshim.from_dlpack(made).numpy().tolist()
    assert ("rounds" in text) == (repr([*map(_listed, x)]) != repr(told) and case != SMALL)


#: 2 and 2.0 are the same number.
SMALL = "small integers and fractions"


def _listed(item: Any) -> Any:
    return [*item] if isinstance(item, tuple) else item


def test_a_list_that_holds_itself_is_no_array() -> None:
    x: list[Any] = []
    x.append(x)
    assert "its rows differ in length" in refused(x)


def test_lists_that_are_one_and_the_same_are_not_counted_out():
    """The items of rows that hold each other are without number, and a text needs none of them."""
    x = [1.0]
    for _ in range(40):
        x = [x, x]
    assert "make an array of them" in refused(x)


class Kind:
    def __init__(self, name: str) -> None:
        self.name = name


#: What an object with `__array__` says of itself, and how the message ends.
SAYS: dict[str, tuple[dict[str, Any], str]] = {
    "numbers": ({"dtype": Kind("float32")}, "pass numpy.asanyarray(x) instead"),
    "nothing": ({}, "pass numpy.asanyarray(x) instead"),
    "another element": (
        {"dtype": Kind("bfloat16")},
        "pass numpy.asanyarray(x) instead, whose elements may be of another type than the object's",
    ),
    "several dtypes": (
        {"dtypes": ["int64", "float64"]},
        "pass numpy.asanyarray(x) instead, which makes one dtype of several, and may round",
    ),
    "no shape": ({"shape": None}, "because it has no elements, and no shape"),
    "text": ({"dtype": str}, cure_texts.NO_NUMBERS),
    "objects": ({"dtype": type("dtype", (), {"kind": "O"})()}, cure_texts.NO_NUMBERS),
    "fields": (
        {"dtype": type("dtype", (), {"names": ("a", "b")})()},
        ", because its elements have fields\n  pass numpy.asanyarray(x)['a'] instead",
    ),
}
#: The same of its mask; {} stands for the array that the mask is of.
MASKS: dict[str, tuple[dict[str, Any], str]] = {
    "a list": (
        {"mask": [True, False]},
        ", because it has a mask\n  pass numpy.ma.array({}, mask=x.mask) instead",
    ),
    "of another library": (
        {"mask": memoryview(b"\1\0"), "shape": (2,)},
        "\n  pass {} instead, which shows what its mask hides",
    ),
    "a switch": ({"mask": True, "shape": (2,)}, "\n  pass {} instead"),
}


def without_protocols(text: str) -> str:
    """Without the list of the protocols that the object could offer."""
    return re.sub(r" \(it offers none of [^)]*\)", "", text)


def array_that_says(**members: Any) -> Any:
    members["__array__"] = lambda self: pytest.fail("it is made for a message")
    return type("Array", (), members)()


@pytest.mark.parametrize("case", SAYS)
def test_what_an_object_says_of_itself_is_in_the_words(case: str) -> None:
    says, text = SAYS[case]
    assert without_protocols(refused(array_that_says(**says))).endswith(text)


@pytest.mark.parametrize("case", MASKS)
def test_a_mask_is_in_the_words(case: str) -> None:
    says, text = MASKS[case]
    told = without_protocols(refused(array_that_says(**says)))
    assert told.endswith(text.format("numpy.asanyarray(x)"))
    held = type("Held", (), {"data": MEMORY[:2], "shape": (2,), **says})()
    assert without_protocols(refused(held)).endswith(text.format("x.data"))


def test_no_array_of_numpy_is_named_for_memory_off_the_host() -> None:
    """An extension wants another dtype, or rank, of memory on a device."""
    from dlshim.cures import refusal

    wanted = {"name": b"x", "error": None, "device": (2, 0), "place": (2, 0), "align": 0}
    more = {"given": (2, 64, 1), "dtypes": bytes([2, 32, 1, 0]), "writes": False}
    for shape, ranks in ((3,), 0), ((3, 2), 2):
        dtypes = b"" if ranks else more["dtypes"]
        error = refusal(x=object(), shape=shape, ranks=ranks, **wanted, **more | {"dtypes": dtypes})
        assert "numpy" not in str(error) and " first" in str(error)
    plain = type("Array", (), {"astype": lambda self, kind: self})()
    error = refusal(x=plain, shape=(3,), ranks=0, **wanted, **more)
    assert str(error).endswith(
        "not float32, in which not every value fits\n  pass x.astype('float32')"
    )
