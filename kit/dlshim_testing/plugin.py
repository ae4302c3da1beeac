"""The pytest plug-in: ``pytest --dlpack-producer mylib:zeros --dlpack-consumer mylib:from_dlpack``.

Without these options it adds nothing but the options themselves.  With them every check is a test;
where no file is named on the command line, nothing else is collected.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .catalogue import Check, Finding
    from .running import Runner

SIDES = ("producer", "consumer")


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
        default="object",
        choices=("object", "legacy capsule", "versioned capsule"),
        help="what the consumers take",
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
        default="must",
        choices=("must", "should", "habit"),
        help="the weakest level of a rule that fails a test",
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
        config.pluginmanager.register(Conformance(config), "dlpack-conformance")


def known_failures(config: pytest.Config) -> list[tuple[str, str, str]]:
    """(side, check or pattern, reason), from the ini file and from --dlpack-known."""
    found = []
    for line in config.getini("dlpack_known"):
        side, _, rest = line.partition(" ")
        name, colon, reason = rest.strip().partition(": ")
        if side not in SIDES or not colon:
            raise pytest.UsageError(f"dlpack_known: {line!r} is not 'producer CHECK: reason'")
        found.append((side, name, reason.strip()))
    if file := config.getoption("dlpack_known"):
        for side, names in read_toml(Path(file)).items():
            if side not in SIDES or not isinstance(names, dict):
                raise pytest.UsageError(f"{file}: [{side}] is neither [producer] nor [consumer]")
            found += [(side, name, str(reason)) for name, reason in names.items()]
    return found


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
            for side, pattern, reason in self.known:
                if side == node.side and matches(item.name, pattern):
                    strict = item.name == pattern
                    item.add_marker(pytest.mark.xfail(reason=reason, strict=strict))
            yield item

    def pytest_sessionfinish(self) -> None:
        for target in self.targets:
            if target.runner is not None:
                target.runner.close()

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
        if self.runner is None:
            self.runner = self._start()
        found = self.runner.run(one)
        self.findings.append(found)
        return found

    def _start(self) -> Runner:
        """Where the target cannot be loaded, the run ends: no check would say anything else."""
        from .running import runner

        try:
            options = {} if self.side == "producer" else {"wants": self._option("wants")}
            isolate = not self._option("in_process")
            return runner(self.side, self.target, isolate, self._option("claims"), **options)
        except Exception as error:
            pytest.exit(
                f"--dlpack-{self.side}: {type(error).__name__}: {error}",
                returncode=pytest.ExitCode.USAGE_ERROR,
            )

    def _option(self, name: str) -> Any:
        return self.config.getoption(f"dlpack_{name}")


class Breach(Exception):
    """A check that fails its test; the text is what is shown."""


class Item(pytest.Item):
    def __init__(self, *, one: Check, **options: Any) -> None:
        super().__init__(**options)
        self.one = one

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
        if (
            found.failed
            or found.status == ERROR
            or (found.wrong and found.level in LEVELS[: last + 1])
        ):
            raise Breach(str(found))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if not isinstance(excinfo.value, Breach):
            return super().repr_failure(excinfo, style)
        assert isinstance(self.parent, Target)
        again = f"pytest --dlpack-{self.parent.side} {self.parent.target} -k '{self.one.name}'"
        return f"{excinfo.value}\n    {self.one.rule.about}\n    again: {again}"

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"{self.parent.name if self.parent else ''}::{self.name}"
