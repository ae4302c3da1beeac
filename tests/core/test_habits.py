"""What is known of libraries (shim/habits.py), as the C code looks it up.

Whatever comes in between, an exchange never goes on without what is known of the object, and
nothing half is learned.
"""

from __future__ import annotations

import importlib
import itertools
import signal
import sys
import types
import warnings

import pytest

import dlshim
from dlshim import _core, habits
from doubles import child, gil
from doubles.asking import walk

pytestmark = pytest.mark.once


class Stop(BaseException):
    pass


class Array:
    """Its answers are legacy, and take no more than that needs."""

    def __dlpack__(self, make=dlshim.to_capsule, **asked):
        return make(bytearray(3))

    def __dlpack_device__(self):
        return 1, 0


def named(module: str, name: str) -> type:
    """A new class that has the methods itself."""
    members = {each: vars(Array)[each] for each in ("__dlpack__", "__dlpack_device__")}
    return type(name, (), {"__module__": module, **members})


def class_that_is_known_as_immutable() -> type:
    """A class of drjit, whose arrays never change and whose capsules do not say so."""
    return named("drjit", "ArrayBase")


def comes_out_readonly(x) -> bool:
    return dlshim.from_dlpack(x).readonly


# --- exceptions inside of the look-up -------------------------------------------------


def raising(error, k):
    """A trace function that raises at the k-th event in habits.py, and the events so far."""
    events = itertools.count(1)

    def trace(frame, event, argument):
        if frame.f_globals.get("__name__") != "dlshim.habits":
            return None
        if next(events) == k:
            sys.settrace(None)
            raise error
        return trace

    return trace, events


def by_signal(error, k):
    """The same by the handler of a signal."""

    def handle(number, frame):
        raise error

    signal.signal(signal.SIGINT, handle)
    trace, events = raising(None, 0)

    def interrupt(frame, event, argument):
        if trace(frame, event, argument) is None:
            return None
        if next(events) > k:
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)
        return interrupt

    return interrupt, events


@pytest.fixture(autouse=True)
def handler():
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


USES = {
    "from_dlpack": dlshim.from_dlpack,
    "upgrade": dlshim.upgrade,
    "to_capsule": dlshim.to_capsule,
    "kernel": dlshim.kernel(lambda x: None),
}


#: These come out as they are.
FATAL = (KeyboardInterrupt, MemoryError, RecursionError, Stop)


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
@pytest.mark.parametrize("way", [raising, by_signal])
@pytest.mark.parametrize(
    "failure",
    [*FATAL, ImportError, AttributeError, KeyError, TimeoutError, StopIteration, TypeError],
)
def test_an_exception_ends_the_exchange_and_is_not_learned(failure, way, use):
    fatal = failure in FATAL
    for k in itertools.count(1):
        x = class_that_is_known_as_immutable()()
        error = failure("came in between")
        trace, _ = way(error, k)
        sys.settrace(trace)
        try:
            use(x)
        except (failure, BufferError) as raised:
            assert (raised if fatal else raised.__cause__) is error
            assert fatal or "ArrayBase" in str(raised)
        else:
            break
        finally:
            sys.settrace(None)
        assert comes_out_readonly(x) and _core._plan(x)["library"] == "drjit"
    assert k > 4, "nothing was traced"


def test_the_recursion_limit_at_the_first_meeting():
    out = child.program("first_meeting", "deep")
    came, refused = map(int, out.split())
    assert came > 7 and refused > 2


@gil.lists_survive
def test_allocations_may_fail_at_the_first_meeting():
    pytest.importorskip("_testcapi", reason="this Python has no _testcapi to make them fail")
    out = child.program("first_meeting", "without_memory")
    assert int(out) > 20


# --- modules of others ----------------------------------------------------------------


def failing_module(name, attribute, error):
    module = types.ModuleType(name)

    def of_module(asked):
        raise error if asked == attribute else AttributeError(asked)

    module.__getattr__ = of_module
    return module


@pytest.mark.parametrize("failure", [ImportError, KeyError, KeyboardInterrupt, RecursionError])
def test_a_release_that_cannot_be_read_ends_the_exchange(monkeypatch, failure):
    """Whether paddle ignores a stream is a matter of its release."""
    x, error = named("paddle", "Tensor")(), failure("half imported")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "paddle", failing_module("paddle", "__version__", error))
        with pytest.raises((failure, BufferError)) as raised:
            dlshim.upgrade(x)
        fatal = failure in (KeyboardInterrupt, RecursionError)
        assert (raised.value if fatal else raised.value.__cause__) is error
    monkeypatch.setitem(sys.modules, "paddle", types.ModuleType("paddle"))  # it does not say
    assert _core._plan(x)["library"] == "paddle"


def test_a_module_that_cannot_be_asked_for_its_class_ends_the_exchange(monkeypatch):
    class Column:
        def __arrow_c_stream__(self, requested_schema=None):
            raise TypeError

    error = ImportError("half imported")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "polars", failing_module("polars", "Series", error))
        with pytest.raises(BufferError) as raised:
            dlshim.upgrade(Column())
        assert raised.value.__cause__ is error
    dlshim.upgrade(Column())


class Unreadable(type):
    """A class that raises where its name is read."""

    def __getattribute__(cls, name):
        if name in ("__module__", "__qualname__"):
            raise ValueError(name)
        return type.__getattribute__(cls, name)


def test_a_class_that_cannot_be_read_has_no_row_and_is_exported():
    x = Unreadable("Nameless", (Array,), {})()
    assert _core._plan(x)["library"] is None
    assert dlshim.from_dlpack(x).shape == (3,)


# --- classes --------------------------------------------------------------------------


def test_a_subclass_with_a_method_of_its_own_is_not_known():
    cls = class_that_is_known_as_immutable()
    assert comes_out_readonly(cls())
    assert comes_out_readonly(type("Mine", (cls,), {})())
    own = type("Mine", (cls,), {"__dlpack__": Array.__dlpack__})
    assert not comes_out_readonly(own()) and _core._plan(own())["library"] is None


#: The classes that have a row, as a release of their library names them, and the name of the row.
KNOWN = {
    "numpy.ndarray": "numpy",
    "numpy.ma.core.MaskedArray": "numpy.ma",
    "astropy.utils.masked.core.MaskedNDArray": "astropy Masked",
    "numpy.generic": "numpy scalar",
    "PIL.Image.Image": "Pillow",
    "torch.Tensor": "torch",
    "torch.utils.dlpack.ReadOnlyTensorWrapper": "torch",
    "jaxlib._jax.ArrayImpl": "jax",
    "jaxlib._jax.Array": "jax",
    "tensorflow.python.framework.ops._EagerTensorBase": "tensorflow",
    "tensorflow.python.framework.ops.EagerTensor": "tensorflow",
    "pyarrow.lib.Array": "pyarrow.Array",
    "pyarrow.lib.Tensor": "pyarrow.Tensor",
    "pyarrow.lib.FixedShapeTensorArray": "pyarrow.FixedShapeTensorArray",
    "pyarrow.lib.FixedShapeTensorScalar": "pyarrow.FixedShapeTensorArray",
    "paddle.Tensor": "paddle",
    "pandas.core.series.Series": "pandas",
    "pandas.core.indexes.base.Index": "pandas",
    "tvm_ffi.core.Tensor": "tvm-ffi",
    "nanobind.nb_ndarray": "nanobind",
    "nvcv.ExternalBuffer": "cv-cuda",
    "cvcuda._cvcuda.ExternalBuffer": "cv-cuda",
    "cv2.cuda.GpuMat": "opencv",
    "cv2.cuda.GpuMatND": "opencv",
    "python_vali._python_vali.Surface": "vali",
    "python_vali._python_vali.SurfacePlane": "vali",
    "jaxlib._jax.Buffer": "jax.ffi",
    "warp._src.types.array": "warp",
    "mlx.core.array": "mlx",
    "max._core.driver.Buffer": "max",
    "array_api_strict._array_object.Array": "array-api-strict",
    "onnxruntime.capi.onnxruntime_inference_collection.OrtValue": "onnxruntime",
    "open3d.cpu.pybind.core.Tensor": "open3d",
    "mxnet.ndarray.ndarray.NDArray": "mxnet",
    "mxnet.numpy.multiarray.ndarray": "mxnet",
    "cuda.core._memoryview.StridedMemoryView": "cuda.core",
    "cuda.core._memory._buffer.Buffer": "cuda.core",
    "av.video.plane.VideoPlane": "pyav",
    "numba.cuda.cudadrv.devicearray.DeviceNDArray": "numba",
    "numba.cuda.cudadrv.devicearray.DeviceRecord": "numba",
    "pycuda.gpuarray.GPUArray": "pycuda",
    "rmm.pylibrmm.device_buffer.DeviceBuffer": "rmm",
    "cudf.core.buffer.buffer.Buffer": "cudf",
    "cudf.core.buffer.spillable_buffer.SpillableBufferCAIWrapper": "cudf",
    "cudf.core.column.column.ColumnBase": "cudf",
    "cudf.core.column.column.MaskCAIWrapper": "cudf",
    "cudf.core.single_column_frame.SingleColumnFrame": "cudf",
    "pylibcudf.gpumemoryview.gpumemoryview": "pylibcudf",
    "pylibcudf.column.OwnerWithCAI": "pylibcudf",
    "pylibcudf.column.OwnerMaskWithCAI": "pylibcudf",
    "cuml.internals.array.CumlArray": "cuml",
    "pylibraft.common.device_ndarray.device_ndarray": "pylibraft",
    "cuvs.common.device_tensor_view.DeviceTensorView": "cuvs",
    "cupy.ndarray": "cupy",
    "ctypes_dlpack._dlpack.DLPackArray": "ctypes-dlpack",
    "drjit.ArrayBase": "drjit",
    "drjit.llvm.ArrayBase": "drjit",
    "nanoarrow._buffer.CBufferView": "nanoarrow",
    "dpctl.tensor._usmarray.usm_ndarray": "dpctl.tensor",
    "dpnp.tensor._usmarray.usm_ndarray": "dpnp.tensor",
    "dpnp.dpnp_array.dpnp_array": "dpnp",
    "dpctl.memory._memory._Memory": "dpctl.memory",
}
#: Classes whose names resemble these, and which have none.
STRANGERS = ("drjits.ArrayBase", "mine.drjit.ArrayBase", "drjit.arraybase", "numpy.MaskedArray")


def test_a_class_is_known_by_its_package_and_its_name():
    def check(full):
        module, _, name = full.rpartition(".")
        assert _core._plan(named(module, name)())["library"] == KNOWN.get(full)

    walk([*KNOWN, *STRANGERS], check)


def test_each_row_has_a_class_that_is_known_by_it():
    known = {(row, full.rpartition(".")[2]) for full, row in KNOWN.items()}
    assert known == {(row, name) for row, _, name, _ in habits.LIBRARIES}
    for row, package, name, _ in habits.LIBRARIES:
        own = [full for full, its in KNOWN.items() if its == row and full.endswith(f".{name}")]
        assert any(full.startswith(f"{package}.") for full in own), (row, package, name)


def test_traits_may_have_any_of_64_bits():
    assert len(habits.TRAITS) > 32
    column = type("DataArray", (), {"__module__": "xarray.core", "__arrow_c_stream__": len})
    with pytest.raises(BufferError, match="it holds an array"):
        dlshim.from_dlpack(column())


def test_a_type_is_met_while_the_interpreter_ends():
    """In the finaliser of what goes after the modules, whose names say nothing then."""
    out = child.program("first_meeting", "at_the_end")
    assert out == "None True"


# --- who asks -------------------------------------------------------------------------

ASKS = """
def ask(x):
    x.__dlpack_device__()
    return x.__dlpack__(max_version=(1, 0))
"""


class Hostile(str):
    """A name whose code must not run in the middle of an exchange."""

    def __eq__(self, other):
        raise AssertionError("asked whether it is equal")

    def __hash__(self):
        raise AssertionError("asked for its hash")


@pytest.mark.parametrize("kind", [str, Hostile])
@pytest.mark.parametrize(
    ("module", "warns"),
    [
        ("torch.utils.dlpack", True),
        ("torch.utils.dlpack2", False),
        ("torch.utils", False),
        ("mine.torch.utils.dlpack", False),
    ],
)
def test_who_asks_is_known_by_the_whole_name_of_its_module(kind, module, warns):
    names = {"__name__": kind(module)}
    exec(ASKS, names)
    x = dlshim.upgrade(memoryview(b"abc"))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        names["ask"](x)
    assert [each.category for each in told] == [dlshim.ReadOnlyWarning] * warns


@pytest.mark.parametrize("kind", [str, Hostile])
@pytest.mark.parametrize(
    ("module", "refused"),
    [("max.driver", True), ("max.a.b", True), ("max", False), ("maxim.driver", False)],
)
def test_who_asks_is_known_by_the_package_of_its_module(kind, module, refused):
    names = {"__name__": kind(module)}
    exec("def ask(x): x.__dlpack_device__(); return x.__dlpack__()", names)
    x = dlshim.upgrade(memoryview(bytearray(8))[::2])
    if refused:
        with pytest.raises(BufferError, match="max ignores strides"):
            names["ask"](x)
    else:
        names["ask"](x)


# --- what is brought into a library ---------------------------------------------------


def test_the_rows_of_targets_are_made_of_known_words():
    rows = {**habits.TAKES, **habits.TAKES_OF_CLASSES}
    assert {word for row in rows.values() for word in row.words} <= set(habits.TAKER)
    used = {word for row in rows.values() for word in row.words}
    assert used == set(habits.TAKER), "a word that no row has"
    assert {row.layout for row in rows.values()} <= set(habits.LAYOUTS)
    for key, row in rows.items():
        assert row.own, key
        assert bool(row.column) <= ("NO_SCALARS" in row.words), key


def test_each_library_of_columns_has_its_function():
    making = importlib.import_module("dlshim.conversion.making")
    columns = {key for key, row in habits.TAKES.items() if row.column}
    assert set(making.COLUMN) == columns
    assert set(making.MAKE_OF_CLASSES) == set(habits.TAKES_OF_CLASSES)
    assert set(making.MAKE) <= {*habits.TAKES, "jaxlib"}
