"""The pytest plug-in: ``pytest --dlpack-producer mylib:zeros --dlpack-consumer mylib:from_dlpack``.

Without these options it adds nothing but the options themselves.  With them every check is a test;
where no file is named on the command line, nothing else is collected.  The node id of a check,
``producer::mylib:zeros::methods``, names its target as the option does.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import pytest

if TYPE_CHECKING:
    from .catalogue import Check, Finding
    from .known import Known
    from .running import Report, Runner

SIDES = ("producer", "consumer")
#: The options with a value that decide what is run and what fails.
REPEATED = ("wants", "claims", "dtypes", "driver", "timeout", "fail-on")
DEFAULTS = {"fail-on": "must"}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dlpack", "conformance with DLPack")
    for side, example in (("producer", "mylib:zeros"), ("consumer", "mylib:from_dlpack")):
        group.addoption(
            f"--dlpack-{side}",
            action="append",
            default=[],
            metavar="MODULE:NAME",
            help=f"check this {side}, such as {example}",
        )
    group.addoption(
        "--dlpack-wants",
        default="",
        choices=("object", "legacy capsule", "versioned capsule"),
        help="what the consumers take; object where nothing is said",
    )
    group.addoption(
        "--dlpack-claims", default="", metavar="EDITION", help="of the array API, such as 2023.12"
    )
    group.addoption(
        "--dlpack-known",
        metavar="FILE",
        help="a TOML file of known failures: [producer] and [consumer], 'check' = 'reason'",
    )
    group.addoption(
        "--dlpack-fail-on",
        default=DEFAULTS["fail-on"],
        choices=("must", "should", "habit"),
        help="the weakest level of a rule that fails a test",
    )
    group.addoption(
        "--dlpack-dtypes",
        default="",
        metavar="NAMES",
        help="the only dtypes that the targets have, with commas between them",
    )
    group.addoption(
        "--dlpack-driver",
        default="",
        metavar="VARIANT",
        help="for arrays of a device: the fake driver, such as 13.0 (CUDA) or hip6 (ROCm)",
    )
    group.addoption(
        "--dlpack-timeout",
        default="",
        metavar="SECONDS",
        help="what one check, or the import of a target, may take; 120 where nothing is said",
    )
    group.addoption(
        "--dlpack-markdown", metavar="FILE", help="write a report here, to paste elsewhere"
    )
    group.addoption(
        "--dlpack-in-process", action="store_true", help="run the checks here: a crash ends pytest"
    )
    parser.addini(
        "dlpack_known",
        "known failures, one a line: 'producer CHECK: reason' (CHECK may have *)",
        type="linelist",
    )


class NodeId(NamedTuple):
    """A check, a rule, or a target with all its checks, as pytest's own node ids name them."""

    side: str
    target: str
    check: str
    """A rule stands for all its checks, nothing for all checks of the target."""

    def __str__(self) -> str:
        return "::".join(filter(None, self))

    def names(self, check: Check) -> bool:
        return self.check in ("", check.name, check.rule.name)


def node_id_of(argument: str) -> NodeId | None:
    """What an argument of the command line names; None where it is not one of our node ids.

    pytest shows node ids relative to the current directory, so a path may come before the side.
    """
    path, _, rest = argument.partition("::")
    side = path.replace(os.sep, "/").rpartition("/")[2]
    target, _, check = rest.partition("::")
    if side not in SIDES or ":" not in target or Path(path).is_file():
        return None
    return NodeId(side, target, check)


def node_ids(config: pytest.Config) -> list[NodeId]:
    return [found for each in config.args if (found := node_id_of(each))]


def wanted(config: pytest.Config, chosen: list[NodeId]) -> list[tuple[str, str]]:
    """(side, target) of the options and of the node ids, each once."""
    named = [(side, each) for side in SIDES for each in config.getoption(f"dlpack_{side}")]
    return list(dict.fromkeys([*named, *(each[:2] for each in chosen)]))


def pytest_configure(config: pytest.Config) -> None:
    chosen = node_ids(config)
    if targets := wanted(config, chosen):
        insist_on_options(config)
        insist_on_file(config)
        insist_on_checks(chosen)
        plugin = Conformance(config, targets, chosen)
        config.pluginmanager.register(plugin, "dlpack-conformance")
    else:
        insist_on_a_target(config)


def insist_on_a_target(config: pytest.Config) -> None:
    """Options of the command line that nothing would look at; those of an ini file may stay."""
    given = [each.partition("=")[0] for each in map(str, config.invocation_params.args)]
    for option in given:
        if option.startswith("--dlpack-"):
            raise pytest.UsageError(
                f"{option} says how a target is checked, and none is named: add "
                "--dlpack-producer MODULE:NAME or --dlpack-consumer MODULE:NAME"
            )


def insist_on_options(config: pytest.Config) -> None:
    from .drivers import named
    from .partner import known_dtypes
    from .rules import edition
    from .running import seconds

    allowed = {"claims": edition, "driver": named, "dtypes": known_dtypes, "timeout": seconds}
    for name, check in allowed.items():
        value = config.getoption(f"dlpack_{name}")
        try:
            value and check(value)
        except ValueError as error:
            raise pytest.UsageError(f"--dlpack-{name}: {error}") from error
    for name in ("driver", "timeout"):
        if config.getoption(f"dlpack_{name}") and config.getoption("dlpack_in_process"):
            raise pytest.UsageError(
                f"--dlpack-{name} needs a process of its own: leave --dlpack-in-process out"
            )


def insist_on_file(config: pytest.Config) -> None:
    from .running import why_not_written

    file = config.getoption("dlpack_markdown")
    if file and (why := why_not_written(Path(file))):
        raise pytest.UsageError(f"--dlpack-markdown: {file} cannot be written: {why}")


def insist_on_checks(chosen: list[NodeId]) -> None:
    from .every import checks
    from .known import near

    for each in chosen:
        every = checks(each.side)
        if not any(map(each.names, every.values())):
            rules = [check.rule.name for check in every.values()]
            cure = near(each.check, every) or near(each.check, rules)
            raise pytest.UsageError(f"{each}: {each.check!r} is the name of no check{cure}")


def known_failures(config: pytest.Config) -> list[Known]:
    """What the ini file and --dlpack-known list; a line that means nothing ends the run."""
    from . import known

    try:
        found = known.of_lines(config.getini("dlpack_known"), "dlpack_known")
        file = config.getoption("dlpack_known")
        return found + (known.of_file(file) if file else [])
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error


class Conformance:
    """What runs where a producer or a consumer was named."""

    def __init__(
        self, config: pytest.Config, wanted: list[tuple[str, str]], chosen: list[NodeId]
    ) -> None:
        self.config = config
        self.wanted, self.chosen = wanted, chosen
        self.targets: list[Target] = []
        self.reports: dict[tuple[str, str], Report] = {}
        self.known = known_failures(config)
        self.complete = True
        """Whether the run came to its end."""
        source = getattr(config, "args_source", None)
        files = source is None or source.name == "ARGS"  # else the checks alone
        config.args = [each for each in config.args if files and not node_id_of(each)]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> None:
        for side, target in self.wanted:
            name = f"{side}::{target}"
            node = Target.from_parent(session, name=name, nodeid=name, side=side, target=target)
            self.targets.append(node)
            added: list[Any] = list(self._marked(node))
            items.extend(added)
            report = pytest.CollectReport(node.nodeid, "passed", None, added)
            self.config.hook.pytest_collectreport(report=report)  # by which pytest counts

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if not self.config.option.collectonly and not self.config.getoption("dlpack_driver"):
            insist_on_driver(session)

    def _is_chosen(self, item: Item) -> bool:
        target = (item.target.side, item.target.target)
        return not self.chosen or any(
            each[:2] == target and each.names(item.one) for each in self.chosen
        )

    def _marked(self, node: Target) -> Iterator[Item]:
        from .known import listed

        for item in filter(self._is_chosen, node.collect()):
            for known in listed(self.known, node.side, item.name):
                item.known = True
                item.add_marker(pytest.mark.xfail(reason=known.reason, strict=known.strict))
            yield item

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        over = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        stopped = bool(session.shouldstop or session.shouldfail)
        self.complete = session.exitstatus in over and not stopped
        for target in self.targets:
            if target.runner is not None:
                target.runner.close()
        if self.mended() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def mended(self) -> list[Known]:
        """A name without a star fails as a strict xfail does."""
        from .known import mended

        return mended(self.known, self.reports.values())

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        """What was found travels with the report, as pytest-xdist has reports alone."""
        outcome: Any = yield
        if isinstance(item, Item) and item.found is not None:
            assert item.target.runner is not None
            told = (item.target.side, item.target.target, item.target.runner.claims)
            outcome.get_result().dlpack = [list(told), list(item.found)]
            item.found = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        from .catalogue import Finding
        from .running import Report

        if told := getattr(report, "dlpack", None):
            (side, target, claims), found = told
            report = self.reports.setdefault((side, target), Report(side, target, claims, []))
            report.findings.append(Finding(*found))

    def finished(self) -> Iterator[Report]:
        """The report of each target of which anything was checked."""
        from .known import noted

        for each in self.wanted:
            if (report := self.reports.get(each)) is not None:
                in_order(report)
                yield noted(report, self.known)._replace(complete=self.complete)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        from .markdown import markdown
        from .running import badge, rows

        reports = list(self.finished())
        if file := self.config.getoption("dlpack_markdown"):
            Path(file).write_text(markdown(reports), encoding="utf-8")
        for report in reports:
            terminalreporter.section(f"DLPack {report.side} {report.target}", "-")
            holds = bool(report) and report.complete
            terminalreporter.write_line(badge(report), green=holds, red=not report)
            for row in rows(report):
                terminalreporter.write_line(row)
        for known in self.mended():
            terminalreporter.write_line(f"{known.stale}: take it off the list", red=True)


def in_order(report: Report) -> None:
    """Sorts what several workers found as the checks are listed."""
    from .every import checks

    order = {name: number for number, name in enumerate(checks(report.side))}
    report.findings.sort(key=lambda found: order[found.check])


def is_worker(config: pytest.Config) -> bool:
    """Whether this is a process of pytest-xdist, which must not end by an exception."""
    return hasattr(config, "workerinput")


def insist_on_driver(session: pytest.Session) -> None:
    """Checks of device memory alone, without a driver, would all be skipped."""
    from .drivers import missing
    from .rules import NEED_DRIVER

    items = [each for each in session.items if isinstance(each, Item)]
    if items and all(item.one.rule.name in NEED_DRIVER for item in items):
        if not is_worker(session.config):
            raise pytest.UsageError(missing("--dlpack-driver"))
        session.shouldstop = missing("--dlpack-driver")


class Target(pytest.Collector):
    """A producer or a consumer that was named; its items share one runner."""

    def __init__(self, *, side: str, target: str, **options: Any) -> None:
        super().__init__(**options)
        self.side, self.target = side, target
        self.runner: Runner | None = None

    def collect(self) -> Iterator[Item]:
        from .every import checks

        for one in checks(self.side).values():
            name = f"{self.nodeid}::{one.name}"
            yield Item.from_parent(self, name=one.name, nodeid=name, one=one)

    def run(self, one: Check) -> Finding:
        from .catalogue import TargetError

        if self.runner is None:
            self.runner = self._start()
        try:
            return self.runner.run(one)
        except TargetError as error:
            self._end(error)

    def _start(self) -> Runner:
        """Where the target cannot be loaded, the run ends: no check would say anything else."""
        from .running import runner

        try:
            options = {name: self._option(name) for name in ("driver", "dtypes", "timeout")}
            if self.side == "consumer":
                options["wants"] = self._option("wants")
                options["own"] = self.own
            isolate = not self._option("in_process")
            return runner(self.side, self.target, isolate, self._option("claims"), **options)
        except Exception as error:
            self._end(error)

    def _end(self, error: Exception) -> NoReturn:
        text = f"--dlpack-{self.side}: {type(error).__name__}: {error}"
        if is_worker(self.config):
            self.session.shouldstop = text
            raise TargetFault(text)
        pytest.exit(text, returncode=pytest.ExitCode.USAGE_ERROR)

    def _option(self, name: str) -> Any:
        return self.config.getoption(f"dlpack_{name}")

    @property
    def own(self) -> str:
        """The producer whose arrays a consumer is given beside doubles: the first that is named."""
        return next(iter(self._option("producer")), "") if self.side == "consumer" else ""

    def options(self) -> Iterator[str]:
        """The words of a command line that judges one of these checks as this run does."""
        yield from (f"--dlpack-{self.side}", shlex.quote(self.target))
        if self.own:
            yield from ("--dlpack-producer", shlex.quote(self.own))
        for name in REPEATED:
            if (value := self._option(name.replace("-", "_"))) != DEFAULTS.get(name, ""):
                yield from (f"--dlpack-{name}", shlex.quote(value))
        if self._option("in_process"):
            yield "--dlpack-in-process"


class Breach(Exception):
    """A check that fails its test; the text is what is shown."""


class TargetFault(Exception):
    """The target is wrong itself; the run ends."""


class Item(pytest.Item):
    def __init__(self, *, one: Check, **options: Any) -> None:
        super().__init__(**options)
        self.one = one
        self.known = False
        """Whether it is listed: then it fails at every level, as the list says that it does."""
        self.found: Finding | None = None

    @property
    def target(self) -> Target:
        assert isinstance(self.parent, Target)
        return self.parent

    def runtest(self) -> None:
        from .catalogue import ERROR, NA
        from .rules import LEVELS

        self.found = found = self.target.run(self.one)
        self.user_properties += [
            ("dlpack_level", found.level),
            ("dlpack_status", found.status),
            ("dlpack_source", found.source),
        ]
        if found.status == NA:
            pytest.skip(found.evidence)
        last = LEVELS.index(self.config.getoption("dlpack_fail_on").upper())
        judged = self.known or found.level in LEVELS[: last + 1]
        if found.failed or found.status == ERROR or (found.wrong and judged):
            raise Breach(str(found))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, TargetFault):
            return str(excinfo.value)
        if not isinstance(excinfo.value, Breach):
            return super().repr_failure(excinfo, style)
        again = f"pytest {' '.join(self.target.options())} -k '{self.one.name}'"
        return f"{excinfo.value}\n    {self.one.rule.about}\n    again: {again}"

    def reportinfo(self) -> tuple[Path, None, str]:
        # Not the end of the node id: pytest would replace the dots in it, as in names of classes.
        return self.path, None, f"{self.name} of {self.target.side} {self.target.target}"
