"""Odd things that foreign objects say of themselves, one by one: formats and descriptions of
elements, devices, dimensions, flags.  Each is read as it is meant, or refused with the reason.
"""

from __future__ import annotations

import ctypes as C
import importlib
import math
import sys
from contextlib import nullcontext

import pytest

import dlshim
from dlshim import _core
from doubles import capsules as caps
from doubles import older, producers
from doubles.asking import bare, tells, versioned
from doubles.older import InterfaceOnly, StructOnly
from doubles.producers import P2

BOTH = pytest.mark.parametrize("ask", [bare, versioned])


# --- buffers --------------------------------------------------------------------------


def of_numpy(dtype):
    return memoryview(pytest.importorskip("numpy").zeros(3, dtype))


def of_cpython(format, value=0, shape=(3,), flags="ND_WRITABLE"):
    """A buffer of any format, made by the module that tests CPython's own buffers."""
    make = importlib.import_module("_testbuffer")
    items = [value] * math.prod(shape)
    return make.ndarray(items, shape=[*shape], format=format, flags=getattr(make, flags))


FORMATS = {
    "Zf": (lambda: of_numpy("complex64"), (5, 64, 1)),
    "Zd": (lambda: of_numpy("complex128"), (5, 128, 1)),
    "the machine's order": (lambda: of_cpython(caps.native("<h")), (0, 16, 1)),
    "@l": (lambda: of_cpython("@l"), (0, 8 * C.sizeof(C.c_long), 1)),
    "=Q": (lambda: of_cpython("=Q"), (1, 64, 1)),
    ">b": (lambda: of_cpython(">b"), (0, 8, 1)),
    "!B": (lambda: of_cpython("!B"), (1, 8, 1)),
}


@BOTH
@pytest.mark.parametrize(("make", "dtype"), FORMATS.values(), ids=FORMATS)
def test_formats_of_buffers(make, dtype, ask):
    x = make()
    with ask(dlshim.upgrade(x)) as imported:
        assert (imported.view.dtype, imported.view.shape) == (dtype, (3,))


REFUSED_BUFFERS = {
    "another order": (lambda: of_cpython(caps.native(">d"), value=0.0), "order"),
    "two numbers": (lambda: of_cpython("hh", value=(0, 0)), "format 'hh'"),
    "text": (lambda: of_cpython("3s", value=b"abc"), "format '3s'"),
    "text in an order": (lambda: of_cpython("=3s", value=b"abc"), "format '=3s'"),
    "long double": (lambda: of_numpy("longdouble"), "float64"),
    "pair of long doubles": (lambda: of_numpy("clongdouble"), "complex128"),
    "void": (lambda: of_numpy("V3"), "uint8"),
    "struct": (lambda: of_numpy([("a", "i4"), ("b", "f4")]), "struct"),
    "pointers": (
        lambda: of_cpython("i", shape=(2, 3), flags="ND_PIL"), r"suboffsets(.|\n)*contiguous copy",
    ),
}  # fmt: skip


@BOTH
@pytest.mark.parametrize(("make", "word"), REFUSED_BUFFERS.values(), ids=REFUSED_BUFFERS)
def test_buffers_that_are_refused(make, word, ask):
    x = make()
    with pytest.raises(BufferError) as error:
        ask(dlshim.upgrade(x))
    tells(error.value, type(x).__name__, word)


@BOTH
def test_network_order_is_that_of_big_endian_machines(ask):
    x = of_cpython("!h", value=5)
    if sys.byteorder == "big":
        with ask(dlshim.upgrade(x)) as imported:
            assert imported.values() == [5, 5, 5]
        return
    with pytest.raises(BufferError) as error:
        ask(dlshim.upgrade(x))
    tells(error.value, type(x).__name__, "order")


# --- descriptions of the array interface and struct ------------------------------------


STRUCTURED = {
    "two fields": [("a", caps.native("<f4")), ("b", caps.native("<f8"))],
    "a named field": [("a", "|V12")],
    "no list": (("", "|V12"),),
    "no tuple": [["", "|V12"]],
    "three parts": [("", "|V12", (1,))],
    "a name that is no text": [(b"", "|V12")],
    "a type that is no text": [("", [("a", caps.native("<f4"))])],
}


@BOTH
@pytest.mark.parametrize("descr", STRUCTURED.values(), ids=STRUCTURED)
def test_structs_with_fields_are_refused(descr, ask):
    flags = older.ALIGNED | older.NOTSWAPPED | older.WRITEABLE | older.HAS_DESCR
    changes = {"typekind": b"V", "itemsize": 12, "descr": descr, "flags": flags}
    for x in (
        StructOnly(changes=changes),
        InterfaceOnly((2, 3), "int32", changes={"typestr": "|V12", "descr": descr}),
    ):
        with pytest.raises(BufferError) as error:
            ask(dlshim.upgrade(x))
        tells(error.value, type(x).__name__, "struct")


@BOTH
def test_a_description_without_fields_is_plain_bytes(ask):
    flags = older.ALIGNED | older.NOTSWAPPED | older.WRITEABLE
    for changes in (
        {"flags": flags | older.HAS_DESCR, "descr": [("", "|V12")]},
        {"flags": flags},
    ):
        changes |= {"typekind": b"V", "itemsize": 12, "byte_strides": (12,)}
        x = StructOnly((2,), "float64", changes=changes)
        with pytest.raises(BufferError) as error:
            ask(dlshim.upgrade(x))
        tells(error.value, r"numpy\.frombuffer\(numpy\.asarray\(x\)\.tobytes\(\), 'uint8'\)")


# --- devices --------------------------------------------------------------------------


class Number:
    """Converts by the one method that it has."""

    def __init__(self, **methods):
        self.__class__ = type("Number", (Number,), methods)


class Pair:
    """A sequence that raises what it is told to."""

    def __init__(self, error, at):
        self.error, self.at = error, at

    def __len__(self):
        return 2

    def __getitem__(self, index):
        if index == self.at:
            raise self.error
        return 1 if index == 0 else 0


def raises(error):
    def method(self):
        raise error

    return method


def with_device(answer):
    return type("OddDevice", (P2,), {"__dlpack_device__": answer})()


DEVICES = {
    "a value": (Number(value=1), 0),
    "a value that is no number": (Number(value="x"), 0),
    "only __int__": (Number(__int__=lambda self: 1), 0),
    "no id": (1, None),
    "no type": (None, 0),
    "neither": (None, None),
    "a type that is no number": (object(), 0),
    "a type that is a fraction": (1.5, 0),
    "numbers as text": ("1", "0"),
    "nothing": None,
    "a number": 1,
    "text": "20",
    "a name": "cpu",
    "bytes": b"\2\0",
    "a list": [1, 0],
    "three": (2, 0, 0),
    "one": (2,),
    "none": (),
    "a huge type": (2**32 + 2, 0),
    "a small type": (2 - 2**32, 0),
    "a huge id": (1, 2**32 + 2),
    "a small id": (1, 2 - 2**32),
    "beyond long": (1, 2**80),
    "the type raises": Pair(RuntimeError("no type"), 0),
    "the id raises": Pair(RuntimeError("no id"), 1),
}


@BOTH
@pytest.mark.parametrize("answer", DEVICES.values(), ids=DEVICES)
def test_odd_devices(answer, ask):
    """What makes no sense counts for nothing: the capsule says where the memory is."""
    x, y = with_device(lambda self: answer), with_device(lambda self: answer)
    upgraded = dlshim.upgrade(y)
    assert upgraded.__dlpack_device__() == (1, 0)
    for each in (upgraded, dlshim.upgrade(x)):
        with ask(each) as imported:
            assert (imported.view.device, imported.values()) == ((1, 0), [0, 1, 2, 3, 4, 5])
    assert dlshim.upgrade(x).__dlpack_device__() == (1, 0)


INTERRUPT = raises(KeyboardInterrupt())
INTERRUPT_IN_VALUE = Number(value=property(INTERRUPT), __int__=lambda self: 1)
INTERRUPTED_DEVICES = {
    "the method": INTERRUPT,
    "the type is read": lambda self: Pair(KeyboardInterrupt(), 0),
    "the id is read": lambda self: Pair(KeyboardInterrupt(), 1),
    "__index__ of the type": lambda self: (Number(__index__=INTERRUPT), 0),
    "__index__ beside a value": lambda self: (Number(__index__=INTERRUPT, value=1), 0),
    "the value of the type": lambda self: (Number(value=property(INTERRUPT)), 0),
    "the value beside __int__": lambda self: (INTERRUPT_IN_VALUE, 0),
    "__int__ of the type": lambda self: (Number(__int__=INTERRUPT), 0),
    "__index__ of the id": lambda self: (1, Number(__index__=INTERRUPT)),
}


@pytest.mark.parametrize("answer", INTERRUPTED_DEVICES.values(), ids=INTERRUPTED_DEVICES)
def test_an_interrupt_in_a_device_is_not_hidden(answer):
    with pytest.raises(KeyboardInterrupt):
        dlshim.upgrade(with_device(answer)).__dlpack_device__()
    with pytest.raises(KeyboardInterrupt):
        versioned(dlshim.upgrade(with_device(answer)))


# --- torch's bits, TensorFlow's scalars ------------------------------------------------


class NoTruth:
    def __bool__(self):
        raise ValueError("it is neither")


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32", "uint8", "bool"])
def test_tensors_of_every_kind_have_their_bits_looked_at(dtype):
    cls = producers.torch_like(table=True)
    with versioned(dlshim.upgrade(cls(dtype=dtype))) as imported:
        assert imported.view.shape == (2, 3)
    capsule = dlshim.upgrade(cls(dtype=dtype)).__dlpack__()
    caps.take(capsule).release()


@pytest.mark.parametrize("name", ["is_conj", "is_neg"])
def test_bits_that_cannot_be_read(name):
    for method, error in (
        (raises(RuntimeError("not now")), (BufferError, AttributeError, RuntimeError)),
        (raises(AttributeError("inside")), (BufferError, AttributeError, RuntimeError)),
        (INTERRUPT, KeyboardInterrupt),
        (lambda self: NoTruth(), (BufferError, ValueError)),
    ):
        cls = producers.torch_like(table=True)
        setattr(cls, name, method)
        with pytest.raises(error):
            versioned(dlshim.upgrade(cls(dtype="complex64")))
    cls = producers.torch_like(table=True)
    delattr(cls, name)
    with versioned(dlshim.upgrade(cls(dtype="complex64"))) as imported:
        assert imported.view.dtype == (5, 64, 1)


def test_requires_grad_that_cannot_be_read():
    cls = producers.torch_like(table=True)
    x = cls()
    x.requires_grad = NoTruth()
    with pytest.raises((BufferError, ValueError)):
        versioned(dlshim.upgrade(x))
    del x.requires_grad
    versioned(dlshim.upgrade(x)).release()


#: What ndim answers where a scalar comes as (1,): only 0 makes a scalar of it (test_ways_in.py).
NDIMS = {
    "1": lambda self: 1,
    "no int": lambda self: "0",
    "huge": lambda self: 2**80,
    "absent": raises(AttributeError("no ndim")),
}


@pytest.mark.parametrize("ndim", NDIMS.values(), ids=NDIMS)
def test_the_ndim_of_a_scalar_in_one_dimension(ndim):
    x = producers.tensorflow_like(ndim=property(ndim))((), "int32")
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.view.shape == (1,)


def test_a_scalar_whose_ndim_is_interrupted():
    cls = producers.tensorflow_like(ndim=property(INTERRUPT))
    with pytest.raises(KeyboardInterrupt):
        versioned(dlshim.upgrade(cls((1,), "int32")))


NO_NUMBERS = {
    "a name that is no text": (Number(name=5), None),
    "no name": (object(), None),
    "a name that raises": (Number(name=property(raises(ValueError("x")))), None),
    "a resource": (Number(name="resource"), BufferError),
    "a variant": (Number(name="variant"), BufferError),
    "interrupted": (Number(name=property(INTERRUPT)), KeyboardInterrupt),
}


@pytest.mark.parametrize(("dtype", "error"), NO_NUMBERS.values(), ids=NO_NUMBERS)
def test_odd_names_of_dtypes(dtype, error):
    of_int32 = producers.tensorflow_like()((2,), "int32")
    says = property(lambda self: dtype, lambda *_: None)
    cls = producers.tensorflow_like(
        dtype=says, _export=lambda self, version, **fields: of_int32._export(version, **fields)
    )
    x = cls((2,), "int32")
    with pytest.raises(error) if error else nullcontext():
        versioned(dlshim.upgrade(x)).release()


# --- classes that hide what they are --------------------------------------------------


class NoName(type):
    """A class without the attributes by which a class is named."""

    HIDDEN: tuple[str, ...] = ("__module__", "__qualname__")
    ANSWER: object = AttributeError

    def __getattribute__(cls, name):
        if name in type.__getattribute__(cls, "HIDDEN"):
            answer = type.__getattribute__(cls, "ANSWER")
            if answer is AttributeError:
                raise AttributeError(name)
            return answer
        return type.__getattribute__(cls, name)


@pytest.mark.parametrize("hidden", ["__module__", "__qualname__", "both"])
@pytest.mark.parametrize("answer", [AttributeError, 5, None, "\udcff"], ids=repr)
def test_classes_without_a_name(hidden, answer):
    members = {"HIDDEN": (hidden,) if hidden != "both" else NoName.HIDDEN, "ANSWER": answer}
    x = NoName("Nameless", (P2,), members)()
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.values() == [0, 1, 2, 3, 4, 5]
    y = NoName("Nameless", (P2,), members)(readonly=True)
    with pytest.raises(BufferError, match="read-only"):
        bare(dlshim.upgrade(y))
    with pytest.raises(TypeError):
        dlshim.upgrade(NoName("Empty", (), members)())


class AnyAttribute:
    """An instance that raises whatever it is asked for."""

    def __init__(self, error, name):
        self.__dict__.update(error=error, name=name)

    def __getattr__(self, name):
        raise self.error if name == self.name else AttributeError(name)


@pytest.mark.parametrize("error", [RuntimeError, KeyError, MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize(
    "name",
    ["__dlpack__", "__array_interface__", "to_dlpack", "toDlpack", "__dlpack_c_exchange_api__"],
)
def test_instances_that_raise_when_they_are_looked_at(name, error):
    with pytest.raises((error, TypeError, BufferError)):
        dlshim.upgrade(AnyAttribute(error("looked at"), name))


def test_an_instance_without_a_device_that_says_so_by_raising():
    class Odd(producers.InstanceOnly):
        def __getattr__(self, name):
            raise KeyboardInterrupt if name == "__dlpack_device__" else AttributeError(name)

    x = Odd()
    x.__dict__.pop("__dlpack_device__", None)
    with pytest.raises(KeyboardInterrupt):
        dlshim.upgrade(x).__dlpack__()


# --- options --------------------------------------------------------------------------


OPTIONS = {
    "reinterpret": {
        ValueError: [
            (-1, 8, 1), (255, 8, 1), (0, 0, 1), (0, 256, 1), (0, 8, 0), (0, 8, 65536), (2**80, 8),
            ("i", 8, 1), (0, 8.0), (0,), (0, 8, 1, 1), "\udcff",
        ],
        TypeError: [[0, 8, 1], 5, b"int8"],
    },
    "align": {
        ValueError: [2**31, 2**80, -(2**80)],
        TypeError: [8.0, "8", Number(__index__=lambda self: "8")],
    },
    "device": {
        ValueError: ["cuda:", "cuda:1x", f"cuda:{2**31}", f"cuda:{2**70}"],
        TypeError: [5, 1.5, b"cpu", (1.5, 0)],
        UnicodeEncodeError: ["\udcff"],
    },
    "order": {ValueError: ["\udcff", "", "C\0"], TypeError: [5, b"C"]},
    "readonly": {ValueError: ["yes", "\udcff"], TypeError: [b"copy", ...]},
}  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize(
    ("option", "error", "value"),
    [
        (option, error, value)
        for option, errors in OPTIONS.items()
        for error, values in errors.items()
        for value in values
    ],
    ids=lambda value: None if isinstance(value, type) else ascii(value)[:20],
)
def test_values_of_options_that_are_refused(option, error, value):
    with pytest.raises(error):
        dlshim.upgrade(P2(), **{option: value})


@pytest.mark.once
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, RecursionError])
def test_what_is_not_ours_to_hide_comes_through(error):
    number = Number(__index__=raises(error))
    for options in ({"reinterpret": (number, 8)}, {"device": (number, 0)}, {"align": number}):
        with pytest.raises(error):
            dlshim.upgrade(P2(), **options)
    for asked in ({"max_version": (number, 0)}, {"dl_device": (1, number)}):
        with pytest.raises(error):
            dlshim.upgrade(P2()).__dlpack__(**asked)


def test_the_unset_value_of_an_option_is_no_option():
    for unset in (None, "auto"):
        accepted = {}
        for name in ("device", "order", "align", "reinterpret", "stream", "producer_stream"):
            try:
                dlshim.upgrade(P2(), **{name: unset})
            except (TypeError, ValueError):
                continue
            accepted[name] = unset
        assert "stream" in accepted
        with versioned(dlshim.upgrade(P2(), **accepted)) as imported:
            assert imported.values() == [0, 1, 2, 3, 4, 5]


# --- keywords of consumers ------------------------------------------------------------


class Text(str):
    """Is not interned, and compares as text all the same."""

    __slots__ = ()


def test_keywords_whose_names_are_not_interned():
    upgraded = dlshim.upgrade(P2())
    for name, value in (("max_version", (1, 0)), ("copy", None), ("stream", None),
                        ("dl_device", (1, 0))):  # fmt: skip
        caps.take(upgraded.__dlpack__(**{Text(name): value})).release()
        caps.take(upgraded.__dlpack__(**{"".join(list(name)): value})).release()
    with pytest.raises(TypeError, match="unexpected keyword"):
        upgraded.__dlpack__(**{Text("maxversion"): (1, 0)})


# Versions of other forms: test_generations.py.


@pytest.mark.parametrize("version", [b"\1\0", (-1, 0), (1, -1), (1, None)], ids=repr)
def test_versions_that_are_refused(version):
    with pytest.raises(TypeError, match="max_version"):
        dlshim.upgrade(P2()).__dlpack__(max_version=version)


@pytest.mark.parametrize(
    "version", [(1, 2**16), (1, 2**80), (2**80, 0), (True, False), (True, 5), (1, True)], ids=repr
)
def test_unusual_versions(version):
    for _ in range(2):
        versioned(dlshim.upgrade(P2()), max_version=version).release()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_copy_that_is_neither(error):
    value = Number(__bool__=raises(error("neither")), __index__=lambda self: 1)
    with pytest.raises((TypeError, ValueError, KeyboardInterrupt)):
        dlshim.upgrade(P2()).__dlpack__(copy=value)


# --- the hooks of the tests and the dtype ---------------------------------------------


HOOKS = [
    (_core._hook, (1,)), (_core._hook, ("no such hook",)), (_core._hook, ("nonsense", True)),
    (_core._peek, (1,)), (_core._peek, (None,)), (_core._plan, (5,)), (_core._sync_action, ()),
    (_core._kernel, ()), (_core._check_wanted, ()), (_core._check_wanted, (1,)),
    (_core._check_wanted, (((), (), True), 1, 2)), (_core._flags, (1,)), (_core._view, ()),
    (_core._sync_action, (11, 0, 1, 1, 0, (False,) * 6)),
    (_core._sync_action, (0, 4, 1, 1, 0, (False,) * 6)),
    (_core._sync_action, (0, 0, 1, 1, 4, (False,) * 6)),
    (_core._sync_action, (-1, 0, 1, 1, 0, (False,) * 6)),
]  # fmt: skip


def test_hooks_refuse_wrong_arguments():
    for hook, arguments in HOOKS:
        with pytest.raises((TypeError, ValueError)):
            hook(*arguments)


def test_devices_that_are_built_by_hand():
    kind = type(dlshim.from_dlpack(P2()).device)
    assert str(kind((2, 3))) == "cuda:3"
    for parts in ((), (2,), (2, "x"), (2, 2**99)):
        assert str(kind(parts)) == repr(parts)
    assert str(kind((77, -1))) == "(77, -1)"
