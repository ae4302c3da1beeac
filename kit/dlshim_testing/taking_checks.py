"""What a consumer takes, and how it asks for it: by the methods, or by a C table."""

from __future__ import annotations

from .catalogue import Broken, NotApplicable, check, insist
from .imports import (
    EDITIONS,
    FEW,
    NEVER_ASKS,
    Legacy,
    LegacyAnswer,
    NoKeywords,
    Versioned,
    VersionedAlways,
    WithTable,
    WithTableMajorTwo,
    WithTableNoBorrow,
    calls_of,
    edition_is_taken,
    is_taken,
    objects_only,
    observe,
    read_rightly,
    same_values,
    trial,
)
from .partner import OF_THE_STANDARD, Consumer

# ---- what is taken ----------------------------------------------------------------------------


@check("consumer", "takes-any")
def takes_any(c: Consumer) -> None:
    try:
        takes(c, "float32")
    except NotApplicable as reason:
        if str(reason) != NEVER_ASKS:
            raise
        raise Broken(f"{reason}; no other rule judges it") from reason


@check("consumer", "takes-any", ("after refusals", "once more"), EDITIONS)
def takes_whatever_was_before(c: Consumer, how: str, edition: str) -> None:
    edition_is_taken(c, edition)
    made = trial(c, EDITIONS[edition](), how)
    insist(not made.refused, f"{how}: {made.refused and made.refused.text}")


@check("consumer", "any-thread", EDITIONS)
def takes_on_another_thread(c: Consumer, edition: str) -> None:
    edition_is_taken(c, edition)
    made = trial(c, EDITIONS[edition](), "on a thread")
    insist(not made.refused, f"on another thread: {made.refused and made.refused.text}")


@check("consumer", "takes", OF_THE_STANDARD)
def takes(c: Consumer, dtype: str) -> None:
    refusals, why = [], None
    for kind in (Versioned, Legacy):
        try:
            made = trial(c, kind(dtype=dtype))
        except NotApplicable as reason:
            why = reason
            continue
        if not made.refused:
            return
        refusals.append(made.refused.text)
    if why and not refusals:
        raise why
    raise Broken(f"{dtype}: {'; '.join(dict.fromkeys(refusals))}")


@check("consumer", "takes-legacy", FEW)
def takes_legacy(c: Consumer, dtype: str) -> None:
    is_taken(c, Legacy(dtype=dtype), "DLPack 0.x")


@check("consumer", "takes-versioned", FEW)
def takes_versioned(c: Consumer, dtype: str) -> None:
    array = VersionedAlways(dtype=dtype, version=(1, 0))
    made = trial(c, array)
    if c.wants == "object" and not any("max_version" in each for each in array.keywords):
        raise Broken("the consumer never asks for DLPack 1.x")
    insist(not made.refused, f"DLPack 1.x: {made.refused and made.refused.text}")


@check("consumer", "retries", ("no new keyword",))
def retries(c: Consumer, which: str) -> None:
    objects_only(c)
    is_taken(c, Legacy(), f"a producer that knows {which}")


@check("consumer", "retries-bare")
def retries_bare(c: Consumer) -> None:
    objects_only(c)
    is_taken(c, NoKeywords(), "a producer that knows no keyword")


@check("consumer", "legacy-answer", FEW)
def legacy_answer(c: Consumer, dtype: str) -> None:
    objects_only(c)
    is_taken(c, LegacyAnswer(dtype=dtype), "a producer that takes max_version and answers 0.x")


@check("consumer", "wrong-answer", FEW, risky=True)
def wrong_answer(c: Consumer, dtype: str) -> None:
    objects_only(c)
    array = VersionedAlways(dtype=dtype)
    same_values(observe(trial(c, array).taken().result), array, "DLPack 1.x unasked")


# ---- how it asks ------------------------------------------------------------------------------


@check("consumer", "keywords-only", EDITIONS)
def keywords_only(c: Consumer, edition: str) -> None:
    positional = [each for each, _ in calls_of(c, EDITIONS[edition]()) if each]
    insist(not positional, f"__dlpack__ is called with {positional}")


@check("consumer", "stream-on-cpu", EDITIONS, FEW)
def no_stream_for_the_host(c: Consumer, edition: str, dtype: str) -> None:
    for positional, keywords in calls_of(c, EDITIONS[edition](dtype=dtype)):
        stream = positional[0] if positional else keywords.get("stream")
        insist(stream is None, f"stream={stream!r} is passed for host memory")


@check("consumer", "asks-device", EDITIONS)
def asks_for_the_device(c: Consumer, edition: str) -> None:
    array = EDITIONS[edition]()
    calls_of(c, array)
    insist(array.device_calls, "__dlpack_device__() is never called")


@check("consumer", "asks-version")
def asks_for_a_version(c: Consumer) -> None:
    _, keywords = calls_of(c, Versioned())[0]
    version = keywords.get("max_version")
    insist(isinstance(version, tuple), f"the first call has max_version={version!r}")


# ---- the C table ------------------------------------------------------------------------------


@check("consumer", "table-no-borrow", FEW, risky=True)
def table_without_borrowing(c: Consumer, dtype: str) -> None:
    objects_only(c)
    read_rightly(c, WithTable(dtype=dtype), "a producer with a C table")
    is_taken(c, WithTableNoBorrow(dtype=dtype), "a C table without the borrowing function")


@check("consumer", "table-major", FEW, risky=True)
def table_of_another_major(c: Consumer, dtype: str) -> None:
    objects_only(c)
    array = WithTableMajorTwo(dtype=dtype)
    trial(c, array)
    used = array.table_calls + array.table_borrows
    insist(not used, f"functions of a table of DLPack 2.0 were called {used} times")
