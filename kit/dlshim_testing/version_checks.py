"""The versions and the flags of the structs that a consumer is given."""

from __future__ import annotations

from typing import Any

from .catalogue import NotApplicable, check, insist
from .doubles import capsules as caps
from .imports import (
    FEW,
    HOW,
    LAYOUTS,
    SIZES,
    ReadOnly,
    ReadOnlyCopy,
    Trial,
    Versioned,
    VersionedAlways,
    bound_by_from_dlpack,
    calls_of,
    device_of_results,
    observe,
    same_values,
    trial,
    versioned_is_taken,
    with_copy,
)
from .partner import Consumer, said


class Unreadable(VersionedAlways):
    """A struct of another major version, with nothing readable behind its flags."""

    def _export(self, version: Any, **fields: Any) -> caps.Made:
        made = super()._export(version, **fields)
        caps.poison(made.struct.dl_tensor)
        return made


MAJORS = {"unreadable": Unreadable, "readable": VersionedAlways}


@check("consumer", "other-major", MAJORS, ((2, 0), (3, 1)), risky=True)
def other_major(c: Consumer, which: str, version: tuple[int, int]) -> None:
    if c.wants == "object" and "max_version" not in calls_of(c, Versioned())[0][1]:
        raise NotApplicable("the consumer never asks for DLPack 1.x")
    made = trial(c, MAJORS[which](version=version))
    insist(made.refused, f"a struct of DLPack {version} is taken")
    record = made.finish()
    insist(record.deleted == 1, f"it is refused, and the deleter called {record.deleted} times")


@check("consumer", "major-zero", risky=True)
def major_zero(c: Consumer) -> None:
    """A versioned struct that says 0.8 has a layout that nobody knows."""
    versioned_is_taken(c, Versioned(), "DLPack 1.x")
    made = trial(c, VersionedAlways(version=(0, 8)))
    insist(made.refused, "a versioned struct of DLPack (0, 8) is taken")


def raw(c: Consumer, **fields: Any) -> tuple[Any, caps.Made]:
    """(what comes of a raw versioned capsule, its record); NotApplicable where none is taken."""
    try:
        plain = caps.make((6,), c.usual(), version=(1, 0))
        if (result := c.consume(plain)) is plain:
            raise NotApplicable("the consumer keeps any object as it is")
        observe(result)
    except NotApplicable:
        raise
    except Exception as error:
        raise NotApplicable(f"the consumer takes no versioned capsules: {said(error)}") from error
    made = caps.Made((6,), c.usual(), **fields)
    capsule = made.capsule()
    try:
        return c.consume(capsule), made
    except Exception as error:
        return error, made


@check("consumer", "other-major", ("capsule",), ((2, 0),), risky=True)
def other_major_of_a_capsule(c: Consumer, which: str, version: tuple[int, int]) -> None:
    result, _ = raw(c, version=version)
    insist(isinstance(result, Exception), f"a capsule of DLPack {version} is taken")


@check("consumer", "read-only", ("capsule",))
def read_only_capsule_is_kept(c: Consumer, which: str) -> None:
    result, made = raw(c, version=(1, 0), flags=caps.READ_ONLY)
    if isinstance(result, Exception):
        raise NotApplicable(f"it is refused: {said(result)}")
    seen = observe(result)
    if seen.address != made.element_zero:
        return
    if seen.read_only is None:
        raise NotApplicable("the result has no way to say whether it may be written")
    insist(seen.read_only, "memory with the flag READ_ONLY became an array that may be written")


@check("consumer", "newer-minor", ((1, 1), (1, 3), (1, 99)))
def newer_minor(c: Consumer, version: tuple[int, int]) -> None:
    versioned_is_taken(c, Versioned(version=version), f"a struct of DLPack {version}")


@check("consumer", "copied", FEW)
def copied(c: Consumer, dtype: str) -> None:
    made = versioned_is_taken(c, Versioned(dtype=dtype, flags=caps.IS_COPIED), "IS_COPIED")
    same_values(observe(made.result), made.array, "IS_COPIED")


@check("consumer", "read-only-taken", FEW)
def read_only_is_taken(c: Consumer, dtype: str) -> None:
    versioned_is_taken(c, Versioned(dtype=dtype, readonly=True), "READ_ONLY")


@check("consumer", "read-only", dict.fromkeys((*FEW, *SIZES)))
def read_only_is_kept(c: Consumer, dtype: str) -> None:
    insist_read_only(trial(c, Versioned(dtype=dtype, readonly=True)).taken())


@check("consumer", "read-only", ("layout",), LAYOUTS)
def read_only_of_layouts_is_kept(c: Consumer, which: str, layout: str) -> None:
    insist_read_only(trial(c, ReadOnly(**LAYOUTS[layout])).taken())


@check("consumer", "read-only", ("two flags",), SIZES)
def read_only_of_a_copy_is_kept(c: Consumer, which: str, dtype: str) -> None:
    insist_read_only(trial(c, ReadOnlyCopy(dtype=dtype)).taken())


@check("consumer", "read-only", HOW)
def read_only_is_kept_whatever_was_before(c: Consumer, how: str) -> None:
    insist_read_only(trial(c, ReadOnly(), how).taken())


@check("consumer", "read-only", ("device",))
def read_only_is_kept_on_its_device(c: Consumer, which: str) -> None:
    insist_read_only(trial(c, ReadOnly(), device=device_of_results(c)).taken())


def insist_read_only(made: Trial) -> None:
    seen = observe(made.result)
    if seen.address != made.array.element_zero:
        return  # a copy, which may be written
    if seen.read_only is None:
        raise NotApplicable("the result has no way to say whether it may be written")
    insist(seen.read_only, "memory with the flag READ_ONLY became an array that may be written")


@check("consumer", "read-only", ("copy=False",))
def read_only_is_kept_uncopied(c: Consumer, which: str) -> None:
    array = Versioned(readonly=True)
    seen = observe(with_copy(c, array, False).taken().result)
    if seen.address != array.element_zero or seen.read_only is None:
        raise NotApplicable("a copy, or a result that cannot say whether it may be written")
    insist(seen.read_only, "memory with the flag READ_ONLY became an array that may be written")


@check("consumer", "writable", FEW)
def writable_stays(c: Consumer, dtype: str) -> None:
    bound_by_from_dlpack(c)
    made = versioned_is_taken(c, Versioned(dtype=dtype), "a writable array")
    seen = observe(made.result)
    if seen.address != made.array.element_zero or seen.read_only is None:
        raise NotApplicable("a copy, or a result that cannot say whether it may be written")
    insist(not seen.read_only, "memory without the flag READ_ONLY may not be written")
