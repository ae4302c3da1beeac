"""The table library x library of docs/streams.rst, on the fake CUDA driver.

``pairs.toml`` holds what is told; this module finds it out.  Each pair is tried in three
situations: the producer's work is on a stream of its own, on the legacy stream, or on its own
while the consumer is on the legacy stream; once without dlshim and once with it.

    python -m device.pairs --write     # in tests/: writes the cells of pairs.toml anew
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dlshim
from device.libraries import CUDA, Current, imported
from dlshim import _core
from doubles import capsules as caps
from doubles import device as fake
from doubles import streams
from doubles.arrow_device import PylibcudfColumn
from doubles.device_consumers import CONSUMERS, Asked, Consumer, Situation
from doubles.producers import masquerade
from drivers import Driver

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DATA = Path(__file__).with_name("pairs.toml")
COMMAND = "python -m device.pairs --write, in tests/"
#: What follows this line in the data is written by the command.
MARK = "# --- the cells: [without dlshim, with it] ---\n"


def load() -> dict[str, Any]:
    return tomllib.loads(DATA.read_text(encoding="utf-8"))


#: Name in the table: the double in device.matrix_run, the double of its CUDA array interface, and
#: the source that both are written after.
PRODUCERS = {
    "torch >= 2.10": ("torch", "torch's cai 2", "pytorch/pytorch torch/_tensor.py@00960f7"),
    "torch 2.9": ("torch 2.9", "torch's cai 2", "pytorch/pytorch torch/_tensor.py, 2.9"),
    "torch < 2.9": ("torch 2.8", "torch's cai 2", "pytorch/pytorch torch/_tensor.py, 2.8"),
    "CuPy >= 13.4": ("cupy", "cai 3", "cupy/cupy cupy/_core/core.pyx@6b6d956"),
    "CuPy < 13.4": ("cupy 13", "cai 3", "cupy/cupy cupy/_core/core.pyx, 13.0"),
    "JAX": ("jax", "cai 2", "jax-ml/jax jaxlib/dlpack.cc@cec06d1"),
    "Warp": ("warp", "warp's cai 2", "NVIDIA/warp warp/_src/types.py@9934a4e"),
    "TensorFlow": ("tensorflow", "", "tensorflow/tensorflow python/framework/ops.py, 2.21"),
    "nanobind": ("nanobind", "", "wjakob/nanobind src/nb_ndarray.cpp@1bd3139"),
    "tvm-ffi": ("tvm-ffi", "", "apache/tvm-ffi python/tvm_ffi/cython/tensor.pxi@620fece"),
    "Paddle >= 3.3": (
        "paddle",
        "paddle's cai 2",
        "PaddlePaddle/Paddle tensor_patch_methods.py, 3.3.1",
    ),
    "Paddle < 3.3": (
        "paddle 3.2",
        "paddle's cai 2",
        "PaddlePaddle/Paddle tensor_patch_methods.py, 3.2",
    ),
    "numba": ("cai 3", "cai 3", "NVIDIA/numba-cuda cudadrv/devicearray.py@b18b944"),
    "cuDF column": ("column", "", "rapidsai/cudf pylibcudf/column.pyx@6a22d1d, by Arrow"),
    "PyCUDA": ("pycuda", "pycuda", "inducer/pycuda pycuda/gpuarray.py@19bed90"),
    "CV-CUDA": ("cv-cuda", "", "CVCUDA/CV-CUDA python/mod_nvcv/ExternalBuffer.cpp@da51fc9"),
    "PyAV": ("pyav", "", "PyAV-Org/PyAV av/video/plane.py@7dee9f0"),
    "VALI": ("vali", "", "RomanArzumanyan/VALI src/python_vali/src/PySurface.cpp@2e29773"),
    "cuDF": ("cudf", "cudf", "rapidsai/cudf core/buffer/spillable_buffer.py@6a22d1d"),
    "cuDF, a user's stream": ("cudf", "cudf", "the same, of work on a stream that its user named"),
    "rmm": ("rmm", "rmm", "rapidsai/rmm rmm/pylibrmm/device_buffer.pyx@5d50a37"),
    "rmm, a user's stream": ("rmm", "rmm", "the same, of work on a stream that its user named"),
    "a capsule": ("capsule", "", "a function that gives a legacy capsule"),
}
#: Those that the matrix does not have.
MAKE = {
    **CUDA.make,
    "paddle": fake.named(fake.Paddle),
    "paddle 3.2": fake.named(fake.PaddleOld),
    "paddle's cai 2": masquerade(fake.Cai2, "Tensor", "paddle"),
    "pyav": fake.named(fake.VideoPlane),
    "vali": fake.named(fake.ValiLike),
    "cudf": fake.named(fake.CudfLike),
    "column": PylibcudfColumn,
}

#: Who works (kind of P), and where the consumer is (kind of S).
SITUATIONS = (("N", "N"), ("L", "N"), ("N", "L"))
#: They work on the default stream, unless their user passes them another (S11).
ON_L = ("PyCUDA", "cuDF", "rmm")


class Version(Current):
    """A library whose release dlshim asks for."""

    def __init__(self, version: str) -> None:
        super().__init__(streams.TorchStream, 1)
        self.version = version


@contextmanager
def libraries(producer: str) -> Iterator[dict[str, Current]]:
    """All are imported, Paddle in the release of the row."""
    paddle = Version("3.2.0" if producer == "Paddle < 3.3" else "3.3.1")
    more = {"paddle": paddle, **{name: Version("26.4") for name in ("rmm", "cudf", "pycuda")}}
    with CUDA.imported(), imported(more):
        yield {**CUDA.current, **more}


REFUSED = "refused"
#: Bare, JAX passes -1 to the driver as a handle: the fake ends the process, as a driver may.
CRASHES = {
    ("JAX", "mpi4py", "bare"): "crash",
    ("JAX", "numba kernel", "bare"): "crash",
}
WAITS = frozenset(("cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize"))


class Pair:
    """One exchange in one situation."""

    def __init__(
        self,
        drv: Driver,
        producer: str,
        consumer: Consumer,
        p: str,
        s: str,
        current: dict[str, Current],
    ) -> None:
        drv.reset()
        self.drv, self.consumer = drv, consumer
        stream = drv.stream_new(0, False, name="P") if p == "N" else 1
        for each in current.values():
            each.handle = stream
        self.array = MAKE[producer](drv, stream)
        self.kind = producer
        drv.set_current(drv.context(0))
        own = drv.stream_new(0, False, name="own")
        self.at = Situation(drv, drv.stream_new(0, False, name="S") if s == "N" else 1, own)
        assert not self.array.write()

    def source(self) -> Any:
        return self.array() if self.kind == "capsule" else self.array

    def bare(self) -> Any:
        """What a user without dlshim hands over."""
        source = self.source()
        if self.consumer.takes == "capsule" and hasattr(source, "__dlpack__"):
            return source.__dlpack__()
        if self.consumer.takes == "capsule" and hasattr(source, "toDlpack"):
            return source.toDlpack()
        return source

    def upgraded(self) -> Any:
        source = self.source()
        # A column is read-only, which DLPack 0.x cannot say; the order is what is asked for here.
        options: Any = {"readonly": "share"} if self.kind == "column" else {}
        if self.consumer.takes == "capsule":
            return dlshim.to_capsule(source, **options)
        if self.consumer.takes == "interface":
            return dlshim.from_dlpack(source)
        return dlshim.upgrade(source, **options)

    def outcome(self, make: Callable[[], Any]) -> str:
        """ "ordered", "race" or "refused", with what it costs."""
        drv = self.drv
        drv.clear_log()
        try:
            asked: Asked = self.consumer.ask(make(), self.at)
        except Exception as error:
            return f"{REFUSED}: {type(error).__name__}"
        calls = set(drv.calls())
        race = drv.read(asked.stream, self.array.address)
        release = getattr(asked.taken, "release", None)
        if release is not None:
            release()
        if race:
            return "race"
        waits = "the host waits" if calls & WAITS else ""
        device = "the whole device" if "cuCtxRecordEvent" in calls else ""
        return ", ".join(filter(None, ("ordered", waits, device)))


def worst(outcomes: list[str]) -> str:
    """What the table tells of several situations: a refusal, else a race, else the dearest."""
    for begins in (REFUSED, "race"):
        for outcome in outcomes:
            if outcome.startswith(begins):
                return outcome
    return max(outcomes, key=len)


def tell(drv: Driver, producer: str, consumer: str, way: str) -> str:
    if (producer, consumer, way) in CRASHES:
        return CRASHES[producer, consumer, way]
    double, interface, _ = PRODUCERS[producer]
    if way == "bare" and CONSUMERS[consumer].takes == "interface":
        double = interface or double
    outcomes = []
    _core._hook("forget_plans")  # one name may stand for several releases
    with libraries(producer) as current:
        for p, s in SITUATIONS:
            if producer in ON_L and p != "L":
                continue
            pair = Pair(drv, double, CONSUMERS[consumer], p, s, current)
            outcomes.append(pair.outcome(getattr(pair, way)))
            del pair
    caps.close_accounts()
    return worst(outcomes)


def table(drv: Driver) -> Iterator[tuple[str, str, str, str]]:
    """(producer, consumer, bare, upgraded) of every pair."""
    for producer in PRODUCERS:
        for consumer in CONSUMERS:
            bare = tell(drv, producer, consumer, "bare")
            yield producer, consumer, bare, tell(drv, producer, consumer, "upgraded")


def as_toml(rows: list[tuple[str, str, str, str]]) -> str:
    lines = []
    for producer in dict.fromkeys(row[0] for row in rows):
        lines += ["", f'[cells."{producer}"]']
        for _, consumer, bare, upgraded in (row for row in rows if row[0] == producer):
            lines.append(f'"{consumer}" = ["{bare}", "{upgraded}"]')
    return "\n".join(lines) + "\n"


PRINT = """
from device import pairs
print(pairs.as_toml(list(pairs.table(drv))))
"""


if __name__ == "__main__":
    from drivers import run_with_driver

    cells = run_with_driver("13.0", PRINT).rstrip() + "\n"
    if "--write" in sys.argv:
        written, _, _ = DATA.read_text(encoding="utf-8").partition(MARK)
        DATA.write_text(written + MARK + cells, encoding="utf-8")
    else:
        sys.stdout.write(cells)
