"""What a refused object costs nothing for: kept refusals, and texts that are made when read."""

from __future__ import annotations

import copy
import gc
import pickle
import re
import sys
import types
import weakref

import pytest

import dlshim
from dlshim import UnsupportedObjectError
from doubles import advice, gil
from doubles.producers import P1, P2, Raises

LASTING = [3, 2.5, None, "text", [1, 2], (1, 2), {"a": 1}, object(), range(3), True, 1j]
FUNCTIONS = pytest.mark.parametrize(
    "function", [dlshim.upgrade, dlshim.from_dlpack, dlshim.to_capsule], ids=lambda f: f.__name__
)


def refusal(x, function=dlshim.from_dlpack):
    with pytest.raises(UnsupportedObjectError) as raised:
        function(x)
    return raised.value


def made(name="Nothing", bases=(), **members):
    return type(name, bases, members)


@FUNCTIONS
@pytest.mark.parametrize("x", LASTING, ids=lambda x: type(x).__name__)
def test_a_refusal_says_the_same_each_time(x, function):
    first = str(refusal(x, function))
    none = ", because it is None: the call before gave nothing"
    says = none if x is None else r"(, because [^\n]*)?\n  pass .*"
    assert re.fullmatch(f"'{type(x).__name__}' object: it cannot be exported{says}", first)
    assert "__dlpack__" not in first, "nobody looks for a protocol in a number"
    assert {str(refusal(x, function)) for _ in range(3)} == {first}


def test_a_class_that_may_have_a_protocol_is_told_which_there_are():
    said = str(refusal(made()()))
    assert "it cannot be exported (it offers none of __dlpack__" in said
    assert said.endswith("and the buffer protocol)\n  pass an array instead"), "the cure is last"


def test_the_text_is_made_when_it_is_read(monkeypatch):
    from dlshim import cures

    asked = []
    monkeypatch.setattr(cures, "unsupported", lambda x, name, authored: asked.append(x) or "said")
    errors = [refusal(made()()) for _ in range(2)]
    assert asked == []
    assert str(errors[0]) == "said" and repr(errors[1]) == "UnsupportedObjectError('said')"
    assert errors[0].args == ("said",)
    assert len(asked) == 2


def test_the_error_holds_the_object_until_its_text_is_read():
    cls = made()
    x = cls()
    seen = weakref.ref(x)
    error = refusal(x)
    error.__traceback__ = None
    del x
    gc.collect()
    assert seen() is not None
    assert "Nothing" in str(error)
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("how", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
def test_copies_of_the_error_have_its_text_alone(how):
    class Local:
        def __reduce__(self):
            raise AssertionError("the object is not pickled")

    error = refusal(Local())
    copied = how(error)
    assert type(copied) is UnsupportedObjectError
    assert copied.args == error.args == (str(error),)


def test_errors_that_others_make_are_as_they_made_them():
    assert UnsupportedObjectError().args == () and str(UnsupportedObjectError()) == ""
    error = UnsupportedObjectError("one", "two")
    assert error.args == ("one", "two")
    error.args = ("three",)
    assert str(error) == "three" and repr(error) == "UnsupportedObjectError('three')"
    odd = UnsupportedObjectError(1, False, int)
    assert odd.args == (1, False, int)


def test_a_cure_that_raises_leaves_the_text(monkeypatch):
    from dlshim import cures

    monkeypatch.setattr(cures, "cure", lambda *args: 1 / 0)
    assert str(refusal(made()())).endswith("\n  pass an array instead")


# --- objects that become arrays later -------------------------------------------------


def grown(give):
    """Refuse an object twice, so that its refusal is kept; then let it become an array."""
    cls = made()
    x, other = cls(), cls()
    for _ in range(2):
        refusal(x)
    give(cls, x)
    return x, other


def export(self, **asked):
    return P2().__dlpack__(**asked)


INTERFACE = {"version": 3, "shape": (6,), "typestr": "|u1", "data": bytearray(6)}
GROWTH = {
    "__dlpack__ of its own": lambda cls, x: setattr(x, "__dlpack__", P2().__dlpack__),
    "__dlpack__ of the class": lambda cls, x: setattr(cls, "__dlpack__", export),
    "an array interface": lambda cls, x: setattr(x, "__array_interface__", INTERFACE),
    "a capsule method": lambda cls, x: setattr(cls, "to_dlpack", lambda self: P1().__dlpack__()),
    "another class": lambda cls, x: setattr(x, "__class__", made("Other", __dlpack__=export)),
}


@pytest.mark.parametrize("give", GROWTH.values(), ids=GROWTH.keys())
def test_N1_an_object_that_becomes_an_array_later_is_taken(give):
    x, _ = grown(give)
    assert dlshim.from_dlpack(x).ndim >= 1
    assert dlshim.from_dlpack(x).ndim >= 1


def test_N1_others_of_its_class_are_still_refused():
    x, other = grown(GROWTH["__dlpack__ of its own"])
    for _ in range(2):
        assert dlshim.from_dlpack(x).ndim == 2
        refusal(other)
    del x.__dlpack__
    refusal(x)


def test_N1_a_class_that_is_changed_back_is_refused_again():
    cls = made()
    refusal(cls())
    cls.__dlpack__ = export
    assert dlshim.from_dlpack(cls()).ndim == 2
    del cls.__dlpack__
    with pytest.raises(BufferError, match="offers none of __dlpack__"):
        dlshim.from_dlpack(cls())  # it was begun with what the class had offered
    refusal(cls())
    cls.__dlpack__ = None
    refusal(cls())


def test_N1_a_library_imported_later_serves_its_refused_objects(monkeypatch):
    cls = made("Tensor", __module__="paddle")
    x = cls()
    for _ in range(2):
        refusal(x)
    names = ("paddle", "paddle.utils", "paddle.utils.dlpack")
    modules = {name: types.ModuleType(name) for name in names}
    modules["paddle"].utils = modules["paddle.utils"]
    modules["paddle.utils"].dlpack = modules["paddle.utils.dlpack"]
    modules["paddle.utils.dlpack"].to_dlpack = lambda x: P1().__dlpack__()
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    assert dlshim.from_dlpack(x).ndim == 2


def test_N2_a_proxy_is_asked_each_time():
    asked = []

    class Proxy:
        def __getattr__(self, name):
            asked.append(name)
            raise AttributeError(name)

    for _ in range(2):
        asked.clear()
        refusal(Proxy())
        assert "__dlpack__" in asked


def test_a_refused_class_can_die():
    gil.need_classes_that_die()
    cls = made()
    refusal(cls())
    seen = weakref.ref(cls)
    del cls
    gc.collect()
    assert seen() is None


def test_a_class_is_refused_and_its_objects_are_not():
    for _ in range(2):
        refusal(P1)
        refusal(int)
        assert dlshim.from_dlpack(P1()).ndim == 2


# --- what the call was given already ----------------------------------------------------


#: On the host, and on devices whose streams nobody knows.
REFUSED = {
    "bytes": lambda: b"12345678",
    "ranges": lambda: range(3),
    "negative": lambda: P2((4,), "int32", strides=(-1,), start=3),
    "gaps": lambda: P2((2, 3), "int32", strides=(8, 2)),
    "four bits": lambda: P2((4,), (0, 4, 1)),
    "strings": lambda: memoryview(b"abcd").cast("c"),
    "Metal": lambda: P2(device=(8, 0)),
    "Metal, legacy": lambda: P1(device=(8, 0)),
    "Metal, a capsule": lambda: P2(device=(8, 0)).__dlpack__(max_version=(1, 0)),
    "oneAPI": lambda: P2(device=(14, 0)),
}
SAID = {
    "stream": [-1, None, "wait"],
    "producer_stream": [None, -1],
    "unknown_stream": ["same", "error", "legacy"],
    "device": [(1, 0), (8, 0), (14, 0)],
    "like": [bytearray(1)],
    "copy": [True, False],
    "readonly": [True, False, "error", "copy", "share"],
    "order": ["K", "C", "auto"],
    "align": [4096],
    "reinterpret": ["int64", "uint8", "bool"],
    "assume_device": [(1, 0), (8, 0), (14, 0)],
    "detach": [True],
}


def test_no_refusal_advises_what_the_call_was_given():
    refused, again = advice.repeated(REFUSED, SAID)
    assert again == []
    assert refused > 1000, "the advice of refusals is looked at, and there are some"


@pytest.mark.parametrize(
    ("text", "said", "again"),
    [
        ("it is so\n  pass stream=-1", {"stream": -1}, ["stream=-1"]),
        ("it is so\n  pass stream=-1", {"stream": 1}, []),
        ('it is so\n  pass order="C"', {"order": "C"}, ["order='C'"]),
        ("it is so\n  pass copy=True", {"copy": 1}, []),
        ('it lies there\n  pass f(x, device="cpu")', {"device": (1, 0)}, ["device='cpu'"]),
        ("copy=False was asked for\n  drop the option", {"copy": False}, []),
        ("nothing is advised", {"copy": False}, []),
    ],
)
def test_the_judge_of_advice(text, said, again):
    assert advice.already_said(text, said) == again


def test_the_option_that_is_left_for_ready_data_is_the_one_that_is_advised():
    """A copy waits for the producer's stream, which nobody knows, where stream=-1 was given too."""
    x, copies = P2(device=(2, 0)), {"assume_device": (1, 0), "align": 4096, "stream": -1}
    with pytest.raises(
        BufferError, match=r'\n  give producer_stream=, or pass unknown_stream="same"$'
    ):
        dlshim.from_dlpack(x, unknown_stream="error", **copies)
    assert dlshim.from_dlpack(x, unknown_stream="same", **copies).device == (1, 0)


# --- the first line is the reason, and the last the cure -----------------------------------------


class RaisesWithCure(Raises):
    def __array__(self):
        return pytest.fail("it is made for a message")


MASKED = "'numpy.ma.MaskedArray' object: its mask hides elements\n  pass x.filled(0)"
WORDS = {
    "several lines": ("bad\nthing\n", "RuntimeError: bad thing", "RuntimeError: bad"),
    "a cure of its own": (
        MASKED,
        f"RuntimeError: {MASKED}",
        f"RuntimeError: {MASKED.partition(chr(10))[0]}",
    ),
    "none": ("", "RuntimeError", "RuntimeError"),
}


@pytest.mark.parametrize("case", WORDS)
def test_the_words_of_a_library_leave_the_cure_a_line(case):
    words, alone, with_cure = WORDS[case]
    cure = "\n  pass numpy.asanyarray(x) instead"
    for kind, end in ((Raises, alone), (RaisesWithCure, with_cure + cure)):
        with pytest.raises(BufferError) as raised:
            dlshim.from_dlpack(kind(RuntimeError(words)))
        assert str(raised.value).endswith(f"object: it cannot be exported: {end}")
        assert str(raised.value.__cause__) == words


LINES = type("Lines", (), {"__repr__": lambda self: "a\n  b\n c"})()


@pytest.mark.parametrize("option", ["device", "order", "copy", "reinterpret", "readonly", "align"])
def test_a_value_of_several_lines_leaves_the_reason_one(option):
    with pytest.raises(TypeError) as raised:
        dlshim.upgrade(b"", **{option: LINES})
    reason, _, cure = str(raised.value).partition("\n  ")
    assert "a b c" in reason and "\n" not in cure
