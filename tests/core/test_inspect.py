"""`inspect` reports and does nothing else: it never consumes, imports or synchronises."""

from __future__ import annotations

import array
import mmap
import pickle
import re
import sys

import pytest

import dlshim
from dlshim import look
from doubles import capsules as caps
from doubles.asking import bare, live, versioned
from doubles.older import InterfaceOnly, StructOnly
from doubles.producers import (
    EDITIONS,
    P1,
    P2,
    P3,
    GivesRubbish,
    P0ToDlpack,
    P1b,
    P3OldSpelling,
    Placeholder,
    Raises,
    jax_like,
    torch_like,
)

pytestmark = pytest.mark.once

FIELDS = ("type_name", "protocols", "capsule_name", "capsule_state", "device", "dtype", "shape",
          "strides", "byte_offset", "address", "flags", "version", "readonly", "contiguous",
          "aligned_to", "plan", "notes")  # fmt: skip


def test_report_has_the_designed_fields():
    report = dlshim.inspect(P1())
    assert isinstance(report, dlshim.Report)
    for name in FIELDS:
        assert hasattr(report, name)
    assert str(report) and repr(report)
    with pytest.raises(AttributeError):
        report.device = None


@pytest.mark.parametrize("cls", EDITIONS.values(), ids=EDITIONS.keys())
def test_a_plain_inspection_asks_for_no_export(cls):
    x = cls()
    report = dlshim.inspect(x)
    assert x.calls == [] and x.exports == []
    assert report.type_name.endswith(cls.__name__)
    assert report.plan
    for name in ("dtype", "shape", "strides", "address", "flags", "readonly", "contiguous"):
        assert getattr(report, name) is None, name
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.values() == x.values()


@pytest.mark.parametrize("cls", EDITIONS.values(), ids=EDITIONS.keys())
def test_with_export_one_is_asked_for_and_dropped(cls):
    x = cls((3, 2), "int16", strides=(1, 3))
    before = live()
    report = dlshim.inspect(x, export=True)
    assert live() == before
    inner = getattr(x, "inner", x)
    assert all(made.deleted == 1 for made in inner.exports if made.handed_out)
    assert report.device == (1, 0)
    assert report.dtype == (0, 16, 1)
    assert report.shape == (3, 2)
    assert report.strides == (1, 3) or x.null_strides
    assert report.byte_offset == 0
    assert report.address == x.element_zero
    assert report.readonly is False
    assert report.contiguous is False
    assert report.aligned_to and x.element_zero % report.aligned_to == 0


def test_protocols_with_spelling_and_generation():
    def spellings(x):
        return " ".join(map(str, dlshim.inspect(x).protocols))

    assert "__dlpack__" in spellings(P1())
    assert "__dlpack_c_exchange_api__" in spellings(P3())
    assert "__c_dlpack_exchange_api__" in spellings(P3OldSpelling())
    assert "__array_struct__" in spellings(StructOnly())
    assert "__array_interface__" in spellings(InterfaceOnly())
    assert "buffer" in spellings(bytearray())


def test_plan_names_the_protocol():
    assert "__dlpack__" in dlshim.inspect(P1()).plan[0]
    assert "table" in " ".join(dlshim.inspect(P3()).plan)
    assert dlshim.inspect(P0ToDlpack()).plan
    assert dlshim.inspect(StructOnly()).plan
    assert dlshim.inspect(bytearray()).plan


@pytest.mark.parametrize("version", [None, (1, 1)])
def test_a_capsule_is_read_and_left_unconsumed(version):
    capsule = caps.make(
        (3, 2), "int16", version=version, strides=(1, 3), flags=caps.READ_ONLY, start=2,
        byte_offset=4,
    )  # fmt: skip
    made = caps.made_of(capsule)
    before = made.snapshot()
    report = dlshim.inspect(capsule)
    assert made.snapshot() == before and not made.deleted
    assert caps.name_of(capsule) == report.capsule_name
    assert report.capsule_name == (caps.LEGACY if version is None else caps.VERSIONED)
    assert "unconsumed" in report.capsule_state
    assert report.device == (1, 0) and report.dtype == (0, 16, 1)
    assert report.shape == (3, 2) and report.strides == (1, 3)
    assert report.byte_offset == 4
    assert report.contiguous is False
    if version is None:
        assert report.readonly is None and report.flags is None
    else:
        assert report.version == (1, 1) and report.flags == 1 and report.readonly is True
    with caps.take(capsule):
        pass


@pytest.mark.parametrize("version", [None, (1, 1)])
def test_a_capsule_that_is_taken_while_it_is_inspected(version):
    """By whatever runs meanwhile, here a profiler: the report tells of one moment."""
    fields = ("capsule_name", "capsule_state", "device", "dtype", "shape", "strides", "flags")
    moments, known = set(), set()
    for number in range(1000):
        capsule = caps.make((3, 2), "int16", version=version, strides=(1, 3))
        if number == 0:
            known.add(tuple(getattr(dlshim.inspect(capsule), name) for name in fields))
        steps = 0

        def step(frame, event, argument, capsule=capsule, number=number):
            nonlocal steps
            steps += 1
            if steps == number:
                caps.take(capsule).release()

        sys.setprofile(step)
        try:
            report = dlshim.inspect(capsule)
        finally:
            sys.setprofile(None)
        moments.add(tuple(getattr(report, name) for name in fields))
        if steps < number:
            break
        del capsule
    known.add(
        (f"used_{caps.LEGACY if version is None else caps.VERSIONED}", "consumed", *[None] * 5)
    )
    assert number > 10 and moments == known


def test_capsules_that_cannot_be_read():
    used = caps.make()
    theirs = caps.take(used)
    report = dlshim.inspect(used)
    assert "consumed" in report.capsule_state and report.shape is None
    theirs.release()
    foreign = caps.new_capsule(16, "arrow_array")  # not even its address may be followed
    report = dlshim.inspect(foreign)
    assert report.capsule_name == "arrow_array" and "foreign" in report.capsule_state
    nameless = caps._new(16, None, None)
    assert dlshim.inspect(nameless).capsule_name is None


def test_a_capsule_of_another_major_is_not_read():
    made = caps.Made(version=(2, 5))
    made.struct.dl_tensor.shape = made.struct.dl_tensor.strides = 16
    capsule = made.capsule()
    report = dlshim.inspect(capsule)
    assert report.version == (2, 5)
    assert report.shape is None and report.dtype is None
    assert report.notes
    del capsule
    assert made.deleted == 1


def test_a_capsule_that_lies():
    for fields in ({"ndim": -1}, {"ndim": 2**31 - 1}, {"null_shape": True}, {"shape": (-2, 3)}):
        capsule = caps.make(**fields)
        dlshim.inspect(capsule)
        del capsule


def test_null_strides_of_a_capsule():
    capsule = caps.make((2, 3), strides=None)
    report = dlshim.inspect(capsule)
    assert report.strides is None and report.contiguous is True
    with caps.take(capsule):
        pass


def test_a_producer_and_a_tensor():
    x = P2(readonly=True)
    upgraded = dlshim.upgrade(x, order="C")
    report = dlshim.inspect(upgraded)
    assert "P2" in report.type_name
    assert "order" in str(report)
    assert x.calls == []
    tensor = dlshim.from_dlpack(x)
    report = dlshim.inspect(tensor)
    assert report.shape == (2, 3) and report.readonly is True and report.contiguous is True
    assert report.address == tensor.data_ptr()
    taken = dlshim.inspect(dlshim.upgrade(caps.make()))
    assert taken.shape == (2, 3)


def test_a_producer_of_a_matrix_is_seen_as_its_source():
    """Its repr shows a shape, whose comma says nothing of options."""
    x = memoryview(bytearray(24)).cast("B").cast("f", (2, 3))
    bare, upgraded = dlshim.inspect(x), dlshim.inspect(dlshim.upgrade(x))
    assert "shape=(2, 3)" in repr(dlshim.upgrade(x))
    for name in ("dtype", "shape", "strides", "readonly", "contiguous"):
        assert getattr(upgraded, name) == getattr(bare, name) is not None, name
    assert upgraded.dtype == "float32" and upgraded.shape == (2, 3)
    changed = dlshim.inspect(dlshim.upgrade(x, order="C"))
    assert changed.dtype is changed.shape is changed.readonly is None


def test_a_buffer_is_not_believed_where_the_object_names_another_dtype():
    class Named(bytearray):
        pass

    x = Named(b"12")
    for x.dtype, seen in (("uint8", "uint8"), ("float8_e4m3fn", None), ("int4", None)):
        assert dlshim.inspect(x).dtype == seen
    x.dtype = "float8_e4m3fn"
    assert dlshim.inspect(x, export=True).dtype == x.dtype


def test_the_repr_of_a_producer_shows_any_shape_as_a_tuple():
    """torch.Size is a tuple whose repr is longer; a C type has getset_descriptors."""

    class Size(tuple):
        __repr__ = __str__ = lambda self: f"torch.Size({list(self)})"

    class getset_descriptor:  # its name is what is looked at
        def __get__(self, obj, cls=None):
            return Size((4,))

    class Array(P2):
        shape = getset_descriptor()

        def __init__(self):
            self.dtype = "int32"

    assert " shape=(4,) " in repr(dlshim.upgrade(Array()))


def test_an_export_of_a_producer_is_the_one_that_consumers_get():
    x = P2((2, 3), "int32", strides=(1, 2))
    for order, strides in (("C", (3, 1)), ("K", (1, 2)), (None, (1, 2))):
        report = dlshim.inspect(dlshim.upgrade(x, order=order), export=True)
        assert report.strides == strides and report.contiguous == (order == "C")
    backwards = P2((4,), "int32", strides=(-1,), start=3)
    assert dlshim.inspect(dlshim.upgrade(backwards), export=True).strides == (-1,)
    failed = dlshim.inspect(dlshim.upgrade(x, order="C", copy=False), export=True)
    assert failed.strides is None and "copy" in str(failed)


@pytest.mark.parametrize("dtype", [(0, 4, 1), (0, 4, 2), (1, 1, 4), "int8"])
@pytest.mark.parametrize("readonly", [0, caps.READ_ONLY])
def test_a_tensor_has_the_flags_of_its_struct(dtype, readonly):
    flags = caps.SUBBYTE_PADDED | readonly
    tensor = dlshim.from_dlpack(P2((4,), dtype, flags=flags))
    exported = dlshim.inspect(tensor.__dlpack__(max_version=(1, 0)))
    report = dlshim.inspect(tensor)
    assert report.flags == exported.flags == flags
    assert "IS_SUBBYTE_TYPE_PADDED" in str(report)
    assert bool(readonly) == report.readonly == ("READ_ONLY | " in str(report))


def test_a_report_can_be_pickled():
    report = dlshim.inspect(P2(), export=True)
    assert pickle.loads(pickle.dumps(report)) == report


def test_a_class_that_is_only_called_so_is_no_capsule():
    class PyCapsule(P2):
        pass

    assert dlshim.inspect(PyCapsule()).plan == ("__dlpack__",)


def test_a_class_is_not_what_its_objects_are():
    report = dlshim.inspect(P2)
    assert report.protocols == () and report.plan == () and report.notes


def test_objects_with_nothing_to_offer():
    for x in (3.0, [1], None, object()):
        report = dlshim.inspect(x)
        assert report.plan == () or not report.plan
        assert type(x).__name__ in report.type_name


def test_a_placeholder_is_reported():
    report = dlshim.inspect(Placeholder(), export=True)
    assert report.shape is None
    assert "NotImplementedError" in " ".join(report.notes)


@pytest.mark.parametrize("failure", [RuntimeError("r"), BufferError("b"), ValueError("v")])
def test_an_export_that_fails_is_a_note(failure):
    report = dlshim.inspect(Raises(failure), export=True)
    assert report.shape is None and report.notes


def test_an_export_of_rubbish_is_a_note():
    assert dlshim.inspect(GivesRubbish(5), export=True).notes


def test_properties_are_not_run():
    class Spy:
        ran = []

        def __getattr__(self, name):
            Spy.ran.append(name)
            raise AttributeError(name)

        @property
        def __array_interface__(self):
            Spy.ran.append("__array_interface__")
            return {}

    report = dlshim.inspect(Spy())
    assert "__array_interface__" in " ".join(map(str, report.protocols))
    assert "__array_interface__" not in Spy.ran


def test_known_libraries_are_named():
    assert "torch" in str(dlshim.inspect(torch_like()()))
    assert "jax" in str(dlshim.inspect(jax_like()()))


def test_what_was_learned_is_told():
    x = P1()
    assert "P1" in str(dlshim.inspect(x))
    bare(dlshim.upgrade(x)).release()
    versioned(dlshim.upgrade(x)).release()
    after = str(dlshim.inspect(x))
    assert "__dlpack__" in after


def test_inspection_teaches_nothing():
    x = P1b()
    dlshim.inspect(x)
    dlshim.inspect(x, export=True)
    calls = len(x.calls)
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.values() == x.values()
    assert len(x.calls) > calls


def test_nothing_is_imported():
    before = {name.partition(".")[0] for name in sys.modules}
    for x in (P1(), caps.make(), bytearray(3), torch_like()(), 3.0):
        dlshim.inspect(x)
        dlshim.inspect(x, export=True)
    assert {name.partition(".")[0] for name in sys.modules} == before


def test_enums_have_the_headers_names():
    assert dlshim.DLDeviceType.kDLCPU == 1 and dlshim.DLDeviceType.kDLCUDAManaged == 13
    assert dlshim.DLDataTypeCode.kDLFloat == 2 and dlshim.DLDataTypeCode.kDLBool == 6
    assert dlshim.DLDeviceType(14).name == "kDLOneAPI"
    assert int(dlshim.DLDataTypeCode.kDLFloat8_e4m3fn) == 10


@pytest.mark.parametrize(
    "consumer", [5, 1.5, b"torch", [], object()], ids=lambda x: type(x).__name__
)
def test_a_consumer_that_is_none_is_told_what_one_is(consumer):
    with pytest.raises(ValueError) as raised:
        dlshim.inspect(P2(), consumer=consumer)
    said = f"consumer {consumer!r} of type {type(consumer).__name__} is no library and no function"
    assert str(raised.value) == said


# ---- what is seen without an export --------------------------------------------------------------


def floats(*values: float) -> memoryview:
    return memoryview(array.array("f", values))


def test_what_a_report_shows_without_an_export():
    report = dlshim.inspect(floats(1, 2, 3)[::-1])
    assert (report.shape, report.strides, report.readonly) == ((3,), (-1,), False)
    assert (report.dtype, report.contiguous) == ((2, 32, 1), False)
    assert dlshim.inspect(b"abc").readonly is True
    pairs = memoryview(bytearray(16)).cast("d")
    assert dlshim.inspect(pairs).dtype == (2, 64, 1)


def test_the_report_of_order_auto_tells_the_layout_of_the_source():
    report = dlshim.inspect(dlshim.upgrade(floats(1, 2, 3)[::-1], order="auto"), export=True)
    assert report.strides == (-1,) and not any("failed" in note for note in report.notes)


def test_an_option_changes_what_can_be_seen():
    assert dlshim.inspect(dlshim.upgrade(floats(1, 2, 3)[::-1], order="C")).strides is None


def test_attributes_of_other_classes_are_not_run():
    """A class of the same name, whose attributes are not what the library's are."""
    assert dlshim.inspect(torch_like()()).shape is None


@pytest.mark.skipif(sys.version_info < (3, 12), reason="buffers of Python code came with 3.12")
def test_a_buffer_written_in_python_is_not_asked():
    class Slow:
        def __buffer__(self, flags):
            raise AssertionError("asked")

    assert dlshim.inspect(Slow()).shape is None


@pytest.mark.parametrize("x", [array.array("f", [1, 2]), mmap.mmap(-1, 8), b"ab"], ids=repr)
def test_a_buffer_written_in_c_is_looked_at(x):
    """From 3.12 on it shows as a method of the type."""
    report = dlshim.inspect(x)
    assert report.shape == (memoryview(x).shape) and report.dtype is not None


class Forged:
    """Its names hold lines of their own."""

    def __dlpack_device__(self):
        raise ValueError("no\n  device        (2, 0) kDLCUDA")

    def __dlpack__(self, **keywords):
        raise ValueError("no\n  readonly      False")


Forged.__qualname__ = "Forged\n  library       torch"


class Empty:
    """It offers no way in, which a note says by its name."""


Empty.__qualname__ = Forged.__qualname__


@pytest.mark.parametrize("x", [Forged(), Empty()], ids=["a way", "no way"])
def test_an_object_adds_no_lines_to_its_report(x):
    """Its names and errors are on the line of their field; as data they are what they are."""
    report = dlshim.inspect(x, export=True, consumer="builtins.memoryview")
    for text in (str(report), str(report.verdicts[0])):
        assert not re.search(r"^  (library|device|readonly) ", text, re.M)
    assert any("\n" in note for note in report.notes)


def test_the_dtypes_that_are_seen_are_dlpacks():
    for name, triple in look.TRIPLES.items():
        assert repr(dlshim.dtype(triple)) == f"dlshim.dtype({name!r})"


def test_strides_of_arrays():
    def array_of(shape, strides):
        return look.Array("int8", shape, strides)

    assert array_of((2, 3), (3, 1)).contiguous and array_of((2, 3), (1, 2)).dense
    assert not array_of((2, 3), (1, 2)).contiguous and not array_of((2, 3), (6, 2)).dense
    assert array_of((0, 3), (-9, 9)).contiguous and not array_of((0, 3), (-9, 9)).negative
    assert array_of((1, 3), (99, 1)).contiguous and array_of((3,), (0,)).dense is False


def test_names_of_dtypes():
    def like(text):
        return type("dtype", (), {"__str__": lambda self: text, "name": None, "__name__": None})()

    told = {"torch.float32": "float32", "mlx.core.bool_": "bool", "halffloat": "float16"}
    for text, name in told.items():
        assert look.dtype_name(like(text)) == name
    assert look.dtype_name(like("datetime64[ns]")) is None
