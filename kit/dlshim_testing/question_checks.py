"""Questions to a producer, by `__dlpack__` and `__dlpack_device__`, and its keywords."""

from __future__ import annotations

import contextlib
import enum
import itertools
from typing import Any

from .catalogue import Broken, NotApplicable, check, insist
from .doubles import capsules as caps
from .exports import (
    ASKS,
    BOTH,
    FEW,
    FLAGGED,
    HOW,
    LAYOUTS,
    NOT_GIVEN,
    OWN,
    PADDED,
    SOME,
    all_asked,
    answers,
    asked,
    by_a_thread,
    call,
    device_of,
    newest_of,
    number,
    on_cpu,
    prepared,
    told,
    view_of,
)
from .partner import DTYPES, Producer, akin, said

STREAMS = (-1, 0, 1, 2)
UNKNOWN_DEVICES = ((7, 0), (9, 0), (16, 0), (99, 0))


# ---- the methods ---------------------------------------------------------------------------


@check("producer", "error-kept", ("nothing on its way",), risky=True)
def deleter_leaves_no_error(p: Producer, which: str) -> None:
    """The first of all checks: nothing else can be judged of a library that does."""
    for ask in BOTH:
        p.answer(ASKS[ask])
    insist(not p.leaves, f"the deleter of an export leaves an exception behind: {p.leaves}")


@check("producer", "methods")
def has_methods(p: Producer) -> None:
    try:
        array = p.make((2, 3))
    except NotApplicable as failed:  # nothing can be checked at all
        raise ValueError(str(failed)) from failed
    for name in ("__dlpack__", "__dlpack_device__"):
        insist(hasattr(array, name), f"{type(array).__name__} has no {name}")
    failures = []
    for ask in ("versioned", "bare"):
        try:
            asked(array, ASKS[ask])
            return
        except NotApplicable as refused:
            failures.append(str(refused))
    raise Broken("; ".join(failures))


@check("producer", "fresh-capsule", ("after refusals of",), NOT_GIVEN)
def exports_after_a_refusal(p: Producer, which: str, refused: str) -> None:
    array = p.make((2, 3))
    (before,) = newest_of(array)
    del before
    if answers(array, **NOT_GIVEN[refused]) is None:
        raise NotApplicable(f"{NOT_GIVEN[refused]} is taken")
    try:
        newest_of(array)
    except NotApplicable as error:
        raise Broken(f"an array that refused {NOT_GIVEN[refused]} refuses all: {error}") from error


@check("producer", "any-thread", ASKS)
def exports_on_another_thread(p: Producer, ask: str) -> None:
    array = p.make((2, 3))
    for capsule in all_asked(array, [ASKS[ask]]):
        del capsule
    error = answers(array, **ASKS[ask] | {HOW: by_a_thread})
    insist(error is None, f"on another thread than the one that made it: {error and said(error)}")


@check("producer", "device-pair", SOME)
def device_pair(p: Producer, dtype: str) -> None:
    array = p.make((2, 3), dtype)
    if not hasattr(array, "__dlpack_device__"):
        raise Broken("there is no __dlpack_device__")
    try:
        answer = array.__dlpack_device__()
    except Exception as error:
        raise Broken(f"__dlpack_device__() raises {said(error)}") from error
    pair = isinstance(answer, tuple) and len(answer) == 2
    insist(pair and isinstance(answer[1], int), f"__dlpack_device__() gave {answer!r}")
    insist(not isinstance(answer[0], float | str), f"the device type {answer[0]!r} is no integer")
    try:
        number(answer[0])
    except (TypeError, ValueError) as error:
        raise Broken(f"the device type {answer[0]!r} is no integer") from error


@check("producer", "device-pair", ("layout",), LAYOUTS)
def device_of_each_layout(p: Producer, which: str, layout: str) -> None:
    shape, _ = LAYOUTS[layout]
    array, whole = prepared(p, layout, "float32"), device_of(p.make(shape))
    newest_of(array)  # of what cannot be exported the device is no matter
    try:
        told = array.__dlpack_device__()
    except Exception as error:
        raise Broken(f"{layout}: __dlpack_device__() raises {said(error)}") from error
    insist(device_of(array) == whole, f"{layout}: the device is {told}, that of the whole {whole}")


@check("producer", "device-told", SOME, ASKS)
def device_is_told(p: Producer, dtype: str, ask: str) -> None:
    array = p.make((2, 3), dtype)
    told = device_of(array)
    first, second = all_asked(array, [ASKS[ask]] * 2)
    view, again = view_of(first), view_of(second)
    if view.copied or view.element_zero != again.element_zero:
        raise NotApplicable("an export is a copy, which may lie on another device")
    insist(
        akin(told, view.device),
        f"__dlpack_device__() tells {told}, and the capsule {view.device} of the same memory",
    )


@check("producer", "device-agrees", SOME, ASKS)
def device_agrees(p: Producer, dtype: str, ask: str) -> None:
    array = p.make((2, 3), dtype)
    told = device_of(array)
    view = view_of(asked(array, ASKS[ask]))
    insist(view.device == told, f"__dlpack_device__() tells {told}, the capsule {view.device}")


@check("producer", "device-id", ASKS)
def device_id(p: Producer, ask: str) -> None:
    view = view_of(asked(p.make((2, 3)), ASKS[ask]))
    if view.device[0] not in (1, 3, 13):
        raise NotApplicable(f"device {view.device} is no host memory")
    insist(view.device[1] == 0, f"the capsule's device is {view.device}")


# ---- what is asked -------------------------------------------------------------------------


@check("producer", "stream-none", DTYPES)
def stream_none(p: Producer, dtype: str) -> None:
    array = p.make((2, 3), dtype)
    asked(array, {})  # a dtype that is refused anyhow is no matter of the stream
    error = answers(array, stream=None)
    insist(error is None, f"stream=None: {error and said(error)}")


@check("producer", "stream-on-cpu", STREAMS)
def stream_on_cpu(p: Producer, stream: int) -> None:
    insist(answers(on_cpu(p), stream=stream), f"stream={stream} is taken for host memory")


KEYWORDS: dict[str, dict[str, Any]] = {
    "max_version=None": {"max_version": None},
    "dl_device=None": {"dl_device": None},
    "copy=None": {"copy": None},
    "all None": {"stream": None, "max_version": None, "dl_device": None, "copy": None},
    "max_version=(1,0)": {"max_version": (1, 0)},
}


@check("producer", "keywords", KEYWORDS)
def keywords_are_taken(p: Producer, case: str) -> None:
    array = p.make((2, 3))
    error = answers(array, **KEYWORDS[case])
    insist(not isinstance(error, TypeError), f"{case}: {error and said(error)}")
    if error is not None and {*KEYWORDS[case].values()} == {None} and answers(array) is None:
        raise Broken(f"{case}: {said(error)}; without it, the array is exported")
    if error is not None:
        raise NotApplicable(f"refused, but not for the keyword: {said(error)}")


#: What a consumer may pass: any two, three or four together.
DRAWN = {
    " ".join(names): dict(pairs)
    for chosen in itertools.product(
        (None, ("to a device", ("dl_device", OWN))),
        (None, ("copy=True", ("copy", True)), ("copy=False", ("copy", False))),
        (None, ("1.0", ("max_version", (1, 0))), ("1.3", ("max_version", (1, 3)))),
        (None, ("stream=None", ("stream", None))),
    )
    for names, pairs in [([*zip(*filter(None, chosen), strict=True)] or [(), ()])]
    if len(names) > 1
}


@check("producer", "keywords", DRAWN)
def keywords_are_taken_together(p: Producer, case: str) -> None:
    array, drawn = p.make((2, 3)), DRAWN[case]
    for name, value in drawn.items():
        if isinstance(error := answers(array, **{name: value}), TypeError):
            raise NotApplicable(f"{name}={value!r} is refused when alone, too: {said(error)}")
    error = answers(array, **drawn)
    insist(not isinstance(error, TypeError), f"{told(drawn)}: {error and said(error)}")


@check("producer", "keyword-only")
def keyword_only(p: Producer) -> None:
    array = p.make((2, 3))
    try:
        array.__dlpack__(None)
    except TypeError:
        return
    raise Broken("__dlpack__(None) is taken")


@check("producer", "unknown-keyword")
def unknown_keyword(p: Producer) -> None:
    error = answers(p.make((2, 3)), not_a_keyword=1)
    insist(
        isinstance(error, TypeError),
        f"an unknown keyword: {said(error) if error else 'it is taken'}",
    )


VERSIONS = ((1, 0), (1, 1), (1, 2), (1, 3), (1, 99), (2, 0))


@check("producer", "versioned-answer", FEW, VERSIONS)
def versioned_answer(p: Producer, dtype: str, version: tuple[int, int]) -> None:
    array = p.make((2, 3), dtype)
    error = answers(array, max_version=version)
    insist(error is None, f"max_version={version}: {error and said(error)}")
    name = caps.name_of(asked(array, {"max_version": version}))
    if name != caps.VERSIONED and not gives_versioned(p):
        raise NotApplicable("the library gives no struct of DLPack 1.x at all")
    insist(name == caps.VERSIONED, f"max_version={version} is answered by {name!r}")


def gives_versioned(p: Producer) -> bool:
    """Whether the library supports DLPack 1.x, whatever it answers in the case in question."""
    for version in VERSIONS:
        with contextlib.suppress(Exception):
            if caps.name_of(call(p.make((2, 3)), {"max_version": version})) == caps.VERSIONED:
                return True
    return False


@check("producer", "versioned-answer", [case for case in DRAWN if "1." in case])
def versioned_answer_beside_others(p: Producer, case: str) -> None:
    capsule = asked(p.make((2, 3)), DRAWN[case])
    if not gives_versioned(p):
        raise NotApplicable("the library gives no struct of DLPack 1.x at all")
    name = caps.name_of(capsule)
    insist(name == caps.VERSIONED, f"{told(DRAWN[case])} is answered by {name!r}")


@check("producer", "versioned-supported")
def versioned_is_supported(p: Producer) -> None:
    newest_of(p.make((2, 3)))  # what exports nothing at all is judged by another rule
    insist(gives_versioned(p), "no max_version is answered by a struct of DLPack 1.x")


@check("producer", "known-major", VERSIONS)
def known_major(p: Producer, version: tuple[int, int]) -> None:
    """No text describes a struct of DLPack 2 yet: who says it has the layout of another version.

    The minor version may be any: what a newer one adds does not change the layout."""
    capsule = asked(p.make((2, 3)), {"max_version": version})
    if caps.name_of(capsule) != caps.VERSIONED:
        raise NotApplicable("the answer is DLPack 0.x")
    major = caps.look(capsule).version
    insist(
        major and major[0] == 1,
        f"max_version={version} is answered by a struct that says DLPack {major}",
    )


@check("producer", "older-version", ((0, 0), (0, 5), (0, 8)))
def older_version(p: Producer, version: tuple[int, int]) -> None:
    array = p.make((2, 3))
    if isinstance(answers(array, max_version=None), TypeError):
        raise NotApplicable("max_version is not known")
    error = answers(array, max_version=version)
    if error is None:
        name = caps.name_of(asked(array, {"max_version": version}))
        insist(name == caps.LEGACY, f"max_version={version} is answered by {name!r}")
    else:
        insist(isinstance(error, BufferError), f"max_version={version}: {said(error)}")


@check("producer", "known-flags", ("whole", "rows", "empty"), FLAGGED)
@check("producer", "known-flags", ("whole", "rows", "empty"))
def known_flags(p: Producer, layout: str, ask: str = "versioned") -> None:
    array = prepared(p, layout, "float32")
    view = view_of(asked(array, ASKS[ask]))
    if view.flags is None:
        raise NotApplicable("the answer is DLPack 0.x, which has no flags")
    insist(view.flags & ~7 == 0, f"flags are {view.flags:#x}, and DLPack defines 1, 2 and 4 alone")
    insist(
        not view.flags & PADDED or view.dtype[1] < 8,
        f"flags are {view.flags:#x}: dtype {view.dtype} is said to be padded, and it has "
        f"{view.dtype[1]} bits",
    )


@check("producer", "to-cpu", FEW)
def to_cpu(p: Producer, dtype: str) -> None:
    array = p.make((2, 3), dtype)
    error = answers(array, dl_device=(1, 0), max_version=(1, 0))
    insist(error is None, f"dl_device=(1, 0): {error and said(error)}")
    view = view_of(asked(array, {"dl_device": (1, 0), "max_version": (1, 0)}))
    insist(view.device == (1, 0), f"dl_device=(1, 0) gives memory of {view.device}")


class Device(enum.IntEnum):
    """As the standard has it: "the device type is an Enum"."""

    CPU = 1


#: What is passed beside an enum.
BESIDE_AN_ENUM = {"": {}, "copy=True": {"copy": True}, "copy=False": {"copy": False}}


@check("producer", "to-cpu", ("enum",), [name for name in BESIDE_AN_ENUM if name])
@check("producer", "to-cpu", ("enum",))
def to_cpu_by_an_enum(p: Producer, which: str, beside: str = "") -> None:
    array, passed = on_cpu(p), {"max_version": (1, 0), **BESIDE_AN_ENUM[beside]}
    asked(array, {"dl_device": (1, 0), **passed})
    error = answers(array, dl_device=(Device.CPU, 0), **passed)
    insist(error is None, f"dl_device=({Device.CPU!r}, 0), {told(passed)}: {error and said(error)}")


@check("producer", "other-device", UNKNOWN_DEVICES, BOTH)
def other_device(p: Producer, device: tuple[int, int], ask: str) -> None:
    array = p.make((2, 3))
    if isinstance(answers(array, dl_device=None), TypeError):
        raise Broken("the keyword dl_device is not known")
    error = answers(array, dl_device=device, **ASKS[ask])
    insist(
        isinstance(error, BufferError),
        f"dl_device={device}, an unknown one: {said(error) if error else 'a capsule comes'}",
    )
