"""Every MUST is shown to fail on a double with that fault, and a right one breaks nothing."""

from __future__ import annotations

import ctypes as C
import gc
import os
import re
import subprocess
import sys
import types
from collections import Counter
from typing import Any

import pytest
from project import dlpack_headers
from project.debian_packages import NotHere
from project.tree import ROOT, absent

from dlshim_testing import (
    catalogue,
    check_consumer,
    check_producer,
    every,
    lifetime_checks,
    rules,
)
from dlshim_testing.catalogue import CRASH
from dlshim_testing.partner import Consumer
from doubles import capsules as caps
from kit import wrong_consumers, wrong_devices, wrong_producers

SIDES: dict[str, Any] = {
    "producer": (wrong_producers, check_producer),
    "consumer": (wrong_consumers, check_consumer),
}
MUSTS = [(rule.side, rule.name) for rule in rules.RULES if rule.level == rules.MUST]
MUSTS = [each for each in MUSTS if each[1] not in wrong_devices.WRONG]  # as test_devices shows


@pytest.fixture(autouse=True)
def books() -> Any:
    yield
    caps.write_off()  # wrong doubles leave their books open


@pytest.fixture
def impatient(monkeypatch: Any) -> None:
    """Of a double that never gives memory back nothing is to be waited for."""
    monkeypatch.setattr(lifetime_checks, "KEPT_SECONDS", 0.1)
    monkeypatch.setattr(lifetime_checks, "KEPT_BYTES", 1 << 27)


@pytest.mark.parametrize("side", SIDES)
def test_who_follows_every_rule_breaks_none(side: str) -> None:
    module, check = SIDES[side]
    report = check(module.right)
    assert not report.wrong and not report.errors, str(report)
    passed = {each.rule for each in report.findings if each.status == catalogue.PASS}
    # What no double can be asked, or what only a library has.
    never = {"special-values", "refusals", "not-exported", "table-refusals", "table-spelling"}
    never |= {"table-failure"}
    never |= {*wrong_devices.WRONG, "no-capsule", "copy-false-error", "leaves-array"}
    never |= {"copy-elements"} | ({"error-kept"} if side == "producer" else set())
    assert passed >= {rule.name for rule in rules.RULES if rule.side == side} - never


def test_the_table_is_judged_alike_where_python_leaves_out_asserts() -> None:
    """The calls into the table stood in asserts: torch's seemed to export nothing."""
    target = f"{wrong_producers.__file__}:right"
    command = [sys.executable, "-O", "-m", "dlshim_testing", "--in-process", "--producer", target]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT / "kit")])}
    done = subprocess.run(
        [*command, "--only", "^table-"], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "conforms" in done.stdout


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("side", "rule"), MUSTS)
def test_a_must_fails_on_a_double_with_that_fault(side: str, rule: str) -> None:
    module, check = SIDES[side]
    only = rf"^{re.escape(rule)}(\[|$)"
    if rule in module.CRASHES:
        report = check(f"{module.__file__}:{module.CRASHES[rule]}", only=only, isolate=True)
        assert any(each.status == CRASH or each.failed for each in report.findings), str(report)
    else:
        report = check(module.WRONG[rule], only=only)
    assert report.failed and not report, str(report)
    assert {each.rule for each in report.failed} == {rule}
    assert all(each.evidence and each.quote for each in report.failed)


#: A fault that a rule let through, or blamed on others; each rule that it breaks.
ALSO = [
    (wrong_producers.GivesMemoryToTheNext, {"keeps-memory"}),
    (wrong_producers.LosesCopies, {"keeps-memory"}),
    (wrong_producers.DeviceRaises, {"device-pair"}),
    (wrong_producers.BoolAsByte, {"dtype"}),
]


@pytest.mark.parametrize(("kind", "rules_broken"), ALSO)
def test_a_fault_breaks_its_rule_and_no_other(kind: Any, rules_broken: set[str]) -> None:
    only = "^(capsule|destructor-spares|keeps|device-|dtype|values|shape)"
    report = check_producer(wrong_producers.wrong(kind), only=only)
    assert not report.errors, str(report)
    assert {each.rule for each in report.wrong} == rules_broken, str(report)


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (wrong_consumers.AnyName, "consumed-once[object-legacy]"),
        (wrong_consumers.Converts, "dtype[float64-legacy]"),
        (wrong_consumers.Converts, "dtype[bool-versioned]"),
        (wrong_consumers.IgnoresTheDevice, "device-not-read[99x0-versioned]"),
    ],
)
def test_a_consumer_that_misreads_breaks_a_rule(kind: Any, check: str) -> None:
    """More of them are rows of planted.toml."""
    target = Consumer(kind(), claims="2025.12")
    (found,) = check_consumer(target, only=f"^{re.escape(check)}$").findings
    assert found.status == catalogue.FAIL, str(found)


class CopiesAtOnce(wrong_consumers.Right):
    """Everything is copied, and given back before the result is there."""

    def __call__(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        if copy is False:
            raise BufferError("everything is copied here")
        made = wrong_consumers.copy_of(super().__call__(x, device=device))
        gc.collect()
        return made


def test_who_copies_everything_at_once_reads_memory_that_is_not_gone() -> None:
    """An import ended the memory of the next one of the same object, or of the same memory."""
    gc.collect()
    gc.freeze()  # what is there already is not looked through at each import, nor later
    report = check_consumer(wrong_consumers.consumer(CopiesAtOnce()))
    assert report and {each.rule for each in report.wrong} == {"zero-copy"}, str(report)


@pytest.mark.parametrize("way", lifetime_checks.REPLACE)
def test_memory_that_is_replaced_in_place_is_missed(way: str) -> None:
    """The standard does not speak of it, so a library that loses it breaks no MUST."""
    only = rf"^keeps-(memory|replaced-memory\[{way}-)"
    report = check_producer(wrong_producers.wrong(wrong_producers.LosesReplacedMemory), only=only)
    assert {each.rule for each in report.wrong} == {"keeps-replaced-memory"}, str(report)
    assert {each.level for each in report.wrong} == {rules.SHOULD} and report, str(report)
    assert all(f"some are others after {way}" in each.evidence for each in report.wrong)


class Stays(wrong_producers.Right):
    """What is called `data` here is something else, and resize() refuses."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(value, wrong_producers.Right):
            super().__setattr__(name, value)

    def resize(self, extent: int) -> None:
        raise ValueError("cannot resize an array that is referenced")


def test_what_is_refused_or_replaces_nothing_is_not_judged() -> None:
    report = check_producer(wrong_producers.wrong(Stays), only="^keeps-replaced-memory")
    told = {each.check.split("[")[1].split("-")[0]: each.status for each in report.findings}
    na = catalogue.NA
    assert told == {"resize": na, "resize_": catalogue.PASS, "set_": na, "data": na}, str(report)


def test_memory_that_goes_with_its_array_is_not_blamed_on_the_deleter() -> None:
    """The check of the deleter wrote to memory that was gone, and its process ended."""
    options = {"isolate": True, "only": "^(deleter-frees|destructor-frees|keeps-memory)"}
    report = check_producer(f"{wrong_producers.__file__}:holds_nothing", **options)
    assert {each.rule for each in report.wrong} == {"keeps-memory"}, str(report)


@pytest.mark.parametrize("target", ["camera", "packed"])
def test_no_more_is_touched_than_the_struct_tells(target: str) -> None:
    """The memory behind a correct producer's was written, and its process ended."""
    only = "^(deleter-frees|destructor-frees|keeps-memory)"
    path = f"{wrong_producers.__file__}:{target}"
    report = check_producer(path, only=only, isolate=True)
    assert not report.wrong and not report.errors, str(report)
    frees = ("deleter-frees[bare]", "deleter-frees[versioned]")
    large = {e.status for e in report.findings if "large" in e.check or e.check in frees}
    assert large == {catalogue.NA}


@pytest.mark.parametrize("kind", [wrong_producers.FreesLate, wrong_producers.FreesOnAThread])
def test_memory_that_goes_later_is_not_blamed_on_the_deleter(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind is wrong_producers.FreesOnAThread:  # more memory would take no more than more time
        monkeypatch.setattr(lifetime_checks, "KEPT_BYTES", 1 << 27)
    try:
        report = check_producer(wrong_producers.wrong(kind), only="^deleter-frees")
        assert {each.status for each in report.findings} == {catalogue.PASS}, str(report)
    finally:
        kind.FREED.clear()


def test_what_a_process_occupies_says_nothing_with_a_sanitizer(monkeypatch: Any) -> None:
    """Only dlshim's own tests told that there is one."""
    assert caps.resident_bytes()
    monkeypatch.setattr(caps, "_libc", types.SimpleNamespace(__asan_init=None))
    assert caps.resident_bytes() == 0


COPIES_READ_ONLY = wrong_producers.wrong(
    wrong_producers.CopiesAreReadOnly,
    read_only=lambda: wrong_producers.CopiesAreReadOnly(readonly=True),
)


def test_who_copies_alone_is_not_asked_whether_copies_share() -> None:
    """The capsules of the copies went with the refusal on its way: the check failed itself."""
    kind = wrong_producers.wrong(lambda shape, dtype: wrong_producers.Right(shape, readonly=True))
    report = check_producer(kind, only="^copy-alone.*bare")
    assert {each.status for each in report.findings} == {catalogue.NA}, str(report)
    assert "Cannot export readonly array" in report.findings[0].evidence


@pytest.mark.parametrize(
    ("side", "target", "broken"),
    [
        ("producer", wrong_producers.wrong(wrong_producers.OneCopy), "copy-alone[whole-bare]"),
        ("producer", COPIES_READ_ONLY, "copy-writable[versioned]"),
        (
            "consumer",
            wrong_consumers.consumer(wrong_consumers.CopiesAreReadOnly()),
            "copy-writable[read-only]",
        ),
    ],
)
def test_what_copies_are_for_counts_from_2024_on(side: str, target: Any, broken: str) -> None:
    check, only = SIDES[side][1], f"^{re.escape(broken)}$"
    (found,) = check(target, only=only).findings
    assert (found.status, found.level) == (catalogue.FAIL, rules.SHOULD), str(found)
    assert found.source == "array API 2024.12, copy keyword argument behavior"


@pytest.mark.parametrize(
    ("side", "target"),
    [
        ("producer", wrong_producers.wrong(wrong_producers.NeverWritten)),
        ("consumer", wrong_consumers.consumer(wrong_consumers.ReadOnlyAlways())),
    ],
)
def test_a_library_whose_arrays_are_never_written_makes_copies_like_them(
    side: str, target: Any
) -> None:
    if side == "producer":
        target.read_only = lambda: target.make((2, 3))
    report = SIDES[side][1](target, only="^copy-writable")
    assert {each.status for each in report.findings} == {catalogue.NA}, str(report)


@pytest.mark.parametrize(
    ("kind", "claims", "by_error", "conforms"),
    [
        (wrong_producers.BufferErrorForNoCopy, "2025.12", catalogue.PASS, True),
        (wrong_producers.BufferErrorForNoCopy, "2023.12", catalogue.PASS, True),
        (wrong_producers.ValueErrorForNoCopy, "2025.12", catalogue.FAIL, False),
        (wrong_producers.ValueErrorForNoCopy, "2023.12", catalogue.FAIL, True),
    ],
)
def test_who_needs_a_copy_says_so(kind: Any, claims: str, by_error: str, conforms: bool) -> None:
    """A ValueError is one of the two that 2023.12 names, and breaks nothing of it."""
    report = check_producer(wrong_producers.wrong(kind, claims=claims), only="^copy-false")
    judged = [each for each in report.findings if each.status != catalogue.NA]
    found = {(each.rule, each.status) for each in judged}
    assert found == {("copy-false", catalogue.PASS), ("copy-false-error", by_error)}
    assert bool(report) == conforms, str(report)


def test_a_second_call_of_the_deleter_is_counted() -> None:
    """The first one took the counter out of the struct."""
    kind = wrong_producers.wrong(wrong_producers.DeletesTwice)
    (found,) = check_producer(kind, only=r"^destructor-frees\[float32-bare").findings
    assert found.failed and "its deleter was called 2 times" in found.evidence


class Zeros(wrong_producers.ExportsCopies):
    def __init__(self, shape: Any, dtype: Any = "float32") -> None:
        super().__init__(shape, dtype)
        C.memset(self.memory, 0, C.sizeof(self.memory))


def test_who_exports_copies_is_told_so_once() -> None:
    """What was written into one copy was missed in the next, which was read after its end."""
    only = "^(values|special-values|copy-true|copy-false|keeps-memory|zero-copy)"
    special = {"ones": lambda: (wrong_producers.ExportsCopies((3,), "float32"), [0, 1, 2])}
    report = check_producer(wrong_producers.wrong(Zeros, special=special), only=only)
    assert {each.rule for each in report.wrong} == {"zero-copy"} and not report.errors, str(report)
    (found,) = [each for each in report.findings if each.check == "values[whole-float32-bare]"]
    told = "each export is a copy: what is written through one is not in the next"
    assert (found.status, found.evidence) == (catalogue.NA, told)
    assert ("special-values[special-0-bare]", catalogue.PASS) in {
        (each.check, each.status) for each in report.findings
    }


def test_no_copy_is_judged_where_plain_exports_are_copies() -> None:
    """The array's own memory was taken for a copy, as it was not that of a plain export."""
    kind = wrong_producers.wrong(wrong_producers.CopiesUnlessAsked)
    report = check_producer(kind, only="^copy-false")
    assert report and not report.wrong and not report.errors, str(report)
    kind = wrong_producers.wrong(wrong_producers.CopiesWhateverIsAsked)
    (found,) = check_producer(kind, only=r"^copy-false\[whole-bare\]").findings
    assert found.failed and found.evidence.startswith("copy=False gives a copy: ")


def test_what_is_compared_is_kept_until_then() -> None:
    """The export through which the kit had written went before the next was read."""
    kind = wrong_producers.wrong(wrong_producers.ExportsOneCopy)
    report = check_producer(kind, only=r"^values\[whole-float32")
    assert {each.status for each in report.findings} == {catalogue.PASS}, str(report)


def test_strides_in_bytes_are_named_as_such() -> None:
    """Nothing but copies found them, with values from behind the array."""
    kind = wrong_producers.wrong(wrong_producers.StridesInBytes)
    (found,) = check_producer(kind, only=r"^values\[whole-float32-versioned").findings
    assert found.failed and "which are those in bytes" in found.evidence
    assert "not bytes" in found.quote


@pytest.mark.parametrize(
    "kind", ["ListsRows", "IndexesRows", "PicksRows", "ArraysOfRows", "SetsRows"]
)
def test_strides_of_columns_are_found_by_what_the_array_shows_itself(kind: str) -> None:
    """The kit wrote and read by the same wrong strides, and said that it could not write."""
    target = wrong_producers.wrong(getattr(wrong_producers, kind))
    report = check_producer(target, only=r"^(values|copy-true)\[(whole|cube)-(float32-)?versioned")
    assert {each.check for each in report.failed} >= {
        "values[whole-float32-versioned]",
        "values[cube-float32-versioned]",
    }, str(report)
    assert "lead to [4.0, 8.0, " in report.failed[0].evidence


def test_strides_that_nothing_proves_are_not_judged_and_it_is_said_why() -> None:
    kind = wrong_producers.wrong(wrong_producers.KeepsQuiet)
    (found,) = check_producer(kind, only=r"^values\[whole-float32-versioned").findings
    assert found.status == catalogue.NA
    assert "are not those of rows, and the array shows its elements by no way" in found.evidence


def test_a_layout_of_1_that_says_2_breaks_a_must() -> None:
    """Only a major version that nobody had asked for was wrong; a minor one may be any."""
    kind = wrong_producers.wrong(wrong_producers.VersionAsked)
    (found,) = check_producer(kind, only="^known-major").failed
    assert found.check == "known-major[2x0]"
    assert "says DLPack (2, 0)" in found.evidence


@pytest.mark.usefixtures("impatient")
def test_who_has_no_deleter_and_keeps_everything_is_found_by_its_memory() -> None:
    """Without a deleter neither rule applied."""
    only = r"^(deleter-frees|destructor-frees)\[(float32-)?bare"
    try:
        kept = check_producer(wrong_producers.wrong(wrong_producers.KeepsForEver), only=only)
    finally:
        wrong_producers.KeepsForEver.KEPT.clear()
    assert {each.rule for each in kept.failed} == {"deleter-frees", "destructor-frees"}, str(kept)
    assert all("there is no deleter" in each.evidence for each in kept.failed)
    freed = check_producer(wrong_producers.wrong(wrong_producers.NullDeleter), only=only)
    assert {each.status for each in freed.findings} == {catalogue.PASS}, str(freed)


def test_the_flag_of_padded_elements_is_none_of_float32() -> None:
    kind = wrong_producers.wrong(wrong_producers.AlwaysPadded)
    report = check_producer(kind, only=r"^known-flags\[\w+\]$")
    assert {each.check for each in report.wrong} == {"known-flags[whole]", "known-flags[empty]"}


def test_who_knows_no_version_is_judged_by_what_it_answers() -> None:
    """This rule asked with `max_version` alone, which such a producer refuses; data-of-empty is a
    row of planted.toml."""
    old = wrong_producers.wrong(wrong_producers.OldCopies, claims="2022.12")
    (found,) = check_producer(old, only=r"^zero-copy\[whole\]$").findings
    assert found.status == catalogue.FAIL, str(found)


@pytest.mark.parametrize(
    ("target", "broken"),
    [("gives_back_twice", {"gives-back"}), ("leaves_the_name", {"gives-back", "renames"})],
)
def test_a_second_call_of_a_doubles_deleter_is_counted(target: str, broken: set[str]) -> None:
    """The first call poisoned the pointer to the deleter: the run ended, and named no rule."""
    path, only = f"{wrong_consumers.__file__}:{target}", "^(gives-back|renames)\\["
    report = check_consumer(path, only=only, isolate=True)
    assert {each.rule for each in report.wrong} == broken, str(report)
    assert not report.count(CRASH)
    assert any("called 2 times" in each.evidence for each in report.failed), str(report)


@pytest.mark.parametrize(
    ("target", "check", "said"),
    [
        (
            wrong_producers.refuses_read_only_otherwise,
            "refusals[read-only-bare]",
            "memory that may not be written: NotImplementedError: Cannot export readonly array",
        ),
        (
            wrong_producers.wrong(wrong_producers.ValueErrorForKeywords),
            "keywords[all-None]",
            "all None: ValueError: these keywords need api_version 2023.12; without it, the array "
            "is exported",
        ),
    ],
)
def test_a_refusal_by_another_error_is_found(target: Any, check: str, said: str) -> None:
    (found,) = check_producer(target, only=f"^{re.escape(check)}$").findings
    assert (found.status, found.evidence) == (catalogue.FAIL, said)


def test_nobody_is_blamed_for_a_destructor_that_loses_the_exception() -> None:
    """That of the double was Python, and could not save it: NumPy seemed to be at fault."""
    pytest.importorskip("numpy")
    report = check_consumer("numpy:from_dlpack", only="^error-kept")
    assert {each.status for each in report.findings} == {catalogue.PASS}, str(report)
    loses = wrong_consumers.consumer(wrong_consumers.LosesWhatItRefuses())
    report = check_consumer(loses, only="^error-kept")
    assert {each.status for each in report.findings} == {catalogue.FAIL}, str(report)


def test_an_array_that_may_be_written_is_not_flagged() -> None:
    """No rule looked for the flag where it has no place."""
    kind = wrong_producers.wrong(wrong_producers.NeverSaysWritable)
    report = check_producer(kind, only="^read-only-falsely")
    assert {(e.rule, e.level) for e in report.wrong} == {("read-only-falsely", rules.SHOULD)}
    never = wrong_producers.wrong(wrong_producers.NeverWritten)
    report = check_producer(never, only="^read-only-falsely")
    assert {each.status for each in report.findings} == {catalogue.NA}, str(report)


def test_names_of_checks_are_stable_words() -> None:
    for side in SIDES:
        loaded = every.checks(side)
        assert len(loaded) > 300
        assert all(re.fullmatch(r"[\w-]+(\[[\w.+-]+\])?", name) for name in loaded)
        used = Counter(one.rule.name for one in loaded.values())
        assert set(used) == {rule.name for rule in rules.RULES if rule.side == side}


def test_every_rule_cites_a_text_and_only_habits_do_not() -> None:
    for rule in rules.RULES:
        assert bool(rule.quote) == (rule.level != rules.HABIT), rule.name
        assert rule.level in rules.LEVELS and rule.since in rules.EDITIONS
        assert rule.source.startswith(("DLPack", "array API 20")), rule.source
        assert rule.about.endswith(".")


def test_what_is_cited_is_more_than_a_word() -> None:
    """A rule cited one word, and others the end of a sentence whose beginning binds another."""
    assert not [rule.name for rule in rules.RULES if 0 < len(rule.quote.split()) < 4]
    level = {(rule.side, rule.name): rule.level for rule in rules.RULES}
    assert level["consumer", "read-only"] == level["consumer", "retries-bare"] == rules.HABIT
    lead_in = [rule.quote for rule in rules.RULES if "Support for all dtypes" in rule.quote]
    assert len(lead_in) == 2
    assert all(quote.startswith("The interchange mechanism must offer") for quote in lead_in)


def test_each_edition_that_says_something_of_dlpack_is_cited() -> None:
    """None cited 2024.12. What 2025.12 says of DLPack, 2024.12 says word for word."""
    cited = {found for rule in rules.RULES for found in re.findall(r"API (\S+),", rule.source)}
    assert cited == {*rules.EDITIONS} - {"2025.12"}


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"^\s*\*", "", text, flags=re.M))


#: DLPack 1.2 took this sentence back.
GONE = {"null-strides"}


def test_sentences_of_the_header_stand_in_the_newest() -> None:
    try:
        text = squeezed(dlpack_headers.newest().read_text())
    except NotHere as why:
        absent(str(why))
    cited = [rule for rule in rules.RULES if "dlpack.h" in rule.source and rule.quote]
    assert len(cited) > 20
    missing = {rule.name for rule in cited if squeezed(rule.quote) not in text}
    assert missing == GONE


def test_a_younger_rule_is_only_noted() -> None:
    old = wrong_producers.wrong(wrong_producers.CopiesWithoutFlag, claims="2022.12")
    report = check_producer(old, only="^copied-flag")
    assert report and {each.level for each in report.wrong} == {"noted"}


def test_a_wrong_device_counts_whatever_is_claimed() -> None:
    """The rule was one of 2023.12: who answers DLPack 0.x alone conformed all the same."""

    class Old(wrong_producers.DeviceOfOthers):
        TAKES = ("stream",)

    report = check_producer(wrong_producers.wrong(Old, claims=""), only="^device-")
    assert report.claims == "2022.12" and not report, str(report)
    assert {(each.rule, each.level) for each in report.wrong} == {
        ("device-told", rules.MUST),
        ("device-agrees", rules.SHOULD),
    }
    pinned = wrong_producers.wrong(wrong_producers.Pinned, claims="2022.12")
    report = check_producer(pinned, only="^device-(told|agrees)")
    assert report and {each.rule for each in report.wrong} == {"device-agrees"}, str(report)


@pytest.mark.parametrize(
    ("told", "written", "broken"),
    [
        ((3, 1), (1, 0), {"device-agrees"}),
        ((2, 1), (13, 0), {"device-agrees"}),
        ((2, 0), (3, 0), {"device-agrees"}),
        ((10, 1), (11, 0), {"device-agrees"}),
        ((2, 0), (2, 1), {"device-told", "device-agrees"}),
        ((2, 0), (1, 0), {"device-told", "device-agrees"}),
        ((2, 0), (10, 0), {"device-told", "device-agrees"}),
    ],
)
def test_one_memory_may_have_two_names(told: Any, written: Any, broken: set[str]) -> None:
    """device-id demands 0 of the host's memory, and device-told the id of the device."""
    report = check_producer(wrong_producers.named(told, written), only="^device-(told|agrees|id)")
    assert {each.rule for each in report.wrong} == broken, str(report)


def test_memory_that_a_consumer_pins_is_the_hosts() -> None:
    report = check_consumer(wrong_consumers.consumer(wrong_consumers.Pins()), only="^same-device")
    assert {each.status for each in report.findings} == {catalogue.PASS}, str(report)


def test_a_library_claims_by_its_namespace_and_else_by_its_answer() -> None:
    class Namespace:
        __array_api_version__ = "2024.12"

    made = wrong_producers.Right
    assert wrong_producers.wrong(made, claims="", namespace=Namespace).claims == "2024.12"
    assert wrong_producers.wrong(made, claims="").claims == "2023.12"
    assert wrong_producers.wrong(wrong_producers.OnlyStream, claims="").claims == "2022.12"


def test_the_proposal_to_other_suites_names_rules_that_there_are() -> None:
    text = (ROOT / "docs" / "proposal.rst").read_text(encoding="utf-8")
    table = text.partition("How the names map")[2].partition("All other rules")[0]
    named = set(re.findall(r"``([a-z-]+)``", table)) - {"int"}
    assert named <= {rule.name for rule in rules.RULES}
