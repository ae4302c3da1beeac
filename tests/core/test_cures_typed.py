"""The cures that our own errors name, typed in: what they give has the values of the object.

A case says what is refused, and for each cure the words by which the message names it.
tests/project/test_cure_texts.py demands that every text with a cure has a test, here or elsewhere.
"""

from __future__ import annotations

import ctypes
import importlib
import io
import pickle
from array import array
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import dlshim
from doubles import capsules as caps
from doubles import consumers
from doubles.asking import versioned
from doubles.older import InterfaceOnly, Named
from doubles.producers import P2, P1aNoDevice

pytestmark = pytest.mark.once


class Newest(P2):
    """Gives a capsule of a major version to come, unless it is asked for 1.0."""

    def __dlpack__(self, *, max_version: Any = None) -> Any:
        self.kept = caps.make(self.shape, "int32", version=max_version or (2, 0))
        return self.kept


class Flagged(P2):
    """Sets a flag that nobody knows, unless it is asked for 1.0."""

    def __dlpack__(self, *, max_version: Any = None) -> Any:
        flags = 0 if max_version == (1, 0) else 1 << 9
        self.kept = caps.make(self.shape, "int32", version=(1, 0), flags=flags)
        return self.kept


def numpy() -> Any:
    return pytest.importorskip("numpy", reason="NumPy makes the object, or the cure is NumPy's")


def pointers() -> Any:
    made = importlib.import_module("_testbuffer")
    return made.ndarray(list(range(6)), shape=[2, 3], format="i", flags=made.ND_PIL)


def bits() -> Any:
    return InterfaceOnly((2,), "uint8", changes={"typestr": "|t1"})


class Case(NamedTuple):
    make: Callable[[], Any]
    refused: str
    """What is typed first; x is the object."""
    says: str
    cures: dict[str, tuple[str, Any]]
    """By the words of the message: what is typed then, and the values that it gives."""


SIX = list(range(6))
CASES = {
    "copy-not-allowed": Case(
        lambda: P2((2, 3), strides=(1, 2)),
        'dlshim.from_dlpack(x, order="C", copy=False)',
        "allow it with copy=None, or drop the option",
        {
            "copy=None": ('dlshim.from_dlpack(x, order="C", copy=None)', [0, 2, 4, 1, 3, 5]),
            "drop the option": ('dlshim.from_dlpack(x, order="C")', [0, 2, 4, 1, 3, 5]),
        },
    ),
    "copies-disagree": Case(
        P2,
        "dlshim.upgrade(x, copy=False).__dlpack__(copy=True)",
        "the consumer asks for copy=True, upgrade was told copy=False\n  drop one",
        {"drop one": ("dlshim.upgrade(dlshim.upgrade(x).__dlpack__(copy=True))", SIX)},
    ),
    "pickle": Case(
        P2,
        "pickle.dumps(dlshim.upgrade(x))",
        "cannot pickle",
        {
            "pickle dlshim.from_dlpack(x)": (
                "pickle.loads(pickle.dumps(dlshim.from_dlpack(x)))",
                SIX,
            )
        },
    ),
    "detach": Case(
        P2,
        "dlshim.from_dlpack(x, detach=True)",
        "it has no .detach()",
        {"drop the option": ("dlshim.from_dlpack(x)", SIX)},
    ),
    "devices-disagree": Case(
        P2,
        "dlshim.from_dlpack(x, device=(2, 0), like=bytearray(1))",
        "disagree",
        {"drop one": ("dlshim.from_dlpack(x, like=bytearray(1))", SIX)},
    ),
    "like": Case(
        P2,
        "dlshim.from_dlpack(x, like=nowhere)",
        "does not say on which device it lies",
        {"pass device= instead": ('dlshim.from_dlpack(x, device="cpu")', SIX)},
    ),
    "negative": Case(
        lambda: P2((4,), "int32", strides=(-1,), start=3),
        "torch(dlshim.upgrade(x))",
        "it has negative strides",
        {
            'order="auto"': (
                'array("i", torch(dlshim.upgrade(x, order="auto")).values())',
                [3, 2, 1, 0],
            ),
            'order="C"': ('dlshim.upgrade(x, order="C")', [3, 2, 1, 0]),
            'order="K"': ('dlshim.upgrade(x, order="K")', [3, 2, 1, 0]),
        },
    ),
    "suboffsets": Case(
        pointers,
        "dlshim.from_dlpack(x)",
        "array of pointers (suboffsets)",
        {
            "v = memoryview(x); numpy.array(v.tolist(), v.format)": (
                "numpy.array(memoryview(x).tolist(), memoryview(x).format)",
                SIX,
            )
        },
    ),
    "byte-order": Case(
        lambda: numpy().arange(3, dtype=caps.native(">i4")),
        "dlshim.from_dlpack(x)",
        "its byte order is not the machine's",
        {'order="C"': ('dlshim.upgrade(x, order="C")', SIX[:3])},
    ),
    "major": Case(
        lambda: Newest((3,), "int32"),
        "dlshim.upgrade(x.__dlpack__())",
        "dlshim knows 1",
        {"max_version=(1, 0)": ("dlshim.upgrade(x.__dlpack__(max_version=(1, 0)))", SIX[:3])},
    ),
    "flags": Case(
        lambda: Flagged((3,), "int32"),
        "dlshim.from_dlpack(x.__dlpack__())",
        "flag bits that dlshim does not know",
        {"max_version=(1, 0)": ("dlshim.from_dlpack(x.__dlpack__(max_version=(1, 0)))", SIX[:3])},
    ),
    "format": Case(
        lambda: P2((3,), "bfloat16"),
        "memoryview(dlshim.from_dlpack(x))",
        "no format in the buffer protocol",
        {
            "dlshim.from_dlpack(x, reinterpret=...)": (
                'memoryview(dlshim.from_dlpack(dlshim.from_dlpack(x), reinterpret="uint16"))',
                SIX[:3],
            )
        },
    ),
    "typestr": Case(
        lambda: P2((3,), "bfloat16"),
        "dlshim.from_dlpack(x).__array_interface__",
        "its dtype has no typestr",
        {
            "pass reinterpret= to upgrade": (
                'interface(dlshim.from_dlpack(dlshim.upgrade(x, reinterpret="uint16")))',
                SIX[:3],
            )
        },
    ),
    "objects": Case(
        lambda: numpy().array([1, 2.5], object),
        "dlshim.from_dlpack(x)",
        "its elements are Python objects",
        {
            "x.astype('float64'), which rounds integers to 53 bits and makes nan of None": (
                "x.astype('float64')",
                [1, 2.5],
            )
        },
    ),
    "bits": Case(
        bits,
        "dlshim.from_dlpack(x)",
        "its elements are bit fields",
        {
            "numpy.unpackbits(": (
                "numpy.unpackbits(numpy.frombuffer(x.memory, 'uint8', 2))",
                [0] * 15 + [1],
            )
        },
    ),
    "longdouble": Case(
        lambda: numpy().arange(3).astype("g"),
        "dlshim.from_dlpack(x)",
        "of a kind that DLPack has no code for",
        {"x.astype('float64'), which rounds to 53 bits": ("x.astype('float64')", SIX[:3])},
    ),
    "dates": Case(
        lambda: numpy().array(["1970-01-02", "NaT"], "M8[D]"),
        "dlshim.from_dlpack(x)",
        "of a kind that DLPack has no code for",
        {
            "x.astype('int64')": ("x.astype('int64')", [1, -(2**63)]),
            'reinterpret="int64"': ('dlshim.from_dlpack(x, reinterpret="int64")', [1, -(2**63)]),
        },
    ),
    "in-bytes": Case(
        lambda: Named(b"12", "int4"),
        "dlshim.from_dlpack(x)",
        "its dtype is int4, and it shows bytes",
        {'reinterpret="uint8"': ('dlshim.from_dlpack(x, reinterpret="uint8")', [*b"12"])},
    ),
    "raw": Case(
        lambda: numpy().array([b"ab", b"cd"], "V2"),
        "dlshim.from_dlpack(x)",
        "of a kind that DLPack has no code for",
        {
            "numpy.frombuffer(x.tobytes(), 'uint8')": (
                "numpy.frombuffer(x.tobytes(), 'uint8')",
                [*b"abcd"],
            ),
            'reinterpret="uint16"': (
                'dlshim.from_dlpack(x, reinterpret="uint16")',
                [*memoryview(b"abcd").cast("H")],
            ),
        },
    ),
    "raw-3": Case(
        lambda: numpy().array([b"abc"], "V3"),
        "dlshim.from_dlpack(x)",
        "of a kind that DLPack has no code for",
        {
            "numpy.frombuffer(x.tobytes(), 'uint8')": (
                "numpy.frombuffer(x.tobytes(), 'uint8')",
                [*b"abc"],
            )
        },
    ),
    "pointers": Case(
        lambda: (ctypes.c_char_p * 2)(b"a", b"b"),
        "dlshim.from_dlpack(x)",
        "is no number",
        {"pass what its pointers point at": ("b''.join(x)", [*b"ab"])},
    ),
    "text": Case(
        lambda: numpy().array([b"ab", b"cd"]),
        "dlshim.from_dlpack(x)",
        "its elements are text, which DLPack has no dtype for",
        {
            "numpy.frombuffer(x.tobytes(), 'uint8')": (
                "numpy.frombuffer(x.tobytes(), 'uint8')",
                [*b"abcd"],
            )
        },
    ),
    "mask": Case(
        lambda: numpy().ma.array([1.0, 2.0], mask=[False, True]),
        "dlshim.from_dlpack(x)",
        "its mask hides elements",
        {
            "x.filled(value)": ("x.filled(7)", [1, 7]),
            "numpy.ma.getdata(x)": ("numpy.ma.getdata(x)", [1, 2]),
        },
    ),
    "width": Case(
        lambda: P2((3,), "float32"),
        'dlshim.from_dlpack(x, reinterpret="uint16")',
        "name a dtype of that width",
        {
            "needs elements of 16 bits, these (float32) take 32": (
                'dlshim.from_dlpack(x, reinterpret="uint32")',
                [0, 0x3F800000, 0x40000000],
            )
        },
    ),
    "records": Case(
        lambda: numpy().array([(1, 2), (3, 4)], [("a", "f4"), ("b", "u1")])["a"],
        "dlshim.from_dlpack(x)",
        "no multiple of the item size",
        {'order="C"': ('dlshim.upgrade(x, order="C")', [1, 3])},
    ),
    "characters": Case(
        lambda: (ctypes.c_wchar * 2)("a", "b"),
        "dlshim.from_dlpack(x)",
        "view it as numbers first",
        {
            "memoryview(x).cast('B')": (
                "memoryview(x).cast('B')",
                [*memoryview((ctypes.c_wchar * 2)("a", "b")).cast("B")],
            )
        },
    ),
    "device-name": Case(
        P2,
        'dlshim.from_dlpack(x, device="tpu")',
        "names no device",
        {
            '"cpu"': ('dlshim.from_dlpack(x, device="cpu")', SIX),
            "a (device_type, device_id) pair of ints": (
                "dlshim.from_dlpack(x, device=(1, 0))",
                SIX,
            ),
        },
    ),
    "dtype-name": Case(
        lambda: P2((3,), "int16"),
        'dlshim.from_dlpack(x, reinterpret="word")',
        "names no dtype",
        {
            '"uint16"': ('dlshim.from_dlpack(x, reinterpret="uint16")', SIX[:3]),
            "(code, bits, lanes)": ("dlshim.from_dlpack(x, reinterpret=(1, 16, 1))", SIX[:3]),
        },
    ),
}


def interface(tensor: Any) -> Any:
    """What reads nothing but `__array_interface__` sees."""

    class Reader:
        __array_interface__ = tensor.__array_interface__

    return numpy().array(Reader())


def names(x: Any) -> dict[str, Any]:
    class Nowhere:
        __dlpack__ = P1aNoDevice.__dlpack__

    found = {"x": x, "dlshim": dlshim, "pickle": pickle, "interface": interface}
    found |= {"torch": consumers.ask_like_torch213, "nowhere": Nowhere()}
    found["array"] = array
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_cures_give_the_values(name):
    case = CASES[name]
    try:
        x = case.make()
    except ImportError as error:
        pytest.skip(str(error))
    space = names(x)
    with pytest.raises((BufferError, TypeError, ValueError, AttributeError)) as error:
        eval(case.refused, space)
    assert case.says in str(error.value)
    for words, (typed, values) in case.cures.items():
        assert words in str(error.value)
        if "numpy." in typed:
            space["numpy"] = numpy()
        with versioned(dlshim.upgrade(eval(typed, space))) as imported:
            assert imported.values() == values, typed


@pytest.mark.parametrize("name", ["float8_e4m3fn", "bfloat16"])
def test_what_was_saved_as_a_registered_dtype_comes_back(name):
    """numpy.save keeps how wide the elements are, and not what they are."""
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="it registers the dtypes")
    file = io.BytesIO()
    numpy().save(file, numpy().arange(4).astype(getattr(ml_dtypes, name)))
    file.seek(0)
    x = numpy().load(file)
    with pytest.raises(BufferError) as error:
        dlshim.from_dlpack(x)
    assert f'reinterpret="{name}" if that is what they are' in str(error.value)
    found = dlshim.from_dlpack(x, reinterpret=name).numpy()
    assert (found.dtype, found.tolist()) == (getattr(ml_dtypes, name), [0, 1, 2, 3])


WORDS = {"unknown_stream": "same", "order": "C", "on_release": "guard"}


@pytest.mark.parametrize("name", WORDS)
def test_every_word_that_is_named_is_taken(name):
    import re

    with pytest.raises(ValueError, match="is not known\n  pass ") as error:
        dlshim.upgrade(P2(), **{name: "nothing"})
    words = re.findall(r'"(\w+)"', str(error.value))
    assert WORDS[name] in words and len(words) > 1
    for word in words:
        dlshim.upgrade(P2(), **{name: word})
