"""A Tensor among NumPy's people: dtype, device, `__array__`, and options of other libraries."""

from __future__ import annotations

import pickle
import sys
import types
from types import SimpleNamespace

import pytest

import dlshim
from doubles import capsules as caps
from doubles.asking import bare, tells, versioned
from doubles.producers import P1, P2

pytestmark = pytest.mark.once


@pytest.fixture
def np():
    return pytest.importorskip("numpy", reason="its arrays are made here")


@pytest.fixture
def ml(np):
    return pytest.importorskip("ml_dtypes", reason="its dtypes are seen here")


def tensor(dtype="float32", shape=(2, 3), **fields):
    return dlshim.from_dlpack(P2(shape, dtype, **fields))


# --- dtype ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bool", "int8", "uint16", "float32", "float64", "complex128"])
def test_a_dtype_says_what_numpys_says(np, name):
    theirs, ours = np.dtype(name), tensor(name).dtype
    for fact in ("name", "itemsize", "kind", "str", "byteorder"):
        assert getattr(ours, fact) == getattr(theirs, fact), fact
    assert ours == theirs == ours and theirs == np.dtype(ours) == np.dtype(tensor(name))
    assert np.dtype(theirs.type) == ours and ours == theirs.type and ours != np.void
    assert (ours.code, ours.bits, ours.lanes) == tuple(ours) == caps.dtype_tuple(name)


def test_a_dtype_is_one_object_and_cannot_be_changed():
    kind = tensor().dtype
    assert kind is tensor().dtype is dlshim.dtype("float32") is dlshim.dtype((2, 32, 1))
    assert kind is dlshim.dtype(kind) is pickle.loads(pickle.dumps(kind))
    assert {kind: 1}[kind] == 1 and hash(kind) == hash((2, 32, 1))
    assert kind == "float32" == str(kind) and repr(kind) == "dlshim.dtype('float32')"
    assert kind != "float64" and kind != (2, 64, 1) and kind != 3 and kind != dlshim.dtype("int8")
    for change in (lambda: setattr(kind, "bits", 8), lambda: delattr(kind, "bits")):
        with pytest.raises(AttributeError):
            change()


def test_a_dtype_is_no_sequence():
    kind = tensor().dtype
    for attempt in (len, lambda k: k[0]):
        with pytest.raises(TypeError):
            attempt(kind)
    assert not isinstance(kind, tuple) and list(kind) == [2, 32, 1]


@pytest.mark.parametrize("dtype", [(2, 32, 4), (77, 16, 1), (3, 64, 1), (0, 4, 1)])
def test_a_dtype_that_numpy_does_not_have(np, dtype, monkeypatch):
    monkeypatch.delitem(sys.modules, "ml_dtypes", raising=False)
    x = P2((2,), dtype)
    ours = dlshim.from_dlpack(x).dtype
    for attempt in (lambda: ours.__numpy_dtype__, lambda: ours.dtype):
        with pytest.raises(AttributeError, match="no dtype"):
            attempt()
    assert not hasattr(dlshim.from_dlpack(x), "__numpy_dtype__")
    assert ours.kind == "V" and ours != np.dtype("float32")
    with pytest.raises(TypeError, match="reinterpret"):
        np.asarray(dlshim.from_dlpack(x))


def test_without_numpy_nothing_is_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy", None)
    ours = tensor().dtype
    assert not hasattr(ours, "dtype") and ours != 5
    with pytest.raises(TypeError, match="not imported"):
        tensor().__array__()


def test_bad_dtypes():
    for value in ("nonsense", (1,), (-1, 8, 1), ()):
        with pytest.raises(ValueError, match="names no dtype"):
            dlshim.dtype(value)
    named = [types.SimpleNamespace(name=name) for name in (3, b"float32", ["float32"])]
    for value in (int, None, 2.5, *named):
        with pytest.raises(TypeError, match="names no dtype"):
            dlshim.dtype(value)
        if value is not None:
            with pytest.raises(TypeError, match="names no dtype"):
                dlshim.upgrade(P2(), reinterpret=value)


def test_dtypes_of_other_libraries(np, ml):
    torchs = type("dtype", (), {"__str__": lambda self: "torch.bfloat16"})()
    given = {
        "float32": np.float32,
        "uint16": np.dtype("u2"),
        "bool": np.bool_,
        "bfloat16": ml.bfloat16,
        "float8_e4m3fn": np.dtype(ml.float8_e4m3fn),
    }
    for name, value in given.items():
        assert dlshim.dtype(value) == name
    assert dlshim.dtype(torchs) == "bfloat16"
    with pytest.raises(TypeError, match="names no dtype"):
        dlshim.dtype(np.dtype("f4").newbyteorder())
    x = P2((3,), "uint16")
    for value in (np.dtype("float16"), dlshim.dtype("float16"), np.float16):
        with versioned(dlshim.upgrade(x, reinterpret=value)) as imported:
            assert imported.view.dtype == (2, 16, 1)


# --- device ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "text"),
    [
        ((1, 0), "cpu"), ((1, 2), "cpu:2"), ((2, 1), "cuda:1"), ((3, 0), "cuda_host:0"),
        ((10, 0), "rocm:0"), ((13, 0), "cuda_managed:0"), ((14, 1), "oneapi:1"),
        ((8, 0), "metal:0"), ((7, 0), "vulkan:0"), ((99, 4), "(99, 4)"),
    ],
)  # fmt: skip
def test_a_device_prints_as_users_write_it(device, text):
    x = dlshim.from_dlpack(P2((0,), device=device), stream=-1)
    assert x.device == device and str(x.device) == f"{x.device}" == text
    assert repr(x.device) == repr(device) and f"device={text} " in repr(x)
    assert pickle.loads(pickle.dumps(x.device)) == device
    if device[0] < 90:
        assert device_of(str(x.device)) == device_of(x.device) == repr(device)


class TorchDevice:
    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name


TorchDevice.__module__ = "torch"


def device_of(value):
    """As a Producer shows it."""
    return repr(dlshim.upgrade(bytearray(1), device=value)).partition(", device=")[2][:-1]


def test_devices_of_other_libraries(monkeypatch):
    paddle = type("Place", (), {"__str__": lambda self: "Place(gpu:1)"})()
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(version=SimpleNamespace(hip=None)))
    assert device_of(TorchDevice("cuda:1")) == "(2, 1)"
    assert device_of(TorchDevice("cuda")) == "(2, 0)" == device_of("gpu")
    assert device_of(TorchDevice("mps")) == "(8, 0)"
    assert device_of(TorchDevice("xpu:3")) == "(14, 3)"
    assert device_of(paddle) == "(2, 1)"
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(version=SimpleNamespace(hip="7.0")))
    assert device_of(TorchDevice("cuda:1")) == "(10, 1)"
    assert device_of(paddle) == "(2, 1)"
    for value in (TorchDevice("meta"), object(), 5):
        with pytest.raises(TypeError, match="names no device"):
            dlshim.upgrade(bytearray(1), device=value)


class DeviceOnly:
    """A device by the protocol that tvm-ffi reads: __dlpack_device__, and no __dlpack__."""

    def __init__(self, *pair):
        self.pair = pair

    def __dlpack_device__(self):
        return self.pair


class DataType:
    """A dtype by the protocol that tvm-ffi reads."""

    def __init__(self, *code_bits_lanes):
        self.says = code_bits_lanes

    def __dlpack_data_type__(self):
        return self.says


def test_devices_and_dtypes_by_the_protocols_of_dlpack():
    assert device_of(DeviceOnly(2, 1)) == "(2, 1)"
    assert device_of(DeviceOnly(dlshim.DLDeviceType.kDLCUDA, 0)) == "(2, 0)"
    for pair in ((2,), (2, 1, 0), ("cuda", 0), ()):
        with pytest.raises(TypeError, match="names no device"):
            dlshim.upgrade(bytearray(1), device=DeviceOnly(*pair))
    with pytest.raises(TypeError, match="names no device"):
        dlshim.upgrade(bytearray(1), device=P2())  # an array, not a device: like= takes it
    assert dlshim.dtype(DataType(4, 16, 1)) == "bfloat16"
    assert dlshim.from_dlpack(P2((2,), "uint16"), reinterpret=DataType(4, 16, 1)).dtype == (
        4,
        16,
        1,
    )
    for says in ((4, 16, 1, 1), (300, 8, 1), ("a", 8, 1), ()):
        with pytest.raises((TypeError, ValueError), match="dtype"):
            dlshim.dtype(DataType(*says))
    for name in ("float32", "bfloat16", "float4_e2m1fn", "bool"):
        dtype = dlshim.dtype(name)
        assert dtype.__dlpack_data_type__() == tuple(dtype)
        assert type(dtype.__dlpack_data_type__()) is tuple


# --- arrays ---------------------------------------------------------------------------

LAYOUTS = {
    "plain": ((2, 3), (3, 1), 0),
    "transposed": ((3, 2), (1, 3), 0),
    "negative": ((4,), (-1,), 3),
    "broadcast": ((2, 2), (0, 1), 0),
    "empty": ((0, 3), (3, 1), 0),
    "0-d": ((), (), 0),
}


@pytest.mark.parametrize("wrap", [dlshim.upgrade, dlshim.from_dlpack])
@pytest.mark.parametrize("dtype", ["float32", "bool", "bfloat16", "float8_e5m2"])
@pytest.mark.parametrize(("shape", "strides", "start"), LAYOUTS.values(), ids=LAYOUTS)
def test_asarray_is_the_memory_itself(np, ml, wrap, dtype, shape, strides, start):
    x = P2(shape, dtype, strides=strides, start=start)
    made = np.asarray(wrap(x))
    assert made.dtype == np.dtype(getattr(ml, dtype, dtype)) and made.shape == shape
    assert made.flags.writeable and (made.ctypes.data == x.element_zero or 0 in shape)
    plain = made.astype(np.float64).tolist()
    assert caps.flat(plain) == [float(v) for v in x.values()] if dtype == "float32" else True


@pytest.mark.parametrize("wrap", [dlshim.upgrade, dlshim.from_dlpack])
@pytest.mark.parametrize("dtype", ["int32", "bfloat16"])
def test_read_only_memory_stays_so(np, ml, wrap, dtype):
    x = wrap(P2((3,), dtype, readonly=True))
    assert not np.asarray(x).flags.writeable
    copied = np.array(x)
    assert copied.flags.writeable and not np.shares_memory(copied, np.asarray(x))


@pytest.mark.parametrize("wrap", [dlshim.upgrade, dlshim.from_dlpack])
def test_the_arguments_of_array(np, ml, wrap):
    x = P2((3,), "int32")
    for asked, kind, own in (
        ({}, "i4", True),
        ({"dtype": None, "copy": None}, "i4", True),
        ({"dtype": "i4", "copy": False}, "i4", True),
        ({"dtype": np.float64}, "f8", False),
        ({"dtype": ml.bfloat16, "copy": True}, ml.bfloat16, False),
        ({"copy": True}, "i4", False),
    ):
        made = wrap(x).__array__(**asked)
        assert made.dtype == np.dtype(kind) and made.astype(int).tolist() == [0, 1, 2]
        assert (made.ctypes.data == x.element_zero) is own
    assert wrap(x).__array__("f8").dtype == np.float64
    with pytest.raises(ValueError, match="copy=False"):
        wrap(x).__array__("f8", copy=False)
    for wrong in (lambda: wrap(x).__array__(1, 2, 3), lambda: wrap(x).__array__(*range(9))):
        with pytest.raises(TypeError):
            wrong()


def test_a_producer_is_asked_once_and_forgets_no_question(np):
    x = P2((3,), "int32")
    upgraded = dlshim.upgrade(x)
    np.asarray(upgraded)
    assert len(x.calls) == 1
    # No mark of a device question is left: a bare asker still gets negative strides (N9).
    back = dlshim.upgrade(P2((3,), "int32", strides=(-1,), start=2))
    np.asarray(back)
    bare(back).release()


@pytest.mark.parametrize("wrap", [dlshim.upgrade, lambda x: dlshim.from_dlpack(x, stream=-1)])
def test_device_memory_is_refused_with_the_cure(np, wrap):
    x = P2((3,), device=(2, 0))
    wrapped = wrap(x)
    before = len(x.calls)
    for attempt in (np.asarray, np.array, lambda w: w.__array__()):
        with pytest.raises(TypeError, match='device="cpu"'):
            attempt(wrapped)
    assert len(x.calls) == before, "it is not exported to be refused"


def test_errors_of_the_export_come_through(np):
    with pytest.raises(BufferError, match="NULL"):
        np.asarray(dlshim.upgrade(P2((3,), data=None)))


def test_packed_elements_are_refused_and_padded_ones_are_not(np, ml):
    with pytest.raises(TypeError, match="packed"):
        np.asarray(dlshim.upgrade(P2((3,), (0, 4, 1))))
    made = np.asarray(dlshim.upgrade(P2((3,), (0, 4, 1), flags=4, memory=bytearray(b"\1\2\3"))))
    assert made.dtype == ml.int4 and made.tolist() == [1, 2, 3]


def test_padded_elements_with_negative_strides_come_as_those_of_numpy(np, ml):
    """NumPy takes every stride, and __array__ is for NumPy alone."""
    x = np.arange(4).astype(ml.int4)[::-1]
    for made in (np.asarray(dlshim.upgrade(x)), np.asarray(dlshim.from_dlpack(x))):
        assert made.dtype == ml.int4 and made.tolist() == [3, 2, 1, 0] and made.base is not None
    assert dlshim.from_dlpack(x).tobytes() == bytes([3, 2, 1, 0])
    assert pickle.loads(pickle.dumps(dlshim.from_dlpack(x))).tobytes() == bytes([3, 2, 1, 0])


def test_array_interface_is_for_dtypes_with_a_typestr():
    assert tensor().__array_interface__["typestr"] == caps.native("<f4")
    for dtype in ("bfloat16", (77, 16, 1), "float8_e5m2"):
        with pytest.raises(AttributeError, match="typestr"):
            tensor(dtype).__array_interface__  # noqa: B018


def test_numpy_functions_take_both(np, ml):
    x = P2((3,), "float32")
    assert np.result_type(dlshim.from_dlpack(x), np.float64) == np.float64
    for wrapped in (dlshim.upgrade(x), dlshim.from_dlpack(x)):
        assert np.sum(wrapped) == 3 and np.multiply(wrapped, 2).tolist() == [0, 2, 4]


# --- from_dlpack ----------------------------------------------------------------------


def test_from_dlpack_takes_every_cure_itself():
    back = P2((3,), "int32", strides=(-1,), start=2)
    with pytest.raises(BufferError, match='order="C"'):
        dlshim.to_capsule(back)
    assert dlshim.from_dlpack(back, order="C").strides == (1,)
    assert dlshim.from_dlpack(P2(), align=64).data_ptr() % 64 == 0
    assert dlshim.from_dlpack(P2((2,), "bfloat16"), reinterpret="uint16").dtype == "uint16"
    assert dlshim.from_dlpack(P2(readonly=True), readonly=False).readonly is False
    assert dlshim.from_dlpack(P2(device=(9, 0)), assume_device="cpu").device == (1, 0)


def test_options_of_a_producer_give_way_to_those_of_from_dlpack():
    x = P2((3,), "int32")
    assert dlshim.from_dlpack(dlshim.upgrade(x, copy=True), copy=False).data_ptr() == x.element_zero
    assert dlshim.from_dlpack(dlshim.upgrade(x, copy=False), copy=True).is_copied
    assert dlshim.from_dlpack(dlshim.upgrade(x, readonly=True)).readonly


@pytest.mark.parametrize("word", ["share", "copy"])
def test_a_tensor_remembers_what_consumers_get_of_read_only_memory(word):
    x = P2((3,), "int32", readonly=True)
    for t in (
        first := dlshim.from_dlpack(x, readonly=word),
        dlshim.upgrade(first),
        dlshim.from_dlpack(first),
    ):
        with bare(t) as imported:
            assert imported.values() == [0, 1, 2]
            assert (imported.view.element_zero == x.element_zero) is (word == "share")
    with pytest.raises(BufferError, match="readonly="):
        bare(dlshim.upgrade(first, readonly="error"))
    with pytest.raises(BufferError, match="readonly="):
        bare(dlshim.from_dlpack(x))


# --- what a Producer and a Report show ------------------------------------------------


def test_a_producer_shows_what_it_knows(np):
    a = np.zeros((2, 3), "f4")
    assert f"'numpy.ndarray' object shape=(2, 3) dtype=float32 at {id(a):#x}, order='C'>" in repr(
        dlshim.upgrade(a, order="C")
    )
    t = tensor()
    assert repr(dlshim.upgrade(t, copy=True)) == f"<dlshim.Producer of {t!r}, copy=True>"
    x = P1()
    repr(dlshim.upgrade(x))
    assert x.calls == [] and x.device_calls == 0


def test_a_report_for_notebooks():
    report = dlshim.inspect(tensor())
    html = report._repr_html_()
    assert html.startswith("<pre>") and "dlshim report on dlshim.Tensor" in html
    assert "&lt;" in dlshim.inspect(type("<a>", (P1,), {})())._repr_html_()


def test_the_error_of_an_unknown_keyword_names_the_function():
    with pytest.raises(TypeError) as error:
        dlshim.from_dlpack(P2(), max_version=(1, 0))
    tells(error.value, "from_dlpack()", "max_version")
