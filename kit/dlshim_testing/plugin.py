"""The pytest plug-in: ``pytest --dlpack-producer mylib:zeros --dlpack-consumer mylib:from_dlpack``.

Without these options it adds nothing but the options themselves.  With them every check is a test;
where no file is named on the command line, nothing else is collected.
"""

from __future__ import annotations

import difflib
import fnmatch
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import pytest

if TYPE_CHECKING:
    from .catalogue import Check, Finding
    from .running import Runner

SIDES = ("producer", "consumer")
#: The options with a value that decide what is run and what fails.
REPEATED = ("wants", "claims", "dtypes", "driver", "fail-on")
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
        "--dlpack-in-process", action="store_true", help="run the checks here: a crash ends pytest"
    )
    parser.addini(
        "dlpack_known",
        "known failures, one a line: 'producer CHECK: reason' (CHECK may have *)",
        type="linelist",
    )


def wanted(config: pytest.Config) -> list[tuple[str, str]]:
    return [(side, each) for side in SIDES for each in config.getoption(f"dlpack_{side}")]


def pytest_configure(config: pytest.Config) -> None:
    if wanted(config):
        insist_on_options(config)
        config.pluginmanager.register(Conformance(config), "dlpack-conformance")


def insist_on_options(config: pytest.Config) -> None:
    from .drivers import named
    from .partner import known_dtypes
    from .rules import edition

    for name, allowed in (("claims", edition), ("driver", named), ("dtypes", known_dtypes)):
        value = config.getoption(f"dlpack_{name}")
        try:
            value and allowed(value)
        except ValueError as error:
            raise pytest.UsageError(f"--dlpack-{name}: {error}") from error


class Known(NamedTuple):
    """A failure that is expected; the check may be a pattern with stars."""

    side: str
    check: str
    reason: str
    where: str


def known_failures(config: pytest.Config) -> list[Known]:
    """What the ini file and --dlpack-known list; a line that means nothing ends the run."""
    found = []
    for line in config.getini("dlpack_known"):
        side, _, rest = line.partition(" ")
        name, colon, reason = rest.strip().partition(":")
        if side not in SIDES or not colon:
            raise pytest.UsageError(f"dlpack_known: {line!r} is not 'producer CHECK: reason'")
        found.append(Known(side, name, reason.strip(), "dlpack_known"))
    if file := config.getoption("dlpack_known"):
        for side, names in read_toml(Path(file)).items():
            if side not in SIDES or not isinstance(names, dict):
                raise pytest.UsageError(f"{file}: [{side}] is neither [producer] nor [consumer]")
            found += [Known(side, name, reason, file) for name, reason in names.items()]
    for each in found:
        insist_on_known(each)
    return found


def insist_on_known(known: Known) -> None:
    from .catalogue import checks

    what = f"{known.where}: {known.side} {known.check!r}"
    if not isinstance(known.reason, str) or not known.reason.strip():
        raise pytest.UsageError(f"{what} has no reason: say why it fails, or which issue says so")
    every = checks(known.side)
    if any(matches(name, known.check) for name in every):
        return
    near = difflib.get_close_matches(known.check, every, n=1)
    other = next(side for side in SIDES if side != known.side)
    cure = f"; a check of that name is {near[0]!r}" if near else ""
    if any(matches(name, known.check) for name in checks(other)):
        cure = f"; it is one of a {other}"
    raise pytest.UsageError(f"{what} is the name of no check{cure}")


def read_toml(file: Path) -> dict[str, Any]:
    try:
        import tomllib
    except ImportError:  # CPython 3.10, where pytest brings this
        import tomli as tomllib
    try:
        return tomllib.loads(file.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise pytest.UsageError(f"{file}: {error}") from error


def matches(name: str, pattern: str) -> bool:
    """A name, or a pattern whose only special character is the star."""
    return name == pattern or fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))


class Conformance:
    """What runs where a producer or a consumer was named."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.targets: list[Target] = []
        self.known = known_failures(config)
        source = getattr(config, "args_source", None)
        if source is not None and source.name != "ARGS":
            config.args = []  # no files were named: the checks alone

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> None:
        for side, target in wanted(self.config):
            node = Target.from_parent(session, name=f"{side}::{target}", side=side, target=target)
            self.targets.append(node)
            items.extend(self._marked(node))

    def _marked(self, node: Target) -> Iterator[Item]:
        for item in node.collect():
            for known in self.known:
                if known.side == node.side and matches(item.name, known.check):
                    strict = item.name == known.check
                    item.known = True
                    item.add_marker(pytest.mark.xfail(reason=known.reason, strict=strict))
            yield item

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        for target in self.targets:
            if target.runner is not None:
                target.runner.close()
        if self.mended() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def mended(self) -> list[Known]:
        """Patterns of which every check was run, some passed and none failed: a name without a
        star fails as a strict xfail does."""
        from .catalogue import NA, PASS, checks

        stale = []
        for known in self.known:
            found = [
                each.status
                for target in self.targets
                if target.side == known.side
                for each in target.findings
                if matches(each.check, known.check)
            ]
            ran_all = sum(matches(name, known.check) for name in checks(known.side))
            if "*" in known.check and PASS in found and {*found} <= {PASS, NA}:
                stale += [known] if len(found) >= ran_all else []
        return stale

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        from .running import Report, badge, rows

        for target in self.targets:
            if target.runner is None:
                continue
            report = Report(target.side, target.target, target.runner.claims, target.findings)
            terminalreporter.section(f"DLPack {target.side} {target.target}", "-")
            terminalreporter.write_line(badge(report), green=bool(report), red=not report)
            for row in rows(report):
                terminalreporter.write_line(row)
        for known in self.mended():
            line = f"{known.where}: no check of {known.side} {known.check!r} fails any more"
            terminalreporter.write_line(f"{line}: take it off the list", red=True)


class Target(pytest.Collector):
    """A producer or a consumer that was named; its items share one runner."""

    def __init__(self, *, side: str, target: str, **options: Any) -> None:
        super().__init__(**options)
        self.side, self.target = side, target
        self.runner: Runner | None = None
        self.findings: list[Finding] = []

    def collect(self) -> Iterator[Item]:
        from .catalogue import checks

        for one in checks(self.side).values():
            yield Item.from_parent(self, name=one.name, one=one)

    def run(self, one: Check) -> Finding:
        from .catalogue import TargetError

        if self.runner is None:
            self.runner = self._start()
        try:
            found = self.runner.run(one)
        except TargetError as error:
            self._end(error)
        self.findings.append(found)
        return found

    def _start(self) -> Runner:
        """Where the target cannot be loaded, the run ends: no check would say anything else."""
        from .running import runner

        try:
            options = {name: self._option(name) for name in ("driver", "dtypes")}
            if self.side == "consumer":
                options["wants"] = self._option("wants")
            isolate = not self._option("in_process")
            return runner(self.side, self.target, isolate, self._option("claims"), **options)
        except Exception as error:
            self._end(error)

    def _end(self, error: Exception) -> NoReturn:
        pytest.exit(
            f"--dlpack-{self.side}: {type(error).__name__}: {error}",
            returncode=pytest.ExitCode.USAGE_ERROR,
        )

    def _option(self, name: str) -> Any:
        return self.config.getoption(f"dlpack_{name}")

    def options(self) -> Iterator[str]:
        """The words of a command line that judges one of these checks as this run does."""
        yield from (f"--dlpack-{self.side}", shlex.quote(self.target))
        for name in REPEATED:
            if (value := self._option(name.replace("-", "_"))) != DEFAULTS.get(name, ""):
                yield from (f"--dlpack-{name}", shlex.quote(value))
        if self._option("in_process"):
            yield "--dlpack-in-process"


class Breach(Exception):
    """A check that fails its test; the text is what is shown."""


class Item(pytest.Item):
    def __init__(self, *, one: Check, **options: Any) -> None:
        super().__init__(**options)
        self.one = one
        self.known = False
        """Whether it is listed: then it fails at every level, as the list says that it does."""

    def runtest(self) -> None:
        from .catalogue import ERROR, NA
        from .rules import LEVELS

        assert isinstance(self.parent, Target)
        found = self.parent.run(self.one)
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
        if not isinstance(excinfo.value, Breach):
            return super().repr_failure(excinfo, style)
        assert isinstance(self.parent, Target)
        again = f"pytest {' '.join(self.parent.options())} -k '{self.one.name}'"
        return f"{excinfo.value}\n    {self.one.rule.about}\n    again: {again}"

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"{self.parent.name if self.parent else ''}::{self.name}"
