"""The doubles of torch, JAX, Paddle and Warp against these libraries' own Python, which runs
unmodified on stubs.

What decides about streams in these libraries is Python: `__dlpack__` (torch/_tensor.py,
paddle/base/dygraph/tensor_patch_methods.py, warp/_src/types.py), and `from_dlpack`
(torch/utils/dlpack.py, jax/_src/dlpack.py, paddle/utils/dlpack.py, warp/_src/dlpack.py).  It runs
here as it was installed; what it calls of C++ and of CUDA is a stub that notes it.  Where a release
changes it, the double fails.  `nox -s real-python` has all four.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from dlshim import library_calls
from doubles import device as fake
from doubles import device_consumers as consumers
from doubles import vendors
from doubles.device_consumers import Situation
from doubles.producers import masquerade

P, S, Q = 0x7C2000000010, 0x7C2000000020, 0x7C2000000030
LEGACY = vendors.CUDA.legacy


class Asked:
    """A producer that notes how it is asked, and refuses keywords by TypeError."""

    takes: tuple[str, ...] = ("stream", "max_version", "dl_device", "copy")
    device = (2, 0)

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.dtype = "float32"

    def __dlpack_device__(self) -> tuple[int, int]:
        self.log.append("device")
        return self.device

    def __dlpack__(self, **keywords: Any) -> Any:
        self.log.append(sorted(keywords.items()))
        if not keywords.keys() <= set(self.takes):
            raise TypeError("unexpected keyword")
        return self


class Stream(Asked):
    takes = ("stream",)


class Nothing(Asked):
    takes = ()


class Pinned(Asked):
    device = (3, 0)


class Managed(Asked):
    device = (13, 0)


class OfTheHost(Asked):
    device = (1, 0)


TensorFlow = masquerade(Asked, "EagerTensor", "tensorflow.python.framework.ops")


def asked_by(consume: Callable[[Any], object], cls: type[Asked]) -> list[Any]:
    x = cls()
    try:
        consume(x)
    except TypeError:
        x.log.append(TypeError)
    return x.log


@pytest.fixture
def doubled(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Callable[[Any], object]]:
    """A double of a consumer that takes whatever it is given."""
    monkeypatch.setattr(consumers, "_imported", lambda capsule, stream: capsule)
    monkeypatch.setattr(consumers, "_insist_on_legacy", lambda capsule: capsule)
    drv: Any = None
    return lambda ask, s: lambda x: ask(x, Situation(drv, s, S))


@pytest.mark.parametrize("cls", (Asked, Stream, Nothing))
@pytest.mark.parametrize("s", (0, S))
def test_torch_asks_as_its_double(
    monkeypatch: pytest.MonkeyPatch, doubled: Any, cls: type[Asked], s: int
) -> None:
    torch = pytest.importorskip("torch", minversion="2.9")
    monkeypatch.setattr(torch.cuda, "current_stream", lambda *where: SimpleNamespace(cuda_stream=s))
    monkeypatch.setattr(torch._C, "_from_dlpack", lambda capsule: capsule)
    real = asked_by(torch.utils.dlpack.from_dlpack, cls)
    double = asked_by(doubled(consumers.torch, s), cls)
    if cls is Nothing:  # torch tries the same call once more for `copy` and for `dl_device`
        real = [*dict.fromkeys(map(str, real))]
        double = [*dict.fromkeys(map(str, double))]
    assert real == double


@pytest.mark.parametrize("cls", (Asked, Stream, Pinned, TensorFlow))
def test_jax_asks_as_its_double(
    monkeypatch: pytest.MonkeyPatch, doubled: Any, cls: type[Asked]
) -> None:
    module = pytest.importorskip("jax._src.dlpack", reason="JAX is not installed")
    device = SimpleNamespace(get_stream_for_external_ready_events=lambda: S)
    backend = SimpleNamespace(device_from_local_hardware_id=lambda number: device)
    monkeypatch.setattr(module, "xla_bridge", SimpleNamespace(get_backend=lambda name: backend))
    buffer = SimpleNamespace(
        dlpack_managed_tensor_to_buffer=lambda capsule, *more: capsule,
        JaxRuntimeError=module._jax.JaxRuntimeError,
    )
    monkeypatch.setattr(module, "_jax", buffer)
    monkeypatch.setattr(module, "jnp", SimpleNamespace(asarray=lambda x, dtype: x))
    monkeypatch.setattr(module, "dtypes", SimpleNamespace(canonicalize_dtype=lambda dtype: dtype))
    monkeypatch.setattr(module, "_check_device", lambda *given: None)
    monkeypatch.setattr(module, "_place_array", lambda x, *given: x)
    assert asked_by(module.from_dlpack, cls) == asked_by(doubled(consumers.jax, S), cls)


@pytest.mark.parametrize("cls", (Asked, Stream, Nothing, Managed, Pinned, OfTheHost))
@pytest.mark.parametrize("s", (0, S))
def test_paddle_asks_as_its_double(
    monkeypatch: pytest.MonkeyPatch, doubled: Any, cls: type[Asked], s: int
) -> None:
    paddle = pytest.importorskip("paddle", minversion="3.3", reason="no Paddle 3.3 is installed")
    module = paddle.utils.dlpack
    current = SimpleNamespace(cuda_stream=s)
    monkeypatch.setattr(paddle.device.cuda, "current_stream", lambda device: current)
    monkeypatch.setattr(paddle.base.core, "from_dlpack", lambda capsule: capsule)
    monkeypatch.setattr(module, "in_dygraph_mode", lambda: False)
    assert asked_by(module.from_dlpack, cls) == asked_by(doubled(consumers.paddle, s), cls)


@pytest.mark.parametrize("cls", (Asked, Stream, Nothing, Managed, Pinned, OfTheHost))
@pytest.mark.parametrize("s", (0, S))
def test_warp_asks_as_its_double(
    monkeypatch: pytest.MonkeyPatch, doubled: Any, cls: type[Asked], s: int
) -> None:
    warp = pytest.importorskip("warp", reason="Warp is not installed")
    module = warp._src.dlpack
    stream = SimpleNamespace(cuda_stream=s or None)
    device = SimpleNamespace(stream=stream)
    monkeypatch.setattr(warp, "get_cuda_device", lambda number=0: device)
    monkeypatch.setattr(module, "_from_dlpack", lambda capsule, **how: capsule)
    assert asked_by(module.from_dlpack, cls) == asked_by(doubled(consumers.warp, s), cls)


class Noting:
    """The double of a producer without a driver: it notes its edges."""

    def __init__(self, current: int = 0) -> None:
        self.vendor, self.stream, self.index, self.device = vendors.CUDA, P, 0, (2, 0)
        self.now, self.log = current, list[Any]()

    def current_device(self) -> int:
        return self.now

    def edge(self, p: int, s: int, *more: Any, **where: Any) -> None:
        self.log.append((p, s))

    def wait_for(self, stream: int) -> None:
        self.log.append(stream)

    def answer_in(self, max_version: Any, **fields: Any) -> Any:
        return "versioned" if max_version else "legacy"

    def _legacy(self) -> Any:
        return "legacy"


class TorchDouble(Noting, fake.TorchLike):
    pass


class PaddleDouble(Noting, fake.Paddle):
    """Its current streams by device."""

    streams = {0: P, 1: Q}
    current_device = fake.Paddle.current_device

    def __init__(self) -> None:
        super().__init__()
        self.current, self.drv = self.streams, SimpleNamespace(context=lambda number: number)


class PaddleOldDouble(Noting, fake.PaddleOld):
    pass


class WarpDouble(Noting, fake.WarpLike):
    pass


def exported(export: Callable[..., Any], log: list[Any], keywords: dict[str, Any]) -> Any:
    try:
        return export(**keywords), log
    except Exception as error:
        return type(error), log


STREAMS = pytest.mark.parametrize(
    "stream", ("omitted", None, -1, 0, 1, 2, P, S, True, "x", -2), ids=lambda value: str(value)
)
VERSIONS = pytest.mark.parametrize("version", (None, (1, 0)))


def keywords_of(stream: Any, version: Any = None) -> dict[str, Any]:
    told = {} if stream == "omitted" else {"stream": stream}
    return told | ({"max_version": version} if version else {})


@pytest.mark.parametrize("current", (0, 1))
@VERSIONS
@STREAMS
def test_torch_exports_as_its_double(
    monkeypatch: pytest.MonkeyPatch, stream: Any, version: Any, current: int
) -> None:
    torch = pytest.importorskip("torch", minversion="2.10")
    log: list[Any] = []

    class CudaStream:
        def __init__(self, handle: int) -> None:
            self.handle = handle

        def __eq__(self, other: object) -> bool:
            return isinstance(other, CudaStream) and other.handle == self.handle

        __hash__ = None  # type: ignore[assignment]

        def wait_event(self, event: Any) -> None:
            log.append((event.recorded, self.handle))

    class Event:
        def record(self, on: CudaStream) -> None:
            self.recorded = on.handle

    for name, stub in {
        "current_device": lambda: current,
        "current_stream": lambda *where: CudaStream(P),
        "default_stream": lambda *where: CudaStream(0),
        "ExternalStream": CudaStream,
        "Event": Event,
    }.items():
        monkeypatch.setattr(torch.cuda, name, stub)
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch._C, "_to_dlpack", lambda *given, **more: "legacy")
    monkeypatch.setattr(torch, "to_dlpack", lambda *given, **more: "legacy", raising=False)
    monkeypatch.setattr(torch._C, "_to_dlpack_versioned", lambda *given, **more: "versioned")
    x = SimpleNamespace(
        requires_grad=False,
        is_conj=lambda: False,
        is_neg=lambda: False,
        layout=torch.strided,
        device=SimpleNamespace(type="cuda", index=0),
    )
    keywords = keywords_of(stream, version)
    real = exported(lambda **k: torch.Tensor.__dlpack__(x, **k), log, keywords)
    double = TorchDouble(current)
    assert real == exported(double.answer, double.log, keywords)


class Place:
    """`paddle.CUDAPlace`, which a wheel for the CPU does not make."""

    def __init__(self, number: int) -> None:
        self.number = number

    def get_device_id(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and other.number == self.number

    __hash__ = None  # type: ignore[assignment]


def paddle_on(monkeypatch: pytest.MonkeyPatch, place: int | None, log: list[Any]) -> Any:
    """Paddle whose current device is this one (None: the CPU), and a tensor on GPU 0.  Its Python
    runs; handles and events are stubs."""
    paddle = pytest.importorskip("paddle", minversion="3.3", reason="no Paddle 3.3 is installed")
    core, framework = paddle.base.core, paddle.base.framework

    class Event:
        def record(self, on: Any) -> None:
            self.recorded = on.stream_base.raw_stream

    def stream_of(stream_base: Any) -> Any:
        """`paddle.device.Stream`, of device 0."""
        handle = stream_base.raw_stream
        return SimpleNamespace(
            stream_base=stream_base,
            device="gpu:0",
            wait_event=lambda event: log.append((event.recorded, handle)),
        )

    def base(handle: int) -> Any:
        return SimpleNamespace(raw_stream=handle)

    module = paddle.device.current_stream.__globals__  # `paddle.device` itself may stand before it
    monkeypatch.setitem(module, "Stream", stream_of)
    monkeypatch.setattr(paddle.device, "Stream", stream_of)
    monkeypatch.setattr(paddle.device, "Event", Event)
    for name, stub in {
        "_get_legacy_default_stream": lambda number: base(LEGACY),
        "_get_current_stream": lambda number: base(PaddleDouble.streams[number]),
        "_get_stream_from_external": lambda handle, number: base(handle),
        "is_compiled_with_cuda": lambda: True,
        "CUDAPlace": Place,
    }.items():
        monkeypatch.setattr(core, name, stub, raising=False)
    monkeypatch.setattr(paddle, "CUDAPlace", Place)
    monkeypatch.setattr(paddle, "is_compiled_with_rocm", lambda: False)
    monkeypatch.setattr(paddle, "is_compiled_with_cuda", lambda: True)
    monkeypatch.setattr(framework, "_set_dygraph_tracer_expected_place", lambda place: None)
    now = core.CPUPlace() if place is None else Place(place)
    monkeypatch.setattr(framework, "_global_expected_place_", now)
    x = SimpleNamespace(
        is_sparse=lambda: False,
        stop_gradient=True,
        place=SimpleNamespace(is_gpu_place=lambda: True, is_cpu_place=lambda: False),
        get_tensor=lambda: SimpleNamespace(
            _to_dlpack=lambda **how: "legacy", _to_dlpack_versioned=lambda **how: "versioned"
        ),
    )
    return paddle, x


@pytest.mark.parametrize("place", (0, 1, None))
@VERSIONS
@STREAMS
def test_paddle_exports_as_its_double(
    monkeypatch: pytest.MonkeyPatch, stream: Any, version: Any, place: int | None
) -> None:
    log: list[Any] = []
    paddle, x = paddle_on(monkeypatch, place, log)
    monkeypatch.setattr(fake.PADDLE, "place", place)
    keywords = keywords_of(stream, version)
    real = exported(lambda **k: paddle.Tensor.__dlpack__(x, **k), log, keywords)
    double = PaddleDouble()
    assert real == exported(double.answer, double.log, keywords)


@pytest.mark.parametrize("place", (0, 1, None))
def test_paddles_own_guard_makes_its_event_one_of_the_arrays_device(
    monkeypatch: pytest.MonkeyPatch, place: int | None
) -> None:
    log: list[Any] = []
    paddle, x = paddle_on(monkeypatch, place, log)
    before = paddle.framework._current_expected_place_()
    guard = library_calls.paddle_device_guard(x, 0)
    assert (guard is None) == (place == 0)
    with guard or nullcontext():
        paddle.Tensor.__dlpack__(x, stream=S)
    assert log == [(P, S)]
    assert paddle.framework._current_expected_place_() is before


@STREAMS
def test_old_paddle_exports_as_its_double(monkeypatch: pytest.MonkeyPatch, stream: Any) -> None:
    paddle = pytest.importorskip("paddle", reason="Paddle is not installed")
    if not (3, 0) <= tuple(map(int, paddle.__version__.split(".")[:2])) < (3, 3):
        pytest.skip(f"of Paddle 3.0 to 3.2, and {paddle.__version__} is installed")
    log: list[Any] = []
    current = SimpleNamespace(synchronize=lambda: log.append(P))
    event = SimpleNamespace(record=lambda stream: None)
    monkeypatch.setattr(paddle.device.cuda, "current_stream", lambda: current)
    monkeypatch.setattr(paddle.device.cuda, "Event", lambda: event)
    monkeypatch.setattr(paddle, "to_dlpack", lambda x: "legacy")
    x = SimpleNamespace(
        is_sparse=lambda: False,
        stop_gradient=True,
        place=SimpleNamespace(is_gpu_place=lambda: True),
    )
    keywords = keywords_of(stream)
    real = exported(lambda **k: paddle.Tensor.__dlpack__(x, **k), log, keywords)
    double = PaddleOldDouble()
    assert real == exported(double.answer, double.log, keywords)


@STREAMS
def test_warp_exports_as_its_double(monkeypatch: pytest.MonkeyPatch, stream: Any) -> None:
    warp = pytest.importorskip("warp", reason="Warp is not installed")
    log: list[Any] = []

    def wait(s: int, p: int, event: int, timing: bool) -> None:
        log.append((p, s))

    runtime = SimpleNamespace(core=SimpleNamespace(wp_cuda_stream_wait_stream=wait))
    monkeypatch.setattr(warp._src.context, "runtime", runtime)
    monkeypatch.setattr(warp._src.dlpack, "to_dlpack", lambda x: "legacy")
    current = SimpleNamespace(cuda_stream=P, cached_event=SimpleNamespace(cuda_event=7))
    x = SimpleNamespace(device=SimpleNamespace(is_cuda=True, is_cpu=False, stream=current))
    keywords = keywords_of(stream)
    real = exported(lambda **k: warp.array.__dlpack__(x, **k), log, keywords)
    double = WarpDouble()
    assert real == exported(double.answer, double.log, keywords)
