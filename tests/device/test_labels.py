"""Labels that are wrong (rule S26), and producers that take `stream` and ignore it (S2)."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import pytest

import dlshim
from doubles import capsules as caps
from doubles import device as fake
from doubles.producers import fresh, masquerade
from drivers import Driver, checks, run_checks

VARIANTS = ("9.2", "13.0")
ASKED = {"cuPointerGetAttributes", "cuThreadExchangeStreamCaptureMode"}
TensorFlow = fake.named(fake.TensorFlowLike)
Nvcv = fake.named(fake.NvcvLike)
Vali = fake.named(fake.ValiLike)
GpuMat = fake.named(fake.GpuMatLike)
#: Those that take a stream, and do nothing with it.
IGNORING = {
    Nvcv: "cv-cuda",
    masquerade(fake.NvcvLike, "ExternalBuffer", "cvcuda._cvcuda"): "cv-cuda",
    GpuMat: "opencv",
    masquerade(fake.GpuMatLike, "GpuMatND", "cv2.cuda"): "opencv",
    fake.named(fake.CtypesArray): "ctypes-dlpack",
    Vali: "vali",
    masquerade(fake.ValiLike, "SurfacePlane", "python_vali"): "vali",
}


def ways(x: Any, stream: int) -> dict[str, tuple[int, int]]:
    """The device that each consumer sees."""
    taken = caps.take(dlshim.upgrade(x).__dlpack__(stream=stream))
    device = taken.view.device
    taken.release()
    return {
        "answer": dlshim.upgrade(x).__dlpack_device__(),
        "export": device,
        "Tensor": dlshim.from_dlpack(x).device,
        "capsule": dlshim._core._peek(dlshim.to_capsule(x))["device"],
    }


def check_the_number_of_the_device(drv: Driver) -> None:
    """TensorFlow's own numbering; CV-CUDA's 0 and OpenCV's."""
    for device, label, stream in itertools.product((0, 1), (0, 1, 5), (-1, 1)):
        drv.reset()
        drv.set_current(drv.context(0))
        x = TensorFlow(drv, 1, device=device, label=(2, label))
        for _ in range(2):
            assert set(ways(x, stream).values()) == {(2, device)}, (device, label, stream)
        for make in (Nvcv, GpuMat):
            y = make(drv, 1, device=device)
            assert set(ways(y, stream).values()) == {(2, device)}, (make, device, stream)
    caps.close_accounts()


def check_memory_of_the_host_that_is_called_the_gpus(drv: Driver) -> None:
    """int32 of TensorFlow "on the GPU": plain memory, or pinned by its allocator."""
    drv.reset()
    drv.set_current(drv.context(0))
    plain = (ctypes.c_int32 * 6)(*range(6))
    pinned = drv.alloc(24, 0, "pinned")
    for address in (ctypes.addressof(plain), pinned):
        x = TensorFlow(drv, 1, dtype="int32", address=address, label=(2, 0))
        for _ in range(2):
            assert set(ways(x, 1).values()) == {(1, 0)}
        taken = caps.take(dlshim.upgrade(x, device="cpu").__dlpack__())
        assert taken.view.device == (1, 0) and taken.view.data == address
        taken.release()
    caps.close_accounts()


def check_the_option_is_believed(drv: Driver) -> None:
    drv.reset()
    drv.set_current(drv.context(0))
    x = TensorFlow(drv, 1, device=1, label=(2, 0))
    taken = caps.take(dlshim.upgrade(x, assume_device="cuda:0").__dlpack__())
    assert taken.view.device == (2, 0)
    taken.release()
    caps.close_accounts()


def check_everybody_else_is_believed_and_not_asked_about(drv: Driver) -> None:
    """A right label costs one question of the rows that are checked, and none of others."""
    for make, asked in ((TensorFlow, ASKED), (fake.named(fake.Silent), set())):
        drv.reset()
        drv.set_current(drv.context(0))
        x = make(drv, 1)
        dlshim.upgrade(x).__dlpack__(stream=-1)
        drv.clear_log()
        dlshim.upgrade(x).__dlpack__(stream=-1)
        assert set(drv.calls(by="")) <= asked, make
        assert not drv.gil_held_calls(every=True)
        empty = make(drv, 1, shape=(0, 3))
        drv.clear_log()
        dlshim.upgrade(empty).__dlpack__(stream=-1)
        assert drv.calls(by="") == [], make
    caps.close_accounts()


def check_inspect_tells_where_label_and_driver_disagree(drv: Driver) -> None:
    drv.reset()
    drv.set_current(drv.context(0))
    x = TensorFlow(drv, 1, device=1, label=(2, 0))
    report = dlshim.inspect(x, export=True)
    assert report.device == (2, 1)
    assert any("(2, 0)" in note and "(2, 1)" in note for note in report.notes), report.notes
    stranger = fake.NoKw(drv, 1, device=1)
    stranger.device = (2, 0)
    report = dlshim.inspect(stranger, export=True)
    assert report.device == (2, 0)
    assert any("the driver says (2, 1)" in note for note in report.notes), report.notes
    capsule = dlshim.inspect(stranger._legacy())
    assert any("the driver says (2, 1)" in note for note in capsule.notes)
    for right in (fake.NoKw(drv, 1, device=1), fake.NoKw(drv, 1, device=1, kind="managed"),
                  fake.NoKw(drv, 1, shape=(0, 2))):  # fmt: skip
        assert dlshim.inspect(right, export=True).notes == (), right.device
    caps.close_accounts()


# --- who takes the stream and does nothing with it ---------------------------------------


class Scene:
    def __init__(self, drv: Driver, make: Any, **fields: Any) -> None:
        drv.reset()
        drv.set_current(drv.context(0))
        self.drv = drv
        self.p = drv.stream_new(0, False, name="P")
        self.s = drv.stream_new(0, False, name="S")
        self.array = make(drv, self.p, **fields)
        assert not self.array.write()

    def races(self) -> bool:
        return self.drv.read(self.s, self.array.address)


def check_who_ignores_the_stream_is_synced(drv: Driver) -> None:
    for make, name in IGNORING.items():
        for _ in range(2):
            scene = Scene(drv, make)
            taken = caps.take(dlshim.upgrade(scene.array).__dlpack__(stream=scene.s))
            assert not scene.races(), make
            taken.release()
        assert dlshim.inspect(scene.array).library == name
    caps.close_accounts()


def check_who_refuses_a_stream_is_asked_for_every_stream(drv: Driver) -> None:
    """As bare, where None or a handle is refused: first one value, and then the others."""
    for make in IGNORING:
        kind = fresh(make)
        for asked in ({"stream": 1}, {}, {"stream": None}, {"stream": -1}, {"stream": "S"}, {}):
            scene = Scene(drv, kind)
            given = {"stream": scene.s} if asked == {"stream": "S"} else asked
            taken = caps.take(dlshim.upgrade(scene.array).__dlpack__(**given))
            assert taken.view.device == (2, 0), (make, asked)
            taken.release()
    caps.close_accounts()


def check_a_surface_of_vali_is_kept(drv: Driver) -> None:
    """Its capsule does not: a struct of dlshim's holds the object."""
    import gc
    import weakref

    scene = Scene(drv, Vali)
    gone = weakref.ref(scene.array)
    taken = caps.take(dlshim.upgrade(scene.array).__dlpack__(stream=scene.s))
    del scene
    gc.collect()
    assert gone() is not None
    taken.release()


class Unheard(fake.DeviceArray):
    """Takes `stream` as everybody does, and ignores it."""

    TAKES = ("stream",)

    def answer(self, stream: Any = None) -> Any:
        return self._legacy()


def check_one_that_nobody_has_heard_of(drv: Driver) -> None:
    """It is believed (S2).  Its raw capsule is not: the way that the guide names."""
    scene = Scene(drv, Unheard)
    dlshim.upgrade(scene.array).__dlpack__(stream=scene.s)
    assert scene.races(), "else this test shows nothing"
    for options in ({}, {"producer_stream": "P"}):
        scene = Scene(drv, Unheard)
        given = dict.fromkeys(options, scene.p)
        wrapped = dlshim.upgrade(scene.array.__dlpack__(), **given)
        taken = caps.take(wrapped.__dlpack__(stream=scene.s))
        assert not scene.races(), options
        taken.release()
        del wrapped
    caps.close_accounts()


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), VARIANTS))
def test_labels(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]


@checks.only_on("13.0")
def check_memory_that_lies_where_it_is_wanted_is_synced_with_s(drv: Driver) -> None:
    """The label says another device, so a copy was begun; the tensor says that none is needed."""
    kind = fake.named(fake.NvcvLike)
    for options, keywords in (
        ({}, {"dl_device": (2, 1), "stream": "S"}),
        ({}, {"dl_device": (2, 1), "stream": "S", "copy": False}),
        ({"device": "cuda:1", "stream": "wait"}, {}),
    ):
        drv.reset()
        drv.set_current(drv.context(0))
        p, s = drv.stream_new(1, False, name="P"), drv.stream_new(1, False, name="S")
        array = kind(drv, p, device=1)
        assert not array.write()
        given = {k: s if v == "S" else v for k, v in keywords.items()}
        taken = caps.take(dlshim.upgrade(array, **options).__dlpack__(max_version=(1, 0), **given))
        assert taken.view.device == (2, 1) and not taken.view.copied
        assert not drv.read(s, taken.view.data), (options, drv.races())
        taken.release()
    caps.close_accounts()
