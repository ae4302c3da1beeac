"""The checks of device memory beside fake drivers: each finds its fault, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dlshim_testing import check_producer, drivers, running
from dlshim_testing.catalogue import NA, PASS
from drivers.library import compiler
from kit import device_memory, test_plugin, wrong_devices

FILE = wrong_devices.__file__


@pytest.fixture(autouse=True)
def with_a_compiler(request: pytest.FixtureRequest) -> None:
    if "without" not in request.node.name:
        compiler()


@pytest.mark.parametrize("driver", drivers.ALL_LIVE)
def test_who_follows_every_rule_breaks_none(driver: str) -> None:
    report = check_producer(f"{FILE}:right", isolate=True, driver=driver)
    assert not report.errors and not [each for each in report.wrong if each.level != "SHOULD"], str(
        report
    )
    # It makes no copies on the device, which is a SHOULD.
    assert {each.rule for each in report.wrong} <= {"copy-supported"}, str(report)
    passed = {each.rule for each in report.findings if each.status == PASS}
    assert passed >= {*wrong_devices.WRONG, "other-device", "stream-none", "to-cpu", "device-pair"}


@pytest.mark.parametrize("driver", ["13.0", "hip6"])
@pytest.mark.parametrize("rule", wrong_devices.WRONG)
def test_a_rule_fails_on_a_double_with_that_fault(rule: str, driver: str) -> None:
    name = wrong_devices.WRONG[rule]
    only = rf"^{re.escape(rule)}(\[|$)"
    report = check_producer(f"{FILE}:{name}", isolate=True, driver=driver, only=only)
    assert report.wrong and not report.errors, str(report)
    assert {each.rule for each in report.wrong} == {rule}
    assert bool(report) == all(each.level != "MUST" for each in report.wrong)


def test_the_evidence_names_the_calls_of_the_driver() -> None:
    options = {"isolate": True, "driver": "12.5"}
    report = check_producer(f"{FILE}:syncs_always", only="^device-no-sync", **options)
    assert "stream=-1: the producer called cuEventRecord, cuStreamWaitEvent" in str(report)
    report = check_producer(f"{FILE}:syncs_nothing", only="own-versioned", **options)
    assert "may run before the write that the producer has in flight" in str(report)


@pytest.mark.parametrize("driver", ["13.0", "hip6"])
def test_a_library_that_waits_itself_may_ignore_the_stream(driver: str) -> None:
    options = {"isolate": True, "driver": driver, "only": "^device-"}
    right = check_producer(f"{FILE}:waits_itself", **options)
    assert right and not right.wrong, str(right)
    passed = {each.rule for each in right.findings if each.status == PASS}
    assert passed >= {*wrong_devices.WRONG}
    lies = check_producer(f"{FILE}:says_that_it_waits", **options)
    assert {each.rule for each in lies.wrong} == {"device-order"}, str(lies)
    told = str(check_producer(f"{FILE}:waits_itself_unsaid", **options))
    assert "says so: Producer(..., always_ready=True)" in told


@pytest.mark.parametrize("driver", ["13.0", "hip6"])
def test_a_copy_for_the_host_is_waited_for(driver: str) -> None:
    options = {"only": "^device-to-cpu", "isolate": True, "driver": driver}
    told = str(check_producer(f"{FILE}:copy_given_too_early", **options))
    assert "the host may read before the copy is done" in told
    told = str(check_producer(f"{FILE}:copy_not_waited_for", **options))
    assert "its own copy is too early: read of m" in told


@pytest.mark.parametrize("driver", ["9.2", "13.0", "hip6"])
def test_dlshim_breaks_no_must_and_cures_torch(driver: str) -> None:
    report = check_producer(f"{FILE}:upgraded", isolate=True, driver=driver)
    assert report and {each.rule for each in report.wrong} == {"keyword-only"}, str(report)
    options = {"isolate": True, "driver": driver, "only": "^(device-|copied)"}
    bare = check_producer(f"{FILE}:torch", **options)
    assert {each.rule for each in bare.failed} >= {"device-order"}, str(bare)
    upgraded = check_producer(f"{FILE}:upgraded_torch", **options)
    assert upgraded and not upgraded.errors, str(upgraded)


def test_pytest_takes_a_driver_by_name(tmp_path: Path) -> None:
    target = (f"--dlpack-producer={FILE}:syncs_nothing", "--dlpack-driver=13.0")
    told = test_plugin.run(tmp_path, *target, "-k", "device-order[own-bare]", returncode=1)
    assert "1 failed" in told
    told = test_plugin.refused(tmp_path, target[0], "--dlpack-driver=14")
    assert "--dlpack-driver: '14' is no fake driver; they are 9.2, 12.2, 12.5, 13.0, hip5" in told


def test_the_driver_needs_a_process_of_its_own() -> None:
    with pytest.raises(ValueError, match="pass isolate=True"):
        check_producer(wrong_devices.right, driver="13.0")


def test_checks_of_devices_alone_need_a_driver(tmp_path: Path) -> None:
    """All of them were skipped, and the run ended with 0."""
    target = f"{FILE}:right"
    told = test_plugin.refused(tmp_path, f"--dlpack-producer={target}", "-k", "device-order")
    assert "which needs a fake driver: add --dlpack-driver 13.0 (CUDA)" in told
    command = ("dlshim_testing", "--producer", target, "--only", "^device-[oe]")
    told = test_plugin.python_m(tmp_path, *command, returncode=2)[1]
    assert "which needs a fake driver: add --driver 13.0 (CUDA) or --driver hip6 (ROCm)" in told
    listed = ("--collect-only", "-q", "-k", "device-order")
    told = test_plugin.run(tmp_path, f"--dlpack-producer={target}", *listed)
    assert "::device-order[own-bare]" in told


def test_without_a_compiler_nothing_is_checked_and_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(running.drivers.building.shutil, "which", lambda name: None)
    drivers.built.cache_clear()
    report = check_producer(f"{FILE}:right", isolate=True, driver="13.0", only="^device-")
    assert {each.status for each in report.findings} == {NA}
    assert {each.evidence for each in report.findings} == {
        "no C compiler, which the fake drivers need"
    }
    assert str(report).endswith("nothing was checked: no C compiler, which the fake drivers need")
    drivers.built.cache_clear()


def test_a_compiler_that_is_not_there_is_named_and_no_other_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """gcc was taken instead, without a word."""
    compiler()
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    drivers.built.cache_clear()
    report = check_producer(f"{FILE}:right", isolate=True, driver="13.0", only="^device-")
    assert "nothing was checked: the variable CC names 'no-such-compiler', and " in str(report)
    assert {each.status for each in report.findings} == {NA}
    with pytest.raises((pytest.skip.Exception, pytest.fail.Exception), match="the variable CC"):
        compiler()
    drivers.built.cache_clear()


def test_the_class_of_device_memory_in_the_manual_breaks_no_must() -> None:
    report = check_producer(f"{device_memory.__file__}:on_device", isolate=True, driver="13.0")
    assert report, str(report)
    assert {each.rule for each in report.wrong} == {"to-cpu", "copy-supported"}, str(report)
    passed = {each.rule for each in report.findings if each.status == PASS}
    assert passed >= {rule for rule in wrong_devices.WRONG if rule != "device-to-cpu"}


def test_without_a_driver_the_checks_of_devices_do_not_apply() -> None:
    from kit import wrong_producers

    report = check_producer(wrong_producers.right, only="^device-(stream|order|no-sync|events)")
    assert {each.status for each in report.findings} == {NA}
    assert {each.evidence for each in report.findings} == {"no fake driver was named"}
