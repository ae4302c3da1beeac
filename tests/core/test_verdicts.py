"""What the tables expect of consumers, without any library: their versions are made up.

That the tables are right is for tests/interop, which compares every verdict with what happens.
"""

from __future__ import annotations

import array
import ctypes
import itertools
import mmap
import re
import sys
import types

import pytest

import dlshim
from dlshim import consumers as rows
from dlshim import counted, look
from dlshim.consumers import names
from dlshim.known.rows import LIMITS
from dlshim.options import AS_TAKEN
from dlshim.verdicts import Expectation, expected
from doubles import capsules as caps
from doubles import consumers
from doubles.producers import P1, P2, P3, P1a, jax_like, torch_like

pytestmark = pytest.mark.once

VERSIONS = {
    "numpy": "2.4.6",
    "torch": "2.13.0+cu130",
    "jax": "0.10.2",
    "pyarrow": "26.0.1",
    "tensorflow": "2.21.0",
    "warp": "1.19.0",
}


@pytest.fixture(autouse=True)
def pretended(monkeypatch):
    """As if these libraries were imported in these releases, and others not installed."""
    for name, version in VERSIONS.items():
        module = types.ModuleType(name)
        module.__version__ = version
        monkeypatch.setitem(sys.modules, name, module)
    return sys.modules


def one(x, consumer, **options) -> Expectation:
    (verdict,) = expected(x, consumer, **options)
    return verdict


def floats(*values: float) -> memoryview:
    return memoryview(array.array("f", values))


def test_without_a_consumer_there_is_no_verdict():
    assert dlshim.inspect(bytearray(3)).verdicts == ()


def test_negative_strides_and_torch():
    verdict = one(floats(1, 2, 3)[::-1], "torch")
    assert (verdict.consumer, verdict.version) == ("torch.from_dlpack", VERSIONS["torch"])
    assert verdict.bare.result == verdict.upgraded.result == "refused"
    assert (verdict.upgraded.by, verdict.upgraded.raises) == ("dlshim", ("BufferError",))
    assert verdict.cure == 'torch.from_dlpack(dlshim.upgrade(x, order="auto"))'


STRIDED = {
    "backwards": lambda: floats(1, 2, 3)[::-1],
    "every second": lambda: floats(1, 2, 3, 4)[::2],
    "transposed": lambda: P2((2, 3), "float32", strides=(1, 2)),
    "row-major": lambda: P2((2, 3), "float32"),
}


@pytest.mark.parametrize(
    ("consumer", "not_taken"),
    [
        ("torch", {"backwards"}),
        ("paddle", {"backwards"}),
        ("jax", {"backwards", "every second"}),
        ("max", {"backwards", "every second", "transposed"}),
    ],
)
def test_layouts_that_a_consumer_is_known_not_to_take(consumer, not_taken, monkeypatch):
    """The refusal is dlshim's, and order="auto" cures it."""
    for library, version in {"paddle": "3.3.1", "max": "26.7.0"}.items():
        module = types.ModuleType(library)
        module.__version__ = version
        monkeypatch.setitem(sys.modules, library, module)
    for name, make in STRIDED.items():
        x = make()
        verdict = one(x, consumer, export=True)
        cured = one(dlshim.upgrade(x, order="auto"), consumer, export=True)
        assert cured.bare == cured.upgraded and cured.upgraded.result == "works", name
        assert cured.cure == "", name
        if name not in not_taken:
            assert verdict.upgraded == cured.upgraded, name
            continue
        assert cured.upgraded.copied, name
        assert (verdict.upgraded.result, verdict.upgraded.by) == ("refused", "dlshim"), name
        assert (verdict.upgraded.raises, verdict.upgraded.cure) == (("BufferError",), AS_TAKEN)
        assert verdict.cure == f'{verdict.consumer}(dlshim.upgrade(x, order="auto"))', name
        assert "N9" in verdict.upgraded.why


def test_who_takes_capsules_is_not_seen():
    """order="auto" is as None there, so that the cure is a copy for whoever takes it."""
    for x in (floats(1, 2, 3)[::-1], dlshim.upgrade(floats(1, 2, 3)[::-1], order="auto")):
        verdict = one(x, "tensorflow", export=True)
        assert (verdict.upgraded.result, verdict.upgraded.by) == ("refused", "dlshim")
        assert verdict.cure.endswith('(dlshim.to_capsule(x, order="C", align=64))')
        assert "ends the process" not in verdict.what  # a copy is aligned


def test_consumers_that_bear_all_strides_get_no_copy_by_order_auto():
    upgraded = dlshim.upgrade(floats(1, 2, 3)[::-1], order="auto")
    for consumer in ("numpy", "warp"):
        assert one(upgraded, consumer, export=True).upgraded.copied is False


def test_the_report_of_order_auto_tells_the_layout_of_the_source():
    report = dlshim.inspect(dlshim.upgrade(floats(1, 2, 3)[::-1], order="auto"), export=True)
    assert report.strides == (-1,) and not any("failed" in note for note in report.notes)


def test_the_cure_is_a_call_that_works():
    x = floats(1, 2, 3)[::-1]
    take = types.SimpleNamespace(from_dlpack=consumers.ask_like_torch213)
    with eval(one(x, "torch").cure, {"torch": take, "dlshim": dlshim, "x": x}) as imported:
        assert imported.values() == [3, 2, 1]


def test_what_works_needs_no_cure():
    verdict = one(floats(1, 2), "numpy")
    assert verdict.bare.result == "refused" and "__dlpack__" in verdict.why
    assert verdict.cure == "numpy.from_dlpack(dlshim.upgrade(x))"
    upgraded = one(dlshim.upgrade(floats(1, 2)), "numpy")
    assert upgraded.bare == upgraded.upgraded and upgraded.bare.result == "works"
    assert (upgraded.bare.copied, upgraded.bare.writable, upgraded.cure) == (False, True, "")


@pytest.mark.parametrize("dtype", ["uint8", "int8", "float32"])
def test_torch_asarray_asks_a_tensor_for_bare_bytes(dtype):
    """It takes the buffer before DLPack, and the Tensor refuses it (reference.rst)."""
    tensor = dlshim.from_dlpack(P2((4,), dtype))
    verdict = one(tensor, "torch.asarray")
    assert (verdict.bare.result, verdict.bare.by) == ("refused", "dlshim")
    assert verdict.upgraded.result == "works"
    assert verdict.cure == "torch.asarray(dlshim.upgrade(x))"
    assert one(dlshim.upgrade(tensor), "torch.asarray").bare.result == "works"
    assert one(tensor, "torch.as_tensor").bare.result == "works"


def test_a_matrix_that_is_upgraded_has_a_verdict():
    verdict = one(dlshim.upgrade(floats(*range(6)).cast("B").cast("f", (2, 3))), "torch")
    assert verdict.upgraded.result == "works" and verdict.why == ""


def test_read_only_memory(pretended):
    lost = one(b"bytes", "torch")
    assert "read-only mark is lost" in lost.what and "ReadOnlyWarning" in lost.what
    assert lost.upgraded.result == "works"
    assert lost.cure == 'torch.from_dlpack(dlshim.upgrade(x, readonly="copy"))'
    chosen = one(dlshim.upgrade(b"bytes", readonly="share"), "torch", export=True)
    assert chosen.upgraded.result == "works" and chosen.cure == ""
    assert "ReadOnlyWarning" not in chosen.what
    strict = one(dlshim.upgrade(b"bytes", readonly="error"), "torch", export=True)
    assert strict.upgraded.by == "dlshim" and 'readonly="copy"' in strict.cure
    private = one(dlshim.upgrade(b"bytes", readonly="copy"), "torch", export=True)
    assert "mark is lost" not in private.what
    assert one(b"bytes", "numpy").upgraded.writable is False
    pretended["torch"].__version__ = "2.8.0"
    verdict = one(b"bytes", "torch")
    assert verdict.upgraded.by == "dlshim"
    assert verdict.cure == 'torch.from_dlpack(dlshim.upgrade(x, readonly="copy"))'
    allowed = one(dlshim.upgrade(b"bytes", readonly="copy"), "torch", export=True)
    assert allowed.bare.result == "works"


def test_a_capsule_is_wanted():
    verdict = one(floats(1, 2), "tensorflow")
    assert verdict.bare.result == "refused"
    call = "tensorflow.experimental.dlpack.from_dlpack(dlshim.to_capsule(x, align=64))"
    assert verdict.cure == call


@pytest.mark.parametrize("kind", ["array", "capsule"])
def test_memory_that_tensorflow_cannot_compute_with(kind):
    """It takes it; its first operation then ends the process."""
    room = bytearray(192)
    first = -ctypes.addressof(ctypes.c_char.from_buffer(room)) % 64
    for start, count in ((0, 4), (4, 4), (32, 4), (4, 0)):
        x = memoryview(room)[first + start : first + start + 4 * count].cast("f")
        x = dlshim.to_capsule(x) if kind == "capsule" else x
        verdict = one(x, "tensorflow", export=True)
        aligned = start == 0 or count == 0
        assert ("first operation ends the process" in verdict.what) is not aligned, (start, count)
        wants = "" if aligned and kind == "capsule" else "align=64"
        assert wants in verdict.cure and bool(verdict.cure) == bool(wants), (start, verdict)


def test_an_element_type_that_the_consumer_has_not():
    verdict = one(memoryview(bytearray(4)).cast("?"), "pyarrow.Array.from_dlpack")
    assert verdict.upgraded.by == "pyarrow" and verdict.cure == ""


def test_elements_that_jax_halves(monkeypatch):
    doubles = memoryview(array.array("d", [1, 2]))
    monkeypatch.delenv("JAX_ENABLE_X64", raising=False)
    assert one(doubles, "jax").upgraded.result == "wrong"
    monkeypatch.setenv("JAX_ENABLE_X64", "true")
    assert one(doubles, "jax").upgraded.result == "works"
    sys.modules["jax"].config = types.SimpleNamespace(jax_enable_x64=False)
    assert one(doubles, "jax").upgraded.result == "wrong"


class TakesStream(P1):
    def __dlpack__(self, *, stream=None):
        return super().__dlpack__(stream=stream)


class TakesNothing(P1a):
    def __dlpack__(self):
        return super().__dlpack__()


def test_an_object_of_an_older_generation_is_told_by_its_signature():
    for cls in (TakesStream, TakesNothing):
        arrow = one(cls((3,), "float32"), "pyarrow.Tensor.from_dlpack", export=True)
        assert arrow.bare.raises == ("TypeError",) and arrow.upgraded.result == "works"
        assert one(cls((3,), "float32"), "numpy", export=True).bare.writable is False
    assert one(TakesStream((3,), "float32"), "jax", export=True).bare.result == "works"
    stops = one(TakesNothing((3,), "float32"), "jax", export=True)
    assert stops.bare.raises == ("TypeError",) and stops.upgraded.result == "works"


def test_what_cannot_be_seen_is_not_guessed():
    x = P2((3,), "float32")
    assert one(x, "torch").upgraded.result == "unknown" and x.calls == []
    verdict = one(x, "torch", export=True)
    assert verdict.upgraded.result == "works" and verdict.bare.result == "unknown"


@pytest.mark.parametrize("version", ["1.0.0", "2.99.0", "rubbish"])
def test_a_release_outside_the_table_is_not_verified(pretended, version):
    pretended["torch"].__version__ = version
    verdict = one(floats(1), "torch")
    assert verdict.version == version
    assert verdict.bare.result == verdict.upgraded.result == "unknown"
    assert "not verified" in verdict.why and verdict.cure == ""


def test_a_gap_between_two_rows_is_outside(pretended, monkeypatch):
    kept = [row for row in rows.CONSUMERS if row.library != "jax" or row.since != (0, 6)]
    monkeypatch.setattr(rows, "CONSUMERS", kept)
    pretended["jax"].__version__ = "0.9.0"
    assert "not verified" in one(floats(1), "jax").why
    pretended["jax"].__version__ = "0.5.0"
    assert "not verified" not in one(floats(1), "jax").why


def test_no_release_falls_between_two_rows():
    for name in {row.name for row in rows.CONSUMERS}:
        found = rows.rows_of(name)
        between = [(a.until, b.since) for a, b in itertools.pairwise(found) if a.until != b.since]
        assert not between, name


def test_a_library_that_is_not_there():
    verdict = one(floats(1), "cupy")
    assert verdict.version is None and "not installed" in verdict.why


def test_an_unknown_consumer_names_those_that_are_known():
    for consumer in ("torhc", "pandas", len, object(), types.ModuleType("strange")):
        with pytest.raises(ValueError, match=r"is not known.*numpy\.asarray.*, torch, "):
            expected(b"", consumer)
    with pytest.raises(ValueError) as raised:
        expected(b"", "torch.tensor")
    assert str(raised.value) == (
        "consumer 'torch.tensor' is not known; of torch, these are: torch.as_tensor, "
        "torch.asarray, torch.from_dlpack"
    )


def test_modules_and_functions(pretended):
    def from_dlpack(x):
        raise AssertionError("called")

    from_dlpack.__module__ = "torch.utils.dlpack"
    from_dlpack.__qualname__ = "from_dlpack"
    for consumer in (pretended["torch"], from_dlpack, "torch", "torch.from_dlpack"):
        assert one(floats(1), consumer).consumer == "torch.from_dlpack"

    class Array:
        @classmethod
        def from_dlpack(cls, x):
            raise AssertionError("called")

    Array.__module__ = "pyarrow.lib"
    Array.from_dlpack.__func__.__qualname__ = "Array.from_dlpack"
    Array.from_dlpack.__func__.__module__ = "pyarrow.lib"
    assert one(floats(1), Array.from_dlpack).consumer == "pyarrow.Array.from_dlpack"
    both = expected(floats(1), "pyarrow")
    assert [v.consumer.split(".")[1] for v in both] == ["Array", "Tensor", "FixedShapeTensorArray"]


def test_nanobind_is_told_by_spans_of_releases():
    told = expected(b"x", "nanobind")
    assert [(v.consumer, v.version) for v in told] == [
        ("nanobind, writable parameter", "2.2 to 2.9"),
        ("nanobind, writable parameter", "2.10 to 3.1"),
        ("nanobind, read-only parameter", "2.2 to 2.9"),
        ("nanobind, read-only parameter", "2.10 to 2.12"),
        ("nanobind, read-only parameter", "2.13 to 3.1"),
    ]


def by_parameter(x, parameter, release):
    told = expected(x, "nanobind", export=True)
    (verdict,) = (v for v in told if parameter in v.consumer and v.version == release)
    return verdict


class Immutable(P2):
    """A JAX array before 0.12: it never changes, and no capsule of it says so."""


Immutable.__module__, Immutable.__qualname__ = "jaxlib", "ArrayImpl"


#: Parameters of nanobind that take memory of types that never change.
UNMARKED = (
    ("writable", "2.2 to 2.9"),
    ("read-only", "2.2 to 2.9"),
    ("read-only", "2.10 to 2.12"),
    ("read-only", "2.13 to 3.1"),
)


def test_memory_that_never_changes_and_a_function_that_writes():
    """Bare it passes unmarked; upgraded it is marked, and nanobind 2.10 refuses that (T12)."""
    x = Immutable((3,), "float32")
    verdict = by_parameter(x, "writable", "2.10 to 3.1")
    assert verdict.bare.result == "works" and verdict.upgraded.result == "refused"
    assert verdict.why == verdict.upgraded.why == counted.WRITES
    assert verdict.cure == "f(dlshim.upgrade(x, readonly=False))"
    vouched = by_parameter(dlshim.upgrade(x, readonly=False), "writable", "2.10 to 3.1")
    assert vouched.bare.result == vouched.upgraded.result == "works"
    for parameter, release in UNMARKED:
        assert by_parameter(x, parameter, release).upgraded.result == "works"


class View(P2):
    """A view of cuda.core: it says whether it is read-only, and only its capsule shows it."""


View.__module__, View.__qualname__ = "cuda.core._memoryview", "StridedMemoryView"


def test_memory_whose_mark_is_not_seen_is_not_promised_to_a_function_that_writes(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda", types.SimpleNamespace(__version__="1.2.2"))
    told = expected(View((3,), "float32"), "nanobind")
    (verdict,) = (v for v in told if (v.consumer, v.version) == (told[0].consumer, "2.10 to 3.1"))
    assert verdict.bare.result == verdict.upgraded.result == "unknown"
    assert "read-only" in verdict.bare.why


@pytest.mark.parametrize("readonly", [True, "copy"])
def test_memory_that_says_it_is_read_only_is_copied_for_a_function_that_writes(readonly):
    verdict = by_parameter(floats(1, 2).toreadonly(), "writable", "2.10 to 3.1")
    assert verdict.upgraded.why == counted.WRITES
    assert verdict.cure == 'f(dlshim.upgrade(x, readonly="copy"))'
    given = dlshim.upgrade(floats(1, 2), readonly=readonly)
    marked = by_parameter(given, "writable", "2.10 to 3.1")
    assert marked.upgraded.result == ("refused" if readonly is True else "works")


class OfTorch:
    """A tensor, as far as can be seen without an export."""

    shape, dtype, is_cpu = (3,), "float32", True
    requires_grad = conjugate = negative = False

    def __init__(self, **facts):
        vars(self).update(facts)

    def stride(self):
        return (1,)

    def data_ptr(self):
        return 4096

    def is_conj(self):
        return self.conjugate

    def is_neg(self):
        return self.negative

    def __dlpack__(self, **keywords):
        raise AssertionError("asked")

    def __dlpack_device__(self):
        raise AssertionError("asked")


OfTorch.__module__, OfTorch.__qualname__ = "torch", "Tensor"


class OfTorchWithATable(OfTorch):
    __dlpack_c_exchange_api__ = P3.__dlpack_c_exchange_api__


@pytest.mark.parametrize(("parameter", "release"), [("writable", "2.10 to 3.1"), *UNMARKED])
def test_nanobind_goes_past_what_torch_checks(parameter, release):
    def told(**facts):
        verdicts = expected(OfTorch(**facts), "nanobind")
        return next(v for v in verdicts if parameter in v.consumer and v.version == release)

    grad = told(requires_grad=True)
    assert grad.bare.result == "works" and grad.upgraded.by == "dlshim"
    assert grad.why == counted.GRAD and grad.cure == "f(dlshim.upgrade(x, detach=True))"
    for bit in ("conjugate", "negative"):
        lazy = told(**{bit: True})
        assert (lazy.bare.result, lazy.upgraded.result) == ("wrong", "refused")
        assert lazy.cure == "f(dlshim.upgrade(x, copy=True))"
        assert f"{bit} bit" in lazy.why


def test_torch_itself_forgets_the_negative_bit_only():
    results = {
        fact: one(OfTorch(**{fact: True}), "numpy").bare.result
        for fact in ("requires_grad", "conjugate", "negative")
    }
    assert results == {"requires_grad": "refused", "conjugate": "refused", "negative": "wrong"}


def test_a_tensor_that_requires_grad_goes_by_its_table_to_compiled_functions(pretended):
    pretended["tvm_ffi"] = types.ModuleType("tvm_ffi")
    pretended["tvm_ffi"].__version__ = "0.1.15"
    try:
        by_table = one(OfTorchWithATable(requires_grad=True), "tvm_ffi")
        assert by_table.bare.result == by_table.upgraded.result == "works"
        assert one(OfTorch(requires_grad=True), "tvm_ffi").upgraded.result == "refused"
        assert one(OfTorchWithATable(conjugate=True), "tvm_ffi").bare.result == "wrong"
    finally:
        del pretended["tvm_ffi"]


def imported(monkeypatch, name, version):
    module = types.ModuleType(name)
    module.__version__ = version
    monkeypatch.setitem(sys.modules, name, module)


def test_a_function_that_calls_numpy_is_as_the_numpy_that_is_here(pretended, monkeypatch):
    imported(monkeypatch, "awkward", "2.14.0")
    readonly, scalar = P2((2,), "float32", readonly=True), P2((), "float32")
    pretended["numpy"].__version__ = "2.4.6"
    verdict = one(readonly, "awkward", export=True)
    assert (verdict.consumer, verdict.version) == ("awkward.from_dlpack", "2.14.0")
    assert verdict.upgraded.result == "works" and verdict.upgraded.writable is False
    refused = one(scalar, "awkward", export=True).upgraded
    assert (refused.by, refused.why) == ("awkward", "it takes no array without dimensions")
    assert "TypeError" in refused.raises
    assert one(bytearray(2), "awkward").bare.raises == ("TypeError",)
    pretended["numpy"].__version__ = "1.26.4"  # asks for DLPack 0.x
    assert one(readonly, "awkward", export=True).upgraded.result == "refused"
    pretended["numpy"].__version__ = "9.0"
    verdict = one(scalar, "awkward", export=True)
    assert verdict.why == (
        "not verified: it calls numpy.from_dlpack, of a release that is not in the table"
    )
    assert verdict.upgraded.result == "unknown"


def test_a_kernel_of_numba_gets_memory_of_a_device_and_not_of_the_host(monkeypatch):
    imported(monkeypatch, "numba_cuda", "0.30.4")
    imported(monkeypatch, "cuda", "1.2.2")
    verdict = one(P2((2,), "float32"), "numba.cuda", export=True)
    assert verdict.consumer == "numba.cuda, kernel argument"
    assert (verdict.upgraded.result, verdict.bare.result) == ("wrong", "unknown")
    assert "address of host memory" in verdict.why
    on_a_device = P2((2,), "float32", device=(2, 0))
    assert one(on_a_device, "numba.cuda", export=True).upgraded.result == "works"
    assert one(on_a_device, "numba.cuda.as_cuda_array").cure == (
        "numba.cuda.as_cuda_array(dlshim.from_dlpack(x))"
    )


def test_what_nanoarrow_takes_as_a_buffer_only(pretended, monkeypatch):
    module = types.ModuleType("nanoarrow")
    module.__version__ = "0.9.0"
    monkeypatch.setitem(sys.modules, "nanoarrow", module)
    cure = "nanoarrow.c_buffer(dlshim.from_dlpack(x))"
    by_buffer_only = {
        counted.SCALAR: P2((), "float32"),
        counted.DIMENSIONS: P2((2, 3), "float32"),
        counted.BOOL: P2((2,), "bool"),
        counted.UNTOLD: P2((2,), "float32", readonly=True),
    }
    for why, x in by_buffer_only.items():
        verdict = one(x, "nanoarrow", export=True)
        assert (verdict.upgraded.result, verdict.upgraded.why) == ("refused", why)
        assert verdict.cure == cure
        itself = one(dlshim.from_dlpack(x), "nanoarrow", export=True)
        assert itself.bare.result == "works" and itself.cure == ""
    assert one(P2((), "float32"), "nanoarrow", export=True).upgraded.by == "dlshim"
    assert one(P2((2,), "bfloat16"), "nanoarrow", export=True).cure == ""
    strided = one(P2((2, 3), "float32", strides=(1, 2)), "nanoarrow", export=True)
    assert strided.upgraded.result == "refused"
    assert strided.cure == 'nanoarrow.c_buffer(dlshim.from_dlpack(x, order="C"))'


def test_nothing_is_consumed_called_or_imported():
    x, capsule = P2(), caps.make((3,), "float32")
    before = set(sys.modules)
    for name in names():
        for each in (x, capsule, dlshim.upgrade(x), floats(1)[::-1]):
            expected(each, name)
    assert x.calls == [] and x.exports == []
    new = {module.partition(".")[0] for module in set(sys.modules) - before}
    assert not new & {"cupy", "paddle", "mlx", "onnxruntime", "nanoarrow", "tvm_ffi", "nanobind"}
    with caps.take(capsule):
        pass


def test_a_raw_capsule():
    legacy = caps.make((3,), "float32")
    assert one(legacy, "torch").bare.result == "works"
    assert one(legacy, "numpy").bare.raises == ("AttributeError",)
    assert one(legacy, "numpy").upgraded.writable is True
    marked = caps.make((3,), "float32", version=(1, 1), flags=caps.READ_ONLY)
    assert one(marked, "numpy").upgraded.writable is False
    for capsule in (legacy, marked):
        with caps.take(capsule):
            pass


class OnDevice(P2):
    def __dlpack_device__(self):
        return (2, 0)


def test_device_memory_and_the_stream_that_is_waited_for():
    verdict = one(OnDevice(), "torch")
    assert "its current stream" in verdict.what and "the producer is passed it" in verdict.what
    ignoring = type("Tensor", (OnDevice,), {"__module__": "tvm_ffi"})
    assert "dlshim does sync(P,S)" in one(ignoring(), "torch").what


def test_device_memory_and_a_consumer_of_host_memory():
    verdict = one(OnDevice(), "numpy")
    assert verdict.upgraded.result == "refused"
    assert verdict.cure == 'numpy.from_dlpack(dlshim.upgrade(x, device="cpu"))'


def test_attributes_of_other_classes_are_not_run():
    """A class of the same name, whose attributes are not what the library's are."""
    for like in (torch_like, jax_like):
        assert one(like()(), "numpy").upgraded.result in ("unknown", "works")


def test_what_a_report_shows_without_an_export():
    report = dlshim.inspect(floats(1, 2, 3)[::-1])
    assert (report.shape, report.strides, report.readonly) == ((3,), (-1,), False)
    assert (report.dtype, report.contiguous) == ((2, 32, 1), False)
    assert dlshim.inspect(b"abc").readonly is True
    pairs = memoryview(bytearray(16)).cast("d")
    assert dlshim.inspect(pairs).dtype == (2, 64, 1)


def test_an_option_changes_what_can_be_seen():
    upgraded = dlshim.upgrade(floats(1, 2, 3)[::-1], order="C")
    assert dlshim.inspect(upgraded).strides is None
    assert one(upgraded, "torch").bare.result == "unknown"
    assert one(upgraded, "torch", export=True).bare.result == "works"


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


def test_an_export_that_failed_does_not_work_bare():
    """What dlshim got from the object's own method, the consumer gets too, as far as is known."""
    from dlshim import verdicts
    from dlshim.facts import Facts, Source

    facts = Facts(source=Source("it", ""), dtype="int8", shape=(2,), strides=(1,), readonly=False)
    row, _ = rows.row_of("numpy.from_dlpack", (2, 4))
    assert verdicts.outcomes(facts, row)[0].result == "works"
    failed = facts._replace(fails="the export failed: no")
    bare, upgraded = verdicts.outcomes(failed, row)
    assert (bare.result, bare.why, upgraded.result) == ("unknown", failed.fails, "refused")


# ---- the table itself -----------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted({row.name for row in rows.CONSUMERS}))
def test_spans_of_releases_do_not_overlap(name):
    spans = rows.rows_of(name)
    assert all(row.since < row.until for row in spans if row.until)
    assert all(a.until <= b.since for a, b in itertools.pairwise(spans))
    assert len({row.library for row in spans}) == 1


def test_every_limit_is_some_rows_and_the_reverse():
    used = {name for row in rows.CONSUMERS for name in row.limits}
    assert used == LIMITS.keys()
    for row in rows.CONSUMERS:
        by_dtype = [name for name in row.limits if LIMITS[name].meets is None]
        assert row.dtypes == look.ALL or len(by_dtype) == 1


def test_the_dtypes_of_the_table_are_dlpacks():
    for name, triple in look.TRIPLES.items():
        assert repr(dlshim.dtype(triple)) == f"dlshim.dtype({name!r})"


def test_strides_of_arrays():
    def array_of(shape, strides):
        return look.Array("int8", shape, strides)

    assert array_of((2, 3), (3, 1)).contiguous and array_of((2, 3), (1, 2)).dense
    assert not array_of((2, 3), (1, 2)).contiguous and not array_of((2, 3), (6, 2)).dense
    assert array_of((0, 3), (-9, 9)).contiguous and not array_of((0, 3), (-9, 9)).negative
    assert array_of((1, 3), (99, 1)).contiguous and array_of((1, 3), (99, 1)).odd
    assert not array_of((2, 1, 3), (3, 3, 1)).odd and array_of((3,), (0,)).dense is False


def test_names_of_dtypes():
    def like(text):
        return type("dtype", (), {"__str__": lambda self: text, "name": None, "__name__": None})()

    told = {"torch.float32": "float32", "mlx.core.bool_": "bool", "halffloat": "float16"}
    for text, name in told.items():
        assert look.dtype_name(like(text)) == name
    assert look.dtype_name(like("datetime64[ns]")) is None


def test_reasons_are_sentences():
    for limit in LIMITS.values():
        assert limit.reason.startswith("it ") and not limit.reason.endswith(".")


def test_a_static_method_of_c_is_known_by_its_package():
    """Cython gives those of PyAV no class, pybind11 those of VALI another one."""

    def from_dlpack(x):
        raise AssertionError("called")

    for module, qualname, known in (
        ("av.video.frame", "from_dlpack", "av.VideoFrame.from_dlpack"),
        ("python_vali._python_vali", "PyCapsule.from_dlpack", "python_vali.Surface.from_dlpack"),
        (None, "GpuMat.from_dlpack", "cv2.cuda.GpuMat.from_dlpack"),
    ):
        from_dlpack.__module__, from_dlpack.__qualname__ = module, qualname
        assert one(floats(1), from_dlpack).consumer == known
    from_dlpack.__module__, from_dlpack.__qualname__ = "torch.of_others", "not_known"
    with pytest.raises(ValueError, match="is not known"):
        expected(floats(1), from_dlpack)


def test_a_consumer_that_takes_no_host_memory(pretended, monkeypatch):
    module = types.ModuleType("cv2")
    module.__version__ = "5.0.0"
    monkeypatch.setitem(sys.modules, "cv2", module)
    verdict = one(P2((2, 3), "uint8"), "cv2.cuda.GpuMat.from_dlpack", export=True)
    assert verdict.upgraded.result == "refused" and verdict.cure == ""
    verdict = one(P2((2, 3), "uint8", device=(2, 0)), "cv2.cuda.GpuMat.from_dlpack", export=True)
    assert verdict.upgraded.result == "works"


def test_a_limit_that_ends_the_process(pretended):
    fixed = "pyarrow.FixedShapeTensorArray.from_dlpack"
    verdict = one(P2((), "float32"), fixed, export=True)
    assert str(verdict.upgraded) == "ends the process" and verdict.cure == ""
    verdict = one(P2((4, 2), "float32", strides=(4, 1)), fixed, export=True)
    assert verdict.upgraded.result == "wrong" and 'order="C"' in verdict.cure
