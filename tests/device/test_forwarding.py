"""A class that passes on what it is asked holds arrays of several generations (rules N1 and T8).

What one object refuses is about the array that it holds, and costs no other object of the class
its flags: each exchange ends as it does for a class that nobody has met.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

import dlshim
from device.scene import Scene
from doubles import capsules as caps
from doubles import device as fake
from doubles.capsules import READ_ONLY
from doubles.delegating import Forwarding, NamesKeywords
from drivers import ALL_LIVE, checks, run_checks

LIVE = ("9.2", "12.2", "13.0", "hip5", "hip7")
MODERN = {"max_version": (1, 0)}


class New(fake.DeviceArray):
    """DLPack 1.x, read-only; a bare call answers without a word of that, as JAX's does."""

    TAKES = fake.ALL_KEYWORDS

    def answer(self, stream: Any = None, max_version: Any = None, **asked: Any) -> Any:
        stream = self.vendor.legacy if stream is None else stream
        if stream not in (-1, self.stream):
            self.edge(self.stream, stream)
        if fake.wants_versioned(max_version):
            return self._versioned(flags=READ_ONLY)
        return self._legacy()


class Old(New):
    TAKES = ("stream",)


HELD = {"new": New, "old": Old, "bare": fake.NoKw}


class Unplaced(Forwarding):
    """Its device question fails."""

    def __dlpack_device__(self) -> Any:
        raise RuntimeError("nobody knows")


CLASSES = (Forwarding, NamesKeywords, Unplaced)


def exported(x: Any, **keywords: Any) -> Any:
    return dlshim.upgrade(x).__dlpack__(**keywords)


#: How it is asked for: (scene, object) -> a capsule.
WAYS: dict[str, Any] = {
    "versioned": lambda scene, x: exported(x, **MODERN),
    "versioned, S": lambda scene, x: exported(x, stream=scene.s, **MODERN),
    "versioned, -1": lambda scene, x: exported(x, stream=-1, **MODERN),
    "versioned, its device": lambda scene, x: exported(
        x, stream=scene.s, dl_device=x.inner.__dlpack_device__(), **MODERN
    ),
    "versioned, host": lambda scene, x: exported(x, dl_device=(1, 0), **MODERN),
    "versioned, copy": lambda scene, x: exported(x, stream=scene.s, copy=True, **MODERN),
    "versioned, no copy": lambda scene, x: exported(x, stream=scene.s, copy=False, **MODERN),
    "legacy": lambda scene, x: exported(x),
    "legacy, S": lambda scene, x: exported(x, stream=scene.s),
    "legacy, -1": lambda scene, x: exported(x, stream=-1),
    "to_capsule": lambda scene, x: dlshim.to_capsule(x, max_version=(1, 0)),
    "from_dlpack": lambda scene, x: dlshim.from_dlpack(x, stream=scene.s).__dlpack__(
        stream=scene.s, **MODERN
    ),
}


def outcome(drv: Any, way: str, cls: type, held: str) -> tuple[Any, list[object]]:
    """What comes of it, and how the array was asked."""
    scene = Scene(drv)
    inner = scene.array(HELD[held])
    try:
        capsule = WAYS[way](scene, cls(inner))
    except BufferError as error:
        told = str(error).partition("object: ")[2]
        caps.close_accounts()
        return ("refused", told), inner.keywords
    name = caps.name_of(capsule)
    with caps.take(capsule) as taken:
        flags = taken.view.flags if name == caps.VERSIONED else None
        place = taken.view.device
    caps.close_accounts()
    return (name, flags, place), inner.keywords


def fresh(base: type) -> type:
    return type(base.__name__, (base,), {})


def check_no_order_decides(drv: Any) -> None:
    for base, way in itertools.product(CLASSES, WAYS):
        alone = {held: outcome(drv, way, fresh(base), held)[0] for held in HELD}
        if way.startswith("versioned") and "copy" not in way.replace("no copy", ""):
            assert alone["new"][1] & READ_ONLY or "host" in way, (base, way, alone)
        for order in itertools.permutations([*HELD, "new"]):
            cls = fresh(base)
            for n, held in enumerate(order):
                came, asked = outcome(drv, way, cls, held)
                assert came == alone[held], (base, way, order[: n + 1], came, alone, asked)


def check_no_way_before_decides(drv: Any) -> None:
    """What was asked for before in another way costs nothing either."""
    alone = {way: outcome(drv, way, fresh(Forwarding), "new")[0] for way in WAYS}
    for first, then, met in itertools.product(WAYS, WAYS, ("old", "bare", "new")):
        cls = fresh(Forwarding)
        outcome(drv, first, cls, met)
        came, asked = outcome(drv, then, cls, "new")
        assert came == alone[then], (first, met, then, came, asked)


def check_a_modern_array_is_asked_once(drv: Any) -> None:
    """Whatever was met before, and although a refusal was: it is asked in full at once."""
    for order in itertools.permutations(("old", "bare", "new")):
        cls = fresh(Forwarding)
        for held in (*order, "new"):
            _, asked = outcome(drv, "versioned, S", cls, held)
            assert held != "new" or len(asked) == 1, (order, asked)


def check_a_type_of_one_generation_is_asked_once(drv: Any) -> None:
    """Its own signature refuses, so the refusal is learned."""

    class Own(Old):
        def __dlpack__(self, *, stream: Any = None) -> Any:
            return super().__dlpack__(stream=stream)

    for cls in (fresh(Own), fresh(Old), fresh(New), fresh(fake.NoKw)):
        for n in range(3):
            scene = Scene(drv)
            x = scene.array(cls)
            caps.take(exported(x, stream=scene.s, **MODERN)).release()
            assert n == 0 or len(x.keywords) == 1, (cls, x.keywords)
            caps.close_accounts()


def check_a_refusal_of_the_data_is_no_refusal_of_the_version(drv: Any) -> None:
    class OwnTypeError(TypeError):
        pass

    class Refuses(New):
        failure: Exception | None = None

        def answer(self, **asked: Any) -> Any:
            if self.failure is not None:
                raise self.failure
            return super().answer(**asked)

    for base, learned, stream in itertools.product(
        (Forwarding, NamesKeywords), (False, True), (-1, None, "S")
    ):
        cls = fresh(base)
        scene = Scene(drv)
        if learned:
            caps.take(exported(cls(scene.array(Refuses)), **MODERN)).release()
        inner = scene.array(Refuses)
        inner.failure = OwnTypeError("no dtype of DLPack")
        named = {"stream": scene.s if stream == "S" else stream} if stream else {}
        with pytest.raises(BufferError, match="no dtype of DLPack") as error:
            exported(cls(inner), **named, **MODERN)
        assert error.value.__cause__ is inner.failure
        # A method that takes any keyword may pass on what the array in it does not take.
        in_full = all("max_version" in asked for asked in inner.keywords)
        assert in_full or base is Forwarding, inner.keywords
        caps.close_accounts()


def check_a_warning_of_a_fallback_is_not_told(drv: Any) -> None:
    """Less is asked for after a TypeError, and that warns, where warnings are errors."""

    class Deprecating(New):
        failure: Exception = TypeError("no dtype of DLPack")

        def answer(self, max_version: Any = None, **asked: Any) -> Any:
            if max_version is None:
                raise DeprecationWarning("no version was asked for")
            raise self.failure

    class WithInterface(Forwarding):
        @property
        def __cuda_array_interface__(self) -> Any:
            fields = {"shape": (2, 3), "typestr": "<f4", "data": (self.inner.address, False)}
            return fields | {"version": 3, "stream": None}

    scene = Scene(drv)
    inner = scene.array(Deprecating)
    with pytest.raises(BufferError, match="TypeError: no dtype of DLPack") as error:
        exported(Forwarding(inner), stream=scene.s, **MODERN)
    assert error.value.__cause__ is inner.failure
    caps.take(exported(WithInterface(inner), stream=scene.s, **MODERN)).release()
    caps.close_accounts()


def check_threads_cost_each_other_nothing(drv: Any) -> None:
    """Two threads meet one class at once, each with arrays of its own generation."""
    scene = Scene(drv)
    cls = fresh(Forwarding)
    arrays = {held: scene.array(HELD[held]) for held in ("new", "old")}
    start = threading.Barrier(len(arrays))
    seen: dict[str, set[int]] = {held: set() for held in arrays}
    failed: list[BaseException] = []

    def exchange(held: str) -> None:
        try:
            drv.make_current(0)
            start.wait()
            for _ in range(100):
                with caps.take(exported(cls(arrays[held]), stream=-1, **MODERN)) as taken:
                    seen[held].add(taken.view.flags)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=exchange, args=(held,)) for held in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
    assert seen == {"new": {READ_ONLY}, "old": {0}}
    caps.close_accounts()


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), LIVE))
def test_forwarding(variant: str, name: str) -> None:
    assert set(LIVE) <= set(ALL_LIVE)
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
